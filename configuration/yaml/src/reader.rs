//! Reads a YAML document as kubectl does: YAML 1.1, with merge keys.
//!
//! Source: `YAMLToJSON` of `sigs.k8s.io/yaml`, with the decoder of `go.yaml.in/yaml/v2`. A key that is written twice is an error, which
//! kubectl accepts.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ops::ControlFlow::{self, Break, Continue},
};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Map, Value};

use crate::{
    Mark,
    scalar::{Resolved, TagKind, resolve},
};

/// The nesting limit of mappings and lists, equal to that of JSON.
const MAX_DEPTH: usize = 128;
/// The fault of a text that nests deeper.
pub const TOO_DEEP: &str = "mappings and lists nest too deep; expected no more than 128 levels";
/// Bytes of copied aliases for each byte of text.
const GROWTH: usize = 16;
/// The limit of copied aliases for the shortest texts.
const LEAST: usize = 1024;
/// Reading stops after this many faults.
const MAX_FAULTS: usize = 20;

/// An error in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The position of the error.
    pub mark: Mark,
    /// The error.
    pub text: String,
    /// Another place, printed at the end of the text.
    pub other: Option<Mark>,
}

impl Fault {
    /// An error at one position.
    pub fn new(mark: Mark, text: impl Into<String>) -> Self {
        Self { mark, text: text.into(), other: None }
    }

    /// Converts positions relative to `start` into positions relative to the text.
    #[must_use]
    pub fn after(self, start: Mark) -> Self {
        Self { mark: self.mark.after(start), other: self.other.map(|mark| mark.after(start)), ..self }
    }
}

/// Reads the first document of a text; null if it is empty.
///
/// # Errors
/// All faults up to the first that ends the reading, in text order.
pub fn read(text: &str) -> Result<Value, Vec<Fault>> {
    if let Some(fault) = forbidden(text) {
        return Err(vec![fault]);
    }
    let mut reader = Reader::new(text);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let flow = match event {
            Ok((event, span)) => reader.take(event, Mark::of(span)),
            Err(error) => reader.broken(&error),
        };
        if flow.is_break() {
            break;
        }
        reader.events += 1;
    }
    if reader.faults.is_empty() { Ok(reader.root) } else { Err(reader.faults) }
}

/// The key of a mapping as text; `None` for a null.
///
/// Source: `convertToJSONableObject` of `sigs.k8s.io/yaml`.
#[must_use]
pub fn key<'a>(text: Cow<'a, str>, style: ScalarStyle, tag: Option<&Tag>) -> Option<Cow<'a, str>> {
    if tag.is_none() && (style != ScalarStyle::Plain || !may_be_special(&text)) {
        return Some(text);
    }
    match resolve(&text, style == ScalarStyle::Plain, kind(tag)) {
        Resolved::Value(Value::Null) => None,
        Resolved::Value(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string().into()),
        _ => Some(text),
    }
}

fn kind(tag: Option<&Tag>) -> TagKind {
    match tag {
        None => TagKind::None,
        Some(tag) if tag.is_yaml_core_schema() => TagKind::core(&tag.suffix),
        Some(_) => TagKind::Other,
    }
}

struct Reader<'a> {
    text: &'a str,
    root: Value,
    frames: Vec<Frame>,
    /// Values by the parser's number of their anchor.
    anchors: BTreeMap<usize, Value>,
    /// Bytes that aliases may still copy.
    left: usize,
    /// The number of earlier events.
    events: usize,
    faults: Vec<Fault>,
}

/// An open mapping or list.
struct Frame {
    collection: Collection,
    anchor: usize,
    /// The number of its first event.
    event: usize,
}

enum Collection {
    Mapping { fields: Map<String, Value>, key: Option<Key>, merged: Vec<String> },
    List(Vec<Value>),
}

