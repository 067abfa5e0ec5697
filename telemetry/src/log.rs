//! The log of a process, on standard error.

use tracing::Level;
use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// Level of libraries at the usual levels: problems only.
const LIBRARIES: &str = "warn";

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LoggingFormat {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

/// The level of a verbosity, as in klog: up to 3 for operators, 4 and 5 for debugging, from 6 on everything.
#[must_use]
pub const fn level(verbosity: u8) -> Level {
    match verbosity {
        0..=3 => Level::INFO,
        4..=5 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// Logs at `level` and above in `format` from now on. At [`Level::TRACE`] this includes libraries.
///
/// `RUST_LOG` refines the selection in the grammar of [`EnvFilter`].
///
/// # Errors
/// Another logger is already installed.
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
    // Prefix of all crates of this project.
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
