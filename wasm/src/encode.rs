//! Encodes pods, nodes and scores for modules: protobuf of `k8s.io/api/core/v1`, and JSON for scores.
//!
//! Only data of the framework is encoded, so that a result cannot depend on data outside of classes and columns. docs/tasks/plugins.md
//! lists the fields.
//!
//! Source: `k8s.io/api/core/v1/generated.proto`; the constants here are its field numbers.

mod node;
mod pod;
mod wire;

pub(crate) use node::Nodes;
pub(crate) use pod::{ShownPod, pod, pod_json};

use std::collections::BTreeMap;

/// A placeholder for a node name in normalization. The coordinator knows only the number of nodes per raw score, which suffices for guests
/// that treat equal scores equally.
fn name(raw: usize, node: usize) -> String {
    format!("{raw:06}-{node:06}")
}

/// Raw scores with their numbers of nodes, as the JSON object of `nodeScoreList`.
pub(crate) fn scores(raws: &[(i64, usize)]) -> String {
    let of = |(place, &(raw, nodes)): (usize, &(i64, usize))| (0..nodes).map(move |node| (name(place, node), raw));
    let all: BTreeMap<String, i64> = raws.iter().enumerate().flat_map(of).collect();
    serde_json::to_string(&all).unwrap_or_default()
}

/// The guest's normalized scores of these raw scores. Fails if the guest omitted nodes or scored unknown ones.
pub(crate) fn normalized(raws: &[(i64, usize)], json: &[u8]) -> Result<Vec<i64>, String> {
    let all: BTreeMap<String, i64> =
        serde_json::from_slice(json).map_err(|error| format!("result.normalized_score_list: {error}"))?;
    let wanted: usize = raws.iter().map(|(_, nodes)| nodes).sum();
    if all.len() != wanted {
        return Err(format!(
            "size mismatch: scores has {wanted} elements, but updatedScores has {} elements",
            all.len()
        ));
    }
    let mut scores = Vec::with_capacity(raws.len());
    for (place, &(raw, nodes)) in raws.iter().enumerate() {
        let mut of_raw = (0..nodes).map(|node| all.get(&name(place, node)).copied());
        let first = of_raw.next().flatten().ok_or("updatedScores has a name that scores has not")?;
        if of_raw.any(|score| score != Some(first)) {
            return Err(format!("nodes with the score {raw} are normalised to different scores"));
        }
        scores.push(first);
    }
    Ok(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_one_entry_for_each_node_and_read_back() {
        let raws = [(3, 2), (7, 1)];
        let json = scores(&raws);
        assert_eq!(json, r#"{"000000-000000":3,"000000-000001":3,"000001-000000":7}"#);
        assert_eq!(normalized(&raws, json.as_bytes()), Ok(vec![3, 7]));
        for (json, error) in [
            ("{}", "size mismatch: scores has 3 elements, but updatedScores has 0 elements"),
            (r#"{"a":1,"b":2,"c":3}"#, "updatedScores has a name that scores has not"),
            (
                r#"{"000000-000000":3,"000000-000001":4,"000001-000000":7}"#,
                "nodes with the score 3 are normalised to different scores",
            ),
        ] {
            assert_eq!(normalized(&raws, json.as_bytes()), Err(error.to_owned()));
        }
        assert!(normalized(&raws, b"[]").is_err());
    }
}
