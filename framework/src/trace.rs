//! W3C trace contexts derived without clock and random numbers.
//!
//! The pod's UID and the number of the attempt determine the trace ID and whether it is recorded. So every process derives the same
//! context. Source: W3C Trace Context (traceparent), and OpenTelemetry's `TraceIdRatioBased` for the comparison with the ratio.

use serde::{Deserialize, Serialize};
use std::fmt;

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

/// A span in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The trace; never 0.
    pub trace: u128,
    /// The span; never 0.
    pub span: u64,
}

/// The pod annotation with the trace of the client that created the pod, as a `traceparent`.
pub const ANNOTATION: &str = "traceparent";

/// The span of the client that created a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Its trace and span.
    pub context: Context,
    /// Whether its trace is recorded.
    pub is_recorded: bool,
}

/// The share of attempts that are recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sampling {
    /// An attempt is recorded if the low 63 bits of its trace ID are below this.
    below: u64,
}

/// A trace ID, displayed in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId(u128);

/// A text that is not a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent of W3C Trace Context, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
pub struct Malformed;

/// One more than the largest compared value.
const ALL: u64 = 1 << 63;

impl Sampling {
    /// No attempt is recorded.
    pub const NONE: Self = Self { below: 0 };

    /// A share of all attempts from 0 to 1; values outside are clamped.
    #[must_use]
    pub fn of(ratio: f64) -> Self {
        let ratio = if ratio.is_nan() { 0.0 } else { ratio.clamp(0.0, 1.0) };
        Self { below: (ratio * ALL as f64) as u64 }
    }

    /// Whether a trace is recorded.
    #[must_use]
    pub const fn takes(self, trace: u128) -> bool {
        (trace as u64 & (ALL - 1)) < self.below
    }
}

impl Context {
    /// The trace ID.
    #[must_use]
    pub const fn trace_id(self) -> TraceId {
        TraceId(self.trace)
    }

    /// The root span of an attempt, counted from 1, to schedule a pod.
    #[must_use]
    pub fn of_attempt(uid: &str, attempt: u32) -> Self {
        let trace = xxh3_128(format!("{uid}/{attempt}").as_bytes()).max(1);
        Self { trace, span: xxh3_64_with_seed(uid.as_bytes(), u64::from(attempt)).max(1) }
    }

    /// As [`Self::of_attempt`], within the trace of the client that created the pod.
    #[must_use]
    pub fn of_attempt_within(parent: Self, uid: &str, attempt: u32) -> Self {
        Self { trace: parent.trace, ..Self::of_attempt(uid, attempt) }
    }

    /// A child span; `what` and `number` distinguish it from others.
    #[must_use]
    pub fn child(self, what: &str, number: u64) -> Self {
        let span = xxh3_64_with_seed(what.as_bytes(), self.span.rotate_left(17) ^ number).max(1);
        Self { span, ..self }
    }

    /// Parses a `traceparent`. The flag is whether the trace is recorded.
    ///
    /// # Errors
    /// An invalid text, or an unknown version without extensible format.
    pub fn parse(text: &str) -> Result<(Self, bool), Malformed> {
        let mut parts = text.split('-');
        let mut part = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits).ok_or(Malformed)?;
            let is_hex = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if is_hex { u128::from_str_radix(part, 16).map_err(|_| Malformed) } else { Err(Malformed) }
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        // Later versions may have more parts, version 0 may not, and 255 is invalid.
        let has_more = parts.next().is_some();
        let span = u64::try_from(span).map_err(|_| Malformed)?;
        if version == 0xff || (version == 0 && has_more) || trace == 0 || span == 0 {
            return Err(Malformed);
        }
        Ok((Self { trace, span }, flags & 1 == 1))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

/// As a `traceparent` of a recorded trace; other traces are not written.
impl fmt::Display for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{:032x}-{:016x}-01", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "3f9c1c56-7a52-4a0e-9d5a-0c7a7d5d8a11";

    #[test]
    fn an_attempt_has_the_same_trace_wherever_it_is_asked_for_and_each_attempt_its_own() {
        assert_eq!(Context::of_attempt(UID, 1), Context::of_attempt(UID, 1));
        assert_ne!(Context::of_attempt(UID, 1).trace, Context::of_attempt(UID, 2).trace);
        assert_ne!(Context::of_attempt(UID, 1).trace, Context::of_attempt("another", 1).trace);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let context = Context::of_attempt(UID, 3);
        assert_eq!(Context::parse(&context.to_string()), Ok((context, true)));
        assert_eq!(context.to_string().split('-').nth(1), Some(&*context.trace_id().to_string()));
    }

    #[test]
    fn parts_of_a_span_are_told_apart_and_stay_in_its_trace() {
        let root = Context::of_attempt(UID, 1);
        let parts = [root.child("bind", 0), root.child("evaluate", 1), root.child("evaluate", 2)];
        assert!(parts.iter().all(|part| part.trace == root.trace && part.span != root.span));
        assert_ne!(parts[1].span, parts[2].span);
        assert_ne!(parts[0].span, parts[1].span);
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473+-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Context::parse(text), Err(Malformed), "{text}");
        }
    }

    #[test]
    fn a_later_version_may_say_more() {
        let text = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more";
        let context = Context { trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, span: 0x00f0_67aa_0ba9_02b7 };
        assert_eq!(Context::parse(text), Ok((context, false)));
    }

    #[test]
    fn of_all_attempts_the_share_is_recorded_that_was_asked_for() {
        let taken = |ratio: f64| {
            let sampling = Sampling::of(ratio);
            (0..10_000).filter(|number| sampling.takes(Context::of_attempt(UID, *number).trace)).count()
        };
        assert_eq!((taken(0.0), taken(1.0), taken(-3.0), taken(f64::NAN)), (0, 10_000, 0, 0));
        assert!((2_300..2_700).contains(&taken(0.25)), "{}", taken(0.25));
        assert!(!Sampling::NONE.takes(1));
    }
}
