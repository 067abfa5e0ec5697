//! What one evaluation may take of time and memory. Upstream's cost does not bound either: `replace` costs by its target and not
//! by its result, a comparison by the outermost list, a pattern by its characters and not by what they compile to.
//!
//! Knows: what a call costs before it is made. Must not know: how functions are implemented.

use flotilla_planted::{planted, scaled, spend};

use crate::value::{Failure, Outcome, Value};

/// How many bytes of values one evaluation may make, in all. What upstream's meter counts by its size stays below that at its
/// limit of a million units: lists of a million elements of 40 bytes, and 10 MB of strings at a tenth of a unit a byte. What it
/// does not count, `replace` or `format`, is free up to here.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// About what an element of a list and an entry of a map take.
const ELEMENT: u64 = size_of::<Value>() as u64;
const ENTRY: u64 = 200;

/// What evaluating one node takes, in units of [`Effort::work`], some 10 ns each.
const NODE: u64 = 12;

/// What an evaluation has taken.
#[derive(Debug)]
pub(crate) struct Effort {
    work: u64,
    limit: u64,
    bytes: u64,
}

impl Effort {
    /// Nothing yet, of so many units.
    pub(crate) const fn new(limit: u64) -> Self {
        Self { work: 0, limit, bytes: 0 }
    }

    /// The work done, no more than a unit of work beyond the limit is counted without an error.
    pub(crate) const fn done(&self) -> u64 {
        self.work
    }

    /// Whether the work was more than allowed.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.work > self.limit
    }

    /// Counts work before it is done.
    ///
    /// # Errors
    /// It is more than is left.
    pub(crate) fn work(&mut self, units: u64) -> Result<(), Failure> {
        self.work = self.work.saturating_add(units);
        if self.is_exhausted() { Err(Failure::Fatal("operation cancelled: too much work".into())) } else { Ok(()) }
    }

    /// Counts a node.
    ///
    /// # Errors
    /// As [`Self::work`].
    pub(crate) fn node(&mut self) -> Result<(), Failure> {
        self.work(NODE)
    }

    /// Counts bytes before they are allocated.
    ///
    /// # Errors
    /// They are more than is left, or the work to write them is.
    pub(crate) fn bytes(&mut self, bytes: u64) -> Result<(), Failure> {
        self.fits(bytes)?;
        self.bytes += bytes;
        if planted("makes-results-of-any-size") {
            spend(bytes / 16);
            return Ok(());
        }
        self.work(bytes / 16)
    }

    fn fits(&self, bytes: u64) -> Result<(), Failure> {
        if self.bytes.saturating_add(bytes) <= scaled(MAX_BYTES) || planted("makes-results-of-any-size") {
            return Ok(());
        }
        Err(Failure::Fatal("operation cancelled: actual cost limit exceeded".into()))
    }

    /// Counts a list or a map of so many values that is about to be made.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub(crate) fn collection(&mut self, len: usize, is_map: bool) -> Result<(), Failure> {
        self.bytes((len as u64).saturating_mul(if is_map { ENTRY } else { ELEMENT }))
    }

    /// Counts the comparison of two values.
    ///
    /// # Errors
    /// As [`Self::work`].
    pub(crate) fn comparison(&mut self, left: &Value, right: &Value) -> Result<(), Failure> {
        self.work(read(left.weight().min(right.weight())))
    }

    /// Counts a call before it is made: the work, and whether there is room for the result.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub(crate) fn call(&mut self, function: &str, arguments: &[Value]) -> Result<(), Failure> {
        self.work(work(function, arguments))?;
        self.fits(bound(function, arguments))
    }

    /// Counts what a call has made.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub(crate) fn made(&mut self, function: &str, arguments: &[Value], outcome: &Outcome) -> Result<(), Failure> {
        let Ok(value) = outcome else { return Ok(()) };
        self.bytes(match function {
            "_+_" | "cel.@mapInsert" => bound(function, arguments),
            "split" | "findAll" | "getQuery" => value.weight(),
            _ if shares(function) => 0,
            _ => shallow(value),
        })
    }
}

/// Functions that hand out what is there.
fn shares(function: &str) -> bool {
    matches!(function, "dyn" | "value" | "first" | "last" | "optional.of" | "optional.ofNonZeroValue" | "type" | "size")
}

/// The work of reading so many bytes: 32 of them, or an element of a list, take about a unit.
const fn read(weight: u64) -> u64 {
    weight / 32
}

/// What a value takes itself, without what is in it.
fn shallow(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(list) => (list.len() as u64).saturating_mul(ELEMENT),
        Value::Map(map) => (map.len() as u64).saturating_mul(ENTRY),
        _ => 0,
    }
}

fn weights(values: &[Value]) -> u64 {
    values.iter().fold(0, |sum: u64, value| sum.saturating_add(value.weight()))
}

