//! Parses a YAML document; aliases and merge keys remain.
//!
//! Source: the node parser of `go.yaml.in/yaml/v2`, kube-scheduler's YAML library.

use std::collections::BTreeMap;
use std::ops::ControlFlow::{self, Break, Continue};

use flotilla_yaml::scalar::{Resolved, TagKind, resolve};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::Value;

use super::index::{Fault, Mark};
use super::path::{Path, Segment};
use super::report::quoted;

/// Maximum nesting of mappings and lists; a KubeSchedulerConfiguration needs 12.
pub(super) const MAX_DEPTH: usize = 64;

/// Maximum number of values: 160 whole profiles with every field. A value takes up to 930 bytes with its positions and the mapping around
/// it, so this is 47 MB. A text of 1 MiB could hold half a million values.
const MAX_VALUES: usize = 50_000;

/// Maximum length of a field name in bytes. Label names have at most 317. A longer name would be repeated in the path of every node under
/// it.
const MAX_KEY: usize = 1_024;

const MAX_WARNINGS: usize = 100;

/// Reading stops after this many faults: the text is not a configuration.
pub(super) const MAX_FAULTS: usize = 100;

#[derive(Debug, Clone)]
pub(super) enum MappingKey {
    Name(String),
    Merge,
}

impl MappingKey {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Merge => "<<",
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: MappingKey,
    pub(super) mark: Mark,
    pub(super) value: usize,
}

#[derive(Debug)]
pub(super) enum Content {
    Scalar(Value),
    /// In their written order, with repetitions.
    Mapping(Vec<Entry>),
    List(Vec<usize>),
    /// Index of the target node.
    Alias(usize),
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) mark: Mark,
    pub(super) content: Content,
}

#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The first node is the document.
    pub(super) nodes: Vec<Node>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<(Mark, Path, String)>,
}

impl Tree {
    /// Reads the events of `text`. After a fatal fault the tree holds only the nodes before it.
    pub(super) fn build(text: &str) -> Self {
        let mut builder = Builder::default();
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let flow = match event {
                Ok((event, span)) => builder.take(event, span),
                Err(error) if error.info().contains("recursion limit") => builder.too_deep(Mark::of_error(&error)),
                Err(error) => {
                    let found = format!("this is not YAML: {}", error.info());
                    let expected = "a KubeSchedulerConfiguration in YAML or JSON";
                    builder.stop(Mark::of_error(&error), &found, expected, advice(error.info()))
                }
            };
            if flow.is_break() {
                break;
            }
        }
        builder.tree
    }
}

/// Hints for common YAML mistakes.
fn advice(problem: &str) -> &'static str {
    if problem.contains("tab") {
        "indent with spaces"
    } else if problem.contains("mapping values are not allowed") {
        "put a text that holds a colon in quotes, and the keys of one mapping in one column"
    } else if problem.contains("indentation") || problem.contains("block mapping") || problem.contains("simple key") {
        "align the keys of a mapping in one column, and the items of a list in another"
    } else {
        ""
    }
}

struct Frame {
    node: usize,
    segment: Option<Segment>,
    key: Option<(MappingKey, Mark)>,
}