enum Key {
    /// `<<`.
    Merge(Mark),
    Name(String),
    /// The second of two equal keys. Its value is dropped.
    Repeated,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let left = text.len().saturating_mul(GROWTH).saturating_add(LEAST);
        let (root, frames, anchors) = (Value::Null, Vec::new(), BTreeMap::new());
        Self { text, root, frames, anchors, left, events: 0, faults: Vec::new() }
    }

    fn take(&mut self, event: Event<'_>, mark: Mark) -> ControlFlow<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if self.expects_key() {
                    return self.scalar_key(text, style, tag.as_deref(), mark);
                }
                let value = self.scalar(text, style, tag.as_deref(), mark);
                self.anchored(anchor, &value);
                self.add(value)
            }
            Event::Alias(anchor) => self.alias(anchor, mark),
            Event::MappingStart(anchor, _) => {
                self.open(Collection::Mapping { fields: Map::new(), key: None, merged: Vec::new() }, anchor, mark)
            }
            Event::SequenceStart(anchor, _) => self.open(Collection::List(Vec::new()), anchor, mark),
            Event::MappingEnd | Event::SequenceEnd => self.close(),
            Event::DocumentEnd => Break(()),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => Continue(()),
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.frames.last(), Some(Frame { collection: Collection::Mapping { key: None, .. }, .. }))
    }

    fn scalar(&mut self, text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>, mark: Mark) -> Value {
        // Most scalars are text, which needs no resolution.
        if tag.is_none() && (style != ScalarStyle::Plain || !may_be_special(&text)) {
            return Value::String(text.into_owned());
        }
        match resolve(&text, style == ScalarStyle::Plain, kind(tag)) {
            Resolved::Value(value) => value,
            Resolved::NotFinite => self.invalid(mark, &format!("{text} is not a finite number")),
            Resolved::Mistagged => self.invalid(mark, &format!("{text:?} does not match its tag")),
        }
    }

    fn invalid(&mut self, mark: Mark, what: &str) -> Value {
        self.faults.push(Fault::new(mark, not_readable(what, "")));
        Value::Null
    }

    fn scalar_key(&mut self, text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>, mark: Mark) -> ControlFlow<()> {
        if style == ScalarStyle::Plain && tag.is_none() && text == "<<" {
            return self.wait(Key::Merge(mark));
        }
        match key(text, style, tag) {
            Some(name) => self.named_key(name.into_owned(), mark),
            None => self.stop(mark, "a key is empty", ""),
        }
    }

    fn named_key(&mut self, name: String, mark: Mark) -> ControlFlow<()> {
        let Some(Frame { collection: Collection::Mapping { fields, merged, .. }, event, .. }) = self.frames.last_mut()
        else {
            return Continue(());
        };
        if fields.contains_key(&name) {
            let Some(at) = merged.iter().position(|key| *key == name) else {
                let other = first_key(self.text, *event, &name);
                let text =
                    not_readable(&format!("the key {name:?} occurs twice in the same mapping"), "remove one of them");
                let text = if other.is_some() { format!("{text}; the first is at") } else { text };
                self.faults.push(Fault { mark, text, other });
                return if self.faults.len() < MAX_FAULTS { self.wait(Key::Repeated) } else { Break(()) };
            };
            merged.swap_remove(at);
        }
        self.wait(Key::Name(name))
    }

    fn wait(&mut self, next: Key) -> ControlFlow<()> {
        if let Some(Frame { collection: Collection::Mapping { key, .. }, .. }) = self.frames.last_mut() {
            *key = Some(next);
        }
        Continue(())
    }

    fn alias(&mut self, anchor: usize, mark: Mark) -> ControlFlow<()> {
        let Some(value) = self.anchors.get(&anchor) else {
            return self.stop(mark, "an alias is part of its anchor", "");
        };
        let size = size(value);
        let Some(left) = self.left.checked_sub(size) else {
            return self.stop(mark, "its aliases expand to too much; write out the values", "");
        };
        self.left = left;
        let value = value.clone();
        if !self.expects_key() {
            return self.add(value);
        }
        match value {
            Value::String(name) => self.named_key(name, mark),
            value @ (Value::Bool(_) | Value::Number(_)) => self.named_key(value.to_string(), mark),
            _ => self.stop(mark, "a key is a mapping, a list or empty", ""),
        }
    }

    fn open(&mut self, collection: Collection, anchor: usize, mark: Mark) -> ControlFlow<()> {
        if self.expects_key() {
            return self.stop(mark, "a key is a mapping or a list", "");
        }
        if self.frames.len() >= MAX_DEPTH {
            return self.too_deep(mark);
        }
        self.frames.push(Frame { collection, anchor, event: self.events });
        Continue(())
    }

    fn close(&mut self) -> ControlFlow<()> {
        let Some(Frame { collection, anchor, .. }) = self.frames.pop() else { return Continue(()) };
        let value = match collection {
            Collection::Mapping { fields, .. } => Value::Object(fields),
            Collection::List(elements) => Value::Array(elements),
        };
        self.anchored(anchor, &value);
        self.add(value)
    }

    fn anchored(&mut self, anchor: usize, value: &Value) {
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
    }

    fn add(&mut self, value: Value) -> ControlFlow<()> {
        match self.frames.last_mut().map(|frame| &mut frame.collection) {
            None => self.root = value,
            Some(Collection::List(elements)) => elements.push(value),
            Some(Collection::Mapping { fields, key, merged }) => match key.take() {
                Some(Key::Name(name)) => _ = fields.insert(name, value),
                Some(Key::Merge(at)) => {
                    if !merge(fields, merged, value) {
                        let what = "a merge key has no mapping";
                        return self.stop(at, what, "expected a mapping or a list of mappings, such as `<<: *anchor`");
                    }
                }
                Some(Key::Repeated) | None => {}
            },
        }
        Continue(())
    }

    fn broken(&mut self, error: &ScanError) -> ControlFlow<()> {
        let marker = error.marker();
        let mark = Mark { line: marker.line().max(1), column: marker.col() + 1 };
        if error.info().contains("recursion limit") {
            return self.too_deep(mark);
        }
        if let Some(tab) = tab(self.text, mark.line) {
            return self.stop(tab, "a tab indents this line", "indent with spaces");
        }
        self.stop(mark, error.info(), hint(error.info()))
    }

    fn too_deep(&mut self, mark: Mark) -> ControlFlow<()> {
        self.faults.push(Fault::new(mark, TOO_DEEP));
        Break(())
    }

    fn stop(&mut self, mark: Mark, what: &str, next: &str) -> ControlFlow<()> {
        self.faults.push(Fault::new(mark, not_readable(what, next)));
        Break(())
    }
}

