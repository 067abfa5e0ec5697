//! The log of a process, on standard error.
//!
//! Knows: levels and formats. Must not know: what is logged.

use tracing::Level;
use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// What of the libraries is worth a line at the usual levels: what goes wrong in them.
const LIBRARIES: &str = "warn";

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LoggingFormat {
    /// For people.
    Text,
    /// For machines: one JSON object per line.
    Json,
}

/// The level that a verbosity asks for, by the conventions of klog: up to 3 is for operators, 4 and 5 for those who look for a
/// cause, and from 6 on comes everything.
#[must_use]
pub const fn level(verbosity: u8) -> Level {
    match verbosity {
        0..=3 => Level::INFO,
        4..=5 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

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

fn filter(level: Level) -> EnvFilter {
    // All our crates begin so.
    let usual = match level {
        Level::TRACE => "debug,flotilla=trace".to_owned(),
        level => format!("{LIBRARIES},flotilla={level}"),
    };
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_makes_a_filter_that_lets_its_own_lines_through() {
        for level in [Level::INFO, Level::DEBUG, Level::TRACE] {
            let text = filter(level).to_string();
            assert!(text.contains(&format!("flotilla={}", level.to_string().to_lowercase())), "{text}");
        }
    }

    #[test]
    fn verbosity_is_read_as_klog_has_it() {
        let levels = [0, 2, 3, 4, 5, 6, 10].map(level);
        let expected = [Level::INFO, Level::INFO, Level::INFO, Level::DEBUG, Level::DEBUG, Level::TRACE, Level::TRACE];
        assert_eq!(levels, expected);
    }
}
