//! How far a long command has come, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of `steps`, on standard error; nothing if that is no terminal. It goes when it is dropped.
pub(crate) fn bar(steps: u64, what: impl Into<String>) -> Bar {
    let style = ProgressStyle::with_template("  {msg} {wide_bar} {pos}/{len}, {eta} to go");
    let bar = ProgressBar::new(steps).with_message(what.into());
    Bar(bar.with_style(style.expect("the template is a constant")))
}

/// See [`bar`].
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// One step more is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
