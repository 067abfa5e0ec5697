//! Regular expressions in Go's syntax. They are checked by Go's rules and translated to the syntax of the crate `regex`. That crate
//! differs: its classes are Unicode, and it has more flags and set operators.

mod cache;
mod classes;

use regex::bytes::{Regex, RegexBuilder};

pub use cache::Patterns;
use classes::{perl, written};

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];
/// Maximum count of a repetition, multiplied over nested repetitions.
const MAX_REPEAT: u32 = 1000;
/// Maximum bytes of the lazily built states of a search. A search that needs more continues without them, slower.
const STATES: usize = 256 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    /// Checks an expression without compiling it. Errors are Go's texts, approximately.
    pub(crate) fn check(text: &str) -> Result<(), String> {
        Self::compile(text, 1).map(drop)
    }

    /// Compiles an expression. `None`: it takes more than `bytes`.
    fn compile(text: &str, bytes: usize) -> Result<Option<Self>, String> {
        let characters: Vec<char> = text.chars().collect();
        let translated = Translator::new(&characters).translate();
        let translated = translated.map_err(|told| format!("error parsing regexp: {told}"))?;
        match RegexBuilder::new(&translated).size_limit(bytes).dfa_size_limit(STATES).build() {
            Ok(regex) => Ok(Some(Self(regex))),
            Err(regex::Error::CompiledTooBig(_)) => Ok(None),
            Err(_) => Err(format!("error parsing regexp: invalid or unsupported syntax: `{text}`")),
        }
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }

    pub(crate) fn find_at(&self, text: &str, from: usize) -> Option<std::ops::Range<usize>> {
        self.0.find_at(text.as_bytes(), from).map(|found| found.range())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pending {
    Nothing,
    Something,
    /// A repetition that starts at this offset.
    Repetition(usize),
}

struct Translator<'text> {
    all: &'text [char],
    at: usize,
    made: String,
    pending: Pending,
    /// Maximum product of nested repetition counts: of the last atom, and per open group of the atoms before it.
    repeated: u32,
    groups: Vec<u32>,
}

impl<'text> Translator<'text> {
    fn new(all: &'text [char]) -> Self {
        Self { all, at: 0, made: String::new(), pending: Pending::Nothing, repeated: 1, groups: vec![1] }
    }

    /// Records an atom that can be repeated, with the product of its nested repetition counts.
    fn atom(&mut self, repeated: u32) {
        self.settle();
        self.pending = Pending::Something;
        self.repeated = repeated;
    }

    /// The last atom can no longer be repeated.
    fn settle(&mut self) {
        if let Some(group) = self.groups.last_mut() {
            *group = self.repeated.max(*group);
        }
        self.repeated = 1;
    }

    fn open(&mut self) {
        self.settle();
        self.groups.push(1);
    }

    fn depth(&self) -> usize {
        self.groups.len() - 1
    }

    fn peek(&self, by: usize) -> Option<char> {
        self.all.get(self.at + by).copied()
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.all[from.min(self.all.len())..to.min(self.all.len())].iter().collect()
    }

    fn whole(&self) -> String {
        self.text(0, self.all.len())
    }

    fn literal(&mut self, one: char) {
        self.made.push_str(&written(one));
        self.atom(1);
    }

    fn translate(mut self) -> Result<String, String> {
        while let Some(one) = self.peek(0) {
            match one {
                '(' => self.group()?,
                ')' => {
                    if self.depth() == 0 {
                        return Err(format!("unexpected ): `{}`", self.whole()));
                    }
                    self.settle();
                    let inside = self.groups.pop().unwrap_or(1);
                    self.made.push(')');
                    self.at += 1;
                    self.atom(inside);
                }
                '|' => {
                    self.made.push('|');
                    self.at += 1;
                    self.pending = Pending::Nothing;
                }
                '^' | '$' | '.' => {
                    self.made.push(one);
                    self.at += 1;
                    self.atom(1);
                }
                '[' => {
                    self.class()?;
                    self.atom(1);
                }
                '*' | '+' | '?' => self.repeat(self.at + 1, String::from(one))?,
                '{' => match self.counted() {
                    Some((end, least, most)) => self.repeat_counted(end, least, most)?,
                    None => {
                        self.at += 1;
                        self.literal('{');
                    }
                },
                '\\' => self.escape()?,
                other => {
                    self.at += 1;
                    self.literal(other);
                }
            }
        }
        if self.depth() > 0 { Err(format!("missing closing ): `{}`", self.whole())) } else { Ok(self.made) }
    }

