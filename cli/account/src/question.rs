//! Questions to the cluster in a report: pods and nodes to add, nodes to cordon, uncordon or remove.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use flotilla_cluster::{Cluster, Gatherer, Loader, Problems, Sources};
use flotilla_framework::{
    class::{Class, PodInfo},
    registry::Registry,
};
use serde::{Deserialize, Serialize};

use super::{
    explainer::Explainer,
    kept::{Kept, Unkept},
    pod_explanation::PodExplanation,
};

/// The name of the question's text in messages, before line and column.
pub const INPUT: &str = "input";

/// Accounts in one answer; pods with equal requests share one.
const MOST_ACCOUNTS: usize = 100;

/// Pods of one kind share an account.
type Kind<'a> = (&'a Arc<Class>, &'a Arc<str>, i32, bool);

/// A question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Question {
    /// Objects in YAML or JSON. They are added to the cluster and replace objects of their kind and name. Those that are pods without a
    /// node are evaluated.
    pub text: String,
    /// More pending pods to evaluate, as `namespace/name`.
    pub pods: Vec<String>,
    /// Nodes to cordon.
    pub cordon: Vec<String>,
    /// Nodes to uncordon.
    pub uncordon: Vec<String>,
    /// Nodes to remove, together with their pods.
    pub remove: Vec<String>,
}

/// The answer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The names of all nodes; accounts refer to a node by its index here.
    pub nodes: Vec<Arc<str>>,
    /// The evaluated pods.
    pub pods: Vec<Asked>,
    /// The distinct accounts.
    pub accounts: Vec<PodExplanation>,
    /// The number of pods that were not evaluated because of the limit.
    pub more: usize,
    /// Warnings about the text.
    pub warnings: Vec<String>,
}

/// An evaluated pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// `namespace/name`.
    pub name: String,
    /// The index of its account.
    pub account: usize,
}

/// Answers questions about a cluster.
#[derive(Debug)]
pub struct Desk {
    registry: Registry,
    kept: Kept,
}

impl Desk {
    /// Decodes the cluster of a report.
    ///
    /// # Errors
    /// The bytes cannot be decoded.
    pub fn open(bytes: &[u8], registry: Registry) -> Result<Self, Unkept> {
        Ok(Self { registry, kept: Kept::decode(bytes)? })
    }

    /// The manifest of a pending pod in YAML; `None` if the report has none.
    #[must_use]
    pub fn manifest(&self, pod: &str) -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(self.kept.manifests.get(pod)?).ok()?;
        serde_yaml::to_string(&value).ok()
    }

    /// Answers a question and leaves the cluster unchanged.
    ///
    /// # Errors
    /// The question is invalid: one line for each problem, with [`INPUT`], line and column for those of the text.
    pub fn ask(&self, question: &Question) -> Result<Answer, Vec<String>> {
        let Question { text, pods, cordon, uncordon, remove } = question;
        self.check_names(question)?;
        let set = |names: &[String]| names.iter().cloned().collect::<HashSet<String>>();
        let cluster = self.kept.cluster.clone().without_nodes(&set(remove));
        let cluster = cluster.cordoned(&set(uncordon), false).cordoned(&set(cordon), true);
        let (new, warnings) = self.read(text, &cluster)?;
        let mut asked: Vec<String> = new.pending.iter().map(|pod| pod.key()).collect();
        let is_changed = |name: &String| new.bound.iter().any(|pod| pod.key() == **name);
        asked.extend(pods.iter().filter(|name| !is_changed(name)).cloned());
        let cluster = cluster.joined(new);
        let asked: BTreeSet<String> = asked.into_iter().collect();
        let asked: Vec<&Arc<PodInfo>> =
            cluster.pending.iter().filter(|pod| asked.is_empty() || asked.contains(&pod.key())).collect();
        if asked.is_empty() {
            return Err(vec!["there is no pod to ask about; write one, without spec.nodeName".to_owned()]);
        }
        let answer =
            Answer { nodes: cluster.nodes.iter().map(|node| Arc::clone(&node.name)).collect(), ..Answer::default() };
        Ok(Answer { warnings, ..self.judge(answer, &cluster, &asked)? })
    }

    fn check_names(&self, Question { pods, cordon, uncordon, remove, .. }: &Question) -> Result<(), Vec<String>> {
        let cluster = &self.kept.cluster;
        let is_node = |name: &&String| cluster.nodes.iter().any(|node| *node.name == ***name);
        let nodes = cordon.iter().chain(uncordon).chain(remove).filter(|name| !is_node(name));
        let mut wrong: Vec<String> = nodes.map(|name| format!("there is no node {name:?} in this report")).collect();
        let is_pending = |name: &&String| cluster.pending.iter().any(|pod| pod.key() == **name);
        let others = pods.iter().filter(|name| !is_pending(name));
        wrong.extend(others.map(|name| format!("no pending pod of this report is called {name:?}")));
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    /// The objects of the text, and warnings.
    fn read(&self, text: &str, cluster: &Cluster) -> Result<(Cluster, Vec<String>), Vec<String>> {
        let (mut sources, mut problems) = (Sources::default(), Problems::default());
        let mut gatherer = Gatherer::beside(cluster);
        let mut notes = Vec::new();
        if !text.trim().is_empty() {
            let mut loader = Loader::new(&mut sources, &mut gatherer, &mut problems, &|| {});
            loader.text(INPUT.to_owned(), text.to_owned());
            notes = loader.notes();
        }
        let profiles = &self.kept.profiles;
        let schedulers: Vec<&str> = profiles.iter().map(|profile| &*profile.scheduler_name).collect();
        let new = gatherer.finish(&schedulers, &mut problems);
        let mut lines = problems.render(&sources);
        if problems.error_count() > 0 {
            return Err(lines);
        }
        lines.extend(notes);
        lines.extend(new.made.default_lines());
        Ok((new.showing(self.registry, profiles), lines))
    }

    /// Evaluates each pod as if all others stayed pending.
    fn judge(&self, mut answer: Answer, cluster: &Cluster, pods: &[&Arc<PodInfo>]) -> Result<Answer, Vec<String>> {
        let mut teller = Explainer::new(self.registry, cluster, &self.kept.profiles);
        let mut known: HashMap<Kind<'_>, usize> = HashMap::new();
        for pod in pods {
            let key = (&pod.class, &pod.scheduler_name, pod.priority, pod.never_preempts);
            let account = match known.get(&key).filter(|_| is_like_others(pod)) {
                Some(&account) => account,
                None if answer.accounts.len() >= MOST_ACCOUNTS => {
                    answer.more += 1;
                    continue;
                }
                None => {
                    answer.accounts.push(teller.explain(pod).map_err(|error| vec![error.to_string()])?);
                    known.insert(key, answer.accounts.len() - 1);
                    answer.accounts.len() - 1
                }
            };
            answer.pods.push(Asked { name: pod.key(), account });
        }
        Ok(answer)
    }
}

/// Whether pods with equal requests share this pod's account: no group, node name or claim refers to this pod alone.
#[must_use]
pub fn is_like_others(pod: &PodInfo) -> bool {
    pod.gates.is_empty()
        && pod.nominated_node_name.is_none()
        && pod.scheduling_group.is_none()
        && pod.excess.is_none()
        && !pod.class.uses_objects()
}
