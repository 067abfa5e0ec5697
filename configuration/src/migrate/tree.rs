//! Byte ranges of the nodes of a YAML document.
//!
//! `index` only has the start of a node; cutting needs the end too.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::super::path::{Path, Segment};

#[derive(Debug)]
pub(super) struct Node {
    pub(super) key: Option<Range<usize>>,
    /// From the first to after the last character, without surrounding comments.
    pub(super) value: Range<usize>,
    pub(super) is_flow: bool,
    pub(super) children: Vec<usize>,
    names: Option<Vec<String>>,
}

impl Node {
    pub(super) fn start(&self) -> usize {
        self.key.as_ref().map_or(self.value.start, |key| key.start)
    }
}

#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    scalars: Vec<Range<usize>>,
}

impl Tree {
    /// Reads valid YAML. For any other text, the tree ends at the fault.
    pub(super) fn build(text: &str) -> Self {
        let mut builder = Builder { text, offsets: Offsets::of(text), tree: Self::default(), open: Vec::new() };
        for event in Parser::new_from_str(text) {
            let Ok((event, span)) = event else { break };
            if matches!(event, Event::DocumentEnd) {
                break;
            }
            builder.take(&event, span);
        }
        builder.tree
    }

    /// The number of the node at `path`; `None` if the text has none there, as under an alias.
    pub(super) fn find(&self, path: &Path) -> Option<usize> {
        let mut number = 0;
        for segment in path.segments() {
            let node = self.nodes.get(number)?;
            let place = match (segment, &node.names) {
                (Segment::Key(key), Some(names)) => names.iter().position(|name| name == key)?,
                (Segment::Index(index), None) => *index,
                _ => return None,
            };
            number = *node.children.get(place)?;
        }
        Some(number)
    }

    pub(super) fn node(&self, number: usize) -> Option<&Node> {
        self.nodes.get(number)
    }

    pub(super) fn scalar_at(&self, offset: usize) -> Option<&Range<usize>> {
        let after = self.scalars.partition_point(|scalar| scalar.start <= offset);
        self.scalars.get(after.checked_sub(1)?).filter(|scalar| scalar.contains(&offset))
    }
}

/// Converts the parser's character offsets to byte offsets.
enum Offsets {
    Same,
    Counted(Vec<usize>),
}

impl Offsets {
    fn of(text: &str) -> Self {
        if text.is_ascii() {
            return Self::Same;
        }
        Self::Counted(text.char_indices().map(|(offset, _)| offset).chain([text.len()]).collect())
    }

    fn bytes(&self, span: Span) -> Range<usize> {
        let byte = |character: usize| match self {
            Self::Same => character,
            Self::Counted(offsets) => offsets.get(character).or_else(|| offsets.last()).copied().unwrap_or(0),
        };
        byte(span.start.index())..byte(span.end.index())
    }
}

/// End of a quoted scalar: the parser's span includes the blanks and comments after it.
fn closing_quote(text: &str, range: Range<usize>, quote: char) -> usize {
    let mut characters = text.get(range.clone()).unwrap_or_default().char_indices().skip(1).peekable();
    while let Some((offset, character)) = characters.next() {
        if character == '\\' && quote == '"' {
            characters.next();
        } else if character == quote && (quote == '"' || characters.next_if(|(_, next)| *next == quote).is_none()) {
            return range.start + offset + 1;
        }
    }
    range.end
}

struct Open {
    node: usize,
    key: Option<Range<usize>>,
}

struct Builder<'a> {
    text: &'a str,
    offsets: Offsets,
    tree: Tree,
    open: Vec<Open>,
}

impl Builder<'_> {
    fn take(&mut self, event: &Event<'_>, span: Span) {
        let range = self.offsets.bytes(span);
        match event {
            Event::Scalar(text, style, ..) => {
                let range = match style {
                    ScalarStyle::SingleQuoted => range.start..closing_quote(self.text, range, '\''),
                    ScalarStyle::DoubleQuoted => range.start..closing_quote(self.text, range, '"'),
                    _ => self.trimmed(range),
                };
                self.tree.scalars.push(range.clone());
                if self.expects_key() {
                    self.key(text, range);
                } else {
                    self.add(range, false, None);
                }
            }
            Event::Alias(_) => _ = self.add(range, false, None),
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let names = matches!(event, Event::MappingStart(..)).then(Vec::new);
                let is_flow = !range.is_empty();
                let node = self.add(range, is_flow, names);
                self.open.push(Open { node, key: None });
            }
            Event::MappingEnd | Event::SequenceEnd => self.close(range.end),
            _ => {}
        }
    }

    /// The span of a block scalar extends to the next token.
    fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        let text = self.text.get(range.clone()).unwrap_or_default();
        range.start..range.start + text.trim_end().len()
    }

    fn expects_key(&self) -> bool {
        let names = |open: &Open| self.tree.nodes.get(open.node).is_some_and(|node| node.names.is_some());
        self.open.last().is_some_and(|open| open.key.is_none() && names(open))
    }

    fn key(&mut self, name: &str, range: Range<usize>) {
        let Some(open) = self.open.last_mut() else { return };
        open.key = Some(range);
        if let Some(names) = self.tree.nodes.get_mut(open.node).and_then(|node| node.names.as_mut()) {
            names.push(name.to_owned());
        }
    }

    fn add(&mut self, value: Range<usize>, is_flow: bool, names: Option<Vec<String>>) -> usize {
        let number = self.tree.nodes.len();
        let mut key = None;
        if let Some(open) = self.open.last_mut() {
            key = open.key.take();
            if let Some(parent) = self.tree.nodes.get_mut(open.node) {
                parent.children.push(number);
            }
        }
        let value = match &key {
            // An absent value ends after the colon.
            Some(key) if value.is_empty() && names.is_none() => {
                let colon = self.text.get(key.end..).and_then(|rest| rest.find(':'));
                let end = colon.map_or(key.end, |colon| key.end + colon + 1);
                end..end
            }
            _ => value,
        };
        self.tree.nodes.push(Node { key, value, is_flow, children: Vec::new(), names });
        number
    }

    /// Only brackets have their own end; any other container ends with its last child.
    fn close(&mut self, bracket: usize) {
        let Some(open) = self.open.pop() else { return };
        let Some(node) = self.tree.nodes.get(open.node) else { return };
        let last = node.children.last().and_then(|child| self.tree.nodes.get(*child)).map(|child| child.value.end);
        let end = if node.is_flow { bracket } else { last.unwrap_or(node.value.end) };
        if let Some(node) = self.tree.nodes.get_mut(open.node) {
            node.value.end = end;
        }
    }
}
