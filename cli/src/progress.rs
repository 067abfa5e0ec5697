//! What a person sees of a command while it is at work, all on the standard error.
//!
//! Knows: bars, counts and logs. Must not know: what the work is.

use std::{io, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::output::has_colours;

/// A bar or a count on the standard error, drawn only on a terminal.
pub(crate) fn progress(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let progress = ProgressBar::new(0).with_style(style);
    progress.enable_steady_tick(Duration::from_millis(100));
    progress
}

/// Logs to the standard error, if that is asked for.
pub(crate) fn log(verbose: u8) {
    let (ours, others) = match verbose {
        0 => return,
        1 => (LevelFilter::INFO, LevelFilter::WARN),
        _ => (LevelFilter::TRACE, LevelFilter::INFO),
    };
    // All our crates begin so.
    let usual = || Targets::new().with_target("flotilla", ours).with_default(others);
    let filter = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok()).unwrap_or_else(usual);
    let lines = tracing_subscriber::fmt::layer().with_ansi(has_colours(&io::stderr())).with_writer(io::stderr);
    // Only a second one would fail, and there is none.
    _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
}
