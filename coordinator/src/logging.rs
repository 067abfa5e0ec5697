//! The log of the process, on standard error, and how an error is written in it.
//!
//! Knows: levels and formats. Must not know: what is logged.

use tracing::Level;
use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::args::LoggingFormat;

/// What of the libraries is worth a line at the usual levels: what goes wrong in them.
const LIBRARIES: &str = "warn";

/// Logs from now on what is at `level` or above, in `format`. At [`Level::TRACE`] the libraries are heard too.
///
/// `RUST_LOG`, where set, says more exactly what is logged, in the grammar of [`EnvFilter`].
///
/// # Errors
/// When something else logs already.
pub fn install(level: Level, format: LoggingFormat) -> Result<(), tracing_subscriber::util::TryInitError> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter(level));
    match format {
        LoggingFormat::Text => {
            registry.with(lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))).try_init()
        }
        LoggingFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    }
}

/// An error with its causes. The text of many an error is only where it came from, as in `transport error`.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        // Some put their cause into their own text.
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

fn filter(level: Level) -> EnvFilter {
    let usual = match level {
        Level::TRACE => {
            "debug,flotilla=trace,flotilla_coordinator=trace,flotilla_machine=trace,flotilla_transport=trace".to_owned()
        }
        level => {
            format!("{LIBRARIES},flotilla_coordinator={level},flotilla_machine={level},flotilla_transport={level}")
        }
    };
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_written_with_its_causes_and_each_of_them_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot connect")]
        struct Outer(#[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("no route: {0}")]
        struct Inner(#[source] std::fmt::Error);

        let inner = std::fmt::Error;
        assert_eq!(chain(&Outer(Inner(inner))), format!("cannot connect: no route: {inner}"));
    }

    #[test]
    fn every_level_makes_a_filter_that_lets_its_own_lines_through() {
        for level in [Level::INFO, Level::DEBUG, Level::TRACE] {
            let text = filter(level).to_string();
            assert!(text.contains(&format!("flotilla_coordinator={}", level.to_string().to_lowercase())), "{text}");
        }
    }
}
