//! In-tree volumes (`translation/volumes.yaml`) are translated as by k8s.io/csi-translation-lib (`integration-tests/oracle/translate`).

use std::collections::BTreeMap;

use flotilla_framework::{
    class::NodeTerm,
    ingest::node_term,
    volumes::{objects::InTree, translate},
};
use k8s_openapi::api::core::v1::{NodeSelectorTerm, PersistentVolume, Pod};
use serde::{Deserialize, de::DeserializeOwned};
use serde_yaml::Value;

const VOLUMES: &str = include_str!("translation/volumes.yaml");
const ANSWERS: &str = include_str!("translation/answers.jsonl");

/// The library's result for a volume; only the name for one that does not migrate.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    name: String,
    #[serde(default)]
    plugin: String,
    #[serde(default)]
    driver: String,
    handle: Option<String>,
    error: Option<String>,
    #[serde(default)]
    node_affinity: Vec<NodeSelectorTerm>,
}

type Translation = Option<(String, String, Result<String, String>, Vec<NodeTerm>)>;

fn recorded(answer: Answer) -> (String, Translation) {
    let terms = answer.node_affinity.iter().map(node_term).collect();
    let handle = answer.error.map_or_else(|| answer.handle.ok_or_else(String::new), Err);
    let migrates = !answer.plugin.is_empty();
    (answer.name, migrates.then_some((answer.plugin, answer.driver, handle, terms)))
}

fn flotilla(translated: Option<InTree>, own: Vec<NodeTerm>) -> Translation {
    let InTree { plugin, driver, handle, node_affinity } = translated?;
    assert_eq!(translate::driver(&plugin), Some(&*driver), "the driver of {plugin}");
    let handle = handle.map(|handle| handle.to_string()).map_err(|error| error.to_string());
    // The library returns no volume if the handle is an error.
    let terms = if handle.is_ok() { node_affinity.unwrap_or(own) } else { Vec::new() };
    Some((plugin.to_string(), driver.to_string(), handle, terms))
}

fn read<T: DeserializeOwned>(document: Value) -> T {
    serde_yaml::from_value(document).expect("an object of its kind")
}

/// Flotilla's results for a PersistentVolume or the volumes of a pod, by the names in the library's results.
fn translations(document: Value) -> Vec<(String, Translation)> {
    if document["kind"] == "PersistentVolume" {
        let volume: PersistentVolume = read(document);
        let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
        let own = affinity.and_then(|affinity| affinity.required.as_ref());
        let own = own.map(|selector| selector.node_selector_terms.iter().map(node_term).collect()).unwrap_or_default();
        let translated = flotilla(translate::volume(&volume), own);
        return vec![(volume.metadata.name.unwrap_or_default(), translated)];
    }
    let pod: Pod = read(document);
    let (name, namespace) = (pod.metadata.name.unwrap_or_default(), pod.metadata.namespace.unwrap_or_default());
    let volumes = pod.spec.and_then(|spec| spec.volumes).unwrap_or_default();
    let translate = |volume| flotilla(translate::inline(volume, &namespace), Vec::new());
    volumes.iter().map(|volume| (format!("{name}/{}", volume.name), translate(volume))).collect()
}

#[test]
fn volumes_are_translated_as_the_library_does_it() {
    let answers = ANSWERS.lines().map(|line| recorded(serde_json::from_str(line).expect("an answer")));
    let mut answers: BTreeMap<String, Translation> = answers.collect();
    let documents = serde_yaml::Deserializer::from_str(VOLUMES).map(|one| Value::deserialize(one).expect("YAML"));
    for (name, found) in documents.filter(|document| !document.is_null()).flat_map(translations) {
        let expected = answers.remove(&name).unwrap_or_else(|| panic!("{name} has no recorded answer"));
        assert_eq!(found, expected, "{name}");
    }
    assert!(answers.is_empty(), "recorded, and not in volumes.yaml: {:?}", answers.keys());
}
