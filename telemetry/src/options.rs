//! The flags about tracing, the same for each program.
//!
//! Knows: flags, the variables that may stand in for them, and their grammar. Must not know: what becomes of spans.

use flotilla_framework::trace::Sampling;

/// Where spans go, and how many.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Tracing")]
pub struct TracingArgs {
    /// The OTLP gRPC endpoint that takes spans, such as Jaeger's, as http://host:4317 or https://host:4317. Without it nothing
    /// is traced. More of OTEL_EXPORTER_OTLP_* is obeyed too: headers, timeout, certificate
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value_parser = parse_endpoint)]
    pub tracing_endpoint: Option<String>,

    /// How many of all attempts to place a pod are traced, from 0 to 1. A pod whose annotation traceparent says that it is
    /// traced always is
    #[arg(long, value_name = "RATIO", env = "OTEL_TRACES_SAMPLER_ARG", default_value_t = 1.0, value_parser = parse_ratio)]
    pub tracing_sampling_ratio: f64,
}

impl TracingArgs {
    /// Which attempts are traced.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        if self.tracing_endpoint.is_some() { Sampling::of(self.tracing_sampling_ratio) } else { Sampling::NONE }
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
        assert_eq!(read(&[]).unwrap().sampling(), Sampling::NONE);
    }

    #[test]
    fn with_an_endpoint_everything_is_traced_unless_it_is_said_how_much() {
        let endpoint = "--tracing-endpoint=http://127.0.0.1:4317";
        assert_eq!(read(&[endpoint]).unwrap().sampling(), Sampling::of(1.0));
        assert_eq!(read(&[endpoint, "--tracing-sampling-ratio=0.01"]).unwrap().sampling(), Sampling::of(0.01));
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
