//! Checks the length of lists before a message is decoded.
//!
//! An element takes as few as two bytes on the wire and up to 128 in memory. A vector that grows by doubling takes three times as much. One
//! message of [`MAX_MESSAGE_BYTES`](crate::bounds::MAX_MESSAGE_BYTES) could therefore occupy 384 MiB in the coordinator. Lists that are
//! longer than any valid list, or have shorter elements, are rejected before decoding.

use flotilla_framework::{evaluation::MAX_OFFERS, explain::shard::MAX_PAGE_NODES, shard::MAX_TRIALS};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::{DecodeError, Problem, pb};

/// A message with bounded lists.
pub trait Lists {
    /// Checks the lists in an encoded message. Ignores invalid bytes, which the decoder reports.
    ///
    /// # Errors
    /// A list is too long or its elements are too short.
    fn check(bytes: &[u8]) -> Result<(), DecodeError>;
}

/// Not checked: a worker obeys one authenticated coordinator at a time. `tests/any_bytes.rs` states the memory that a message may occupy,
/// and a worker has no state that a restart loses.
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

/// The fields of `FromWorker` with lists: evaluated, explained and dry_run_results.
const REPLIES: [u32; 3] = [5, 7, 8];

/// Maximum number of tallies in an answer, one per plugin that counts over domains. There are two such plugins; a registry may have more.
const MAX_TALLIES: usize = 128;
/// Maximum number of laps, as in `FromWorker.laps`.
const MAX_LAPS: usize = 128;
/// Up to this many elements may have any size.
const FREE: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Bound {
    name: &'static str,
    /// Field numbers from the envelope inwards; 0 after the last one.
    path: [u32; 2],
    most: usize,
    /// Minimum average size of an element, without tag and length.
    least_bytes: usize,
}

const fn list(name: &'static str, path: [u32; 2], most: usize, least_bytes: usize) -> Bound {
    Bound { name, path, most, least_bytes }
}

/// A rejection has a code and a count of two bytes each. Domains are distinct, so at most one is empty.
const FROM_WORKER: [Bound; 9] = [
    list("laps", [9, 0], MAX_LAPS, 0),
    list("evaluated.strata", [5, 3], MAX_OFFERS, 0),
    list("evaluated.refused", [5, 4], usize::MAX, 4),
    list("evaluated.tallies", [5, 5], MAX_TALLIES, 0),
    list("evaluated.domains", [5, 6], usize::MAX, 1),
    list("explained.nodes", [7, 2], MAX_PAGE_NODES, 0),
    list("explained.tallies", [7, 3], MAX_TALLIES, 0),
    list("explained.domains", [7, 5], usize::MAX, 1),
    list("dry_run_results.outcomes", [8, 2], MAX_TRIALS, 0),
];

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

/// Calls `take` for each length-delimited field, up to the first unreadable one.
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
