//! Mutates bytes without structure.

use std::ops::Range;

use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};

use crate::often;

const RANDOM_BYTES: usize = 512;

/// Keywords of JSON and YAML, and numbers at or beyond the limits of their type.
const WORDS: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ":",
    ": ",
    ",",
    "- ",
    "\n",
    "\t",
    "  ",
    "|",
    ">",
    "&a ",
    "*a",
    "<<: *a",
    "? ",
    "!!binary ",
    "---\n",
    "%YAML 1.1\n",
    "#",
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "\\u0000",
    "\\ud800",
    "-1",
    "1e999",
    "-1e-999",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "0.1",
    "00",
    "é",
    "\u{feff}",
];

pub(crate) fn random(rng: &mut StdRng) -> Vec<u8> {
    let length = rng.random_range(0..=RANDOM_BYTES);
    (0..length).map(|_| rng.random()).collect()
}

pub(crate) fn number(rng: &mut StdRng) -> u64 {
    let ends = [0, 1, 0x7f, 0x80, 0xffff, 1 << 31, u64::from(u32::MAX), 1 << 32, 1 << 62, 1 << 63, u64::MAX];
    match rng.random_range(0..3) {
        0 => rng.random(),
        1 => rng.random_range(0..300),
        _ => *ends.choose(rng).unwrap_or(&0),
    }
}

pub(crate) fn change(input: &mut Vec<u8>, samples: &[Vec<u8>], rng: &mut StdRng) {
    match rng.random_range(0..9) {
        0 => flip(input, rng),
        1 => {
            let at = place(input, rng);
            let byte = *[0, 1, 0x7f, 0x80, 0xff].choose(rng).unwrap_or(&0);
            input.get_mut(at).into_iter().for_each(|place| *place = byte);
        }
        2 => input.truncate(place(input, rng)),
        3 => repeat(input, rng),
        4 => drop(input.drain(range(input, rng))),
        5 => splice(input, samples, rng),
        6 => put_number(input, rng),
        7 => put_length(input, rng),
        _ => put_word(input, rng),
    }
}

/// Inserts a keyword of JSON or YAML, possibly repeated.
pub(crate) fn put_word(input: &mut Vec<u8>, rng: &mut StdRng) {
    let at = place(input, rng);
    let word = WORDS.choose(rng).map_or("", |word| word);
    let count = if rng.random_ratio(1, 8) { often(rng) } else { 1 };
    // Replaces a whole number, so that the surroundings still parse.
    let digits = input[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    input.splice(at..at + digits, word.repeat(count).into_bytes());
}

fn flip(input: &mut [u8], rng: &mut StdRng) {
    for _ in 0..rng.random_range(1..=8) {
        let at = place(input, rng);
        let bit = 1 << rng.random_range(0..8);
        input.get_mut(at).into_iter().for_each(|byte| *byte ^= bit);
    }
}

fn repeat(input: &mut Vec<u8>, rng: &mut StdRng) {
    let range = range(input, rng);
    let piece = input[range.clone()].to_vec();
    let count = often(rng).min(crate::MAX_BYTES / piece.len().max(1));
    input.splice(range.end..range.end, piece.repeat(count));
}

fn splice(input: &mut Vec<u8>, samples: &[Vec<u8>], rng: &mut StdRng) {
    let Some(other) = samples.choose(rng) else { return };
    let piece = other[range(other, rng)].to_vec();
    input.splice(range(input, rng), piece);
}

/// Replaces bytes by a varint; one in four is longer than allowed.
fn put_number(input: &mut Vec<u8>, rng: &mut StdRng) {
    let mut written = Vec::new();
    crate::protobuf::write_number(number(rng), &mut written);
    if rng.random_ratio(1, 4) {
        written = vec![0xff; 11];
    }
    let at = place(input, rng);
    let end = input.len().min(at + rng.random_range(0..=written.len()));
    input.splice(at..end, written);
}

/// Writes a four-byte frame length, usually beyond the end.
fn put_length(input: &mut [u8], rng: &mut StdRng) {
    let length = *[0, 1, 1 << 16, 8 << 20, (8 << 20) + 1, 1 << 31, u32::MAX].choose(rng).unwrap_or(&0);
    let at = if rng.random() { 0 } else { place(input, rng) };
    if let Some(place) = input.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

fn place(input: &[u8], rng: &mut StdRng) -> usize {
    rng.random_range(0..=input.len())
}

fn range(input: &[u8], rng: &mut StdRng) -> Range<usize> {
    let start = place(input, rng);
    let rest = input.len() - start;
    let most = if rng.random_bool(0.75) { rest.min(32) } else { rest };
    start..start + rng.random_range(0..=most)
}