    fn repeat(&mut self, end: usize, written: String) -> Result<(), String> {
        let start = self.at;
        let mut end = end;
        match self.pending {
            Pending::Nothing => {
                return Err(format!("missing argument to repetition operator: `{}`", self.text(start, end)));
            }
            Pending::Repetition(before) => {
                return Err(format!("invalid nested repetition operator: `{}`", self.text(before, end)));
            }
            Pending::Something => {}
        }
        self.made.push_str(&written);
        if self.all.get(end) == Some(&'?') {
            self.made.push('?');
            end += 1;
        }
        self.at = end;
        self.pending = Pending::Repetition(start);
        Ok(())
    }

    fn repeat_counted(&mut self, end: usize, least: Option<u32>, most: Option<Option<u32>>) -> Result<(), String> {
        let bad = || format!("invalid repeat count: `{}`", self.text(self.at, end));
        let is_fine = |count: u32| count <= MAX_REPEAT;
        let least = least.filter(|count| is_fine(*count)).ok_or_else(bad)?;
        let written = match most {
            None => format!("{{{least}}}"),
            Some(None) => format!("{{{least},}}"),
            Some(Some(most)) if is_fine(most) && least <= most => format!("{{{least},{most}}}"),
            Some(Some(_)) => return Err(bad()),
        };
        // Go counts a repetition without an upper bound by its lower one, and ignores repetitions inside an empty one.
        let times = most.flatten().unwrap_or(least);
        let repeated = self.repeated.saturating_mul(times).max(1);
        if repeated > MAX_REPEAT && least.max(times) >= 2 {
            return Err(bad());
        }
        self.repeat(end, written)?;
        self.repeated = repeated;
        Ok(())
    }

    /// End and numbers of `{2}`, `{2,}` or `{2,3}`, if one follows. Numbers that are too long are `None` or too large.
    #[allow(clippy::type_complexity, reason = "an end and two numbers, each of which may be missing or bad")]
    fn counted(&self) -> Option<(usize, Option<u32>, Option<Option<u32>>)> {
        let number = |from: usize| {
            let length = self.all[from..].iter().take_while(|one| one.is_ascii_digit()).count();
            (from + length, length > 0, self.text(from, from + length).parse::<u32>().ok())
        };
        let (end, is_number, least) = number(self.at + 1);
        if !is_number || (end > self.at + 2 && self.all[self.at + 1] == '0') {
            return None;
        }
        match self.all.get(end)? {
            '}' => Some((end + 1, least, None)),
            ',' if self.all.get(end + 1) == Some(&'}') => Some((end + 2, least, Some(None))),
            ',' => {
                let (close, is_number, most) = number(end + 1);
                let is_closed = is_number && self.all.get(close) == Some(&'}');
                is_closed.then(|| (close + 1, least, Some(Some(most.unwrap_or(u32::MAX)))))
            }
            _ => None,
        }
    }

