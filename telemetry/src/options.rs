//! Tracing flags of all programs.

use std::env;

use flotilla_framework::trace::Sampling;

/// Endpoint and sampling of spans.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Tracing")]
pub struct TracingArgs {
    /// OTLP gRPC endpoint for traces, as http://host:4317 or https://host:4317. If unset, tracing is off. OTEL_EXPORTER_OTLP_* variables
    /// for headers, timeout and certificates also apply
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value_parser = parse_endpoint)]
    pub tracing_endpoint: Option<String>,

    /// Ratio of scheduling attempts to trace, from 0 to 1. The annotation traceparent can exclude a pod from tracing, but not force it
    #[arg(long, value_name = "RATIO", env = "OTEL_TRACES_SAMPLER_ARG", default_value_t = 1.0, value_parser = parse_ratio)]
    pub tracing_sampling_ratio: f64,
}

impl TracingArgs {
    /// The endpoint of spans; `None` for no tracing. `OTEL_EXPORTER_OTLP_ENDPOINT`, the endpoint for all signals, replaces an unset flag.
    /// `OTEL_SDK_DISABLED` turns tracing off.
    #[must_use]
    pub fn endpoint(&self) -> Option<String> {
        self.endpoint_among(|name| env::var(name).ok())
    }

    fn endpoint_among(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        if variable("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return None;
        }
        let general = || variable("OTEL_EXPORTER_OTLP_ENDPOINT").filter(|text| !text.is_empty());
        self.tracing_endpoint.clone().or_else(general)
    }

    /// Sampling of attempts; `None` for no tracing.
    #[must_use]
    pub fn sampling(&self) -> Option<Sampling> {
        self.endpoint().map(|_| Sampling::of(self.tracing_sampling_ratio))
    }
}

fn parse_endpoint(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() => Ok(text.to_owned()),
        _ => Err("write http://HOST:PORT, or https:// with TLS; Jaeger listens on port 4317".to_owned()),
    }
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("write a number from 0 for none to 1 for all".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        tracing: TracingArgs,
    }

    fn read(words: &[&str]) -> Result<TracingArgs, String> {
        let words = ["program"].iter().chain(words);
        Program::try_parse_from(words).map(|program| program.tracing).map_err(|error| error.to_string())
    }

    #[test]
    fn without_an_endpoint_nothing_is_traced() {
        assert_eq!(read(&[]).unwrap().endpoint_among(|_| None), None);
    }

    #[test]
    fn the_endpoint_of_all_signals_stands_in_for_the_flag_and_the_sdk_can_be_disabled() {
        let flag = "--tracing-endpoint=http://127.0.0.1:4317";
        let general = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://all:4317".to_owned());
        let disabled = |name: &str| (name == "OTEL_SDK_DISABLED").then(|| "true".to_owned());
        assert_eq!(read(&[]).unwrap().endpoint_among(general).as_deref(), Some("http://all:4317"));
        assert_eq!(read(&[flag]).unwrap().endpoint_among(general).as_deref(), Some("http://127.0.0.1:4317"));
        assert_eq!(read(&[flag]).unwrap().endpoint_among(disabled), None);
    }

    #[test]
    fn with_an_endpoint_everything_is_traced_unless_it_is_said_how_much() {
        let endpoint = "--tracing-endpoint=http://127.0.0.1:4317";
        assert_eq!(read(&[endpoint]).unwrap().sampling(), Some(Sampling::of(1.0)));
        assert_eq!(read(&[endpoint, "--tracing-sampling-ratio=0.01"]).unwrap().sampling(), Some(Sampling::of(0.01)));
    }

    #[test]
    fn what_is_no_endpoint_and_no_ratio_is_refused_with_what_to_write() {
        for (word, wanted) in [
            ("--tracing-endpoint=localhost:4317", "write http://HOST:PORT"),
            ("--tracing-endpoint=http://", "write http://HOST:PORT"),
            ("--tracing-sampling-ratio=1.5", "from 0 for none to 1 for all"),
            ("--tracing-sampling-ratio=nan", "from 0 for none to 1 for all"),
        ] {
            let error = read(&[word]).unwrap_err();
            assert!(error.contains(wanted), "{word}: {error}");
        }
    }
}
