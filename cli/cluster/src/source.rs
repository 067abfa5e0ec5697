//! The input as text: files, split into YAML and JSON documents.

use std::{fmt, ops::Range};

use saphyr_parser::{Event, Parser};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    locate::{self, Mark},
    place::Path,
    tree,
};

/// The nesting limit of mappings and lists, equal to the decoders' limit.
const MAX_DEPTH: usize = 128;
/// Open brackets, quoted ones included, above which the exact depth is checked.
const SUSPICIOUS_DEPTH: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) mark: Mark,
    pub(super) text: String,
}

/// All input texts, kept because messages may refer to positions in them.
#[derive(Debug, Default)]
pub struct Sources {
    files: Vec<File>,
    documents: Vec<Document>,
}

#[derive(Debug)]
struct File {
    name: String,
    text: String,
}

#[derive(Debug)]
struct Document {
    file: usize,
    range: Range<usize>,
    start: Mark,
    is_json: bool,
}

/// `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// The index of the file, in command-line order.
    file: usize,
    mark: Mark,
    name: String,
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.name, self.mark.line, self.mark.column)
    }
}

impl Sources {
    /// Adds a text; returns the indexes of its documents.
    pub(crate) fn add(&mut self, name: String, text: String) -> Range<usize> {
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let first = self.documents.len();
        let file = self.files.len();
        let json = json_documents(&text);
        let is_json = json.is_some();
        let ranges = json.unwrap_or_else(|| yaml_documents(&text));
        let (mut start, mut from) = (Mark::START, 0);
        for range in ranges {
            start = mark_of(&text[from..range.start], range.start - from).after(start);
            from = range.start;
            self.documents.push(Document { file, range, start, is_json });
        }
        self.files.push(File { name, text });
        first..self.documents.len()
    }

    /// The number of documents.
    pub fn count(&self) -> usize {
        self.documents.len()
    }

    /// The value of a document; null if it is empty.
    pub(super) fn decode(&self, document: usize) -> Result<Value, Fault> {
        let Some((document, text)) = self.get(document) else { return Ok(Value::Null) };
        if document.is_json {
            return from_json(text).map_err(|fault| fault.after(document.start));
        }
        if let Some(fault) = too_deep(text) {
            return Err(fault.after(document.start));
        }
        from_yaml(text).map_err(|fault| {
            let json = text.trim_start().starts_with('{').then(|| from_json(text).err()).flatten();
            json.unwrap_or(fault).after(document.start)
        })
    }

    /// The positions of nodes of a document, at the key or the value of each.
    pub(super) fn positions(&self, document: usize, wanted: &[(&Path, bool)]) -> Vec<Position> {
        let Some((document, text)) = self.get(document) else { return Vec::new() };
        let marks = locate::locate(text, wanted).into_iter().map(|mark| mark.after(document.start));
        marks.map(|mark| self.position_in(document.file, mark)).collect()
    }

    pub(super) fn position(&self, document: usize, mark: Mark) -> Option<Position> {
        Some(self.position_in(self.documents.get(document)?.file, mark))
    }

    fn position_in(&self, file: usize, mark: Mark) -> Position {
        Position { file, mark, name: self.files.get(file).map(|file| file.name.clone()).unwrap_or_default() }
    }

    fn get(&self, document: usize) -> Option<(&Document, &str)> {
        let document = self.documents.get(document)?;
        let text = self.files.get(document.file)?.text.get(document.range.clone())?;
        Some((document, text))
    }
}

impl Fault {
    fn after(self, start: Mark) -> Self {
        Self { mark: self.mark.after(start), ..self }
    }
}

fn mark_of(text: &str, byte: usize) -> Mark {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Mark { line, column }
}

/// The JSON objects of a text; `None` if it is not a sequence of them.
fn json_documents(text: &str) -> Option<Vec<Range<usize>>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let (mut ranges, mut from) = (Vec::new(), 0);
    while let Some(value) = values.next() {
        value.ok()?;
        let start = from + text[from..].find('{')?;
        ranges.push(start..values.byte_offset());
        from = values.byte_offset();
    }
    Some(ranges)
}

/// The parts between lines that start with `---`.
fn yaml_documents(text: &str) -> Vec<Range<usize>> {
    let (mut ranges, mut from, mut line_start) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        let rest = line.strip_prefix("---");
        if line_start > from && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            ranges.push(from..line_start);
            from = line_start;
        }
        line_start += line.len();
    }
    ranges.push(from..text.len());
    ranges
}

fn from_json(text: &str) -> Result<Value, Fault> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = tree::read(&mut deserializer, text.len());
    value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| {
        let mark = Mark { line: error.line().max(1), column: error.column().max(1) };
        Fault { mark, text: not_readable("JSON", &error.to_string()) }
    })
}

fn from_yaml(text: &str) -> Result<Value, Fault> {
    let value = tree::read(serde_yaml::Deserializer::from_str(text), text.len());
    value.map_err(|error| {
        // The decoder reports no position for such a character.
        let is_forbidden = |c: char| (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}')) || c == '\u{fffe}';
        if let Some((byte, character)) = text.char_indices().find(|(_, c)| is_forbidden(*c)) {
            let what = format!("the character U+{:04X} is not allowed", u32::from(character));
            return Fault { mark: mark_of(text, byte), text: not_readable("YAML", &what) };
        }
        let mark = error.location().map_or(Mark::START, |at| Mark { line: at.line(), column: at.column() });
        Fault { mark, text: not_readable("YAML", &error.to_string()) }
    })
}

/// The decoder's message without its positions, which are relative to the document.
fn not_readable(language: &str, words: &str) -> String {
    let end = words.find(" at line ").unwrap_or(words.len());
    let what = words.get(..end).unwrap_or(words);
    format!("cannot be read as {language}: {what}; expected a Kubernetes object in YAML or JSON")
}

/// Checks the nesting depth. The YAML decoder checks it too, but in quadratic time.
fn too_deep(text: &str) -> Option<Fault> {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    if most < SUSPICIOUS_DEPTH {
        return None;
    }
    let mut depth = 0_usize;
    for event in Parser::new_from_str(text) {
        let (mark, is_too_deep) = match event {
            Ok((Event::MappingStart(..) | Event::SequenceStart(..), span)) => {
                depth += 1;
                (span.start, depth > MAX_DEPTH)
            }
            Ok((event, span)) => {
                depth = depth.saturating_sub(usize::from(matches!(event, Event::MappingEnd | Event::SequenceEnd)));
                (span.start, false)
            }
            // The event parser has its own limit, and many open brackets cause hardly any other error.
            Err(error) => (*error.marker(), true),
        };
        if is_too_deep {
            let mark = Mark { line: mark.line().max(1), column: mark.col() + 1 };
            let text = format!("mappings and lists nest too deep; expected no more than {MAX_DEPTH} levels");
            return Some(Fault { mark, text });
        }
    }
    None
}

#[cfg(test)]
mod tests;
