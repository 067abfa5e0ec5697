//! Edits of a document, applied to both its text and its value. Comments, blank lines and line endings survive.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;

use super::super::path::{Path, Segment};
use super::tree::Tree;

#[derive(Debug)]
pub(super) enum Edit {
    /// Replaces the scalar at the path.
    Replace(Path, String),
    /// Replaces the scalar at the path with a mapping of this one field.
    Wrap(Path, &'static str, String),
    /// Removes the field or element at the path.
    Remove(Path),
    /// Inserts a field before the one at the path.
    Insert(Path, &'static str, &'static str),
}

/// Removes containers that become empty, but none above the third level: a profile stays even if empty.
const SHALLOWEST: usize = 3;

/// Merges the removals of all children of a container into one removal of the container.
pub(super) fn widen(value: &Value, edits: &mut Vec<Edit>) {
    let mut removed: BTreeSet<String> = BTreeSet::new();
    let mut rest = Vec::new();
    for edit in edits.drain(..) {
        match edit {
            Edit::Remove(path) => _ = removed.insert(path.to_string()),
            other => rest.push(other),
        }
    }
    if !removed.is_empty() {
        collect(value, &Path::default(), &removed, &mut rest);
    }
    *edits = rest;
}

/// Adds the removals at and under `path` and returns whether the node itself is removed.
fn collect(value: &Value, path: &Path, removed: &BTreeSet<String>, edits: &mut Vec<Edit>) -> bool {
    if removed.contains(&path.to_string()) {
        return true;
    }
    let children: Vec<(Path, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, child)| (path.key(key), child)).collect(),
        Value::Array(elements) => elements.iter().enumerate().map(|(at, child)| (path.index(at), child)).collect(),
        _ => return false,
    };
    let count = children.len();
    let gone: Vec<Path> = children
        .into_iter()
        .filter(|(path, child)| collect(child, path, removed, edits))
        .map(|(path, _)| path)
        .collect();
    if count > 0 && gone.len() == count && path.segments().len() >= SHALLOWEST {
        return true;
    }
    edits.extend(gone.into_iter().map(Edit::Remove));
    false
}

pub(super) fn apply_to_value(mut value: Value, edits: &[Edit]) -> Value {
    let mut removals: Vec<&Path> = Vec::new();
    for edit in edits {
        match edit {
            Edit::Replace(path, word) => {
                if let Some(node) = find(&mut value, path.segments()) {
                    *node = Value::String(word.clone());
                }
            }
            Edit::Wrap(path, key, word) => {
                if let Some(node) = find(&mut value, path.segments()) {
                    *node = serde_json::json!({ *key: word });
                }
            }
            Edit::Insert(path, key, word) => {
                let parent = path.segments().split_last().and_then(|(_, parents)| find(&mut value, parents));
                if let Some(Value::Object(fields)) = parent {
                    fields.insert((*key).to_owned(), Value::String((*word).to_owned()));
                }
            }
            Edit::Remove(path) => removals.push(path),
        }
    }
    // Backwards, so that earlier elements keep their index.
    for path in removals.iter().rev() {
        let Some((last, parents)) = path.segments().split_last() else { continue };
        match (find(&mut value, parents), last) {
            (Some(Value::Object(fields)), Segment::Key(key)) => _ = fields.remove(key),
            (Some(Value::Array(elements)), Segment::Index(index)) if *index < elements.len() => {
                elements.remove(*index);
            }
            _ => {}
        }
    }
    value
}

fn find<'a>(value: &'a mut Value, path: &[Segment]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |node, segment| match segment {
        Segment::Key(key) => node.get_mut(key),
        Segment::Index(index) => node.get_mut(index),
    })
}

/// A range within one line and its replacement; empty for a cut.
type Patch = (Range<usize>, String);

/// Applies all edits that have a position in the text.
pub(super) fn apply(text: &str, tree: &Tree, edits: &[Edit]) -> String {
    let mut patches: Vec<Patch> = Vec::new();
    let mut removed: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for edit in edits {
        match edit {
            Edit::Replace(path, word) => patches.extend(replace(text, tree, path, word)),
            Edit::Wrap(path, key, word) => patches.extend(wrap(text, tree, path, key, word)),
            Edit::Insert(path, key, word) => patches.extend(insert(text, tree, path, key, word)),
            Edit::Remove(path) => {
                let parent: Path =
                    path.segments().split_last().into_iter().flat_map(|(_, rest)| rest).cloned().collect();
                if let (Some(parent), Some(child)) = (tree.find(&parent), tree.find(path)) {
                    removed.entry(parent).or_default().insert(child);
                }
            }
        }
    }
    for (parent, children) in &removed {
        let ranges = cuts(text, tree, *parent, children);
        let pieces = ranges.into_iter().flat_map(|range| pieces(text, tree, range));
        let is_emptied = tree.node(*parent).is_some_and(|node| !node.is_flow && node.children.len() == children.len());
        let words = [if is_emptied { "{}" } else { "" }].into_iter().chain(std::iter::repeat(""));
        patches.extend(pieces.zip(words).map(|(piece, word)| (piece, word.to_owned())));
    }
    patches.sort_by_key(|(range, _)| (range.start, range.end));
    rewrite(text, &patches)
}

fn replace(text: &str, tree: &Tree, path: &Path, word: &str) -> Option<Patch> {
    let range = tree.node(tree.find(path)?)?.value.clone();
    let quote = text.get(range.clone())?.chars().next().filter(|first| matches!(first, '"' | '\''));
    Some((range, quote.map_or_else(|| word.to_owned(), |quote| format!("{quote}{word}{quote}"))))
}

