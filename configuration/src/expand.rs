//! Expands aliases and merge keys.
//!
//! Source: the decoder of `go.yaml.in/yaml/v2` in strict mode. It inserts the entries of a merged mapping as if they were written there. A
//! key that is both merged and set is therefore a duplicate, in either order.

use std::ops::ControlFlow::{self, Break, Continue};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::index::{Children, Fault, Index, Mark, Node};
use super::path::Segment;
use super::report::quoted;
use super::tree::{Content, Entry, MAX_DEPTH, MAX_FAULTS, MappingKey, Tree};

/// Maximum number of nodes from aliases. A profile with every field has about 300 nodes, so this allows 300 whole profiles. At about 200
/// bytes for a node and its position this is 20 MB. Ten lines of ten aliases each, all of the line before, would be 10^10 nodes.
const MAX_ALIASED: usize = 100_000;

/// Bytes of text that count as one node, so that aliases cannot multiply a long text either.
const BYTES_PER_NODE: usize = 64;

pub(super) struct Expanded {
    pub(super) value: Value,
    pub(super) index: Index,
    pub(super) faults: Vec<Fault>,
}

/// Expands `tree`; `None` if it has no document.
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
    alias: Option<Mark>,
    aliased: usize,
    faults: Vec<Fault>,
}

#[derive(Default)]
struct Filling {
    fields: Map<String, Value>,
    children: IndexMap<String, usize>,
    /// The mark of each key's first occurrence, and whether it was merged in.
    marks: IndexMap<String, (Mark, bool)>,
}

impl Expander<'_> {
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

    /// Counts a node of an alias towards `MAX_ALIASED`.
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

    /// Adds entries to a mapping at merge depth `merges`.
    fn fill(&mut self, entries: &[Entry], filling: &mut Filling, merges: usize) -> ControlFlow<()> {
        for entry in entries {
            let MappingKey::Name(name) = &entry.key else {
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

    /// Merges the mappings of a merge key, the last one first.
    fn merge(&mut self, entry: &Entry, filling: &mut Filling, merges: usize) -> ControlFlow<()> {
        let outer = self.alias;
        let (target, alias) = self.target(entry.value);
        let sources = match self.tree.nodes.get(target).map(|node| &node.content) {
            // The list has to be literal: kube-scheduler does not resolve an alias to a list.
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

    fn target(&self, number: usize) -> (usize, Option<Mark>) {
        match self.tree.nodes.get(number).map(|node| (&node.content, node.mark)) {
            Some((Content::Alias(target), mark)) => (*target, Some(mark)),
            _ => (number, None),
        }
    }

    fn repeated(&mut self, name: &str, mark: Mark, first: Mark, is_merged: bool) -> ControlFlow<()> {
        // A fault behind an alias is reported once, however often the alias is used.
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

    fn stop<T>(&mut self, mark: Mark, found: String, expected: &str, hint: Option<String>) -> ControlFlow<(), T> {
        let path = self.path.iter().cloned().collect();
        self.faults.push(Fault { mark, path, found, expected: expected.to_owned(), hint, fatal: true });
        Break(())
    }
}