/// The work of a call at most.
fn work(function: &str, arguments: &[Value]) -> u64 {
    use Value::{List, Map, Quantity, String};
    let all = read(weights(arguments));
    let product = |left: u64, right: u64| read(left.saturating_mul(right));
    match (function, arguments) {
        ("indexOf" | "lastIndexOf", [String(text), String(part), ..]) => {
            all.saturating_add(product(text.len() as u64, part.len() as u64))
        }
        // The numbers of a quantity can have any length, and are read and printed in quadratic time.
        ("quantity" | "isQuantity", [String(text), ..]) => product(text.len() as u64, text.len() as u64),
        (_, [Quantity(left), ..]) => {
            let right = if let Some(Quantity(right)) = arguments.get(1) { right.figures() } else { 0 };
            let figures = left.figures().max(right);
            product(figures, figures).saturating_add(100)
        }
        ("distinct", [List(list)]) => product(list.weight(), list.len() as u64),
        ("sets.contains" | "sets.equivalent" | "sets.intersects", [List(left), List(right)]) => {
            product(left.weight(), right.len() as u64).saturating_add(product(right.weight(), left.len() as u64))
        }
        // A sort of a million compares each element twenty times.
        ("sort" | "@sortByAssociatedKeys", _) => all.saturating_mul(20),
        ("size", [List(_) | Map(_)]) => 0,
        ("@in", [sought, Map(_)]) => read(sought.weight()),
        // What is added is counted as it is made.
        ("_+_" | "cel.@mapInsert", _) => 0,
        _ if shares(function) => 0,
        _ => all,
    }
}

/// How many bytes the result of a call can take, with what is allocated on the way.
fn bound(function: &str, arguments: &[Value]) -> u64 {
    use Value::{Int, List, Map, String, Url};
    match (function, arguments) {
        ("_+_", [List(left), List(right)]) => {
            let kept = if left.is_growing() { 0 } else { left.len() };
            ((kept + right.len()) as u64).saturating_mul(ELEMENT)
        }
        ("cel.@mapInsert", [Map(map), added, ..]) => {
            let kept = if map.is_growing() { 0 } else { map.len() };
            // Each entry of a second map makes a map of its own.
            let (added, rounds) = if let Map(added) = added { (added.len(), added.len().max(1)) } else { (1, 1) };
            ((kept + added) as u64).saturating_mul(ENTRY).saturating_mul(if map.is_growing() {
                1
            } else {
                rounds as u64
            })
        }
        ("replace", [String(text), String(old), String(new), ..]) => {
            let limit = match arguments.get(3) {
                Some(Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let times = text.matches(&**old).take(limit).count() as u64;
            (text.len() as u64 - times * old.len() as u64).saturating_add(times.saturating_mul(new.len() as u64))
        }
        ("split", [String(text), String(separator), ..]) => {
            let pieces = (text.len() / separator.len().max(1) + 1) as u64;
            // Each piece is an element with an allocation of its own, and a slice before.
            pieces.saturating_mul(2 * ELEMENT).saturating_add(text.len() as u64)
        }
        ("join", [List(list), ..]) => {
            let separator = if let Some(String(separator)) = arguments.get(1) { separator.len() as u64 } else { 0 };
            list.weight().saturating_add(separator.saturating_mul(list.len() as u64))
        }
        ("format", [String(text), List(list)]) => {
            // An escaped character takes up to ten bytes, a double up to 310 figures, 103 commas and 1,074 decimals.
            let values = list.weight().saturating_mul(10).saturating_add(1_500 * list.len() as u64);
            values.saturating_add(text.len() as u64).saturating_add(precisions(text))
        }
        ("lists.range", [Int(count)]) => u64::try_from(*count).unwrap_or(0).saturating_mul(ELEMENT),
        ("flatten", [List(list), ..]) => list.weight(),
        ("getQuery", [Url(url)]) => (url.bytes() as u64).saturating_mul(ENTRY),
        _ if shares(function) => 0,
        // Texts are also taken apart into characters of four bytes, and written in quotes.
        _ => arguments.iter().fold(0, |sum: u64, value| {
            let times = if matches!(value, String(_) | Value::Bytes(_)) { 8 } else { 1 };
            sum.saturating_add(shallow(value).saturating_mul(times))
        }),
    }
}

/// The sum of the precisions of a format, as far as 16 bits hold them: some are widths.
fn precisions(format: &str) -> u64 {
    let precision = |behind: &str| {
        let figures = behind.bytes().take_while(u8::is_ascii_digit).count();
        if figures == 0 { 0 } else { behind[..figures].parse().map_or(0, |precision: i64| u64::from(precision as u16)) }
    };
    format.split('.').skip(1).map(precision).fold(0, u64::saturating_add)
}
