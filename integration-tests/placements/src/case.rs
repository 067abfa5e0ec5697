//! A cluster and its configuration, as files in a folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::Value;

/// A case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// File name without `.yaml`.
    pub name: String,
    /// Objects of the cluster.
    pub objects: Vec<Value>,
    /// KubeSchedulerConfiguration; `None` for the default.
    pub configuration: Option<Value>,
}

impl Case {
    /// Reads `NAME.yaml`, and `NAME.config.yaml` if it exists.
    ///
    /// # Errors
    /// A file is missing or invalid.
    pub fn read(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let objects = documents(&folder.join(format!("{name}.yaml")))?.into_iter().flat_map(items).collect();
        let configuration = configuration_path(folder, name);
        let configuration = if configuration.exists() { documents(&configuration)?.pop() } else { None };
        Ok(Self { name: name.to_owned(), objects, configuration })
    }

    /// Writes the case into a folder, and returns the path of the cluster.
    ///
    /// # Errors
    /// The folder is not writable.
    pub fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let cluster = folder.join(format!("{}.yaml", self.name));
        let objects: Result<Vec<String>, _> =
            self.objects.iter().map(|object| serde_yaml::to_string(object).map(|text| quoted(&text))).collect();
        write(&cluster, &objects?.join("---\n"))?;
        let path = configuration_path(folder, &self.name);
        match &self.configuration {
            Some(configuration) => write(&path, &serde_yaml::to_string(configuration)?)?,
            // The configuration of an earlier case with this name must not remain.
            None if path.exists() => {
                fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?
            }
            None => {}
        }
        Ok(cluster)
    }

    /// Sorted names of the cases in a folder.
    ///
    /// # Errors
    /// The folder is not readable.
    pub fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let file = entry?.file_name().to_string_lossy().into_owned();
            names.extend(file.strip_suffix(".yaml").filter(|name| !name.ends_with(".config")).map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn configuration_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.config.yaml"))
}

fn documents(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let read = |document| serde::Deserialize::deserialize(document);
    let documents: Result<Vec<Value>, serde_yaml::Error> =
        serde_yaml::Deserializer::from_str(&text).map(read).collect();
    let documents = documents.with_context(|| format!("{} is not YAML", path.display()))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Objects of a `List`, or a single object.
fn items(mut document: Value) -> Vec<Value> {
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if document["kind"] == "List" => items,
        Some(items) => {
            document["items"] = items;
            vec![document]
        }
        None => vec![document],
    }
}

/// Quotes words that are booleans in YAML 1.1, which Kubernetes reads.
fn quoted(text: &str) -> String {
    const WORDS: [&str; 6] = ["yes", "no", "on", "off", "y", "n"];
    let quote = |line: &str| match line.rsplit_once(' ') {
        Some((before, word)) if before.ends_with([':', '-']) && WORDS.contains(&word) => {
            format!("{before} \"{word}\"\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(quote).collect()
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}; is the folder writable?", path.display()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_that_older_yaml_takes_for_booleans_are_quoted() {
        let text = "annotations:\n  bound: yes\nvalues:\n- no\n- say yes\nname: yes-man\n";
        let quoted = "annotations:\n  bound: \"yes\"\nvalues:\n- \"no\"\n- say yes\nname: yes-man\n";
        assert_eq!(super::quoted(text), quoted);
    }
}
