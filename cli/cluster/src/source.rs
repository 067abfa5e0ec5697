//! The input as text: files, split into YAML and JSON documents.

use std::{fmt, ops::Range};

use flotilla_yaml::{self as yaml, Fault, Mark};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{advice, locate, place::Path, tree};

/// A byte order mark.
const BOM: char = '\u{feff}';

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
        let text = without_marks(text);
        let first = self.documents.len();
        let file = self.files.len();
        let json = json_documents(&text);
        let is_json = json.is_some();
        let ranges = json.unwrap_or_else(|| yaml_documents(&text));
        let (mut start, mut from) = (Mark::START, 0);
        for range in ranges {
            start = Mark::at(&text[from..range.start], range.start - from).after(start);
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
    pub(super) fn decode(&self, document: usize) -> Result<Value, Vec<Fault>> {
        let Some((document, text)) = self.get(document) else { return Ok(Value::Null) };
        let after = |faults: Vec<Fault>| faults.into_iter().map(|fault| fault.after(document.start)).collect();
        if document.is_json {
            return from_json(text).map_err(after);
        }
        let value = from_yaml(text).map_err(|faults| {
            let json = text.trim_start().starts_with('{').then(|| from_json(text).err()).flatten();
            // A template or a deep text is not better explained as JSON.
            let is_explained = text.contains("{{") || faults.iter().any(|fault| fault.text == yaml::TOO_DEEP);
            json.filter(|_| !is_explained).unwrap_or(faults)
        });
        value.map_err(after)
    }

    /// The text of a document.
    pub(super) fn text(&self, document: usize) -> Option<&str> {
        self.get(document).map(|(_, text)| text)
    }

    /// The positions of nodes of a document, at the key or the value of each.
    pub(super) fn positions(&self, document: usize, wanted: &[(&Path, bool)]) -> Vec<Position> {
        let Some((document, text)) = self.get(document) else { return Vec::new() };
        let marks = locate(text, wanted).into_iter().map(|mark| mark.after(document.start));
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

/// The text without byte order marks at its start and at the start of lines, where a concatenation leaves them.
fn without_marks(text: String) -> String {
    if !text.contains(BOM) {
        return text;
    }
    let lines = text.split_inclusive('\n');
    lines.map(|line| line.trim_start_matches(BOM)).collect()
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

/// The parts between lines that start with `---`, or after lines that start with `...`. Directives belong to the part after them.
fn yaml_documents(text: &str) -> Vec<Range<usize>> {
    let (mut ranges, mut from, mut line_start) = (Vec::new(), 0, 0);
    let (mut has_directive, mut has_marker, mut has_content) = (false, false, false);
    for line in text.split_inclusive('\n') {
        let is_marker = |marker: &str| {
            let rest = line.strip_prefix(marker);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        };
        let is_start = is_marker("---");
        if is_start && line_start > from && (has_content || !has_directive) {
            ranges.push(from..line_start);
            from = line_start;
        }
        let is_directive = line.starts_with('%') && !has_content;
        if is_directive && has_marker {
            ranges.push(from..line_start);
            (from, has_marker) = (line_start, false);
        }
        line_start += line.len();
        if is_marker("...") {
            ranges.push(from..line_start);
            (from, has_directive, has_marker, has_content) = (line_start, false, false, false);
            continue;
        }
        has_marker = (is_start || has_marker) && !is_directive;
        has_directive = is_directive || has_directive && !is_start;
        let content = if is_start { line.get(3..).unwrap_or_default() } else { line };
        has_content = !is_directive && (has_content && !is_start || !is_blank(content));
    }
    if from < text.len() || ranges.is_empty() {
        ranges.push(from..text.len());
    }
    ranges
}

/// Whether a line is empty or a comment.
fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn from_yaml(text: &str) -> Result<Value, Vec<Fault>> {
    yaml::read(text).map_err(|mut faults| {
        let last = faults.last_mut().filter(|fault| fault.other.is_none() && fault.text != yaml::TOO_DEEP);
        if let (Some(last), Some(advice)) = (last, advice::of_text(text)) {
            advice.clone_into(&mut last.text);
        }
        faults
    })
}

fn from_json(text: &str) -> Result<Value, Vec<Fault>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = tree::read(&mut deserializer);
    value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| {
        let message = error.to_string();
        let is_repeated = message.contains(tree::REPEATED);
        // The other reader finds the place of both keys.
        if let Some(faults) = is_repeated.then(|| from_yaml(text).err()).flatten() {
            return faults;
        }
        let mark = Mark { line: error.line().max(1), column: error.column().max(1) };
        if message.contains("recursion limit") {
            return vec![Fault::new(mark, yaml::TOO_DEEP)];
        }
        let end = message.find(" at line ").unwrap_or(message.len());
        let what = message.get(..end).unwrap_or(&message);
        let next = "expected a Kubernetes object in YAML or JSON";
        vec![Fault::new(mark, format!("cannot be read as JSON: {what}; {next}"))]
    })
}

#[cfg(test)]
mod tests;
