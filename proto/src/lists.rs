//! How many elements the lists of a message have, before it is decoded.
//!
//! An element may take two bytes on the wire and takes up to 128 in memory, of a vector that grows by doubling three times as
//! much. So a worker could make a coordinator hold 384 MiB with one message of
//! [`MAX_MESSAGE_BYTES`](crate::bounds::MAX_MESSAGE_BYTES). Lists that are longer than any that a worker gives, or whose elements
//! are shorter, are refused while they are bytes.
//!
//! Knows: the numbers of fields that are lists, and how long lists and elements may be. Must not know: what an element means.

use flotilla_framework::{evaluation::MAX_OFFERS, explain::shard::MAX_PAGE_NODES, shard::MAX_TRIALS};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::{DecodeError, Problem, pb};

/// A message whose lists are bounded.
pub trait Lists {
    /// Checks the lists in the bytes of a message. Bytes that are no message are left to the decoder, which says why.
    ///
    /// # Errors
    /// A list that is too long, or whose elements are too short.
    fn check(bytes: &[u8]) -> Result<(), DecodeError>;
}

/// Workers obey one leader at a time, which has shown a certificate of a coordinator. What it may make a worker hold is a multiple
/// that `tests/any_bytes.rs` states, and a worker keeps nothing that a restart could lose.
impl Lists for pb::ToWorker {
    fn check(_: &[u8]) -> Result<(), DecodeError> {
        Ok(())
    }
}

impl Lists for pb::FromWorker {
    fn check(bytes: &[u8]) -> Result<(), DecodeError> {
        let mut lists = FROM_WORKER.map(|bound| (bound, Length::default()));
        each_field(bytes, &mut |number, content| {
            add(&mut lists, [number, 0], content);
            if REPLIES.contains(&number) {
                each_field(content, &mut |inner, element| add(&mut lists, [number, inner], element));
            }
        });
        lists.iter().try_for_each(|(bound, length)| bound.check(length))
    }
}

/// The fields of `FromWorker` that have lists: evaluated, explained and rehearsed.
const REPLIES: [u32; 3] = [5, 7, 8];

/// The most lists of counts in an answer, each of one plugin that counts over domains: there are two such plugins, and a registry
/// may have more.
const MAX_TALLIES: usize = 128;
/// The most laps, as `FromWorker.laps` says.
const MAX_LAPS: usize = 128;
/// So many elements may be as short as they like.
const FREE: usize = 64;

/// What a list may be.
#[derive(Debug, Clone, Copy)]
struct Bound {
    name: &'static str,
    /// The numbers of the fields, from the envelope inwards; 0 after the last one.
    path: [u32; 2],
    /// How many elements.
    most: usize,
    /// How many bytes an element has on average, without its tag and length.
    least_bytes: usize,
}

const fn list(name: &'static str, path: [u32; 2], most: usize, least_bytes: usize) -> Bound {
    Bound { name, path, most, least_bytes }
}

/// A refusal has a code and a count, of two bytes each. Domains differ from each other, so at most one is empty.
const FROM_WORKER: [Bound; 9] = [
    list("laps", [9, 0], MAX_LAPS, 0),
    list("evaluated.strata", [5, 3], MAX_OFFERS, 0),
    list("evaluated.refused", [5, 4], usize::MAX, 4),
    list("evaluated.tallies", [5, 5], MAX_TALLIES, 0),
    list("evaluated.domains", [5, 6], usize::MAX, 1),
    list("explained.nodes", [7, 2], MAX_PAGE_NODES, 0),
    list("explained.tallies", [7, 3], MAX_TALLIES, 0),
    list("explained.domains", [7, 5], usize::MAX, 1),
    list("rehearsed.outcomes", [8, 2], MAX_TRIALS, 0),
];

/// How long a list is.
#[derive(Debug, Clone, Copy, Default)]
struct Length {
    count: usize,
    bytes: usize,
}

impl Bound {
    fn check(&self, length: &Length) -> Result<(), DecodeError> {
        let Length { count, bytes } = *length;
        let long_enough = (bytes + FREE).checked_div(self.least_bytes).unwrap_or(usize::MAX);
        let max = self.most.min(long_enough);
        if count <= max {
            return Ok(());
        }
        let problem = Problem::OutOfRange { value: count as i128, min: 0, max: max as i128 };
        Err(DecodeError { field: self.name.to_owned(), problem })
    }
}

fn add(lists: &mut [(Bound, Length)], path: [u32; 2], element: &[u8]) {
    for (_, length) in lists.iter_mut().filter(|(bound, _)| bound.path == path) {
        length.count += 1;
        length.bytes += element.len();
    }
}

/// Calls `take` for each field that has a length, up to the first that cannot be read.
fn each_field(mut bytes: &[u8], take: &mut dyn FnMut(u32, &[u8])) {
    while !bytes.is_empty() {
        let Ok((number, kind)) = decode_key(&mut bytes) else { return };
        if kind != WireType::LengthDelimited {
            if skip_field(kind, number, &mut bytes, DecodeContext::default()).is_err() {
                return;
            }
            continue;
        }
        let length = decode_varint(&mut bytes).ok().and_then(|length| usize::try_from(length).ok());
        let Some((content, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else { return };
        take(number, content);
        bytes = rest;
    }
}
