//! Expressions of each type.

use rand::{Rng as _, seq::IndexedRandom as _};

use super::{ALL, DOMAINS, Generator, Of, PATTERNS, PRECISIONS, ZONES};

impl Generator {
    pub(super) fn boolean(&mut self, depth: u32) -> String {
        match self.dice.random_range(0..17) {
            0 | 1 => {
                let operator = self.pick(&["&&", "||"]);
                format!("({} {operator} {})", self.expression(Of::Bool, depth), self.expression(Of::Bool, depth))
            }
            2 => format!("!{}", self.expression(Of::Bool, depth)),
            3 | 4 => {
                let of = *ALL.choose(&mut self.dice).unwrap_or(&Of::Int);
                let operator = self.pick(&["==", "!="]);
                format!("({} {operator} {})", self.expression(of, depth), self.expression(of, depth))
            }
            5 => {
                let operator = self.pick(&["==", "!=", "<", "<=", ">", ">=", "in"]);
                let other = [Of::Int, Of::Text, Of::Double, Of::Ints, Of::Dyn, Of::Semver, Of::Map]
                    .choose(&mut self.dice)
                    .copied()
                    .unwrap_or(Of::Int);
                format!("({} {operator} {})", self.expression(Of::Dyn, depth), self.expression(other, depth))
            }
            6 => {
                let of = [Of::Int, Of::Double, Of::Uint, Of::Text, Of::Time, Of::Duration, Of::Bytes, Of::Bool]
                    .choose(&mut self.dice)
                    .copied()
                    .unwrap_or(Of::Int);
                let operator = self.pick(&["<", "<=", ">", ">="]);
                format!("({} {operator} {})", self.expression(of, depth), self.expression(of, depth))
            }
            7 => format!("({} in {})", self.expression(Of::Int, depth), self.expression(Of::Ints, depth)),
            8 => format!("({} in {})", self.expression(Of::Text, depth), self.expression(Of::Map, depth)),
            9 => {
                let function = self.pick(&["contains", "startsWith", "endsWith"]);
                format!("{}.{function}({})", self.expression(Of::Text, depth), self.expression(Of::Text, depth))
            }
            10 => format!("{}.matches('{}')", self.expression(Of::Text, depth), self.pick(&PATTERNS)),
            11 | 12 => {
                let macro_name = self.pick(&["all", "exists", "exists_one", "existsOne"]);
                let (range, of) = [(Of::Ints, Of::Int), (Of::Texts, Of::Text), (Of::Map, Of::Text), (Of::Dyn, Of::Dyn)]
                    .choose(&mut self.dice)
                    .copied()
                    .unwrap_or((Of::Ints, Of::Int));
                let ranged = self.expression(range, depth);
                let (name, test) = self.within(of, Of::Bool, depth);
                if self.dice.random_ratio(1, 3) {
                    return format!("{ranged}.{macro_name}(i, {name}, {test})");
                }
                format!("{ranged}.{macro_name}({name}, {test})")
            }
            13 => {
                let function = self.pick(&["isGreaterThan", "isLessThan"]);
                let of = if self.dice.random() { Of::Quantity } else { Of::Semver };
                format!("{}.{function}({})", self.expression(of, depth), self.expression(of, depth))
            }
            14 => {
                let function = self.pick(&["contains", "equivalent", "intersects"]);
                format!("sets.{function}({}, {})", self.expression(Of::Ints, depth), self.expression(Of::Ints, depth))
            }
            15 => self.asked(depth),
            _ => self.leaf(Of::Bool),
        }
    }

    fn asked(&mut self, depth: u32) -> String {
        match self.dice.random_range(0..9) {
            0 => {
                let function = self.pick(&["isQuantity", "isSemver", "isIP", "isCIDR", "isURL", "bool"]);
                format!("{function}({})", self.expression(Of::Text, depth))
            }
            1 => format!("{}.isInteger()", self.expression(Of::Quantity, depth)),
            2 => {
                let functions =
                    ["isLoopback", "isUnspecified", "isGlobalUnicast", "isLinkLocalUnicast", "isLinkLocalMulticast"];
                let function = self.pick(&functions);
                format!("{}.{function}()", self.expression(Of::Ip, depth))
            }
            3 => format!("{}.containsIP({})", self.expression(Of::Cidr, depth), self.expression(Of::Ip, depth)),
            4 => format!("{}.containsCIDR({})", self.expression(Of::Cidr, depth), self.expression(Of::Cidr, depth)),
            5 => format!("{}.hasValue()", self.expression(Of::OptionalInt, depth)),
            6 => format!("{}.isSorted()", self.expression(Of::Ints, depth)),
            7 => format!("{}.includes({})", self.expression(Of::Dyn, depth), self.expression(Of::Int, depth)),
            _ => {
                let format =
                    self.pick(&["dns1123Label", "dns1123Subdomain", "qualifiedName", "labelValue", "uuid", "uri"]);
                format!("format.{format}().validate({}).hasValue()", self.expression(Of::Text, depth))
            }
        }
    }

