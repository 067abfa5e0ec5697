//! Where every node of a YAML document stands, and what YAML allows but a configuration may not hold.
//!
//! Knows: YAML events, lines and columns, duplicate keys, depth, aliases. Must not know: which fields there are or
//! what a scalar means.

use std::ops::ControlFlow::{self, Break, Continue};

use indexmap::IndexMap;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::path::{Path, Segment};
use super::report::quoted;

/// How deep mappings and lists may nest; a KubeSchedulerConfiguration needs 12.
pub(super) const MAX_DEPTH: usize = 64;

/// After how many faults reading stops: whatever the text is, nobody meant it to be a configuration.
const MAX_FAULTS: usize = 100;

/// A stretch of one source line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Counted from 1.
    pub(super) line: usize,
    /// Counted from 1, in characters.
    pub(super) column: usize,
    /// In characters; `None` to the end of the line.
    pub(super) width: Option<usize>,
}

impl Mark {
    /// The very beginning of the text.
    pub(super) const START: Self = Self { line: 1, column: 1, width: None };

    fn of(span: Span) -> Self {
        let width = (span.start.line() == span.end.line() && span.end.col() > span.start.col())
            .then(|| span.end.col() - span.start.col());
        Self { line: span.start.line(), column: span.start.col() + 1, width }
    }

    fn of_error(error: &ScanError) -> Self {
        Self { line: error.marker().line().max(1), column: error.marker().col() + 1, width: Some(1) }
    }
}

/// Something that no configuration may hold, whatever its fields.
#[derive(Debug)]
pub(super) struct Fault {
    /// Where it stands.
    pub(super) mark: Mark,
    /// The node it concerns.
    pub(super) path: Path,
    /// What is there, as a clause.
    pub(super) found: String,
    /// What should be there.
    pub(super) expected: String,
    /// What to do about it.
    pub(super) hint: Option<String>,
    /// Whether the document cannot be read any further.
    pub(super) fatal: bool,
}

#[derive(Debug)]
enum Children {
    None,
    Mapping(IndexMap<String, usize>),
    List(Vec<usize>),
}

#[derive(Debug)]
struct Node {
    key: Option<Mark>,
    value: Mark,
    children: Children,
}

/// The positions of all nodes of a document.
#[derive(Debug, Default)]
pub(super) struct Index {
    nodes: Vec<Node>,
}

impl Index {
    /// Reads the events of `text` once. After a fatal fault the positions are those of what came before it.
    pub(super) fn build(text: &str) -> (Self, Vec<Fault>) {
        let mut builder = Builder::default();
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let flow = match event {
                Ok((event, span)) => builder.take(event, span),
                Err(error) if error.info().contains("recursion limit") => builder.too_deep(Mark::of_error(&error)),
                Err(error) => {
                    let found = format!("this is not YAML: {}", error.info());
                    builder.stop(Mark::of_error(&error), &found, "a KubeSchedulerConfiguration in YAML or JSON", "")
                }
            };
            if flow.is_break() {
                break;
            }
        }
        (Self { nodes: builder.nodes }, builder.faults)
    }

    /// Whether the text holds no document at all.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The position of the value at `path`; of its nearest ancestor when it is not written down.
    ///
    /// A mapping or a list that stands under a key is shown by its key: its first character says little.
    pub(super) fn value(&self, path: &Path) -> Mark {
        let Some(node) = self.nearest(path) else { return Mark::START };
        match (&node.children, node.key) {
            (Children::None, _) | (_, None) => node.value,
            (_, Some(key)) => key,
        }
    }

    /// The position of the key at `path`; of its nearest ancestor when it is not written down.
    pub(super) fn key(&self, path: &Path) -> Mark {
        self.nearest(path).map_or(Mark::START, |node| node.key.unwrap_or(node.value))
    }

    fn nearest(&self, path: &Path) -> Option<&Node> {
        let mut node = self.nodes.first()?;
        for segment in path.segments() {
            let child = match (&node.children, segment) {
                (Children::Mapping(children), Segment::Key(key)) => children.get(key).copied(),
                (Children::List(children), Segment::Index(index)) => children.get(*index).copied(),
                _ => None,
            };
            match child.and_then(|child| self.nodes.get(child)) {
                Some(child) => node = child,
                None => break,
            }
        }
        Some(node)
    }
}

