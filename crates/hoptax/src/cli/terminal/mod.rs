//! The terminal for live views.

pub(super) mod screen;
pub(super) mod sheet;
mod signals;

pub(super) use screen::leave;
pub(super) use signals::watch_during_view;

use std::io::IsTerminal as _;

/// True if standard error is a terminal that can show a view.
pub(super) fn can_show() -> bool {
    let knows = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    knows && std::io::stderr().is_terminal()
}

/// Leaves the alternate screen before a panic message is printed.
pub(super) fn release_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        leave();
        before(panic);
    }));
}

#[cfg(test)]
pub(super) mod drawn {
    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::{Frame, Terminal};

    /// Draws on a screen of this size and returns its lines.
    pub(in crate::cli) fn lines(width: u16, height: u16, draw: impl FnOnce(&mut Frame<'_>)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(draw).expect("drawn");
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }
}