    pub(super) fn integer(&mut self, depth: u32) -> String {
        match self.dice.random_range(0..13) {
            0..=2 => {
                let operator = self.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})", self.expression(Of::Int, depth), self.expression(Of::Int, depth))
            }
            3 => {
                let of = [Of::Text, Of::Ints, Of::Map, Of::Bytes, Of::Texts].choose(&mut self.dice).copied();
                format!("size({})", self.expression(of.unwrap_or(Of::Text), depth))
            }
            4 => {
                let of = [Of::Text, Of::Double, Of::Uint, Of::Duration, Of::Time].choose(&mut self.dice).copied();
                format!("int({})", self.expression(of.unwrap_or(Of::Text), depth))
            }
            5 => {
                let function = self.pick(&["indexOf", "lastIndexOf"]);
                format!("{}.{function}({})", self.expression(Of::Text, depth), self.expression(Of::Text, depth))
            }
            6 => {
                let function = self.pick(&["sum", "min", "max"]);
                format!("{}.{function}()", self.expression(Of::Ints, depth))
            }
            7 => format!("{}.{}()", self.expression(Of::Semver, depth), self.pick(&["major", "minor", "patch"])),
            8 => format!("{}.orValue({})", self.expression(Of::OptionalInt, depth), self.expression(Of::Int, depth)),
            9 => match self.dice.random_range(0..3) {
                0 => format!("{}.asInteger()", self.expression(Of::Quantity, depth)),
                1 => format!("sign({})", self.expression(Of::Quantity, depth)),
                _ => format!(
                    "{}.compareTo({})",
                    self.expression(Of::Quantity, depth),
                    self.expression(Of::Quantity, depth)
                ),
            },
            10 => {
                let part =
                    self.pick(&["getHours", "getDayOfWeek", "getMonth", "getFullYear", "getDayOfYear", "getMinutes"]);
                let zone = if self.dice.random() { "" } else { self.pick(&ZONES) };
                format!("{}.{part}({zone})", self.expression(Of::Time, depth))
            }
            11 => format!("-{}", self.expression(Of::Int, depth)),
            _ => format!("{}[{}]", self.expression(Of::Ints, depth), self.expression(Of::Int, depth)),
        }
    }

    pub(super) fn string(&mut self, depth: u32) -> String {
        match self.dice.random_range(0..13) {
            0 | 1 => format!("({} + {})", self.expression(Of::Text, depth), self.expression(Of::Text, depth)),
            2 => {
                let of = [Of::Int, Of::Double, Of::Bool, Of::Duration, Of::Time, Of::Bytes, Of::Ip, Of::Uint, Of::Cidr];
                let of = of.choose(&mut self.dice).copied().unwrap_or(Of::Int);
                format!("string({})", self.expression(of, depth))
            }
            3 => format!("{}.{}()", self.expression(Of::Text, depth), self.pick(&["lowerAscii", "upperAscii", "trim"])),
            4 => format!("{}.substring({})", self.expression(Of::Text, depth), self.expression(Of::Int, depth)),
            5 => format!(
                "{}.replace({}, {})",
                self.expression(Of::Text, depth),
                self.expression(Of::Text, depth),
                self.expression(Of::Text, depth)
            ),
            6 => format!("{}.join({})", self.expression(Of::Texts, depth), self.expression(Of::Text, depth)),
            7 => format!("{}.charAt({})", self.expression(Of::Text, depth), self.expression(Of::Int, depth)),
            8 => {
                let of = *ALL.choose(&mut self.dice).unwrap_or(&Of::Int);
                let clause = self.pick(&["%s", "%d", "%.2f", "%x", "%b", "%o", "%e", "%%", "a%sb"]);
                format!("'{clause}'.format([{}])", self.expression(of, depth))
            }
            9 => format!("{}.find('{}')", self.expression(Of::Text, depth), self.pick(&PATTERNS)),
            11 => {
                let (precision, clause) = (self.pick(&PRECISIONS), self.pick(&["f", "e"]));
                format!("'%.{precision}{clause}'.format([{}])", self.expression(Of::Double, depth))
            }
            10 => {
                let part = self.pick(&["getHost", "getHostname", "getPort", "getScheme", "getEscapedPath"]);
                format!("{}.{part}()", self.expression(Of::Url, depth))
            }
            _ => format!("strings.quote({})", self.expression(Of::Text, depth)),
        }
    }

    pub(super) fn ints(&mut self, depth: u32) -> String {
        match self.dice.random_range(0..9) {
            0 => format!("[{}, {}]", self.expression(Of::Int, depth), self.expression(Of::Int, depth)),
            1 => format!("({} + {})", self.expression(Of::Ints, depth), self.expression(Of::Ints, depth)),
            2 => {
                let range = self.expression(Of::Ints, depth);
                let (name, made) = self.within(Of::Int, Of::Int, depth);
                format!("{range}.map({name}, {made})")
            }
            3 => {
                let range = self.expression(Of::Ints, depth);
                let (name, test) = self.within(Of::Int, Of::Bool, depth);
                format!("{range}.filter({name}, {test})")
            }
            4 => format!("{}.{}()", self.expression(Of::Ints, depth), self.pick(&["sort", "reverse", "distinct"])),
            5 => {
                let (from, to) = (self.pick(&["0", "1", "-1"]), self.pick(&["0", "1", "2", "5"]));
                format!("{}.slice({from}, {to})", self.expression(Of::Ints, depth))
            }
            6 => {
                let range = self.expression(Of::Ints, depth);
                let (name, key) = self.within(Of::Int, Of::Int, depth);
                format!("{range}.sortBy({name}, {key})")
            }
            7 => {
                let range = self.expression(Of::Ints, depth);
                let (name, made) = self.within(Of::Int, Of::Int, depth);
                format!("{range}.transformList(i, {name}, {made})")
            }
            _ => format!("lists.range({})", self.pick(&["0", "3", "5"])),
        }
    }

    pub(super) fn texts(&mut self, depth: u32) -> String {
        match self.dice.random_range(0..5) {
            0 => format!("{}.split({})", self.expression(Of::Text, depth), self.expression(Of::Text, depth)),
            1 => {
                let range = self.expression(Of::Ints, depth);
                let (name, made) = self.within(Of::Int, Of::Text, depth);
                format!("{range}.map({name}, {made})")
            }
            2 => format!("[{}, ?optional.of({})]", self.expression(Of::Text, depth), self.expression(Of::Text, depth)),
            3 => format!("{}.findAll('{}')", self.expression(Of::Text, depth), self.pick(&PATTERNS)),
            _ => format!("({} + {})", self.expression(Of::Texts, depth), self.expression(Of::Texts, depth)),
        }
    }

    pub(super) fn map(&mut self, depth: u32) -> String {
        match self.dice.random_range(0..3) {
            0 => format!(
                "{{{}: {}, 'z': {}}}",
                self.expression(Of::Text, depth),
                self.expression(Of::Int, depth),
                self.leaf(Of::Int)
            ),
            1 => {
                let range = self.expression(Of::Map, depth);
                let (name, made) = self.within(Of::Int, Of::Int, depth);
                format!("{range}.transformMap(i, {name}, {made})")
            }
            _ => format!("{{?'o': {}}}", self.expression(Of::OptionalInt, depth)),
        }
    }

    pub(super) fn quantity(&mut self, depth: u32) -> String {
        match self.dice.random_range(0..5) {
            0 => {
                let (domain, name) = (self.pick(&DOMAINS), self.pick(&["memory", "cores"]));
                format!("device.capacity['{domain}'].{name}")
            }
            1 => {
                let function = self.pick(&["add", "sub"]);
                format!("{}.{function}({})", self.expression(Of::Quantity, depth), self.expression(Of::Quantity, depth))
            }
            2 => format!("{}.add({})", self.expression(Of::Quantity, depth), self.expression(Of::Int, depth)),
            3 => format!("quantity({})", self.expression(Of::Text, depth)),
            _ => self.leaf(Of::Quantity),
        }
    }
}
