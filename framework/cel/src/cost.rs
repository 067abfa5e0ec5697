//! Cost of an evaluation in upstream's units.

use crate::{
    syntax::Id,
    value::{EvalResult, Failure, Value},
};

pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const MESSAGE: u64 = 40;
/// Cost per character of a string or a regular expression.
const STRING: f64 = 0.1;
const REGEX: f64 = 0.25;

/// Counts cost. Like upstream, it keeps the arguments of calls on a stack, by node. The stack has at most two entries per unit of cost, 40
/// bytes each: 80 MB at upstream's limit of a million.
pub(crate) struct Meter {
    cost: u64,
    limit: u64,
    stack: Vec<(Id, Option<Value>)>,
    places: Vec<Vec<usize>>,
}

impl Meter {
    pub(crate) fn new(limit: u64) -> Self {
        Self { cost: 0, limit, stack: Vec::new(), places: Vec::new() }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) fn add(&mut self, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
    }

    /// Records the outcome of a node. Returns an error if the limit is exceeded.
    pub(crate) fn push(&mut self, id: Id, outcome: &EvalResult) -> Result<(), Failure> {
        let number = id as usize;
        if self.places.len() <= number {
            self.places.resize_with(number + 1, Vec::new);
        }
        self.places[number].push(self.stack.len());
        self.stack.push((id, outcome.as_ref().ok().cloned()));
        if self.cost > self.limit {
            return Err(Failure::Fatal("operation cancelled: actual cost limit exceeded".into()));
        }
        Ok(())
    }

    /// Drops the entries of these nodes and all later entries.
    pub(crate) fn drop(&mut self, ids: &[Id]) {
        for id in ids {
            if let Some(at) = self.place(*id) {
                self.cut(at);
            }
        }
    }

    fn place(&self, id: Id) -> Option<usize> {
        self.places.get(id as usize).and_then(|places| places.last()).copied()
    }

    /// Pops all entries down to `at`, and returns the value of that one.
    fn cut(&mut self, at: usize) -> Option<Value> {
        let mut value = None;
        while self.stack.len() > at {
            let (id, last) = self.stack.pop()?;
            self.places[id as usize].pop();
            value = last;
        }
        value
    }

    fn take(&mut self, ids: &[Id]) -> Option<Vec<Option<Value>>> {
        let mut taken = Vec::with_capacity(ids.len());
        for id in ids.iter().rev() {
            let at = self.place(*id)?;
            taken.push(self.cut(at));
        }
        taken.reverse();
        Some(taken)
    }

    pub(crate) fn construct(&mut self, ids: &[Id], cost: u64) {
        self.take(ids);
        self.add(cost);
    }

    /// Counts a call if all its arguments were evaluated.
    ///
    /// # Errors
    /// Upstream panics here: for some overloads it treats an error value as a list.
    pub(crate) fn call(
        &mut self,
        function: &str,
        overload: &str,
        ids: &[Id],
        outcome: &EvalResult,
    ) -> Result<(), Failure> {
        let Some(arguments) = self.take(ids) else { return Ok(()) };
        let wanted = |at: usize, told: &str| match arguments.get(at) {
            Some(None) => Err(Failure::Fatal(format!("internal error: interface conversion: {told}").into())),
            _ => Ok(()),
        };
        const NO_LIST: &str = "*types.Err is not traits.Lister: missing method Add";
        match overload {
            "list_distinct" => wanted(0, NO_LIST)?,
            "list_flatten_int" => wanted(1, "ref.Val is *types.Err, not types.Int")?,
            _ if overload.starts_with("list_") && overload.ends_with("_sort") => wanted(0, NO_LIST)?,
            _ if overload.ends_with("_sortByAssociatedKeys") => wanted(1, NO_LIST)?,
            _ => {}
        }
        self.add(of_call(function, overload, &arguments, outcome.as_ref().ok()));
        Ok(())
    }
}

fn ceil(value: f64) -> u64 {
    value.ceil() as u64
}

fn size(value: Option<&Value>) -> u64 {
    match value {
        Some(Value::Ip(address)) => {
            if address.is_ipv4() {
                4
            } else {
                16
            }
        }
        Some(Value::Cidr(prefix)) => u64::from(prefix.bits).div_ceil(8),
        Some(value) => value.size().map_or(1, |size| size as u64),
        None => 1,
    }
}

/// The default size function also looks into optionals.
fn size_inside(value: Option<&Value>) -> u64 {
    match value {
        Some(Value::Optional(Some(inner))) => size_inside(Some(inner)),
        other => size(other),
    }
}

fn traversal(value: &Value) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * STRING) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * STRING) as u64,
        Value::List(list) => list.values().iter().map(traversal).sum(),
        Value::Map(map) => map.entries().iter().map(|(key, value)| traversal(key) + traversal(value)).sum(),
        _ => 1,
    }
}

