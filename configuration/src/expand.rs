//! From a document as it is written to what it says: aliases and merge keys are put in place.
//!
//! Knows: how far a text may expand, and which keys are set twice. Must not know: which fields there are.
//!
//! Source: the decoder of `go.yaml.in/yaml/v2` in strict mode. It mixes a merged mapping in as though its entries had
//! been written in its place: a key that is merged and set, in whatever order, is a key that is set twice.

use std::ops::ControlFlow::{self, Break, Continue};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::index::{Children, Fault, Index, Mark, Node};
use super::path::Segment;
use super::report::quoted;
use super::tree::{Content, Entry, Key, MAX_DEPTH, MAX_FAULTS, Tree};

/// How many nodes may come out of aliases. A profile with every field written out has some 300 nodes, so that this is
/// 300 whole profiles of nothing but aliases. At about 200 bytes for a node and its position it is 20 MB; ten lines of
/// ten aliases each, every one of the line before, would be 10^10 nodes.
const MAX_ALIASED: usize = 100_000;

/// How many bytes of text count as one node, so that a long text cannot be multiplied either.
const BYTES_PER_NODE: usize = 64;

/// What a document says.
pub(super) struct Expanded {
    /// Its value.
    pub(super) value: Value,
    /// Where everything in it is written.
    pub(super) index: Index,
    /// What is wrong with it.
    pub(super) faults: Vec<Fault>,
}

/// Puts aliases and merge keys of `tree` in place; `None` where it has no document.
pub(super) fn expand(tree: &Tree) -> Option<Expanded> {
    tree.nodes.first()?;
    let mut expander =
        Expander { tree, positions: Vec::new(), path: Vec::new(), alias: None, aliased: 0, faults: Vec::new() };
    let value = match expander.node(0, None) {
        Continue(value) => value,
        Break(()) => Value::Null,
    };
    Some(Expanded { value, index: Index::new(expander.positions), faults: expander.faults })
}

struct Expander<'a> {
    tree: &'a Tree,
    positions: Vec<Node>,
    path: Vec<Segment>,
    /// The outermost alias that is being expanded.
    alias: Option<Mark>,
    aliased: usize,
    faults: Vec<Fault>,
}

/// A mapping that is being filled.
#[derive(Default)]
struct Filling {
    fields: Map<String, Value>,
    children: IndexMap<String, usize>,
    /// Where each key was first set, and whether it was merged in.
    marks: IndexMap<String, (Mark, bool)>,
}

