//! Tests decoders with mutated samples and random bytes.
//!
//! A decoder must not panic, and must not hold more memory than a stated multiple of its input. A counting allocator measures the memory of
//! the decoding thread. A failing input is shrunk.
//!
//! First, every list in a sample is extended to the maximum length with the shortest elements: such inputs take the most memory for their
//! length.
//!
//! `FLOTILLA_SEED` is the seed of the first case, 1 by default. `FLOTILLA_CASES` is the number of cases per decoder, 100 by default. Case
//! `n` uses that seed plus `n`, so that a failing case can run alone.
//!
//! Contains: mutations of bytes, protobuf and JSON. Does not depend on: any decoder.

mod json;
mod protobuf;
mod raw;
mod shrink;

use std::{
    cell::Cell,
    env,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

/// Default number of cases per decoder: about a second for most decoders without optimization.
const CASES: u64 = 100;
/// Maximum length of mutated inputs in bytes, except for longer samples. Memory grows with the input, so longer ones find nothing new and
/// are slower.
const MAX_BYTES: usize = 8 << 10;
const LONG: usize = 64;
const RANDOM: u32 = 16;
const CHANGES: u32 = 4;

/// Encoding of the samples, for mutations by structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Unknown bytes.
    Bytes,
    /// Text: inserts keywords of JSON and YAML, and changes values if it is JSON.
    Text,
    /// A protobuf message after `prefix` bytes. Changes fields at every depth and updates enclosing lengths.
    Protobuf {
        /// Number of bytes before the message.
        prefix: usize,
    },
}

/// Memory limit of a decoder: a multiple of its input plus a constant.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// Multiple of the input length.
    pub times: usize,
    /// Constant in bytes.
    pub plus: usize,
}

/// A tested decoder and its limit.
#[derive(Debug)]
pub struct Decoder<'a> {
    /// Name in failures.
    pub name: &'a str,
    /// Valid inputs; at least one.
    pub samples: &'a [Vec<u8>],
    /// Their encoding.
    pub form: Form,
    /// The memory limit.
    pub bound: Bound,
}

/// Summary of the cases.
#[derive(Debug, Clone, Copy, Default)]
pub struct MutationSummary {
    /// Number of cases.
    pub cases: u64,
    /// Number of decoded cases.
    pub decoded: u64,
    /// Maximum memory beyond [`Bound::plus`], as a multiple of the input.
    pub times: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Panicked,
    Held { bytes: u64 },
}

impl Decoder<'_> {
    /// Decodes samples and mutations. `decode` drops its result and returns whether decoding succeeded.
    ///
    /// # Panics
    /// At the first input that panics or exceeds the limit, shrunk; if no sample decodes; and if every case decodes.
    pub fn stands(&self, decode: impl Fn(&[u8]) -> bool) -> MutationSummary {
        let (seed, cases) = (variable("FLOTILLA_SEED", 1), variable("FLOTILLA_CASES", CASES));
        let mut outcome = MutationSummary { cases, ..MutationSummary::default() };
        let mut is_any_valid = false;
        for (number, sample) in self.samples.iter().enumerate() {
            is_any_valid |= self.case(&format!("sample {number}"), sample, &decode, &mut outcome);
        }
        assert!(is_any_valid, "{}: no sample is decoded", self.name);
        for input in self.samples.iter().take(LONG).flat_map(|sample| self.long(sample)) {
            self.case("a long list", &input, &decode, &mut outcome);
        }
        for case in (seed..).take(usize::try_from(cases).unwrap_or(usize::MAX)) {
            let input = self.input(case);
            let is_decoded = self.case(&format!("FLOTILLA_SEED={case}"), &input, &decode, &mut outcome);
            outcome.decoded += u64::from(is_decoded);
        }
        let MutationSummary { cases, decoded, times } = outcome;
        println!("{}: {cases} cases, {decoded} decoded, at most {times} times the input held", self.name);
        assert!(cases == 0 || decoded < cases, "{}: all of {cases} cases were decoded", self.name);
        outcome
    }

    /// Decodes one input, such as a previous failure.
    ///
    /// # Panics
    /// If `decode` panics or exceeds the limit.
    pub fn stands_one(&self, input: &[u8], decode: impl Fn(&[u8]) -> bool) -> bool {
        self.case("the input", input, &decode, &mut MutationSummary::default())
    }

    fn case(&self, case: &str, input: &[u8], decode: &impl Fn(&[u8]) -> bool, outcome: &mut MutationSummary) -> bool {
        match self.run(input, decode) {
            Ok((is_decoded, held)) => {
                let beyond = usize::try_from(held).unwrap_or(usize::MAX).saturating_sub(self.bound.plus);
                outcome.times = outcome.times.max(beyond.div_ceil(input.len().max(1)));
                is_decoded
            }
            Err(failure) => {
                let fails = |input: &[u8]| self.run(input, decode).is_err();
                let small = shrink::shrink(input, fails);
                let failure = self.run(&small, decode).err().unwrap_or(failure);
                let (name, Bound { times, plus }) = (self.name, self.bound);
                panic!(
                    "{name}: {case}: {failure:?} at {} bytes, bound {times} times and {plus} more: b\"{}\"",
                    small.len(),
                    small.escape_ascii()
                );
            }
        }
    }

    /// Whether decoding succeeded, and the maximum memory.
    fn run(&self, input: &[u8], decode: &impl Fn(&[u8]) -> bool) -> Result<(bool, u64), Failure> {
        let is_decoded = Cell::new(None);
        // Caught inside, because the counter has to finish.
        let held = allocation_counter::measure(|| {
            is_decoded.set(catch_unwind(AssertUnwindSafe(|| decode(input))).ok());
        });
        let most = (self.bound.times as u64).saturating_mul(input.len() as u64).saturating_add(self.bound.plus as u64);
        match is_decoded.get() {
            None => Err(Failure::Panicked),
            Some(_) if held.bytes_max > most => Err(Failure::Held { bytes: held.bytes_max }),
            Some(is_decoded) => Ok((is_decoded, held.bytes_max)),
        }
    }

    fn long(&self, sample: &[u8]) -> Vec<Vec<u8>> {
        match self.form {
            Form::Bytes => Vec::new(),
            Form::Text => json::long(sample),
            Form::Protobuf { prefix } => {
                let Some((before, message)) = sample.split_at_checked(prefix) else { return Vec::new() };
                protobuf::long(message).iter().map(|message| [before, message].concat()).collect()
            }
        }
    }

    fn input(&self, case: u64) -> Vec<u8> {
        let mut rng = StdRng::seed_from_u64(case);
        let Some(sample) = self.samples.choose(&mut rng).filter(|_| !rng.random_ratio(1, RANDOM)) else {
            return raw::random(&mut rng);
        };
        let mut input = sample.clone();
        for _ in 0..rng.random_range(1..=CHANGES) {
            self.change(&mut input, &mut rng);
            input.truncate(MAX_BYTES.max(sample.len()));
        }
        input
    }

    fn change(&self, input: &mut Vec<u8>, rng: &mut StdRng) {
        let is_structured = rng.random_bool(0.5);
        match self.form {
            Form::Protobuf { prefix } if is_structured && input.len() > prefix => {
                let message = protobuf::changed(&input[prefix..], rng);
                input.truncate(prefix);
                input.extend(message);
            }
            Form::Text if is_structured => match json::changed(input, rng) {
                Some(changed) => *input = changed,
                None => raw::put_word(input, rng),
            },
            _ => raw::change(input, self.samples, rng),
        }
    }
}