fn of_call(function: &str, overload: &str, arguments: &[Option<Value>], result: Option<&Value>) -> u64 {
    of_library(overload, arguments, result)
        .or_else(|| of_kubernetes(function, overload, arguments, result))
        .unwrap_or_else(|| of_standard(overload, arguments))
}

/// Cost in the list and set libraries, by overload.
fn of_library(overload: &str, arguments: &[Option<Value>], result: Option<&Value>) -> Option<u64> {
    let argument = |at: usize| arguments.get(at).and_then(Option::as_ref);
    let allocating = |factor: f64, size: u64| ((size as f64 * factor) as u64).saturating_add(1 + LIST);
    let compared = |list: Option<&Value>| {
        let size = size(list);
        let first = match list {
            Some(Value::List(list)) => list.get(0),
            _ => None,
        };
        let is_text = matches!(first, Some(Value::String(_) | Value::Bytes(_)));
        let factor = if is_text { 2.0 + STRING } else { 2.0 };
        allocating(factor, size.saturating_mul(size))
    };
    Some(match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => 1 + size(argument(0)) * size(argument(1)),
        "list_sets_equivalent_list" => 1 + 2 * size(argument(0)) * size(argument(1)),
        "list_slice" | "lists_range" | "list_reverse" => allocating(1.0, size(result)),
        "list_flatten" => allocating(1.0, size(argument(0))),
        "list_flatten_int" => {
            let Some(Value::Int(depth)) = argument(1) else { return None };
            let factor = if *depth < 0 { 1.0 } else { *depth as f64 };
            allocating(factor, size(argument(0)))
        }
        "list_distinct" => compared(argument(0)),
        _ if overload.starts_with("list_") && overload.ends_with("_sort") => compared(argument(0)),
        _ if overload.ends_with("_sortByAssociatedKeys") => compared(argument(1)),
        _ => return None,
    })
}

/// Cost in Kubernetes' libraries, by function.
fn of_kubernetes(function: &str, overload: &str, arguments: &[Option<Value>], result: Option<&Value>) -> Option<u64> {
    let argument = |at: usize| arguments.get(at).and_then(Option::as_ref);
    let text = |at: usize| ceil(size(argument(at)) as f64 * STRING);
    Some(match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => argument(0).map_or(1, traversal),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "quantity"
        | "isQuantity" | "semver" | "isSemver" => text(0),
        "replace" | "split" | "ip.isCanonical" => ceil(size(argument(0)) as f64 * 2.0 * STRING),
        "join" => ceil(size(result) as f64 * 2.0 * STRING),
        "find" | "findAll" => ceil((1.0 + size(argument(0)) as f64) * STRING) * ceil(size(argument(1)) as f64 * REGEX),
        "ip" if overload == "cidr_ip" => 1,
        "ip" => text(0),
        "containsIP" => {
            let other = if overload == "cidr_contains_ip_string" { text(1) } else { 0 };
            ceil(2.0 * size(argument(0)) as f64 * STRING) + other
        }
        "containsCIDR" => {
            let other = if overload == "cidr_contains_cidr_string" { text(1) } else { 0 };
            ceil(2.0 * size(argument(0)) as f64 * STRING) + text(0) + 1 + other
        }
        "validate" => {
            let Some(Value::Format(format)) = argument(0) else { return None };
            ceil((1.0 + size(argument(1)) as f64) * STRING) * ceil(format.regex_size() as f64 * REGEX)
        }
        "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => 1,
        "_==_" => {
            use Value::{Cidr, Format, Ip, Quantity, Semver, Url};
            match argument(0) {
                Some(Quantity(_) | Ip(_) | Cidr(_) | Format(_) | Url(_) | Semver(_)) => 1,
                _ => return None,
            }
        }
        _ => return None,
    })
}

fn of_standard(overload: &str, arguments: &[Option<Value>]) -> u64 {
    let size = |at: usize| size_inside(arguments.get(at).and_then(Option::as_ref));
    let text = |size: u64| ceil(size as f64 * STRING);
    match overload {
        "starts_with_string" | "ends_with_string" => text(size(1)),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => text(size(0)),
        "in_list" => size(1),
        "equals" | "not_equals" => text(size(0).min(size(1))),
        "add_string" | "add_bytes" => text(size(0) + size(1)),
        "matches" | "matches_string" => ceil((1.0 + size(0) as f64) * STRING) * ceil(size(1) as f64 * REGEX),
        "contains_string" => text(size(0)) * text(size(1)),
        _ if is_comparison(overload) => text(size(0).min(size(1))),
        _ => 1,
    }
}

fn is_comparison(overload: &str) -> bool {
    ["less_", "less_equals_", "greater_", "greater_equals_"]
        .iter()
        .any(|prefix| overload.strip_prefix(prefix).is_some_and(|of| matches!(of, "string" | "bytes")))
}
