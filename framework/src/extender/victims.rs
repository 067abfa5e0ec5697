//! Extenders' answers about preemption victims. Source: `callExtenders` and `HTTPExtender.ProcessPreemption`.

use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Extender;

/// The victims on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victims {
    /// Their UIDs, the most important first.
    pub pods: Vec<Arc<str>>,
    /// The number of victims that violate a budget.
    pub violations: i64,
}

/// The nodes on which preemption would help, after the extenders called so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The nodes with their victims.
    pub nodes: BTreeMap<Arc<str>, Victims>,
    residents: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Proposal {
    /// A proposal before any call. `residents` are the UIDs of all pods on each of the nodes.
    #[must_use]
    pub fn new(nodes: BTreeMap<Arc<str>, Victims>, residents: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>) -> Self {
        Self { nodes, residents }
    }

    /// Takes an extender's answer: UIDs of victims by node, or the failure of the call. `Ok(Some(reason))`: the extender is ignored.
    /// kube-scheduler lets it name nodes that were not in the request.
    ///
    /// # Errors
    /// The reason why no preemption takes place.
    pub fn take(
        &mut self,
        extender: &Extender,
        answer: Result<BTreeMap<String, (Vec<String>, i64)>, String>,
    ) -> Result<Option<String>, String> {
        match answer.and_then(|answer| self.read(extender, answer)) {
            Ok(nodes) => {
                if let Some((node, _)) =
                    nodes.iter().find(|(_, victims)| victims.pods.is_empty() && !extender.ignorable)
                {
                    return Err(format!("expected at least one victim pod on node {node:?}"));
                }
                self.nodes = nodes;
                self.nodes.retain(|_, victims| !victims.pods.is_empty());
                Ok(None)
            }
            Err(reason) if extender.ignorable => Ok(Some(reason)),
            Err(reason) => Err(reason),
        }
    }

    fn read(
        &self,
        extender: &Extender,
        answer: BTreeMap<String, (Vec<String>, i64)>,
    ) -> Result<BTreeMap<Arc<str>, Victims>, String> {
        let mut nodes = BTreeMap::new();
        for (name, (uids, violations)) in answer {
            let Some((node, residents)) = self.residents.get_key_value(name.as_str()) else {
                return Err(format!("nodeinfo not found for node name {name:?}"));
            };
            let mut pods = Vec::new();
            for uid in uids {
                let Some(known) = residents.get(uid.as_str()) else {
                    return Err(format!(
                        "extender: {} claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the pod is not found on \
                         that node",
                        extender.url_prefix
                    ));
                };
                pods.push(Arc::clone(known));
            }
            nodes.insert(Arc::clone(node), Victims { pods, violations });
        }
        Ok(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal() -> Proposal {
        let victims = |uid: &str| Victims { pods: vec![uid.into()], violations: 0 };
        let nodes = [("a", "u1"), ("b", "u2")].map(|(node, uid)| (Arc::from(node), victims(uid)));
        let residents = [("a", vec!["u1", "u3"]), ("b", vec!["u2"])];
        let residents = residents.map(|(node, uids)| (Arc::from(node), uids.into_iter().map(Arc::from).collect()));
        Proposal::new(nodes.into(), residents.into())
    }

    fn answer(nodes: &[(&str, &[&str])]) -> Result<BTreeMap<String, (Vec<String>, i64)>, String> {
        let owned = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect();
        Ok(nodes.iter().map(|(node, uids)| ((*node).to_owned(), (owned(uids), 1))).collect())
    }

    #[test]
    fn an_extender_may_leave_nodes_out_and_choose_other_pods_there() {
        let mut proposal = proposal();
        assert_eq!(proposal.take(&Extender::default(), answer(&[("a", &["u3", "u1"])])), Ok(None));
        let expected = Victims { pods: vec!["u3".into(), "u1".into()], violations: 1 };
        assert_eq!(proposal.nodes, BTreeMap::from([("a".into(), expected)]));
        assert_eq!(proposal.take(&Extender::default(), answer(&[])), Ok(None));
        assert!(proposal.nodes.is_empty());
    }

    #[test]
    fn an_answer_that_makes_no_sense_ends_the_preemption_unless_the_extender_can_be_ignored() {
        let cases = [
            (answer(&[("a", &["u9"])]), "but the pod is not found on that node"),
            (answer(&[("c", &["u1"])]), "nodeinfo not found for node name \"c\""),
            (Err("broken".to_owned()), "broken"),
        ];
        for (answer, expected) in cases {
            let reason = proposal().take(&Extender::default(), answer.clone()).expect_err("an error");
            assert!(reason.ends_with(expected), "{reason}");
            let ignorable = Extender { ignorable: true, ..Extender::default() };
            let mut same = proposal();
            assert_eq!(same.take(&ignorable, answer), Ok(Some(reason)));
            assert_eq!(same, proposal());
        }
        let empty = answer(&[("a", &[]), ("b", &["u2"])]);
        assert_eq!(
            proposal().take(&Extender::default(), empty.clone()),
            Err("expected at least one victim pod on node \"a\"".to_owned())
        );
        let mut same = proposal();
        assert_eq!(same.take(&Extender { ignorable: true, ..Extender::default() }, empty), Ok(None));
        assert_eq!(same.nodes.len(), 1);
    }
}
