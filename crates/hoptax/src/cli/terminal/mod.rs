//! A terminal that a live view stands on, whoever draws it.

pub(super) mod screen;
pub(super) mod sheet;
mod signals;

pub(super) use screen::{enter, leave};
pub(super) use signals::watch_beside_a_view;

use std::io::IsTerminal as _;

/// Whether standard error is a terminal that can show a view.
pub(super) fn can_show() -> bool {
    let knows = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    knows && std::io::stderr().is_terminal()
}

/// A panic's message belongs onto the normal screen.
pub(super) fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        leave();
        before(panic);
    }));
}

/// For tests of what is drawn.
#[cfg(test)]
pub(super) mod drawn {
    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::{Frame, Terminal};

    /// What stands on a screen of this size, line by line.
    pub(in crate::cli) fn lines(width: u16, height: u16, draw: impl FnOnce(&mut Frame<'_>)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(draw).expect("drawn");
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    #[track_caller]
    pub(in crate::cli) fn shows(lines: &[String], parts: &[&str]) {
        let text = lines.join("\n");
        for part in parts {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }
}
