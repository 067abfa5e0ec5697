//! Clusters of JSON objects, for tests.

use serde_json::{Value, json};

use super::{Cluster, Gatherer, Loader, PodTemplate, Problems, Sources};

/// The cluster of the objects and of one node, and all messages without their places.
pub(crate) fn load(objects: &[Value], mut gatherer: Gatherer, rules: &[PodTemplate]) -> (Cluster, Vec<String>) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "uid": "1", "resourceVersion": "1"},
        "status": {"allocatable": {"cpu": "4", "pods": "110"}},
    });
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let seen = || ();
    let mut loader = Loader::new(&mut sources, &mut gatherer, &mut problems, &seen).with_pod_templates(rules);
    for (number, object) in [&node].into_iter().chain(objects).enumerate() {
        loader.text(format!("{number}.json"), object.to_string());
    }
    let mut notes = loader.unused_rules();
    notes.extend(loader.notes());
    let cluster = gatherer.finish(&["default-scheduler"], &mut problems);
    let lines = problems.render(&sources).into_iter().map(|line| match line.split_once(": ") {
        Some((place, text)) if place.contains(".json:") => text.to_owned(),
        _ => line,
    });
    notes.extend(cluster.made.default_lines());
    let lines = lines.chain(notes).collect();
    (cluster, lines)
}