impl Expander<'_> {
    /// The value of node `number`, whose key stands at `key`.
    fn node(&mut self, number: usize, key: Option<Mark>) -> ControlFlow<(), Value> {
        let Some(node) = self.tree.nodes.get(number) else { return Continue(Value::Null) };
        if let Content::Alias(target) = node.content {
            let outer = self.alias;
            self.alias = outer.or(Some(node.mark));
            let value = self.node(target, key)?;
            self.alias = outer;
            return Continue(value);
        }
        self.count(&node.content)?;
        let position = self.positions.len();
        self.positions.push(Node { key, value: node.mark, children: Children::None });
        let (value, children) = match &node.content {
            Content::Scalar(value) => (value.clone(), Children::None),
            Content::Alias(_) => (Value::Null, Children::None),
            Content::List(elements) => {
                let mut values = Vec::with_capacity(elements.len());
                let mut children = Vec::with_capacity(elements.len());
                for (index, element) in elements.iter().enumerate() {
                    children.push(self.positions.len());
                    values.push(self.within(Segment::Index(index), |this| this.node(*element, None))?);
                }
                (Value::Array(values), Children::List(children))
            }
            Content::Mapping(entries) => {
                let mut filling = Filling::default();
                self.fill(entries, &mut filling, 0)?;
                (Value::Object(filling.fields), Children::Mapping(filling.children))
            }
        };
        if let Some(node) = self.positions.get_mut(position) {
            node.children = children;
        }
        Continue(value)
    }

    /// Goes one step down and back up.
    fn within<T>(
        &mut self,
        segment: Segment,
        then: impl FnOnce(&mut Self) -> ControlFlow<(), T>,
    ) -> ControlFlow<(), T> {
        self.path.push(segment);
        let result = if self.path.len() > MAX_DEPTH {
            let mark = self.alias.unwrap_or(Mark::START);
            let found = format!("found an alias that nests mappings and lists deeper than {MAX_DEPTH}");
            self.stop(mark, found, "the depth of a KubeSchedulerConfiguration, which is under 20", None)
        } else {
            then(self)
        };
        self.path.pop();
        result
    }

    /// Counts a node towards what aliases may bring.
    fn count(&mut self, content: &Content) -> ControlFlow<()> {
        let Some(mark) = self.alias else { return Continue(()) };
        let text = match content {
            Content::Scalar(Value::String(text)) => text.len(),
            Content::Mapping(entries) => entries.iter().map(|entry| entry.key.text().len()).sum(),
            _ => 0,
        };
        self.aliased = self.aliased.saturating_add(1 + text / BYTES_PER_NODE);
        if self.aliased <= MAX_ALIASED {
            return Continue(());
        }
        let found = format!("found aliases that expand to more than {MAX_ALIASED} values");
        self.stop(mark, found, "a configuration of a size that a person can read", None)
    }

    /// Puts entries into a mapping. `merges` is how many merge keys deep they stand.
    fn fill(&mut self, entries: &[Entry], filling: &mut Filling, merges: usize) -> ControlFlow<()> {
        for entry in entries {
            let Key::Name(name) = &entry.key else {
                self.merge(entry, filling, merges)?;
                continue;
            };
            if let Some((first, was_merged)) = filling.marks.get(name).copied() {
                self.repeated(name, entry.mark, first, was_merged || merges > 0)?;
                continue;
            }
            let child = self.positions.len();
            let value = self.within(Segment::Key(name.clone()), |this| this.node(entry.value, Some(entry.mark)))?;
            filling.children.insert(name.clone(), child);
            filling.marks.insert(name.clone(), (entry.mark, merges > 0));
            filling.fields.insert(name.clone(), value);
        }
        Continue(())
    }

    /// Mixes in the mapping, or each of the mappings, that a merge key names; of several the last goes first.
    fn merge(&mut self, entry: &Entry, filling: &mut Filling, merges: usize) -> ControlFlow<()> {
        let outer = self.alias;
        let (target, alias) = self.target(entry.value);
        let sources = match self.tree.nodes.get(target).map(|node| &node.content) {
            // A list has to be written here: kube-scheduler does not look through an alias for one.
            Some(Content::List(elements)) if alias.is_none() => {
                elements.iter().rev().map(|element| self.target(*element)).collect()
            }
            _ => vec![(target, alias)],
        };
        for (source, alias) in sources {
            let Some(Content::Mapping(entries)) = self.tree.nodes.get(source).map(|node| &node.content) else {
                let hint = "write `<<: *name` or `<<: [*one, *other]`, where each name is the anchor of a mapping";
                let found = "found a merge key without a mapping".to_owned();
                return self.stop(entry.mark, found, "a mapping or a list of mappings", Some(hint.to_owned()));
            };
            if merges >= MAX_DEPTH {
                let found = format!("found merge keys nested deeper than {MAX_DEPTH}");
                return self.stop(outer.unwrap_or(entry.mark), found, "mappings that are written out", None);
            }
            self.alias = outer.or(alias);
            if let Some(node) = self.tree.nodes.get(source) {
                self.count(&node.content)?;
            }
            self.fill(entries, filling, merges + 1)?;
            self.alias = outer;
        }
        Continue(())
    }

    /// The node that `number` stands for, and where the alias is if it is one.
    fn target(&self, number: usize) -> (usize, Option<Mark>) {
        match self.tree.nodes.get(number).map(|node| (&node.content, node.mark)) {
            Some((Content::Alias(target), mark)) => (*target, Some(mark)),
            _ => (number, None),
        }
    }

    fn repeated(&mut self, name: &str, mark: Mark, first: Mark, is_merged: bool) -> ControlFlow<()> {
        // What stands behind an alias is wrong once, however often it is repeated.
        if self.faults.iter().any(|fault| fault.mark == mark) {
            return Continue(());
        }
        let mut hint = format!("it is first set at {}:{}", first.line, first.column);
        if is_merged {
            hint.push_str("; a key that is merged cannot be set as well, in kube-scheduler neither");
        }
        let fatal = self.faults.len() + 1 >= MAX_FAULTS;
        let path = self.path.iter().cloned().chain([Segment::Key(name.to_owned())]).collect();
        let found = format!("found the key {} a second time", quoted(name));
        self.faults.push(Fault { mark, path, found, expected: "every key once".to_owned(), hint: Some(hint), fatal });
        if fatal { Break(()) } else { Continue(()) }
    }

    /// Reports what makes the rest of the document unreadable.
    fn stop<T>(&mut self, mark: Mark, found: String, expected: &str, hint: Option<String>) -> ControlFlow<(), T> {
        let path = self.path.iter().cloned().collect();
        self.faults.push(Fault { mark, path, found, expected: expected.to_owned(), hint, fatal: true });
        Break(())
    }
}