fn variable(name: &str, without: u64) -> u64 {
    match env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number; write digits, or leave it out"))
        }
        Err(_) => without,
    }
}

/// Number of elements of this size in an extended list: the maximum, and one above a power of two, for which a doubling vector holds three
/// times as much.
fn long_count(element_bytes: usize) -> usize {
    let room = MAX_BYTES / element_bytes.max(1);
    room.checked_ilog2().map_or(0, |log| 1 << log) + 1
}

/// A repetition count: usually small, sometimes the maximum input length.
fn often(rng: &mut StdRng) -> usize {
    let most = *[2, 16, 256, MAX_BYTES / 2].choose(rng).unwrap_or(&2);
    rng.random_range(1..=most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound { times: 4, plus: 64 };

    fn decoder(samples: &[Vec<u8>], form: Form) -> Decoder<'_> {
        Decoder { name: "a decoder", samples, form, bound: BOUND }
    }

    fn message(failed: Result<MutationSummary, Box<dyn std::any::Any + Send>>) -> String {
        *failed.expect_err("a failure").downcast::<String>().expect("a text")
    }

    #[test]
    fn a_decoder_that_panics_is_shown_the_smallest_input() {
        let samples = [b"{\"a\":[1,2]}".to_vec()];
        let failed = catch_unwind(|| {
            decoder(&samples, Form::Text).stands(|input| {
                assert!(!input.contains(&0xff), "it panics");
                input.starts_with(b"{")
            })
        });
        let message = message(failed);
        assert!(message.contains("Panicked at 1 bytes") && message.ends_with("b\"\\xff\""), "{message}");
    }

    #[test]
    fn a_decoder_that_holds_what_a_header_asks_for_is_found() {
        let samples = [vec![8, 3, 18, 2, b'o', b'k']];
        let failed = catch_unwind(|| {
            decoder(&samples, Form::Protobuf { prefix: 0 }).stands(|input| {
                let wanted = input.get(1).map_or(0, |byte| usize::from(*byte) << 8);
                Vec::<u8>::with_capacity(wanted).capacity() < 1024
            })
        });
        assert!(message(failed).contains("Held { bytes: "));
    }

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let samples = [b"{\"a\":[1,2]}".to_vec(), b"text".to_vec()];
        let decoder = decoder(&samples, Form::Text);
        let inputs = |from: u64| (from..from + 200).map(|case| decoder.input(case)).collect::<Vec<_>>();
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(201));
    }
}
