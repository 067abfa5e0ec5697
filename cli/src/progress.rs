//! Progress bars and logs on standard error.

use std::{io, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::output::has_colours;

/// A progress bar on standard error, drawn only on a terminal.
pub(crate) fn progress(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let progress = ProgressBar::new(0).with_style(style);
    progress.enable_steady_tick(Duration::from_millis(100));
    progress
}

/// Enables logs on standard error for `-v`.
pub(crate) fn log(verbose: u8) {
    let (ours, others) = match verbose {
        0 => return,
        1 => (LevelFilter::INFO, LevelFilter::WARN),
        _ => (LevelFilter::TRACE, LevelFilter::INFO),
    };
    // All crates of this project have this prefix.
    let usual = || Targets::new().with_target("flotilla", ours).with_default(others);
    let filter = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok()).unwrap_or_else(usual);
    let lines = tracing_subscriber::fmt::layer().with_ansi(has_colours(&io::stderr())).with_writer(io::stderr);
    // Fails only if a subscriber is already set.
    _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
}