/// Whether a plain scalar may be something else than text.
fn may_be_special(text: &str) -> bool {
    text.bytes().next().is_none_or(|first| first.is_ascii_digit() || b"+-.~yYnNtTfFoO".contains(&first))
}

/// Sets the keys of a merged mapping, also those that are set already, as kubectl does; `false` if it is no mapping.
fn merge(fields: &mut Map<String, Value>, merged: &mut Vec<String>, value: Value) -> bool {
    match value {
        Value::Object(new) => {
            for (name, value) in new {
                if fields.insert(name.clone(), value).is_none() {
                    merged.push(name);
                }
            }
            true
        }
        // The first of several mappings takes precedence.
        Value::Array(list) => list.into_iter().rev().all(|value| value.is_object() && merge(fields, merged, value)),
        _ => false,
    }
}

/// The memory of a value, roughly in bytes of text.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 1,
        Value::Array(elements) => 1 + elements.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.iter().map(|(key, value)| key.len() + 1 + size(value)).sum::<usize>(),
        _ => 1,
    }
}

fn not_readable(what: &str, next: &str) -> String {
    let next = if next.is_empty() { "expected a Kubernetes object in YAML or JSON" } else { next };
    format!("cannot be read as YAML: {what}; {next}")
}

/// Hints for common mistakes.
fn hint(problem: &str) -> &'static str {
    if problem.contains("mapping values are not allowed") {
        "put a text that holds a colon in quotes, and the keys of one mapping in one column"
    } else if problem.contains("indentation") || problem.contains("block mapping") || problem.contains("simple key") {
        "align the keys of a mapping in one column, and the items of a list in another"
    } else {
        ""
    }
}

/// The first tab in the indentation of this line, or of the one before or after it.
fn tab(text: &str, line: usize) -> Option<Mark> {
    let first = line.saturating_sub(1).max(1);
    let lines = text.lines().enumerate().skip(first - 1).take(3);
    lines.into_iter().find_map(|(index, text)| {
        let indentation: String = text.chars().take_while(|c| matches!(c, ' ' | '\t' | '-')).collect();
        let column = indentation.find('\t')? + 1;
        Some(Mark { line: index + 1, column })
    })
}

/// A character that YAML does not allow.
fn forbidden(text: &str) -> Option<Fault> {
    let is_forbidden = |c: char| (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}')) || c == '\u{fffe}';
    // Most texts are ASCII, and bytes are faster.
    let is_suspicious = |byte: u8| byte >= 0x7f || byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r');
    if !text.bytes().any(is_suspicious) {
        return None;
    }
    let (byte, character) = text.char_indices().find(|(_, c)| is_forbidden(*c))?;
    let what = format!("the character U+{:04X} is not allowed", u32::from(character));
    Some(Fault::new(Mark::at(text, byte), not_readable(&what, "")))
}

/// The first key of this name in the mapping that starts with this event.
fn first_key(text: &str, event: usize, name: &str) -> Option<Mark> {
    let mut parser = Parser::new_from_str(text);
    let (mut number, mut depth, mut is_key) = (0, 0_usize, true);
    while let Some(Ok((found, span))) = parser.next_event() {
        number += 1;
        if number <= event + 1 {
            continue;
        }
        match found {
            Event::Scalar(text, style, _, tag) if depth == 0 => {
                if is_key && key(text, style, tag.as_deref()).as_deref() == Some(name) {
                    return Some(Mark::of(span));
                }
                is_key = !is_key;
            }
            Event::Alias(_) if depth == 0 => is_key = !is_key,
            Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
            Event::MappingEnd | Event::SequenceEnd => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    is_key = !is_key;
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
