//! How far a long command is.
//!
//! | standard error is | what is shown |
//! |---|---|
//! | a terminal | a bar with rate and remaining time |
//! | anything else | a line every [`LINE_INTERVAL`] |
//! | either, with `-q` | nothing |
//!
//! Progress is never part of the result: it goes to standard error and changes no exit code.

use crate::words::plural;
use indicatif::{
    HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes of input.
    Bytes,
    /// Records.
    Records,
    /// Pages of the database.
    Pages,
}

impl Unit {
    fn show(self, count: u64) -> String {
        match self {
            Unit::Bytes => HumanBytes(count).to_string(),
            Unit::Records => format!("{} {}", HumanCount(count), plural(count, "record")),
            Unit::Pages => format!("{} {}", HumanCount(count), plural(count, "page")),
        }
    }

    fn template(self, known: bool) -> &'static str {
        match (self, known) {
            (Unit::Bytes, true) => {
                "{prefix} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"
            }
            (Unit::Bytes, false) => "{prefix} {spinner} {bytes}, {bytes_per_sec}",
            (_, true) => {
                "{prefix} [{bar:30}] {human_pos} of {human_len} {msg}, {per_sec}, {eta} left"
            }
            (_, false) => "{prefix} {spinner} {human_pos} {msg}, {per_sec}",
        }
    }
}

/// One long act.
#[derive(Debug)]
pub(crate) struct Progress {
    display: Display,
    what: &'static str,
    unit: Unit,
    done: u64,
    total: Option<u64>,
    started: Instant,
}

#[derive(Debug)]
enum Display {
    None,
    Bar(ProgressBar),
    Lines { last: Instant },
}

impl Progress {
    /// Starts at nothing done; `total` if it is known beforehand.
    pub(crate) fn start(
        quiet: bool,
        what: &'static str,
        unit: Unit,
        total: Option<u64>,
    ) -> Progress {
        let started = Instant::now();
        let display = if quiet {
            Display::None
        } else if std::io::stderr().is_terminal() {
            Display::Bar(bar(what, unit, total))
        } else {
            Display::Lines { last: started }
        };
        Progress { display, what, unit, done: 0, total, started }
    }

    /// So many more are done.
    pub(crate) fn add(&mut self, count: u64) {
        self.set(self.done + count);
    }

    /// So many are done in all.
    pub(crate) fn set(&mut self, done: u64) {
        self.done = done;
        match &mut self.display {
            Display::None => {}
            Display::Bar(bar) => bar.set_position(done),
            Display::Lines { last } if last.elapsed() >= LINE_INTERVAL => {
                *last = Instant::now();
                eprintln!(
                    "{}",
                    line(self.what, self.unit, done, self.total, self.started.elapsed())
                );
            }
            Display::Lines { .. } => {}
        }
    }

    /// Prints a line of its own on standard error, also where no progress is shown.
    pub(crate) fn line(&self, text: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            _ => eprintln!("{text}"),
        }
    }

    /// The total has become known or has changed.
    pub(crate) fn set_total(&mut self, total: u64) {
        if self.total == Some(total) {
            return;
        }
        self.total = Some(total);
        if let Display::Bar(bar) = &self.display {
            bar.set_length(total);
            bar.set_style(style(self.unit, true));
        }
    }
}

impl Drop for Progress {
    /// Takes the bar off the terminal, so that messages stand on lines of their own.
    fn drop(&mut self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &'static str, unit: Unit, total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    bar.set_style(style(unit, total.is_some()));
    bar.set_prefix(what);
    bar.set_message(match unit {
        Unit::Bytes => "",
        Unit::Records => "records",
        Unit::Pages => "pages",
    });
    bar
}

fn style(unit: Unit, known: bool) -> ProgressStyle {
    ProgressStyle::with_template(unit.template(known)).expect("the templates are fixed and valid")
}

fn line(what: &str, unit: Unit, done: u64, total: Option<u64>, spent: Duration) -> String {
    let rate = done as f64 / spent.as_secs_f64().max(1e-9);
    let mut line = format!("{what}: {}", unit.show(done));
    if let Some(total) = total {
        line += &format!(" of {}", unit.show(total));
    }
    line += &format!(", {}/s", unit.show(rate as u64));
    if let Some(total) = total
        && rate > 0.0
    {
        let left = (total.saturating_sub(done) as f64 / rate).min(1e9);
        line += &format!(", {} left", HumanDuration(Duration::from_secs(left as u64)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rate_and_remaining_time() {
        let text = line("reading", Unit::Records, 5000, Some(20000), Duration::from_secs(5));
        assert_eq!(
            text,
            "reading: 5,000 records of 20,000 records, 1,000 records/s, 15 seconds left"
        );
        let text = line("reading", Unit::Bytes, 0, None, Duration::ZERO);
        assert_eq!(text, "reading: 0 B, 0 B/s");
    }

    #[test]
    fn every_template_is_valid() {
        for unit in [Unit::Bytes, Unit::Records, Unit::Pages] {
            style(unit, true);
            style(unit, false);
        }
    }
}
