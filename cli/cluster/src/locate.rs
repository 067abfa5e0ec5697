//! Finds line and column of YAML nodes.
//!
//! Positions are computed on demand: only error messages need them, and a dump of a cluster has millions of nodes.

use std::collections::HashMap;

use flotilla_yaml::{self as yaml, Mark};
use saphyr_parser::{Event, Parser};

use super::place::{Path, Step};

/// The positions of nodes in the first document of `text`, at the key or the value of each. A missing node has the position of its nearest
/// ancestor.
///
/// A mapping or list under a key is located at its key, which is more readable than its first character.
#[must_use]
pub fn locate(text: &str, wanted: &[(&Path, bool)]) -> Vec<Mark> {
    let mut tracker = Tracker::new(wanted);
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { break };
        if !tracker.take(event, Mark::of(span)) {
            break;
        }
    }
    wanted.iter().map(|(path, is_key)| tracker.mark(path, *is_key)).collect()
}

/// A node on the path to a wanted one.
#[derive(Default)]
struct Wanted {
    children: HashMap<Step, usize>,
    key: Option<Mark>,
    value: Option<Mark>,
    is_scalar: bool,
}

/// A mapping or list that is still open.
struct Frame {
    /// The index of the wanted node, if it is one.
    wanted: Option<usize>,
    kind: Kind,
}

enum Kind {
    Mapping { key: Option<(Step, Mark)> },
    List { next: usize },
}

struct Tracker {
    /// The tree of all wanted paths; the first entry is the root.
    tree: Vec<Wanted>,
    frames: Vec<Frame>,
}

impl Tracker {
    fn new(wanted: &[(&Path, bool)]) -> Self {
        let mut tree = vec![Wanted::default()];
        for (path, _) in wanted {
            let mut node = 0;
            for step in path.steps() {
                let new = tree.len();
                let child = *tree[node].children.entry(step.clone()).or_insert(new);
                if child == new {
                    tree.push(Wanted::default());
                }
                node = child;
            }
        }
        Self { tree, frames: Vec::new() }
    }

    /// Returns whether later events can matter.
    fn take(&mut self, event: Event<'_>, mark: Mark) -> bool {
        match event {
            Event::Scalar(text, style, _, tag) => {
                if let Some(Frame { kind: Kind::Mapping { key: key @ None }, .. }) = self.frames.last_mut() {
                    let name = yaml::key(text, style, tag.as_deref()).unwrap_or_default();
                    *key = Some((Step::Key(name.into()), mark));
                    return true;
                }
                self.value(mark, true);
            }
            Event::Alias(_) => {
                self.value(mark, true);
            }
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                if matches!(self.frames.last(), Some(Frame { kind: Kind::Mapping { key: None }, .. })) {
                    // A mapping or list as a key. No decoded type has any.
                    return false;
                }
                let wanted = self.value(mark, false);
                let is_mapping = matches!(event, Event::MappingStart(..));
                let kind = if is_mapping { Kind::Mapping { key: None } } else { Kind::List { next: 0 } };
                self.frames.push(Frame { wanted, kind });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                self.frames.pop();
            }
            Event::DocumentEnd => return false,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {}
        }
        true
    }

    /// Records the position of a value; returns its wanted node.
    fn value(&mut self, mark: Mark, is_scalar: bool) -> Option<usize> {
        let (node, key) = match self.frames.last_mut() {
            None => (Some(0), None),
            Some(frame) => {
                let (step, key) = match &mut frame.kind {
                    Kind::Mapping { key } => key.take().map(|(step, mark)| (step, Some(mark)))?,
                    Kind::List { next } => {
                        *next += 1;
                        (Step::Index(*next - 1), None)
                    }
                };
                (frame.wanted.and_then(|parent| self.tree[parent].children.get(&step).copied()), key)
            }
        };
        let node = node?;
        let wanted = &mut self.tree[node];
        (wanted.key, wanted.value, wanted.is_scalar) = (key, Some(mark), is_scalar);
        Some(node)
    }

    fn mark(&self, path: &Path, is_key: bool) -> Mark {
        let mut known = &self.tree[0];
        let mut is_complete = true;
        for step in path.steps() {
            match known.children.get(step).map(|&child| &self.tree[child]).filter(|child| child.value.is_some()) {
                Some(child) => known = child,
                None => {
                    is_complete = false;
                    break;
                }
            }
        }
        let by_key = !known.is_scalar || (is_key && is_complete);
        known.key.filter(|_| by_key).or(known.value).unwrap_or(Mark::START)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a pod
metadata:
  name: \"web\"
  labels: {app: web, tier: front}
spec:
  containers:
  - name: one
    resources:
      requests:
        cpu: 1
  - &two
    name: two
  - *two
";

    fn at(text: &str, path: &Path, is_key: bool) -> (usize, usize) {
        let mark = locate(text, &[(path, is_key)])[0];
        (mark.line, mark.column)
    }

    #[test]
    fn values_keys_and_elements_are_found() {
        let root = Path::default();
        let containers = root.keys(&["spec", "containers"]);
        let cpu = containers.index(0).keys(&["resources", "requests", "cpu"]);
        for (path, is_key, expected) in [
            (root.clone(), false, (2, 1)),
            (root.keys(&["metadata", "name"]), false, (3, 9)),
            (root.keys(&["metadata", "name"]), true, (3, 3)),
            (root.keys(&["metadata", "labels", "tier"]), false, (4, 28)),
            (root.keys(&["spec"]), false, (5, 1)),
            (cpu.clone(), false, (10, 14)),
            (cpu, true, (10, 9)),
            (containers.index(0), false, (7, 5)),
            (containers.index(1).key("name"), false, (12, 11)),
            (containers.index(2).key("name"), false, (13, 5)),
        ] {
            assert_eq!(at(TEXT, &path, is_key), expected, "{path} {is_key}");
        }
    }

    #[test]
    fn what_is_not_written_down_stands_where_its_nearest_ancestor_does() {
        let root = Path::default();
        assert_eq!(at(TEXT, &root.keys(&["status", "allocatable"]), false), (2, 1));
        assert_eq!(at(TEXT, &root.keys(&["metadata", "namespace"]), true), (2, 1));
        assert_eq!(at(TEXT, &root.keys(&["spec", "containers"]).index(9), false), (6, 3));
        assert_eq!(at("", &root.keys(&["status"]), false), (1, 1));
    }

    #[test]
    fn json_is_found_in_too() {
        let text = "{\n\t\"kind\": \"Pod\",\n\t\"spec\": {\"nodeName\": \"a\"}}";
        assert_eq!(at(text, &Path::default().keys(&["kind"]), false), (2, 10));
        assert_eq!(at(text, &Path::default().keys(&["spec", "nodeName"]), false), (3, 23));
    }

    #[test]
    fn several_nodes_are_found_in_one_go_and_broken_text_ends_the_search() {
        let name = Path::default().keys(&["metadata", "name"]);
        let cpu = Path::default().keys(&["spec", "cpu"]);
        let text = "metadata: {name: a}\nspec:\n  cpu: 1\n ]: [";
        let marks = locate(text, &[(&cpu, false), (&name, false), (&Path::default(), false)]);
        assert_eq!(marks.iter().map(|mark| (mark.line, mark.column)).collect::<Vec<_>>(), [(3, 8), (1, 18), (1, 1)]);
    }
}
