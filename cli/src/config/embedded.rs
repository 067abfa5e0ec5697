//! Finds a configuration inside a ConfigMap, which may be an item of a list.
//!
//! The rest of the manifest is blanked and the indentation kept, so that lines and columns of messages are those of the file.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle};

const KIND: &str = "KubeSchedulerConfiguration";

/// More than one block is an error, so the search stops early.
const MOST_BLOCKS: usize = 8;

/// The lines of a configuration in a manifest, as byte range.
pub(super) type Block = Range<usize>;

/// A configuration in a ConfigMap.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) block: Block,
    /// `ConfigMap NAMESPACE/NAME, data.KEY`.
    pub(super) title: String,
}

/// The blocks under `data` of ConfigMaps that contain a configuration with a certain position.
pub(super) fn find(manifest: &str) -> Vec<Found> {
    if !manifest.contains("ConfigMap") || !manifest.contains(KIND) {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let mut document = Document::default();
    for event in Parser::new_from_str(manifest) {
        // The configuration parser reports invalid YAML.
        let Ok((event, span)) = event else { return Vec::new() };
        let is_end = matches!(event, Event::DocumentEnd);
        // The mapping that ends is an object, or an element of its list.
        let is_item = matches!(event, Event::MappingEnd) && document.at_object();
        document.take(&event, span.start.line());
        if is_item {
            blocks.extend(std::mem::take(&mut document.object).blocks(manifest));
        }
        if is_end {
            document = Document::default();
        }
        if blocks.len() >= MOST_BLOCKS {
            break;
        }
    }
    blocks
}

/// The manifest with everything but a block blanked.
pub(super) fn alone(manifest: &str, block: &Block) -> String {
    let before = manifest.get(..block.start).unwrap_or_default();
    let lines = before.matches('\n').count();
    format!("{}{}", "\n".repeat(lines), manifest.get(block.clone()).unwrap_or_default())
}

/// The manifest with a block replaced by `changed`, which was derived from [`alone`].
pub(super) fn put_back(manifest: &str, block: &Block, changed: &str) -> String {
    let before = manifest.get(..block.start).unwrap_or_default();
    let lines = before.matches('\n').count();
    let after = manifest.get(block.end..).unwrap_or_default();
    format!("{before}{}{after}", changed.get(lines..).unwrap_or_default())
}

#[derive(Default)]
struct Document {
    /// The keys that lead to the innermost open mapping or list; `None` for lists.
    open: Vec<Option<String>>,
    key: Option<(String, usize)>,
    /// The current object: that of the document, or an element of its list.
    object: ConfigMap,
}

#[derive(Default)]
struct ConfigMap {
    is_it: bool,
    name: String,
    namespace: String,
    /// Each key under `data` with its line and text.
    data: Vec<(String, usize, String)>,
}

impl ConfigMap {
    fn blocks(self, manifest: &str) -> Vec<Found> {
        let Self { is_it, name, namespace, data } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        let title =
            if name.is_empty() { "a ConfigMap".to_owned() } else { format!("ConfigMap {namespace}{slash}{name}") };
        let found = data.into_iter().filter(|_| is_it).filter_map(|(key, line, text)| {
            let block = block(manifest, line, &text)?;
            Some(Found { block, title: format!("{title}, data.{key}") })
        });
        found.collect()
    }
}

impl Document {
    /// Whether the innermost open mapping is an object.
    fn at_object(&self) -> bool {
        match self.open.as_slice() {
            [Some(_)] => true,
            [Some(_), None, Some(element)] => element.is_empty(),
            _ => false,
        }
    }

    /// The keys below the current object; `None` outside of one.
    fn path(&self) -> Option<&[Option<String>]> {
        match self.open.as_slice() {
            [Some(_), None, Some(_), rest @ ..] | [Some(_), rest @ ..] => Some(rest),
            _ => None,
        }
    }

    fn take(&mut self, event: &Event<'_>, line: usize) {
        match event {
            Event::Scalar(text, style, ..) => self.scalar(text, *style, line),
            Event::MappingStart(..) => {
                let key = self.key.take().map(|(key, _)| key);
                self.open.push(Some(key.unwrap_or_default()));
            }
            Event::SequenceStart(..) => {
                self.key = None;
                self.open.push(None);
            }
            Event::MappingEnd | Event::SequenceEnd => {
                self.open.pop();
                self.key = None;
            }
            Event::Alias(_) => self.key = None,
            _ => {}
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, line: usize) {
        if !matches!(self.open.last(), Some(Some(_))) {
            return;
        }
        let Some((key, key_line)) = self.key.take() else {
            self.key = Some((text.to_owned(), line));
            return;
        };
        let Some(path) = self.path() else { return };
        let parent = match path {
            [] => "",
            [Some(parent)] => parent.as_str(),
            _ => return,
        };
        let (parent, text) = (parent.to_owned(), text.to_owned());
        let is_enough = self.object.data.len() >= MOST_BLOCKS;
        match (parent.as_str(), key.as_str()) {
            ("", "kind") => self.object.is_it = text == "ConfigMap",
            ("metadata", "name") => self.object.name = text,
            ("metadata", "namespace") => self.object.namespace = text,
            ("data", _) if !is_enough && style == ScalarStyle::Literal && text.contains(KIND) => {
                self.object.data.push((key, key_line, text));
            }
            _ => {}
        }
    }
}

/// The lines below `key_line`, if they are exactly the block scalar `text`.
fn block(manifest: &str, key_line: usize, text: &str) -> Option<Block> {
    let start: usize = manifest.split_inclusive('\n').take(key_line).map(str::len).sum();
    let rest = manifest.get(start..)?;
    let first = rest.lines().find(|line| !line.trim().is_empty())?;
    let indentation = first.get(..first.len() - first.trim_start_matches(' ').len())?;
    let (mut end, mut last) = (0, 0);
    let mut found = Vec::new();
    for line in rest.split_inclusive('\n') {
        let content = line.strip_prefix(indentation);
        if content.is_none() && !line.trim().is_empty() {
            break;
        }
        end += line.len();
        found.push(content.unwrap_or_default().trim_end_matches(['\r', '\n']));
        if !line.trim().is_empty() {
            last = end;
        }
    }
    let is_it = found.join("\n").trim_end() == text.trim_end() && !indentation.is_empty();
    is_it.then_some(start..start + last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
apiVersion: v1
kind: ServiceAccount
---
apiVersion: v1
data:
  other: hello
  config.yaml: |-
    # é

    kind: KubeSchedulerConfiguration
      indented
kind: ConfigMap
---
kind: Deployment
data:
  config.yaml: |
    kind: KubeSchedulerConfiguration
";

    #[test]
    fn only_the_block_of_a_config_map_is_left_and_it_stays_where_it_is() {
        for manifest in [MANIFEST.to_owned(), MANIFEST.replace('\n', "\r\n")] {
            let [Found { block, .. }] = &find(&manifest)[..] else { panic!("one block") };
            let text = alone(&manifest, block);
            let lines: Vec<&str> = text.lines().collect();
            let expected =
                ["", "", "", "", "", "", "", "    # é", "", "    kind: KubeSchedulerConfiguration", "      indented"];
            assert_eq!(lines, expected);
            assert_eq!(put_back(&manifest, block, &text), manifest);
            let changed = put_back(&manifest, block, &text.replace("indented", "x"));
            assert_eq!(changed, manifest.replace("indented", "x"));
        }
    }

    #[test]
    fn config_maps_of_a_list_are_found_with_their_names() {
        let item = |name: &str| {
            format!(
                "- apiVersion: v1\n  data:\n    config.yaml: |\n      kind: KubeSchedulerConfiguration\n    other: x\n  kind: ConfigMap\n  \
                 metadata:\n    name: {name}\n    namespace: kube-system\n"
            )
        };
        let other =
            "- kind: Secret\n  metadata: {name: c}\n  data:\n    a: |\n      kind: KubeSchedulerConfiguration\n";
        let list = format!("apiVersion: v1\nitems:\n{}{other}{}kind: List\n", item("a"), item("b"));
        let titles: Vec<String> = find(&list).into_iter().map(|found| found.title).collect();
        let expected = ["a", "b"].map(|name| format!("ConfigMap kube-system/{name}, data.config.yaml"));
        assert_eq!(titles, expected);
    }

    #[test]
    fn what_cannot_be_told_exactly_is_not_found() {
        for style in [">", "\"KubeSchedulerConfiguration\" #"] {
            assert!(find(&MANIFEST.replace("|-", style)).is_empty(), "{style}");
        }
        assert!(find("kind: ConfigMap\ndata: {a: [KubeSchedulerConfiguration").is_empty());
    }
}