    fn group(&mut self) -> Result<(), String> {
        self.pending = Pending::Nothing;
        if self.peek(1) != Some('?') {
            self.open();
            self.at += 1;
            self.made.push('(');
            return Ok(());
        }
        let named = if self.peek(2) == Some('P') && self.peek(3) == Some('<') { 4 } else { 3 };
        if named == 4 || (self.peek(2) == Some('<') && !matches!(self.peek(3), Some('=' | '!'))) {
            return self.named(named);
        }
        let mut at = self.at + 2;
        let (mut negative, mut flags) = (false, String::new());
        loop {
            let one = self.all.get(at).copied();
            at += 1;
            match one {
                Some(flag @ ('i' | 'm' | 's' | 'U')) => flags.push(flag),
                Some('-') if !negative => {
                    negative = true;
                    flags.push('-');
                }
                Some(end @ (':' | ')')) if !flags.ends_with('-') && (end == ':' || !flags.is_empty()) => {
                    self.made.push_str(&format!("(?{flags}{end}"));
                    self.settle();
                    if end == ':' {
                        self.groups.push(1);
                    }
                    self.at = at;
                    return Ok(());
                }
                None => return Err(format!("missing closing ): `{}`", self.whole())),
                Some(_) => {
                    return Err(format!("invalid or unsupported Perl syntax: `{}`", self.text(self.at, at)));
                }
            }
        }
    }