fn wrap(text: &str, tree: &Tree, path: &Path, key: &str, word: &str) -> Option<Patch> {
    let (range, value) = replace(text, tree, path, word)?;
    let (_, parents) = path.segments().split_last()?;
    let is_flow = tree.node(tree.find(&parents.iter().cloned().collect())?)?.is_flow;
    let field =
        if is_flow && value.starts_with('"') { format!("\"{key}\": {value}") } else { format!("{key}: {value}") };
    Some((range, if is_flow { format!("{{{field}}}") } else { field }))
}

fn insert(text: &str, tree: &Tree, path: &Path, key: &str, word: &str) -> Option<Patch> {
    let (last, parents) = path.segments().split_last()?;
    let parent = tree.node(tree.find(&parents.iter().cloned().collect())?)?;
    let start = tree.node(tree.find(&parents.iter().chain([last]).cloned().collect())?)?.start();
    let field =
        if text.get(start..)?.starts_with('"') { format!("\"{key}\": \"{word}\"") } else { format!("{key}: {word}") };
    if parent.is_flow {
        return Some((start..start, format!("{field}, ")));
    }
    let before = text.get(..start)?;
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = text.get(line_start..start)?.chars().count();
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    Some((start..start, format!("{field}{line_end}{}", " ".repeat(column))))
}

/// The ranges to cut with the removed children of a container, including comments.
fn cuts(text: &str, tree: &Tree, parent: usize, removed: &BTreeSet<usize>) -> Vec<Range<usize>> {
    let Some(parent) = tree.node(parent) else { return Vec::new() };
    let mut cuts = Vec::new();
    let last_kept = parent.children.iter().rposition(|child| !removed.contains(child));
    for (place, number) in parent.children.iter().enumerate() {
        let Some(child) = tree.node(*number) else { continue };
        let is_removed = removed.contains(number);
        if is_removed {
            let is_element = child.key.is_none() && !parent.is_flow;
            let start = if is_element { dash_before(text, child.value.start) } else { child.start() };
            cuts.push(start..child.value.end);
        }
        let is_last_kept = last_kept == Some(place) && place + 1 < parent.children.len();
        if parent.is_flow && (is_removed || is_last_kept) {
            cuts.extend(comma_after(text, child.value.end));
        }
    }
    cuts
}

/// Start of the dash of a list element if only blanks precede the element.
fn dash_before(text: &str, start: usize) -> usize {
    let before = text.get(..start).unwrap_or_default().trim_end();
    if before.ends_with('-') { before.len() - 1 } else { start }
}

fn comma_after(text: &str, end: usize) -> Option<Range<usize>> {
    let mut at = end;
    loop {
        let rest = text.get(at..)?;
        at += rest.len() - rest.trim_start().len();
        let rest = text.get(at..)?;
        if rest.starts_with('#') {
            at += rest.find('\n')?;
        } else if let Some(behind) = rest.strip_prefix(',') {
            let next = behind.trim_start_matches([' ', '\t']);
            // A comment needs a blank before it.
            let blanks = if next.starts_with('#') { 0 } else { behind.len() - next.len() };
            return Some(at..at + 1 + blanks);
        } else {
            return None;
        }
    }
}

fn pieces(text: &str, tree: &Tree, range: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut at, mut from) = (range.start, range.start);
    while at < range.end {
        if let Some(scalar) = tree.scalar_at(at) {
            at = scalar.end;
            continue;
        }
        let Some(rest) = text.get(at..) else { break };
        let is_apart = text.get(..at).is_none_or(|before| before.is_empty() || before.ends_with(char::is_whitespace));
        if rest.starts_with('#') && is_apart {
            // The blanks before a comment belong to it.
            found.push(from..text.get(from..at).map_or(at, |before| from + before.trim_end().len()));
            at += rest.find(['\r', '\n']).unwrap_or(rest.len());
            from = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found.push(from..range.end.max(from));
    found.into_iter().flat_map(|piece| lines_of(text, piece)).collect()
}

fn lines_of(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut start = range.start;
    let mut found = Vec::new();
    for line in text.get(range).unwrap_or_default().split_inclusive('\n') {
        let length = line.trim_end_matches(['\r', '\n']).len();
        if length > 0 {
            found.push(start..start + length);
        }
        start += line.len();
    }
    found
}

/// Applies the patches line by line. Drops a line that becomes blank; keeps the indentation of a line with only a comment left.
fn rewrite(text: &str, patches: &[Patch]) -> String {
    let mut patches = patches.iter().peekable();
    let mut written = String::with_capacity(text.len());
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let content_end = start + line.trim_end_matches(['\r', '\n']).len();
        let (mut content, mut at, mut has_cut) = (String::new(), start, false);
        while let Some((range, word)) = patches.next_if(|(range, _)| range.start < end) {
            content.push_str(text.get(at..range.start).unwrap_or_default());
            content.push_str(word);
            has_cut |= word.is_empty();
            at = range.end.max(at);
        }
        content.push_str(text.get(at..content_end).unwrap_or_default());
        let line_end = text.get(content_end..end).unwrap_or_default();
        start = end;
        let left = content.trim();
        if !has_cut {
            written.push_str(&content);
        } else if left.is_empty() {
            continue;
        } else if left.starts_with('#') {
            let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
            written.push_str(line.get(..blanks).unwrap_or_default());
            written.push_str(left);
        } else {
            written.push_str(content.trim_end());
        }
        written.push_str(line_end);
    }
    // The last line has no line end, even if the line that ends the text changed.
    let ended = written.strip_suffix('\n').map(|rest| rest.strip_suffix('\r').unwrap_or(rest).len());
    if let (false, Some(length)) = (text.ends_with('\n'), ended) {
        written.truncate(length);
    }
    written
}
