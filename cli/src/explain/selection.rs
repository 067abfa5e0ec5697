//! Selects pods by name.

use std::sync::Arc;

use flotilla_cluster::Cluster;
use flotilla_framework::{class::PodInfo, profile::Profile};

/// The minimum similarity for a suggestion; 1 means equal.
const ALIKE: f64 = 0.8;

/// The pods of these names in the order of the files, those on nodes last. Without names all pods that the profiles try: those with a
/// deferred resize, then the pending ones.
///
/// # Errors
/// One line for each name without a pod.
pub(super) fn select<'a>(
    cluster: &'a Cluster,
    names: &[String],
    profiles: &[Profile],
) -> Result<Vec<&'a Arc<PodInfo>>, Vec<String>> {
    let names: Vec<String> = names.iter().map(|name| full(name)).collect();
    if names.is_empty() {
        let is_handled = |pod: &Arc<PodInfo>| profiles.iter().any(|known| known.scheduler_name == pod.scheduler_name);
        let is_tried = |pod: &&Arc<PodInfo>| pod.class.resize_deferred && !pod.deleting && is_handled(pod);
        return Ok(cluster.bound.iter().filter(is_tried).chain(&cluster.pending).collect());
    }
    let pods = || cluster.pending.iter().chain(&cluster.bound);
    let is_known = |name: &String| pods().any(|pod| pod.key() == *name);
    let unknown: Vec<String> = names.iter().filter(|name| !is_known(name)).map(|name| unknown(cluster, name)).collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    Ok(pods().filter(|pod| names.contains(&pod.key())).collect())
}

fn full(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("default/{name}") }
}

fn unknown(cluster: &Cluster, name: &str) -> String {
    if let Some(refused) = cluster.made.refused.iter().find(|refused| refused.of == name) {
        return format!("--pod {name}: the API server refuses this pod: {}", refused.reason);
    }
    let hint = match closest(cluster, name) {
        Some(meant) => format!("did you mean {meant}?"),
        None => match cluster.pending.len() {
            0 => "no pod of the input is pending".to_owned(),
            1 => "1 pod is pending; leave --pod out to explain it".to_owned(),
            count => format!("{count} pods are pending; leave --pod out to explain them all"),
        },
    };
    format!("--pod {name}: no pod of the input has this name; {hint}")
}

/// The pod with the most similar name, preferably in the same namespace.
fn closest(cluster: &Cluster, name: &str) -> Option<String> {
    let (namespace, own) = name.split_once('/').unwrap_or_default();
    let likeness = |pod: &Arc<PodInfo>| (strsim::jaro_winkler(&pod.name, own), &*pod.class.namespace == namespace);
    let pods = cluster.pending.iter().chain(&cluster.bound);
    let alike = pods.map(|pod| (likeness(pod), pod.key())).filter(|((alike, _), _)| *alike >= ALIKE);
    let best = alike.max_by(|((left, left_is_here), left_key), ((right, right_is_here), right_key)| {
        left.total_cmp(right).then(left_is_here.cmp(right_is_here)).then_with(|| right_key.cmp(left_key))
    });
    best.map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use flotilla_framework::testing;

    use super::*;

    fn pod(namespace: &str, name: &str, node: Option<&str>) -> Arc<PodInfo> {
        let info = testing::pod(name).namespace(namespace).build();
        Arc::new(PodInfo { node_name: node.map(Into::into), ..info })
    }

    fn cluster() -> Cluster {
        let pending = vec![pod("shop", "web-1", None), pod("default", "web-2", None), pod("shop", "web-2", None)];
        Cluster { nodes: Vec::new(), bound: vec![pod("shop", "db-0", Some("n1"))], pending, ..Cluster::default() }
    }

    fn names(asked: &[&str]) -> Result<Vec<String>, Vec<String>> {
        let asked: Vec<String> = asked.iter().map(|&name| name.to_owned()).collect();
        select(&cluster(), &asked, &[]).map(|pods| pods.into_iter().map(|pod| pod.key()).collect())
    }

    #[test]
    fn pods_come_in_the_order_of_the_input_with_any_order_of_the_flags() {
        let all = ["shop/web-1", "default/web-2", "shop/web-2"].map(str::to_owned);
        assert_eq!(names(&[]), Ok(all.to_vec()));
        assert_eq!(names(&["shop/db-0", "shop/web-1"]), Ok(vec!["shop/web-1".to_owned(), "shop/db-0".to_owned()]));
        assert_eq!(names(&["shop/web-2", "web-2", "shop/web-2"]), Ok(all[1..].to_vec()));
    }

    #[test]
    fn a_name_that_is_no_pending_pods_is_told_with_what_may_have_been_meant() {
        let cases = [
            ("web-1", "--pod default/web-1: no pod of the input has this name; did you mean shop/web-1?"),
            ("shop/wbe-2", "--pod shop/wbe-2: no pod of the input has this name; did you mean shop/web-2?"),
            ("wbe-2", "--pod default/wbe-2: no pod of the input has this name; did you mean default/web-2?"),
            (
                "shop/mail",
                "--pod shop/mail: no pod of the input has this name; 3 pods are pending; leave --pod out to \
                 explain them all",
            ),
            ("shop/bd-0", "--pod shop/bd-0: no pod of the input has this name; did you mean shop/db-0?"),
        ];
        for (name, expected) in cases {
            assert_eq!(names(&[name]), Err(vec![expected.to_owned()]), "{name}");
        }
    }
}
