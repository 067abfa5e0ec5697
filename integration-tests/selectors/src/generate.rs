//! Generates selectors and devices from a seed: mostly well-typed, with boundary constants, and some errors.

mod kinds;

use std::collections::BTreeMap;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use crate::{AttributeObject, CapacityObject, Case, DeviceObject};

/// One in so many operands has a wrong type.
const MISFIT: u32 = 60;
const DOMAINS: [&str; 3] = ["gpu.example.com", "other.example.com", "none"];
const STRINGS: [&str; 14] = [
    "''",
    "'a'",
    "'abc'",
    "'A-b_C'",
    "'gpu'",
    "'1'",
    "'-5'",
    "'1.5'",
    "'true'",
    "'héllo wörld'",
    "' x '",
    "'a,b,,c'",
    "\"it's\"",
    "'x.example.com'",
];
const INTS: [&str; 12] =
    ["0", "1", "2", "3", "7", "-1", "-3", "10", "9223372036854775807", "-9223372036854775808", "0x1f", "100"];
const DOUBLES: [&str; 12] =
    ["0.0", "1.0", "-1.5", "2.5", "1e3", "1e300", "7.0", "0.1", "(0.0 / 0.0)", "(1.0 / 0.0)", "(-1.0 / 0.0)", "5e-324"];
/// Unordered lists, or with an order on few elements.
const DOUBLE_LISTS: [&str; 4] = [
    "[2.0, 0.0 / 0.0, 1.0]",
    "[0.0 / 0.0, 0.0 / 0.0]",
    "[1.0 / 0.0, 3.5, -1.0 / 0.0, 0.0, -0.0]",
    "[9.0, 8.0, 0.0 / 0.0, 7.0, 6.0, 0.0 / 0.0, 5.0, 4.0, 3.0, 2.0, 1.0]",
];
/// Precisions at the limits of upstream's number types.
const PRECISIONS: [&str; 12] =
    ["0", "1", "17", "60", "255", "256", "300", "32767", "32768", "65536", "10000009", "10000010"];
const QUANTITIES: [&str; 12] =
    ["1", "0", "1Gi", "1024Mi", "1.5Gi", "500m", "1k", "1e3", "-2Gi", "100E", "0.0001m", "12345678901234567890"];
const VERSIONS: [&str; 8] =
    ["1.2.3", "1.2.3-alpha.1", "1.2.3+build", "2.0.0", "0.0.1", "10.20.30", "1.2.3-beta", "1.2.3-2"];
const PATTERNS: [&str; 15] = [
    "a",
    "^a.*c$",
    "[a-z]+",
    "\\\\d+",
    "(?i)ABC",
    "x{2,3}",
    "b|c",
    "\\\\w+@",
    "(a)(b)?",
    "\\\\pL{20}|a",
    "(?:a{30}){34}",
    "(?:a{30}){33}",
    "((b{2,3})*){334}",
    "(?i)\\\\pL{3}",
    "(|a)*",
];
const ADDRESSES: [&str; 7] = ["127.0.0.1", "10.1.2.3", "::1", "fe80::1", "2001:db8::1", "224.0.0.1", "0.0.0.0"];
const PREFIXES: [&str; 5] = ["10.0.0.0/8", "127.0.0.1/32", "2001:db8::/32", "0.0.0.0/0", "10.1.2.3/16"];
const URLS: [&str; 5] = [
    "https://example.com:80/a/b?x=1&x=2&y=",
    "/path",
    "http://[::1]:8080/x",
    "https://u:p@example.com/%20a#f",
    "mailto:x",
];
const DURATIONS: [&str; 6] = ["1s", "1h30m", "-1.5s", "100ms", "0", "24h"];
const TIMES: [&str; 4] =
    ["2024-02-29T12:34:56Z", "1970-01-01T00:00:00Z", "2023-12-31T23:59:59.999Z", "2024-06-01T00:00:00+02:00"];
const ZONES: [&str; 4] = ["'UTC'", "'Europe/Berlin'", "'-02:30'", "'America/New_York'"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Time,
    Ints,
    Texts,
    Map,
    Quantity,
    Semver,
    Ip,
    Cidr,
    Url,
    OptionalInt,
    Dyn,
}

