//! Compares bindings and deletions in the API server's audit log with the commits.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
};

use anyhow::Context as _;
use serde_json::Value;

use super::history::History;

pub(super) const USERS: &str = "chaos:coordinator-";

/// Contents of the log. A killed API server does not log requests in flight.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// Nodes of each pod UID's bindings, in order.
    bound: BTreeMap<String, Vec<String>>,
    deleted: BTreeSet<String>,
    /// Committed bindings by coordinator.
    pub(super) binders: BTreeMap<String, usize>,
    /// Refused requests of coordinators, by verb, resource and code.
    pub(super) refused: BTreeMap<String, usize>,
}

impl Audit {
    /// Reads a log without incomplete lines, which a killed API server leaves.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut audit = Self::default();
        for line in BufReader::new(file).split(b'\n') {
            let line = line.with_context(|| format!("cannot read {}", path.display()))?;
            if let Ok(entry) = serde_json::from_slice(&line) {
                audit.take(&entry);
            }
        }
        Ok(audit)
    }

    fn take(&mut self, entry: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (about, user, code) =
            (&entry["objectRef"], text(&entry["user"]["username"]), &entry["responseStatus"]["code"]);
        if about["subresource"] == "binding" && *code == 201 {
            let (uid, node) = (&entry["requestObject"]["metadata"]["uid"], &entry["requestObject"]["target"]["name"]);
            self.bound.entry(text(uid)).or_default().push(text(node));
            *self.binders.entry(user.clone()).or_default() += 1;
        }
        if !user.starts_with(USERS) {
            return;
        }
        let is_deletion = entry["verb"] == "delete" && about["resource"] == "pods";
        if is_deletion && *code == 200 {
            self.deleted.insert(text(&entry["requestObject"]["preconditions"]["uid"]));
        }
        if let Some(code) = code.as_u64().filter(|code| *code >= 400) {
            let resource = [&about["resource"], &about["subresource"]].map(text).join("/");
            let what = format!("{} {} {code}", text(&entry["verb"]), resource.trim_end_matches('/'));
            *self.refused.entry(what).or_default() += 1;
        }
    }

    /// Contradictions of the log with invariants or commits.
    #[must_use]
    pub(super) fn wrong(&self, history: &History) -> Vec<String> {
        let mut wrong = Vec::new();
        for (uid, nodes) in &self.bound {
            let seen = history.pod(uid);
            let name = seen.map_or("a pod that was never seen", |seen| &*seen.name);
            if nodes.len() > 1 {
                wrong.push(format!("{name} ({uid}) was bound {} times: to {nodes:?}", nodes.len()));
            }
            let is = seen.and_then(|seen| seen.node.as_ref());
            if nodes.last() != is {
                wrong.push(format!("{name} ({uid}) was bound to {nodes:?} by the log, and is on {is:?}"));
            }
        }
        for uid in &self.deleted {
            let seen = history.pod(uid);
            if !seen.is_some_and(|seen| seen.chosen) {
                let name = seen.map_or("a pod that was never seen", |seen| &*seen.name);
                wrong.push(format!("{name} ({uid}) was deleted by a coordinator and never marked for preemption"));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;
    use crate::chaos::store::Commit;

    fn binding(uid: &str, node: &str, code: u16) -> Value {
        let request = json!({ "metadata": { "uid": uid }, "target": { "kind": "Node", "name": node } });
        json!({
            "verb": "create", "user": { "username": "chaos:coordinator-0" },
            "objectRef": { "resource": "pods", "subresource": "binding", "name": uid },
            "requestObject": request, "responseStatus": { "code": code },
        })
    }

    fn audit(entries: &[Value]) -> Audit {
        let mut audit = Audit::default();
        entries.iter().for_each(|entry| audit.take(entry));
        audit
    }

    fn history() -> History {
        let room = json!({ "cpu": "1", "memory": "1Gi", "pods": "10" });
        let node = json!({ "metadata": { "name": "a" }, "status": { "allocatable": room } });
        let mut history = History::new(&[from_value(node).expect("a node")]);
        let pod = json!({ "metadata": { "name": "x", "uid": "x" }, "spec": { "nodeName": "a", "containers": [] } });
        history.apply(&Commit { revision: 1, name: "default/x".to_owned(), pod: from_value(pod).ok() });
        history
    }

    #[test]
    fn a_log_that_agrees_with_what_was_committed_is_fine() {
        let audit = audit(&[binding("x", "b", 409), binding("x", "a", 201)]);
        assert_eq!(audit.wrong(&history()), Vec::<String>::new());
        assert_eq!(audit.binders, BTreeMap::from([("chaos:coordinator-0".to_owned(), 1)]));
        assert_eq!(audit.refused, BTreeMap::from([("create pods/binding 409".to_owned(), 1)]));
    }

    #[test]
    fn a_pod_that_was_bound_twice_is_found() {
        let wrong = audit(&[binding("x", "b", 201), binding("x", "a", 201)]).wrong(&history());
        assert_eq!(wrong, ["default/x (x) was bound 2 times: to [\"b\", \"a\"]"]);
    }

    #[test]
    fn a_binding_that_was_not_committed_is_found() {
        let wrong = audit(&[binding("x", "b", 201), binding("y", "a", 201)]).wrong(&history());
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].ends_with("was bound to [\"b\"] by the log, and is on Some(\"a\")"), "{wrong:?}");
    }

    #[test]
    fn a_pod_that_a_coordinator_deletes_and_did_not_mark_is_found() {
        let deletion = |user: &str| {
            json!({
                "verb": "delete", "user": { "username": user }, "objectRef": { "resource": "pods", "name": "x" },
                "requestObject": { "preconditions": { "uid": "x" } }, "responseStatus": { "code": 200 },
            })
        };
        assert_eq!(audit(&[deletion("flotilla:admin")]).wrong(&history()), Vec::<String>::new());
        let wrong = audit(&[deletion("chaos:coordinator-1")]).wrong(&history());
        assert!(wrong[0].ends_with("was deleted by a coordinator and never marked for preemption"), "{wrong:?}");
    }

    #[test]
    fn a_line_that_is_cut_off_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        std::fs::write(&path, format!("{}\n{{\"verb\":", binding("x", "a", 201))).expect("written");
        assert_eq!(Audit::read(&path).expect("it is read").bound.len(), 1);
    }
}
