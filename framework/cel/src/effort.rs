//! Limits on time and memory of one evaluation. Upstream's cost bounds neither. `replace` costs by its target, not by its result. A
//! comparison costs by the outermost list. A pattern costs by its characters, not by its compiled size.

use flotilla_planted::{planted, scaled, spend};

use crate::value::{EvalResult, Failure, Value};

/// Maximum bytes of values that one evaluation may create in total. Upstream's cost allows less: a million units
/// buy lists of a million elements of 40 bytes, or 10 MB of strings at a tenth of a unit per byte. Functions outside upstream's cost,
/// `replace` and `format`, are limited by this alone.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// Approximate bytes of a list element and of a map entry.
const ELEMENT: u64 = size_of::<Value>() as u64;
const ENTRY: u64 = 200;

/// Work per evaluated node, in units of [`Effort::work`] of about 10 ns.
const NODE: u64 = 12;

#[derive(Debug)]
pub(crate) struct Effort {
    work: u64,
    limit: u64,
    bytes: u64,
}

impl Effort {
    pub(crate) const fn new(limit: u64) -> Self {
        Self { work: 0, limit, bytes: 0 }
    }

    /// Work done. It exceeds the limit by at most the last operation.
    pub(crate) const fn done(&self) -> u64 {
        self.work
    }

    pub(crate) const fn is_exhausted(&self) -> bool {
        self.work > self.limit
    }

    /// Counts work before it is done. Returns an error if it exceeds the limit.
    pub(crate) fn work(&mut self, units: u64) -> Result<(), Failure> {
        self.work = self.work.saturating_add(units);
        if self.is_exhausted() { Err(Failure::Fatal("operation cancelled: too much work".into())) } else { Ok(()) }
    }

    pub(crate) fn node(&mut self) -> Result<(), Failure> {
        self.work(NODE)
    }

    /// Counts bytes before allocation, and the work to write them. Returns an error if either limit is exceeded.
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

    /// Counts a list or map of `len` entries before its creation.
    pub(crate) fn collection(&mut self, len: usize, is_map: bool) -> Result<(), Failure> {
        self.bytes((len as u64).saturating_mul(if is_map { ENTRY } else { ELEMENT }))
    }

    pub(crate) fn comparison(&mut self, left: &Value, right: &Value) -> Result<(), Failure> {
        self.work(read(left.weight().min(right.weight())))
    }

    /// Counts a call before it runs: its work, and whether its result fits into the limit.
    pub(crate) fn call(&mut self, function: &str, arguments: &[Value]) -> Result<(), Failure> {
        self.work(work(function, arguments))?;
        self.fits(bound(function, arguments))
    }

    pub(crate) fn made(&mut self, function: &str, arguments: &[Value], outcome: &EvalResult) -> Result<(), Failure> {
        let Ok(value) = outcome else { return Ok(()) };
        self.bytes(match function {
            "_+_" | "cel.@mapInsert" => bound(function, arguments),
            "split" | "findAll" | "getQuery" => value.weight(),
            _ if shares(function) => 0,
            _ => shallow(value),
        })
    }
}

/// Functions that return an existing value.
fn shares(function: &str) -> bool {
    matches!(function, "dyn" | "value" | "first" | "last" | "optional.of" | "optional.ofNonZeroValue" | "type" | "size")
}

/// Work of reading: one unit per 32 bytes or per list element.
const fn read(weight: u64) -> u64 {
    weight / 32
}

/// Bytes of a value without its contents.
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

/// Upper bound of the work of a call.
fn work(function: &str, arguments: &[Value]) -> u64 {
    use Value::{List, Map, Quantity, String};
    let all = read(weights(arguments));
    let product = |left: u64, right: u64| read(left.saturating_mul(right));
    match (function, arguments) {
        ("indexOf" | "lastIndexOf", [String(text), String(part), ..]) => {
            all.saturating_add(product(text.len() as u64, part.len() as u64))
        }
        // Quantities can have any number of digits. Parsing and printing take quadratic time.
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
        // Sorting a million elements compares each about twenty times.
        ("sort" | "@sortByAssociatedKeys", _) => all.saturating_mul(20),
        ("size", [List(_) | Map(_)]) => 0,
        ("@in", [sought, Map(_)]) => read(sought.weight()),
        // Counted as the result is created.
        ("_+_" | "cel.@mapInsert", _) => 0,
        _ if shares(function) => 0,
        _ => all,
    }
}

/// Upper bound of the bytes of the result, including temporary allocations.
fn bound(function: &str, arguments: &[Value]) -> u64 {
    use Value::{Int, List, Map, String, Url};
    match (function, arguments) {
        ("_+_", [List(left), List(right)]) => {
            let kept = if left.is_growing() { 0 } else { left.len() };
            ((kept + right.len()) as u64).saturating_mul(ELEMENT)
        }
        ("cel.@mapInsert", [Map(map), added, ..]) => {
            let kept = if map.is_growing() { 0 } else { map.len() };
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
            // Each piece is a slice first, then an allocated element.
            pieces.saturating_mul(2 * ELEMENT).saturating_add(text.len() as u64)
        }
        ("join", [List(list), ..]) => {
            let separator = if let Some(String(separator)) = arguments.get(1) { separator.len() as u64 } else { 0 };
            list.weight().saturating_add(separator.saturating_mul(list.len() as u64))
        }
        ("format", [String(text), List(list)]) => {
            // An escaped character takes up to ten bytes. A double takes up to 310 digits, 103 commas and 1,074 decimals.
            let values = list.weight().saturating_mul(10).saturating_add(1_500 * list.len() as u64);
            values.saturating_add(text.len() as u64).saturating_add(precisions(text))
        }
        ("lists.range", [Int(count)]) => u64::try_from(*count).unwrap_or(0).saturating_mul(ELEMENT),
        ("flatten", [List(list), ..]) => list.weight(),
        ("getQuery", [Url(url)]) => (url.bytes() as u64).saturating_mul(ENTRY),
        _ if shares(function) => 0,
        // Strings are also split into characters of four bytes, and quoted.
        _ => arguments.iter().fold(0, |sum: u64, value| {
            let times = if matches!(value, String(_) | Value::Bytes(_)) { 8 } else { 1 };
            sum.saturating_add(shallow(value).saturating_mul(times))
        }),
    }
}

/// Sum of the precisions and widths in a format, each capped at 16 bits.
fn precisions(format: &str) -> u64 {
    let precision = |behind: &str| {
        let figures = behind.bytes().take_while(u8::is_ascii_digit).count();
        if figures == 0 { 0 } else { behind[..figures].parse().map_or(0, |precision: i64| u64::from(precision as u16)) }
    };
    format.split('.').skip(1).map(precision).fold(0, u64::saturating_add)
}