const ALL: [Of; 18] = [
    Of::Bool,
    Of::Int,
    Of::Uint,
    Of::Double,
    Of::Text,
    Of::Bytes,
    Of::Duration,
    Of::Time,
    Of::Ints,
    Of::Texts,
    Of::Map,
    Of::Quantity,
    Of::Semver,
    Of::Ip,
    Of::Cidr,
    Of::Url,
    Of::OptionalInt,
    Of::Dyn,
];

/// Generator of cases, deterministic by seed.
#[derive(Debug)]
pub struct Generator {
    dice: StdRng,
    variables: Vec<(String, Of)>,
    names: usize,
}

impl Generator {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self { dice: StdRng::seed_from_u64(seed), variables: Vec::new(), names: 0 }
    }

    /// Next case.
    pub fn case(&mut self) -> Case<DeviceObject> {
        self.variables.clear();
        self.names = 0;
        let depth = self.dice.random_range(1..=5);
        let of = if self.dice.random_ratio(1, 12) { Of::Dyn } else { Of::Bool };
        Case { expression: self.expression(of, depth), device: self.device() }
    }

    fn pick<'all>(&mut self, all: &[&'all str]) -> &'all str {
        all.choose(&mut self.dice).copied().unwrap_or_default()
    }

    fn device(&mut self) -> DeviceObject {
        let mut attributes = BTreeMap::new();
        let mut capacity = BTreeMap::new();
        for domain in ["", "gpu.example.com/", "other.example.com/"] {
            for name in ["model", "count", "fast", "version", "sizes", "tags", "flags", "versions"] {
                if self.dice.random_ratio(1, 2) {
                    attributes.insert(format!("{domain}{name}"), self.attribute(name));
                }
            }
            for name in ["memory", "cores"] {
                if self.dice.random_ratio(1, 2) {
                    let value = self.pick(&QUANTITIES).to_owned();
                    capacity.insert(format!("{domain}{name}"), CapacityObject { value });
                }
            }
        }
        // Names with and without the driver's domain would be two values of one key, and upstream chooses either.
        attributes.retain(|name, _| name.contains('/') || !name.is_empty());
        let plain: Vec<String> = attributes.keys().filter(|name| !name.contains('/')).cloned().collect();
        for name in plain {
            attributes.remove(&format!("gpu.example.com/{name}"));
        }
        let plain: Vec<String> = capacity.keys().filter(|name| !name.contains('/')).cloned().collect();
        for name in plain {
            capacity.remove(&format!("gpu.example.com/{name}"));
        }
        let allow_multiple_allocations = [None, Some(true), Some(false)].choose(&mut self.dice).copied().flatten();
        DeviceObject { driver: DOMAINS[0].to_owned(), allow_multiple_allocations, attributes, capacity }
    }

    fn attribute(&mut self, name: &str) -> AttributeObject {
        let mut made = AttributeObject::default();
        let texts = ["a", "abc", "gpu", "", "A-b_C"];
        // Sometimes the type does not match the name.
        let name = if self.dice.random_ratio(1, 15) { self.pick(&["model", "count", "fast", "version"]) } else { name };
        match name {
            "model" => made.string = Some(self.pick(&texts).to_owned()),
            "count" => made.int = Some(self.dice.random_range(-3..=10)),
            "fast" => made.bool = Some(self.dice.random()),
            "version" => made.version = Some(self.pick(&VERSIONS).to_owned()),
            "sizes" => made.ints = Some((0..self.dice.random_range(1..4)).collect()),
            "tags" => {
                made.strings = Some((0..self.dice.random_range(1..3)).map(|_| self.pick(&texts).to_owned()).collect())
            }
            "flags" => made.bools = Some(vec![true, false]),
            _ => made.versions = Some(vec!["1.2.3".to_owned(), "2.0.0".to_owned()]),
        }
        made
    }

    fn expression(&mut self, of: Of, depth: u32) -> String {
        let of = if self.dice.random_ratio(1, MISFIT) { *ALL.choose(&mut self.dice).unwrap_or(&of) } else { of };
        let known: Vec<String> =
            self.variables.iter().filter(|(_, known)| *known == of).map(|(name, _)| name.clone()).collect();
        if let Some(name) = known.choose(&mut self.dice).filter(|_| self.dice.clone().random_ratio(1, 2)) {
            return name.clone();
        }
        if depth == 0 {
            return self.leaf(of);
        }
        if self.dice.random_ratio(1, 10) {
            return self.shaped(of, depth - 1);
        }
        self.made(of, depth - 1)
    }

    fn shaped(&mut self, of: Of, depth: u32) -> String {
        match self.dice.random_range(0..7) {
            0 => {
                let condition = self.expression(Of::Bool, depth);
                let (yes, no) = (self.expression(of, depth), self.expression(of, depth));
                format!("({condition} ? {yes} : {no})")
            }
            1 => {
                let bound = *ALL.choose(&mut self.dice).unwrap_or(&of);
                let value = self.expression(bound, depth);
                let (name, result) = self.within(bound, of, depth);
                format!("cel.bind({name}, {value}, {result})")
            }
            2 => format!("[{0}, {1}][{2}]", self.expression(of, depth), self.leaf(of), self.pick(&["0", "1", "2"])),
            3 => format!("{{'k': {}}}.k", self.expression(of, depth)),
            4 => format!(
                "{{'k': {}}}[?'{}'].orValue({})",
                self.leaf(of),
                self.pick(&["k", "j"]),
                self.expression(of, depth)
            ),
            5 => format!("optional.of({}).value()", self.expression(of, depth)),
            _ => format!("[{}].{}()[0]", self.expression(of, depth), self.pick(&["distinct", "reverse"])),
        }
    }

    /// An expression with one more variable, and the variable's name.
    fn within(&mut self, variable: Of, of: Of, depth: u32) -> (String, String) {
        self.names += 1;
        let name = format!("v{}", self.names);
        self.variables.push((name.clone(), variable));
        let made = self.expression(of, depth);
        self.variables.pop();
        (name, made)
    }

    fn leaf(&mut self, of: Of) -> String {
        let quoted = |text: &str| format!("'{text}'");
        match of {
            Of::Bool => self
                .pick(&[
                    "true",
                    "false",
                    "device.allowMultipleAllocations",
                    "has(device.attributes['gpu.example.com'].model)",
                ])
                .to_owned(),
            Of::Int => self.pick(&INTS).to_owned(),
            Of::Uint => self.pick(&["0u", "1u", "7u", "18446744073709551615u"]).to_owned(),
            Of::Double => self.pick(&DOUBLES).to_owned(),
            Of::Text if self.dice.random_ratio(1, 8) => "device.driver".to_owned(),
            Of::Text => self.pick(&STRINGS).to_owned(),
            Of::Bytes => self.pick(&["b'abc'", "b''", "b'\\x00\\xff'"]).to_owned(),
            Of::Duration => format!("duration('{}')", self.pick(&DURATIONS)),
            Of::Time => format!("timestamp('{}')", self.pick(&TIMES)),
            Of::Ints => self.pick(&["[1, 2, 3]", "[3, 1, 2, 1]", "[0]", "[7, -1]"]).to_owned(),
            Of::Texts => self.pick(&["['a', 'b']", "['abc', 'a', 'gpu']", "['']"]).to_owned(),
            Of::Map => self.pick(&["{'a': 1, 'b': 2}", "{'x': 7}", "{'a': 0}"]).to_owned(),
            Of::Quantity => format!("quantity({})", quoted(self.pick(&QUANTITIES))),
            Of::Semver => format!("semver({})", quoted(self.pick(&VERSIONS))),
            Of::Ip => format!("ip({})", quoted(self.pick(&ADDRESSES))),
            Of::Cidr => format!("cidr({})", quoted(self.pick(&PREFIXES))),
            Of::Url => format!("url({})", quoted(self.pick(&URLS))),
            Of::OptionalInt => {
                self.pick(&["optional.of(1)", "optional.none()", "optional.ofNonZeroValue(0)"]).to_owned()
            }
            Of::Dyn => self.looked_up(),
        }
    }

    fn looked_up(&mut self) -> String {
        let domain = self.pick(&DOMAINS);
        let name = self.pick(&["model", "count", "fast", "version", "sizes", "tags", "flags", "versions", "missing"]);
        match self.dice.random_range(0..6) {
            0 => format!("device.attributes['{domain}']['{name}']"),
            1 => format!("device.attributes['{domain}'].?{name}.orValue({})", self.pick(&["1", "'a'", "false"])),
            2 => format!("device.attributes[?'{domain}'].?{name}.value()"),
            _ => format!("device.attributes['{domain}'].{name}"),
        }
    }

    fn made(&mut self, of: Of, depth: u32) -> String {
        match of {
            Of::Bool => self.boolean(depth),
            Of::Int => self.integer(depth),
            Of::Uint => match self.dice.random_range(0..3) {
                0 => format!("uint({})", self.expression(Of::Int, depth)),
                1 => {
                    let operator = self.pick(&["+", "-", "*", "/", "%"]);
                    format!("({} {operator} {})", self.expression(Of::Uint, depth), self.expression(Of::Uint, depth))
                }
                _ => self.leaf(of),
            },
            Of::Double => match self.dice.random_range(0..6) {
                0 => format!("double({})", self.expression(Of::Int, depth)),
                1 => format!("{}.asApproximateFloat()", self.expression(Of::Quantity, depth)),
                2 => format!("double({})", self.expression(Of::Text, depth)),
                3 => {
                    let operator = self.pick(&["+", "-", "*", "/"]);
                    format!("({} {operator} {})", self.expression(of, depth), self.expression(of, depth))
                }
                4 => {
                    let functions =
                        ["min()", "max()", "sort()[0]", "sortBy(x, -x)[0]", "sum()", "sort()[?1].orValue(0.0)"];
                    format!("{}.{}", self.pick(&DOUBLE_LISTS), self.pick(&functions))
                }
                _ => self.leaf(of),
            },
            Of::Text => self.string(depth),
            Of::Bytes => match self.dice.random_range(0..2) {
                0 => format!("bytes({})", self.expression(Of::Text, depth)),
                _ => format!("({} + {})", self.expression(of, depth), self.leaf(of)),
            },
            Of::Duration | Of::Time => self.time(of, depth),
            Of::Ints => self.ints(depth),
            Of::Texts => self.texts(depth),
            Of::Map => self.map(depth),
            Of::Quantity => self.quantity(depth),
            Of::Semver => match self.dice.random_range(0..3) {
                0 => format!("semver({})", self.expression(Of::Text, depth)),
                1 => format!(
                    "semver('{}', {})",
                    self.pick(&["v1.2", "01.2.3", "1", "v1.2-a"]),
                    self.expression(Of::Bool, depth)
                ),
                _ => self.leaf(of),
            },
            Of::Ip => match self.dice.random_range(0..2) {
                0 => format!("{}.ip()", self.expression(Of::Cidr, depth)),
                _ => format!("ip({})", self.expression(Of::Text, depth)),
            },
            Of::Cidr => format!("{}.masked()", self.expression(of, depth)),
            Of::Url => format!("url({})", self.expression(Of::Text, depth)),
            Of::OptionalInt => match self.dice.random_range(0..5) {
                0 => format!("{}[?{}]", self.expression(Of::Ints, depth), self.expression(Of::Int, depth)),
                1 => format!("{}.?a", self.expression(Of::Map, depth)),
                2 => {
                    let (name, made) = self.within(Of::Int, Of::Int, depth);
                    format!("{}.optMap({name}, {made})", self.expression(of, depth))
                }
                3 => format!("{}.or({})", self.expression(of, depth), self.expression(of, depth)),
                _ => format!("{}.{}()", self.expression(Of::Ints, depth), self.pick(&["first", "last"])),
            },
            Of::Dyn => match self.dice.random_range(0..4) {
                0 => {
                    let inner = *ALL.choose(&mut self.dice).unwrap_or(&of);
                    format!("dyn({})", self.expression(inner, depth))
                }
                _ => self.looked_up(),
            },
        }
    }

    fn time(&mut self, of: Of, depth: u32) -> String {
        match (of, self.dice.random_range(0..3)) {
            (Of::Duration, 0) => {
                format!("({} - {})", self.expression(Of::Time, depth), self.expression(Of::Time, depth))
            }
            (Of::Duration, 1) => format!("({} + {})", self.expression(of, depth), self.expression(of, depth)),
            (Of::Time, 0) => format!("({} + {})", self.expression(of, depth), self.expression(Of::Duration, depth)),
            (Of::Time, 1) => format!("timestamp({})", self.expression(Of::Int, depth)),
            _ => self.leaf(of),
        }
    }
}
