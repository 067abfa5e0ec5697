//! What a person sees of a command while it is at work, all on the standard error.
//!
//! Knows: bars, counts and logs. Must not know: what the work is.

use std::{io, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use tracing_subscriber::EnvFilter;

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
    let filter = match verbose {
        0 => return,
        1 => "warn,flotilla_coordinator=info,flotilla_machine=info,flotilla_worker=info",
        _ => "info,flotilla_coordinator=trace,flotilla_machine=trace,flotilla_worker=trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    // Only a second one would fail, and there is none.
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(has_colours(&io::stderr()));
    _ = lines.with_writer(io::stderr).try_init();
}