#[derive(Default)]
struct Builder {
    tree: Tree,
    frames: Vec<Frame>,
    /// Nodes by the parser's number of their anchor.
    anchors: BTreeMap<usize, usize>,
    documents: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> ControlFlow<()> {
        let mark = Mark::of(span);
        if self.tree.nodes.len() >= MAX_VALUES {
            let found = format!("found more than {MAX_VALUES} values");
            return self.stop(mark, &found, "a configuration of a size that a person can read", "");
        }
        match event {
            Event::DocumentStart(_) => self.document(mark),
            Event::Alias(anchor) => self.alias(anchor, mark),
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag.as_deref(), mark),
            Event::MappingStart(anchor, _) => self.open(Content::Mapping(Vec::new()), anchor, mark),
            Event::SequenceStart(anchor, _) => self.open(Content::List(Vec::new()), anchor, mark),
            Event::MappingEnd | Event::SequenceEnd => {
                self.frames.pop();
                Continue(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Continue(()),
        }
    }

    /// kube-scheduler reads the first document and ignores the rest.
    fn document(&mut self, mark: Mark) -> ControlFlow<()> {
        self.documents += 1;
        if self.documents == 1 {
            return Continue(());
        }
        let text = "a second YAML document begins here; only the first is read, by kube-scheduler too";
        self.tree.warnings.push((mark, Path::default(), text.to_owned()));
        Break(())
    }

    /// Whether the innermost open node is a mapping without a pending key.
    fn expects_key(&self) -> bool {
        self.frames.last().is_some_and(|frame| {
            frame.key.is_none()
                && self.tree.nodes.get(frame.node).is_some_and(|node| matches!(node.content, Content::Mapping(_)))
        })
    }

    fn alias(&mut self, anchor: usize, mark: Mark) -> ControlFlow<()> {
        // The parser rejects aliases of unknown anchors.
        let Some(target) = self.anchors.get(&anchor).copied() else { return Continue(()) };
        if self.frames.iter().any(|frame| frame.node == target) {
            let hint = "an alias must follow its anchor";
            return self.stop(mark, "found a YAML alias to something that it is itself part of", "a value", hint);
        }
        if !self.expects_key() {
            self.add(Content::Alias(target), mark);
            return Continue(());
        }
        match self.tree.nodes.get(target).map(|node| &node.content) {
            Some(Content::Scalar(value)) => {
                let value = value.clone();
                self.key(&value, mark)
            }
            _ => self.stop(mark, "found a mapping or a list as a key", "the name of a field", ""),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        mark: Mark,
    ) -> ControlFlow<()> {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let mark = if is_block { Mark { width: None, ..mark } } else { mark };
        let is_plain = style == ScalarStyle::Plain;
        if is_plain && tag.is_none() && text == "<<" && self.expects_key() {
            self.wait(MappingKey::Merge, mark);
            return Continue(());
        }
        let path = |this: &Self| if this.expects_key() { this.path() } else { this.child_path() };
        let kind = match tag {
            None => TagKind::None,
            Some(tag) if tag.is_yaml_core_schema() => TagKind::core(&tag.suffix),
            Some(_) => TagKind::Other,
        };
        let shown = tag.map(ToString::to_string).unwrap_or_default();
        if kind == TagKind::Other && self.tree.warnings.len() < MAX_WARNINGS {
            let text = format!("the tag {} is not known, so the value is read as text", quoted(&shown));
            self.tree.warnings.push((mark, path(self), text));
        }
        let value = match resolve(text, is_plain, kind) {
            Resolved::Value(value) => value,
            Resolved::NotFinite => {
                self.note(mark, path(self), format!("found {text}"), "a finite number")?;
                Value::Null
            }
            Resolved::Mistagged => {
                let found = format!("found {} with the YAML tag {}", quoted(text), quoted(&shown));
                self.note(mark, path(self), found, "a value that matches its tag")?;
                Value::Null
            }
        };
        if self.expects_key() {
            if anchor != 0 {
                self.anchors.insert(anchor, self.tree.nodes.len());
                self.tree.nodes.push(Node { mark, content: Content::Scalar(value.clone()) });
            }
            return self.key(&value, mark);
        }
        let number = self.add(Content::Scalar(value), mark);
        self.anchors.insert(anchor, number);
        Continue(())
    }

    fn key(&mut self, value: &Value, mark: Mark) -> ControlFlow<()> {
        let name = match value {
            Value::String(text) if text.len() > MAX_KEY => {
                let found = format!("found a key of {} bytes", text.len());
                return self.stop(mark, &found, "the name of a field, which has 1,024 bytes at most", "");
            }
            Value::String(text) => text.clone(),
            Value::Null => return self.stop(mark, "found nothing as a key", "the name of a field", ""),
            other => other.to_string(),
        };
        self.wait(MappingKey::Name(name), mark);
        Continue(())
    }

    fn wait(&mut self, key: MappingKey, mark: Mark) {
        if let Some(frame) = self.frames.last_mut() {
            frame.key = Some((key, mark));
        }
    }

    fn open(&mut self, content: Content, anchor: usize, mark: Mark) -> ControlFlow<()> {
        if self.expects_key() {
            return self.stop(mark, "found a mapping or a list as a key", "the name of a field", "");
        }
        if self.frames.len() >= MAX_DEPTH {
            return self.too_deep(mark);
        }
        let segment = self.child_segment();
        let node = self.add(content, mark);
        self.anchors.insert(anchor, node);
        self.frames.push(Frame { node, segment, key: None });
        Continue(())
    }

    fn add(&mut self, content: Content, mark: Mark) -> usize {
        let number = self.tree.nodes.len();
        if let Some(frame) = self.frames.last_mut() {
            let key = frame.key.take();
            match (self.tree.nodes.get_mut(frame.node).map(|node| &mut node.content), key) {
                (Some(Content::Mapping(entries)), Some((key, mark))) => {
                    entries.push(Entry { key, mark, value: number });
                }
                (Some(Content::List(elements)), _) => elements.push(number),
                _ => {}
            }
        }
        self.tree.nodes.push(Node { mark, content });
        number
    }

    fn child_segment(&self) -> Option<Segment> {
        let frame = self.frames.last()?;
        if let Some((key, _)) = &frame.key {
            return Some(Segment::Key(key.text().to_owned()));
        }
        match &self.tree.nodes.get(frame.node)?.content {
            Content::List(elements) => Some(Segment::Index(elements.len())),
            _ => None,
        }
    }

    fn path(&self) -> Path {
        self.frames.iter().filter_map(|frame| frame.segment.clone()).collect()
    }

    fn child_path(&self) -> Path {
        self.frames.iter().filter_map(|frame| frame.segment.clone()).chain(self.child_segment()).collect()
    }

    fn too_deep(&mut self, mark: Mark) -> ControlFlow<()> {
        let found = format!("found mappings and lists nested deeper than {MAX_DEPTH}");
        self.stop(mark, &found, "the depth of a KubeSchedulerConfiguration, which is under 20", "")
    }

    fn stop(&mut self, mark: Mark, found: &str, expected: &str, hint: &str) -> ControlFlow<()> {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        let (path, found, expected) = (self.child_path(), found.to_owned(), expected.to_owned());
        self.tree.faults.push(Fault { mark, path, found, expected, hint, fatal: true });
        Break(())
    }

    fn note(&mut self, mark: Mark, path: Path, found: String, expected: &str) -> ControlFlow<()> {
        let fatal = self.tree.faults.len() + 1 >= MAX_FAULTS;
        self.tree.faults.push(Fault { mark, path, found, expected: expected.to_owned(), hint: None, fatal });
        if fatal { Break(()) } else { Continue(()) }
    }
}
