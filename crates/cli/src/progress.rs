//! Progress on standard error; silent where that is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for counted work.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar of `total` items.
    pub(crate) fn new(what: &'static str, total: u64) -> Bar {
        Bar::styled(what, total, "{msg} [{bar:30}] {pos}/{len}, {eta} left")
    }

    /// A bar of `total` bytes.
    pub(crate) fn bytes(what: &'static str, total: u64) -> Bar {
        Bar::styled(
            what,
            total,
            "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left",
        )
    }

    fn styled(what: &'static str, total: u64, template: &str) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template).expect("the template is a constant that parses");
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(what);
        Bar(bar)
    }

    /// More was done.
    pub(crate) fn advance(&self, n: u64) {
        self.0.inc(n);
    }

    /// So much is done in all.
    pub(crate) fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
