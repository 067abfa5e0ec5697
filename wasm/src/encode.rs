//! Pods, nodes and scores as a module reads them: protobuf of `k8s.io/api/core/v1`, and JSON of scores.
//!
//! What the framework holds is written and nothing else, so that a verdict cannot depend on what no class and no column
//! has. docs/plugins.md lists the fields.
//!
//! Source: `k8s.io/api/core/v1/generated.proto`, whose field numbers are the constants here.

mod node;
mod pod;
mod wire;

pub(crate) use node::Nodes;
pub(crate) use pod::{ShownPod, pod, pod_json};

use std::collections::BTreeMap;

/// The name that stands for a node among scores that are normalised. The coordinator knows how many nodes have a raw score, and
/// a guest that treats equal scores alike needs no more.
fn name(raw: usize, node: usize) -> String {
    format!("{raw:06}-{node:06}")
}

/// Raw scores and how many nodes have each, as the JSON object that `nodeScoreList` gives.
pub(crate) fn scores(raws: &[(i64, usize)]) -> String {
    let of = |(place, &(raw, nodes)): (usize, &(i64, usize))| (0..nodes).map(move |node| (name(place, node), raw));
    let all: BTreeMap<String, i64> = raws.iter().enumerate().flat_map(of).collect();
    serde_json::to_string(&all).unwrap_or_default()
}

/// The scores that a guest has normalised these raw scores to.
///
/// # Errors
/// What it left out, or gave to nodes that there are none of.
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
