//! The terminal of a live view. This module enters the alternate screen, draws, and restores the terminal
//! when the process is suspended or ends.

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::{Frame, Terminal};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Enters the alternate screen, hides the cursor, disables line wrap and clears the screen.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// State of the terminal. It is a static because the process has one terminal, and because the panic hook
/// needs it.
static TERMINAL: Mutex<Held> = Mutex::new(Held { phase: Phase::Free, is_blank: false, before: None });

#[derive(Debug)]
struct Held {
    phase: Phase,
    /// True if the view has entered the screen since the last frame. The screen is then blank, because
    /// earlier frames are lost.
    is_blank: bool,
    /// Terminal settings to restore.
    before: Option<Termios>,
}

/// Whether the view uses the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The view does not use the terminal, but may enter the alternate screen.
    Free,
    /// The view uses the terminal.
    Entered,
    /// The view does not use the terminal, because the process is being suspended.
    Suspended,
    /// The view has ended and does not enter the alternate screen again.
    Over,
}

fn held() -> MutexGuard<'static, Held> {
    TERMINAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters the alternate screen and switches echo off, unless the view has already done this. Does nothing if
/// the process is in the background, because another job uses the terminal then.
fn enter() -> io::Result<()> {
    let mut held = held();
    if held.phase != Phase::Free || is_in_background() {
        return Ok(());
    }
    let stdin = io::stdin();
    if isatty(&stdin)
        && let Ok(before) = tcgetattr(&stdin)
    {
        let mut quiet = before.clone();
        // ISIG stays on, so Ctrl-C and Ctrl-Z still send signals.
        quiet.local_modes.remove(LocalModes::ECHO);
        let _ = tcsetattr(&stdin, OptionalActions::Now, &quiet);
        held.before = Some(before);
    }
    (held.phase, held.is_blank) = (Phase::Entered, true);
    write_all(ENTER)
}

/// True if the view has entered the screen since the last call. The whole frame must be drawn then.
fn was_reentered() -> bool {
    std::mem::take(&mut held().is_blank)
}

/// Restores the terminal if the view uses the terminal. The view draws nothing afterwards.
pub(in crate::cli) fn leave() {
    held().release(Phase::Over);
}

/// Restores the terminal before the process is suspended.
pub(super) fn suspend() {
    held().release(Phase::Suspended);
}

/// Lets the next frame enter the alternate screen again. Called when the process continues after it was
/// suspended.
pub(super) fn resume() {
    let mut held = held();
    if held.phase == Phase::Suspended {
        held.phase = Phase::Free;
    }
}

impl Held {
    fn release(&mut self, phase: Phase) {
        let before = self.phase;
        if before != Phase::Over {
            self.phase = phase;
        }
        if before == Phase::Entered {
            // If the terminal is gone, there is nowhere to report the error.
            let _ = write_all(LEAVE);
            if let Some(before) = self.before.take() {
                let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
            }
        }
    }
}

/// Draws frames on the terminal. It enters the alternate screen when it draws the first frame while the
/// process is in the foreground.
#[derive(Default)]
pub(in crate::cli) struct Drawing {
    terminal: Option<Terminal<Ansi>>,
}

impl Drawing {
    /// Draws a frame. Returns `None` if drawing failed. No more frames are drawn then.
    pub(in crate::cli) fn draw(mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Option<Self> {
        enter().ok()?;
        let terminal = match &mut self.terminal {
            Some(terminal) => terminal,
            none => none.insert(Terminal::new(Ansi::default()).ok()?),
        };
        if was_reentered() {
            terminal.clear().ok()?;
        }
        terminal.draw(draw).ok()?;
        Some(self)
    }
}

/// True if another job is in the foreground. If this process then changed the terminal, the kernel would stop
/// this process. False if the terminal does not belong to the session of this process.
fn is_in_background() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|foreground| foreground != getpgrp())
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes changes as ANSI sequences, one write per frame.
#[derive(Debug, Default)]
struct Ansi {
    frame: String,
}

impl Backend for Ansi {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut next = None;
        let mut style = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.move_to(x, y);
            }
            let wanted = (cell.fg, cell.modifier);
            if style != Some(wanted) {
                self.set_style(wanted);
                style = Some(wanted);
            }
            self.frame.push_str(cell.symbol());
            next = Some((x + 1, y));
        }
        self.frame.push_str("\x1b[0m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.move_to(x, y);
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.frame.push_str("\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(io::stderr())?;
        Ok(Size::new(size.ws_col, size.ws_row))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let held = held();
        let drawn = if held.phase == Phase::Entered { write_all(self.frame.as_bytes()) } else { Ok(()) };
        self.frame.clear();
        drawn
    }
}

impl Ansi {
    fn move_to(&mut self, x: u16, y: u16) {
        // Writing to a String cannot fail.
        let _ = write!(self.frame, "\x1b[{};{}H", y + 1, x + 1);
    }

    fn set_style(&mut self, (colour, modifier): (Color, Modifier)) {
        self.frame.push_str("\x1b[0");
        for (flag, code) in [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")] {
            if modifier.contains(flag) {
                self.frame.push_str(code);
            }
        }
        self.frame.push_str(match colour {
            Color::Red => ";31",
            Color::Green => ";32",
            Color::Yellow => ";33",
            Color::Blue => ";34",
            Color::Cyan => ";36",
            // Views do not use any other colors.
            _ => "",
        });
        self.frame.push('m');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_cells_share_one_move_and_one_style() {
        let mut ansi = Ansi::default();
        let (mut red, mut plain) = (Cell::default(), Cell::default());
        red.set_symbol("a").set_fg(Color::Red);
        plain.set_symbol("b");
        ansi.draw([(3, 1, &red), (4, 1, &red), (5, 1, &plain), (0, 2, &plain)].into_iter()).expect("drawn");
        assert_eq!(ansi.frame, "\x1b[2;4H\x1b[0;31maa\x1b[0mb\x1b[3;1Hb\x1b[0m");
    }

    #[test]
    fn nothing_is_written_before_the_screen_is_entered() {
        let mut ansi = Ansi { frame: "never seen".to_owned() };
        ansi.flush().expect("nothing to do");
        assert!(ansi.frame.is_empty());
    }

    #[test]
    fn a_view_that_has_ended_does_not_enter_again() {
        let mut held = Held { phase: Phase::Free, is_blank: false, before: None };
        held.release(Phase::Suspended);
        assert_eq!(held.phase, Phase::Suspended);
        held.release(Phase::Over);
        held.release(Phase::Suspended);
        assert_eq!(held.phase, Phase::Over);
    }
}