/// A mapping or a list whose end is still to come.
struct Frame {
    node: usize,
    segment: Option<Segment>,
    key: Option<(String, Mark)>,
}

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    frames: Vec<Frame>,
    documents: usize,
    faults: Vec<Fault>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> ControlFlow<()> {
        let mark = Mark::of(span);
        match event {
            Event::DocumentStart(_) => self.document(mark),
            Event::Alias(_) => self.stop(
                mark,
                "found a YAML alias",
                "the value itself",
                "write the aliased value out in full: aliases and merge keys are not read",
            ),
            Event::Scalar(text, style, _, tag) => {
                self.check_tag(tag.as_deref(), mark)?;
                if self.expects_key() { self.key(&text, style, mark) } else { self.scalar(&text, style, mark) }
            }
            Event::MappingStart(_, tag) => {
                self.check_tag(tag.as_deref(), mark)?;
                self.open(Children::Mapping(IndexMap::new()), mark)
            }
            Event::SequenceStart(_, tag) => {
                self.check_tag(tag.as_deref(), mark)?;
                self.open(Children::List(Vec::new()), mark)
            }
            Event::MappingEnd | Event::SequenceEnd => {
                self.frames.pop();
                Continue(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Continue(()),
        }
    }

    fn document(&mut self, mark: Mark) -> ControlFlow<()> {
        self.documents += 1;
        if self.documents == 1 {
            return Continue(());
        }
        self.stop(
            mark,
            "found a second YAML document",
            "one document",
            "keep one KubeSchedulerConfiguration in this file and remove what follows the `---`",
        )
    }

    /// Whether the innermost open node is a mapping that has no key waiting for its value.
    fn expects_key(&self) -> bool {
        self.frames.last().is_some_and(|frame| {
            frame.key.is_none()
                && self.nodes.get(frame.node).is_some_and(|node| matches!(node.children, Children::Mapping(_)))
        })
    }

    fn key(&mut self, text: &str, style: ScalarStyle, mark: Mark) -> ControlFlow<()> {
        if text == "<<" && style == ScalarStyle::Plain {
            let hint = "write the merged fields out in full: aliases and merge keys are not read";
            return self.stop(mark, "found a YAML merge key", "the name of a field", hint);
        }
        let Some(frame) = self.frames.last_mut() else { return Continue(()) };
        let first = match self.nodes.get(frame.node).map(|node| &node.children) {
            Some(Children::Mapping(children)) => children.get(text).and_then(|child| self.nodes.get(*child)?.key),
            _ => None,
        };
        frame.key = Some((text.to_owned(), mark));
        if let Some(first) = first {
            let hint = format!("it is first set at {}:{}", first.line, first.column);
            let found = format!("found the key {} a second time", quoted(text));
            return self.note(mark, self.path(), found, "every key once", Some(hint));
        }
        Continue(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, mark: Mark) -> ControlFlow<()> {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let mark = if is_block { Mark { width: None, ..mark } } else { mark };
        let path = (style == ScalarStyle::Plain && is_not_finite(text)).then(|| self.child_path());
        self.add(Children::None, mark);
        match path {
            Some(path) => self.note(mark, path, format!("found {text}"), "a finite number", None),
            None => Continue(()),
        }
    }

    fn open(&mut self, children: Children, mark: Mark) -> ControlFlow<()> {
        if self.expects_key() {
            return self.stop(mark, "found a mapping or a list as a key", "the name of a field", "");
        }
        if self.frames.len() >= MAX_DEPTH {
            return self.too_deep(mark);
        }
        let segment = self.child_segment();
        let node = self.add(children, mark);
        self.frames.push(Frame { node, segment, key: None });
        Continue(())
    }

    /// Hangs a new node under the innermost open one and returns its number.
    fn add(&mut self, children: Children, value: Mark) -> usize {
        let number = self.nodes.len();
        let mut key_mark = None;
        if let Some(frame) = self.frames.last_mut() {
            let key = frame.key.take();
            key_mark = key.as_ref().map(|(_, mark)| *mark);
            match (self.nodes.get_mut(frame.node).map(|node| &mut node.children), key) {
                (Some(Children::Mapping(siblings)), Some((key, _))) => {
                    siblings.insert(key, number);
                }
                (Some(Children::List(siblings)), _) => siblings.push(number),
                _ => {}
            }
        }
        self.nodes.push(Node { key: key_mark, value, children });
        number
    }

    /// The step from the innermost open node to the node that comes next.
    fn child_segment(&self) -> Option<Segment> {
        let frame = self.frames.last()?;
        if let Some((key, _)) = &frame.key {
            return Some(Segment::Key(key.clone()));
        }
        match &self.nodes.get(frame.node)?.children {
            Children::List(siblings) => Some(Segment::Index(siblings.len())),
            _ => None,
        }
    }

    /// The path of the innermost open node, or of the key in it that waits for its value.
    fn path(&self) -> Path {
        let key = self.frames.last().and_then(|frame| frame.key.as_ref());
        let steps = self.frames.iter().filter_map(|frame| frame.segment.clone());
        steps.chain(key.map(|(key, _)| Segment::Key(key.clone()))).collect()
    }

    /// The path of the node that comes next.
    fn child_path(&self) -> Path {
        self.frames.iter().filter_map(|frame| frame.segment.clone()).chain(self.child_segment()).collect()
    }

    /// Core tags only say what the scalar says itself; any other asks for a type that no field has.
    fn check_tag(&mut self, tag: Option<&Tag>, mark: Mark) -> ControlFlow<()> {
        const CORE: [&str; 7] = ["str", "int", "float", "bool", "null", "map", "seq"];
        match tag {
            Some(tag) if !(tag.is_yaml_core_schema() && CORE.contains(&tag.suffix.as_str())) => self.stop(
                mark,
                &format!("found the YAML tag {}", quoted(&tag.to_string())),
                "a value without a tag",
                "remove the tag",
            ),
            _ => Continue(()),
        }
    }

    fn too_deep(&mut self, mark: Mark) -> ControlFlow<()> {
        let found = format!("found mappings and lists nested deeper than {MAX_DEPTH}");
        self.stop(mark, &found, "the depth of a KubeSchedulerConfiguration, which is under 20", "")
    }

    /// Reports what makes the rest of the document unreadable.
    fn stop(&mut self, mark: Mark, found: &str, expected: &str, hint: &str) -> ControlFlow<()> {
        self.faults.push(Fault {
            mark,
            path: self.child_path(),
            found: found.to_owned(),
            expected: expected.to_owned(),
            hint: (!hint.is_empty()).then(|| hint.to_owned()),
            fatal: true,
        });
        Break(())
    }

    /// Reports what is wrong with one node only.
    fn note(&mut self, mark: Mark, path: Path, found: String, expected: &str, hint: Option<String>) -> ControlFlow<()> {
        let fatal = self.faults.len() + 1 >= MAX_FAULTS;
        self.faults.push(Fault { mark, path, found, expected: expected.to_owned(), hint, fatal });
        if fatal { Break(()) } else { Continue(()) }
    }
}

/// Whether YAML reads `text` as an infinity or as not a number, which JSON cannot hold.
fn is_not_finite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    [".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"].contains(&unsigned)
}
