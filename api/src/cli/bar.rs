//! Progress through what is counted, leaves or bytes, for a person at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work of less than this needs no progress.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// A line on standard error once the work has taken a second, if that is a terminal.
pub struct Bar {
    bar: ProgressBar,
    shown_after: Duration,
    target: fn() -> ProgressDrawTarget,
}

impl Bar {
    /// Nothing shows yet.
    pub fn new() -> Bar {
        Bar::with(SHOWN_AFTER, ProgressDrawTarget::stderr)
    }

    /// The same through bytes.
    pub fn bytes() -> Bar {
        let bar = Bar::new();
        let style = "{bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        match ProgressStyle::with_template(style) {
            Ok(style) => Bar {
                bar: bar.bar.with_style(style),
                ..bar
            },
            Err(_) => bar,
        }
    }

    fn with(shown_after: Duration, target: fn() -> ProgressDrawTarget) -> Bar {
        let style =
            ProgressStyle::with_template("{bar:30} {pos}/{len} leaves, {per_sec}, {eta} left");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        // OK because the template is a constant; a bar without style would only look different.
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bar {
            bar,
            shown_after,
            target,
        }
    }

    /// So many of so many are done.
    pub fn at(&self, done: u64, all: u64) {
        if self.bar.is_hidden() && self.bar.elapsed() >= self.shown_after {
            // Hidden still, where standard error is no terminal.
            self.bar.set_draw_target((self.target)());
        }
        self.bar.set_length(all);
        self.bar.set_position(done);
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::{io, sync::Mutex};

    /// A terminal that keeps what was written to it.
    #[derive(Debug)]
    struct Screen;

    static WRITTEN: Mutex<String> = Mutex::new(String::new());

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            WRITTEN.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn screen() -> ProgressDrawTarget {
        ProgressDrawTarget::term_like(Box::new(Screen))
    }

    #[test]
    fn it_shows_on_a_terminal_once_it_takes_long() {
        let short = Bar::with(Duration::from_secs(600), screen);
        short.at(5, 9);
        assert!(short.bar.is_hidden());
        short.end();
        assert_eq!(*WRITTEN.lock().unwrap(), "");
        let long = Bar::with(Duration::ZERO, screen);
        long.at(5, 9);
        assert!(WRITTEN.lock().unwrap().contains("5/9 leaves"));
        long.end();
    }
}
