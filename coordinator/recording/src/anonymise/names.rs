//! Assigns new names in the same order as the old ones.
//!
//! Lists are sorted by name and names break ties. A new name is therefore the preceding fixed text and a number, so that it keeps its
//! position among all names.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound::{Excluded, Unbounded},
};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Domains of well-known labels, taints and resources.
const DOMAINS: [&str; 3] = ["kubernetes.io", "k8s.io", "x-k8s.io"];

/// Texts with a meaning for plugins.
const WORDS: [&str; 5] = ["", "0.0.0.0", "metadata.name", "true", "false"];

/// Maximum length of a number that stays: `Gt` and `Lt` compare labels as numbers.
const DIGITS: usize = 9;

const TRIES: u32 = 16_384;

/// Number of workers in the order kept for each node: 8 workers have 8 * 7 * 6 * 5 = 1,680 orders of the first four.
const DEPTH: usize = 4;

/// No new name keeps the order of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no new name keeps the order of {0:?} among the fixed texts")]
pub struct Unkept(pub String);

/// Whether the text is public.
pub(super) fn stays(text: &str) -> bool {
    let domain = text.split('/').next().filter(|domain| domain.len() < text.len());
    let is_known =
        |domain: &str| DOMAINS.iter().any(|known| domain == *known || domain.ends_with(&format!(".{known}")));
    WORDS.contains(&text) || domain.is_some_and(is_known) || is_number(text) || is_uid(text)
}

fn is_number(text: &str) -> bool {
    text.len() <= DIGITS && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text has a UID's form. UIDs reveal nothing, and they break ties between nodes.
fn is_uid(text: &str) -> bool {
    let groups = [8, 4, 4, 4, 12];
    let is_hex = |group: &str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split('-').count() == groups.len()
        && text.split('-').zip(groups).all(|(group, length)| group.len() == length && is_hex(group))
}

pub(super) fn other_names(
    names: &BTreeSet<String>,
    words: &BTreeSet<String>,
    nodes: &BTreeSet<String>,
    workers: &BTreeSet<String>,
) -> Result<BTreeMap<String, String>, Unkept> {
    let letters = (b'a'..=b'z').chain(b'A'..=b'Z').map(|letter| char::from(letter).to_string());
    let kept = |text: &String| stays(text) || words.contains(text);
    let fixed: BTreeSet<String> =
        names.iter().filter(|name| kept(name) && !is_uid(name)).cloned().chain(letters).collect();
    let mut others = BTreeMap::new();
    let (mut before, mut number) = ("", 0);
    for name in names.iter().filter(|name| !kept(name)) {
        // A letter sorts before names that begin with it, and may itself be a name.
        let word = fixed.range::<str, _>((Unbounded, Excluded(name.as_str()))).next_back().map_or("", String::as_str);
        number = if word == before { number + 1 } else { 1 };
        before = word;
        let after = fixed.range::<str, _>((Excluded(word), Unbounded)).next();
        let other = ["-", "!"].iter().map(|mark| format!("{word}{mark}{number:07}"));
        let other = other.into_iter().find(|other| after.is_none_or(|after| other < after));
        others.insert(name.clone(), other.ok_or_else(|| Unkept(name.clone()))?);
    }
    deal(&mut others, nodes, workers);
    Ok(others)
}

/// Salts the names of nodes so that each node keeps its workers: the worker with the highest hash of worker and node gets the node. A
/// suffix does not change the order of names.
fn deal(others: &mut BTreeMap<String, String>, nodes: &BTreeSet<String>, workers: &BTreeSet<String>) {
    if workers.len() < 2 {
        return;
    }
    let pairs: Vec<(u64, u64)> = workers
        .iter()
        .map(|worker| {
            let other = others.get(worker).unwrap_or(worker);
            (xxh3_64(worker.as_bytes()), xxh3_64(other.as_bytes()))
        })
        .collect();
    for node in nodes {
        let Some(other) = others.get(node).cloned() else { continue };
        let wanted = order(node, pairs.iter().map(|(hash, _)| *hash));
        let found = (0..TRIES).map(|salt| format!("{other}.{salt}")).find(|name| {
            let found = order(name, pairs.iter().map(|(_, hash)| *hash));
            found.iter().zip(&wanted).take(DEPTH).all(|(found, wanted)| found == wanted)
        });
        others.insert(node.clone(), found.unwrap_or(other));
    }
}

fn order(node: &str, workers: impl Iterator<Item = u64>) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> =
        workers.enumerate().map(|(place, hash)| (xxh3_64_with_seed(node.as_bytes(), hash), place)).collect();
    order.sort_unstable_by(|one, other| other.cmp(one));
    order.into_iter().map(|(_, place)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn what_says_nothing_or_means_the_same_everywhere_stays() {
        let staying = [
            "",
            "true",
            "topology.kubernetes.io/zone",
            "node.kubernetes.io/not-ready",
            "k8s.io/a",
            "scheduling.x-k8s.io/pod-group",
            "12",
            "metadata.name",
            "0b9c1f0e-6d52-4b0e-9d4c-2f6a1c8f7a11",
        ];
        for text in staying {
            assert!(stays(text), "{text}");
        }
        for text in ["web", "acme.example/team", "1234567890", "kubernetes.io.example/a", "eu-west-1a", "kubernetes.io"]
        {
            assert!(!stays(text), "{text}");
        }
    }

    #[test]
    fn other_names_stand_in_the_same_order_among_each_other_and_what_stays() {
        let names = set(&[
            "",
            "-x",
            "1",
            "10",
            "2x",
            "a",
            "app",
            "app-1",
            "b",
            "kubernetes.io",
            "kubernetes.io/hostname",
            "kubernetes.io/hostname2",
            "topology.kubernetes.io/zone",
            "topz",
            "web-0",
            "web-1",
            "{\"json\":1}",
            "Zoe",
            "example.com/gpu",
            "example.com/gpu-x",
        ]);
        let words = set(&["example.com/gpu"]);
        let others = other_names(&names, &words, &set(&[]), &set(&[])).expect("each has one");
        let told: Vec<&str> = names.iter().map(|name| others.get(name).unwrap_or(name).as_str()).collect();
        assert!(told.is_sorted_by(|one, other| one < other), "{told:?}");
        assert!(
            !told.iter().any(|name| name.contains("web") || name.contains("json") || name.contains("Zoe")),
            "{told:?}"
        );
        assert!(told.contains(&"topology.kubernetes.io/zone") && told.contains(&"example.com/gpu"), "{told:?}");
    }

    #[test]
    fn nodes_go_to_the_same_workers() {
        let nodes: BTreeSet<String> = (0..200).map(|index| format!("node-{index}")).collect();
        let workers = set(&["10.0.0.1:7443", "10.0.0.2:7443", "10.0.0.3:7443"]);
        let names = nodes.union(&workers).cloned().collect();
        let others = other_names(&names, &set(&[]), &nodes, &workers).expect("each has one");
        let hashes = |of: &dyn Fn(&String) -> u64| workers.iter().map(of).collect::<Vec<_>>();
        let (before, after) =
            (hashes(&|worker| xxh3_64(worker.as_bytes())), hashes(&|worker| xxh3_64(others[worker].as_bytes())));
        for node in &nodes {
            assert_eq!(order(node, before.iter().copied()), order(&others[node], after.iter().copied()), "{node}");
        }
    }
}
