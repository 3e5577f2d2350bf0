//! The terminal while a live view stands on it: entered, drawn to, and given back however the process goes on.

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The other screen, no cursor, no wrapping at the right edge.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Whether the terminal is ours, and what it was like before. There is one terminal, and panic hooks reach only statics.
static HELD: Mutex<Held> = Mutex::new(Held { stand: Stand::Free, anew: false, before: None });

#[derive(Debug)]
struct Held {
    stand: Stand,
    /// Entered again, so that nothing stands on it of what was drawn before.
    anew: bool,
    before: Option<Termios>,
}

/// How we stand with the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// It can be entered.
    Free,
    /// It is ours.
    Entered,
    /// The process is being stopped.
    Suspended,
    /// It was given back for good.
    Over,
}

fn held() -> MutexGuard<'static, Held> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Switches to the other screen, where that is not done yet, and what is typed is not echoed onto it. In the background it does
/// nothing: the terminal is another job's.
pub(in crate::cli) fn enter() -> io::Result<()> {
    let mut held = held();
    if held.stand != Stand::Free || is_in_background() {
        return Ok(());
    }
    let stdin = io::stdin();
    if isatty(&stdin)
        && let Ok(before) = tcgetattr(&stdin)
    {
        let mut quiet = before.clone();
        // Ctrl-C and Ctrl-Z keep their meaning.
        quiet.local_modes.remove(LocalModes::ECHO);
        let _ = tcsetattr(&stdin, OptionalActions::Now, &quiet);
        held.before = Some(before);
    }
    (held.stand, held.anew) = (Stand::Entered, true);
    write_all(ENTER)
}

/// Whether the terminal was entered since this was last asked.
pub(in crate::cli) fn was_entered_anew() -> bool {
    std::mem::take(&mut held().anew)
}

/// Gives the terminal back for good, if it is ours. Nothing is drawn afterwards.
pub(in crate::cli) fn leave() {
    held().give_back(Stand::Over);
}

/// Gives the terminal back while the process is stopped.
pub(super) fn suspend() {
    held().give_back(Stand::Suspended);
}

/// The process goes on: the next frame may enter again.
pub(super) fn resume() {
    let mut held = held();
    if held.stand == Stand::Suspended {
        held.stand = Stand::Free;
    }
}

impl Held {
    fn give_back(&mut self, stand: Stand) {
        let before = self.stand;
        if before != Stand::Over {
            self.stand = stand;
        }
        if before == Stand::Entered {
            // There is nobody to tell of a terminal that is gone.
            let _ = write_all(LEAVE);
            if let Some(before) = self.before.take() {
                let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
            }
        }
    }
}

/// Whether another job has the terminal: changing it would stop us. Of a terminal that is not the session's nobody says so.
fn is_in_background() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|foreground| foreground != getpgrp())
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes what has changed as ANSI sequences, each frame at once.
#[derive(Debug, Default)]
pub(in crate::cli) struct Ansi {
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
        let drawn = if held.stand == Stand::Entered { write_all(self.frame.as_bytes()) } else { Ok(()) };
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
            // The view uses no others.
            _ => "",
        });
        self.frame.push('m');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_need_no_moves_and_no_colours_of_their_own() {
        let mut ansi = Ansi::default();
        let (mut red, mut plain) = (Cell::default(), Cell::default());
        red.set_symbol("a").set_fg(Color::Red);
        plain.set_symbol("b");
        ansi.draw([(3, 1, &red), (4, 1, &red), (5, 1, &plain), (0, 2, &plain)].into_iter()).expect("drawn");
        assert_eq!(ansi.frame, "\x1b[2;4H\x1b[0;31maa\x1b[0mb\x1b[3;1Hb\x1b[0m");
    }

    #[test]
    fn a_terminal_that_is_not_ours_is_left_alone() {
        let mut ansi = Ansi { frame: "never seen".to_owned() };
        ansi.flush().expect("nothing to do");
        assert!(ansi.frame.is_empty());
    }

    #[test]
    fn what_was_given_back_for_good_is_not_taken_again() {
        let mut held = Held { stand: Stand::Free, anew: false, before: None };
        held.give_back(Stand::Suspended);
        assert_eq!(held.stand, Stand::Suspended);
        held.give_back(Stand::Over);
        held.give_back(Stand::Suspended);
        assert_eq!(held.stand, Stand::Over);
    }
}