    fn named(&mut self, prefix: usize) -> Result<(), String> {
        let start = self.at;
        let name_at = self.at + prefix;
        let Some(length) = self.all[name_at..].iter().position(|one| *one == '>') else {
            return Err(format!("invalid named capture: `{}`", self.text(start, self.all.len())));
        };
        let name = self.text(name_at, name_at + length);
        if name.is_empty() || !name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_') {
            return Err(format!("invalid named capture: `{}`", self.text(start, name_at + length + 1)));
        }
        // Captures are not used. Go allows a digit as the first character of a name, the crate does not.
        self.made.push('(');
        self.open();
        self.at = name_at + length + 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        let Some(one) = self.peek(1) else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        if one == 'Q' {
            self.at += 2;
            while self.at < self.all.len() {
                if self.peek(0) == Some('\\') && self.peek(1) == Some('E') {
                    self.at += 2;
                    break;
                }
                let quoted = self.all[self.at];
                self.at += 1;
                self.literal(quoted);
            }
            return Ok(());
        }
        self.atom(1);
        let written = match one {
            'A' => Some("\\A"),
            'z' => Some("\\z"),
            'b' => Some("(?-u:\\b)"),
            'B' => Some("(?-u:\\B)"),
            _ => None,
        };
        if let Some(written) = written {
            self.made.push_str(written);
            self.at += 2;
        } else if let Some((class, negated)) = perl(one) {
            self.made.push_str(&format!("[{}{class}]", if negated { "^" } else { "" }));
            self.at += 2;
        } else if matches!(one, 'p' | 'P') {
            let written = self.property()?;
            self.made.push_str(&written);
        } else {
            let plain = self.character()?;
            self.literal(plain);
        }
        Ok(())
    }

    fn property(&mut self) -> Result<String, String> {
        let start = self.at;
        let end = match self.peek(2) {
            Some('{') => self.all[start..].iter().position(|one| *one == '}').map(|length| start + length + 1),
            Some(_) => Some(start + 3),
            None => None,
        };
        let Some(end) = end else {
            return Err(format!("invalid character class range: `{}`", self.text(start, self.all.len())));
        };
        let mut written = self.text(start, end);
        if written.contains("{^") {
            written = written.replace("{^", "{");
            written =
                if written.starts_with("\\p") { written.replace("\\p", "\\P") } else { written.replace("\\P", "\\p") };
        }
        // The size limit prevents compilation; only the name is checked.
        let known = RegexBuilder::new(&written).size_limit(1).build();
        if known.is_err_and(|error| !matches!(error, regex::Error::CompiledTooBig(_))) {
            return Err(format!("invalid character class range: `{}`", self.text(start, end)));
        }
        self.at = end;
        Ok(written)
    }

    fn character(&mut self) -> Result<char, String> {
        let start = self.at;
        let Some(one) = self.peek(1) else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let bad =
            |translator: &Self, end: usize| Err(format!("invalid escape sequence: `{}`", translator.text(start, end)));
        self.at += 2;
        let is_octal = |one: Option<char>| one.is_some_and(|one| ('0'..='7').contains(&one));
        match one {
            '0' | '1'..='7' if one == '0' || is_octal(self.peek(0)) => {
                let mut code = one.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    if !is_octal(self.peek(0)) {
                        break;
                    }
                    code = code * 8 + self.peek(0).and_then(|one| one.to_digit(8)).unwrap_or_default();
                    self.at += 1;
                }
                Ok(char::from_u32(code).unwrap_or_default())
            }
            'x' => {
                let (from, length, end) = if self.peek(0) == Some('{') {
                    let length = self.all[self.at..].iter().position(|one| *one == '}').unwrap_or(1);
                    (self.at + 1, length - 1, self.at + length + 1)
                } else {
                    (self.at, 2, self.at + 2)
                };
                let figures = self.text(from, from + length);
                let is_hex = !figures.is_empty() && figures.bytes().all(|byte| byte.is_ascii_hexdigit());
                let code = u32::from_str_radix(&figures, 16).ok().filter(|_| is_hex && end <= self.all.len());
                match code.and_then(char::from_u32) {
                    Some(found) if figures.len() == length => {
                        self.at = end;
                        Ok(found)
                    }
                    _ => bad(self, end),
                }
            }
            'a' => Ok('\u{7}'),
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\u{b}'),
            _ if one.is_ascii() && !one.is_ascii_alphanumeric() => Ok(one),
            _ => bad(self, start + 2),
        }
    }

    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        let mut class = String::from("[");
        self.at += 1;
        if self.peek(0) == Some('^') {
            class.push('^');
            self.at += 1;
        }
        let mut first = true;
        loop {
            let Some(one) = self.peek(0) else {
                return Err(format!("missing closing ]: `{}`", self.text(start, self.all.len())));
            };
            if one == ']' && !first {
                self.at += 1;
                self.made.push_str(&class);
                self.made.push(']');
                return Ok(());
            }
            if one == '-' && !first && !matches!(self.peek(1), Some(']') | None) {
                return Err(format!("invalid character class range: `{}`", self.text(self.at, self.at + 2)));
            }
            first = false;
            if let Some(set) = self.set()? {
                class.push_str(&set);
                continue;
            }
            let from = self.at;
            let low = self.class_character()?;
            let mut high = low;
            if self.peek(0) == Some('-') && !matches!(self.peek(1), Some(']') | None) {
                self.at += 1;
                high = self.class_character()?;
                if high < low {
                    return Err(format!("invalid character class range: `{}`", self.text(from, self.at)));
                }
            }
            class.push_str(&format!("{}-{}", written(low), written(high)));
        }
    }

    fn set(&mut self) -> Result<Option<String>, String> {
        if self.peek(0) == Some('[') && self.peek(1) == Some(':') {
            let rest = &self.all[self.at..];
            if let Some(length) = rest.windows(2).position(|pair| pair == [':', ']']) {
                let name = self.text(self.at, self.at + length + 2);
                let plain = name[2..name.len() - 2].trim_start_matches('^');
                if !POSIX.contains(&plain) {
                    return Err(format!("invalid character class range: `{name}`"));
                }
                self.at += length + 2;
                return Ok(Some(name));
            }
        }
        if self.peek(0) != Some('\\') {
            return Ok(None);
        }
        match self.peek(1) {
            Some('p' | 'P') => self.property().map(Some),
            Some(one) => Ok(perl(one).map(|(class, negated)| {
                self.at += 2;
                format!("[{}{class}]", if negated { "^" } else { "" })
            })),
            None => Ok(None),
        }
    }

    fn class_character(&mut self) -> Result<char, String> {
        match self.peek(0) {
            Some('\\') => self.character(),
            Some(one) => {
                self.at += 1;
                Ok(one)
            }
            None => Err(format!("missing closing ]: `{}`", self.whole())),
        }
    }
}
