//! New questions to the cluster of a report: what its nodes make of other pods, or of the same after a change.
//!
//! Knows: what may be changed, and in which order. Must not know: who asks, or how a pod is judged.

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
    kept::{Kept, Unkept},
    telling::Teller,
    told::Told,
};

/// What messages call the text of a question, before its line and column.
pub const INPUT: &str = "input";

/// Of so many pods the accounts are given at once, those that ask for the same counted once.
const MOST_ACCOUNTS: usize = 100;

/// What pods have in common whose accounts are the same.
type Kind<'a> = (&'a Arc<Class>, &'a Arc<str>, i32, bool);

/// A question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Question {
    /// Objects in YAML or JSON. They come to the cluster, each in the place of one of its kind and name. Its pods without a node
    /// are asked about.
    pub text: String,
    /// Pending pods that are asked about besides, as `namespace/name`.
    pub pods: Vec<String>,
    /// Nodes that are cordoned.
    pub cordon: Vec<String>,
    /// Nodes that are cordoned no more.
    pub uncordon: Vec<String>,
    /// Nodes that are removed, with the pods on them.
    pub remove: Vec<String>,
}

/// What comes of it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The names of all nodes: accounts name a node by its place among them.
    pub nodes: Vec<Arc<str>>,
    /// The pods that were asked about.
    pub pods: Vec<Asked>,
    /// All accounts.
    pub accounts: Vec<Told>,
    /// How many pods were not looked at any more.
    pub more: usize,
    /// What should be known of the text.
    pub warnings: Vec<String>,
}

/// A pod that was asked about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// `namespace/name`.
    pub name: String,
    /// The place of its account.
    pub account: usize,
}

/// A cluster that can be asked.
#[derive(Debug)]
pub struct Desk {
    registry: Registry,
    kept: Kept,
}

impl Desk {
    /// Of a cluster that a report has kept.
    ///
    /// # Errors
    /// Bytes that are no such cluster.
    pub fn open(bytes: &[u8], registry: Registry) -> Result<Self, Unkept> {
        Ok(Self { registry, kept: Kept::decode(bytes)? })
    }

    /// The manifest of a pending pod in YAML, to be changed and asked about; `None` where the report has none.
    #[must_use]
    pub fn manifest(&self, pod: &str) -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(self.kept.manifests.get(pod)?).ok()?;
        serde_yaml::to_string(&value).ok()
    }

    /// Answers a question. The cluster stays what it was.
    ///
    /// # Errors
    /// What is wrong with it, a line each; of the text with [`INPUT`], line and column.
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

    /// The objects of the text, and what should be known of them.
    fn read(&self, text: &str, cluster: &Cluster) -> Result<(Cluster, Vec<String>), Vec<String>> {
        let (mut sources, mut problems) = (Sources::default(), Problems::default());
        let mut gatherer = Gatherer::beside(cluster);
        let mut ignored = None;
        if !text.trim().is_empty() {
            let mut loader = Loader::new(&mut sources, &mut gatherer, &mut problems, &|| {});
            loader.text(INPUT.to_owned(), text.to_owned());
            ignored = loader.summary();
        }
        let profiles = &self.kept.profiles;
        let schedulers: Vec<&str> = profiles.iter().map(|profile| &*profile.scheduler_name).collect();
        let new = gatherer.finish(&schedulers, &mut problems);
        let mut lines = problems.render(&sources);
        if problems.error_count() > 0 {
            return Err(lines);
        }
        lines.extend(ignored);
        Ok((new.showing(self.registry, profiles), lines))
    }

    /// The accounts of pods, each beside all others as they are. Pods that ask for the same share one.
    fn judge(&self, mut answer: Answer, cluster: &Cluster, pods: &[&Arc<PodInfo>]) -> Result<Answer, Vec<String>> {
        let mut teller = Teller::new(self.registry, cluster, &self.kept.profiles);
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
                    answer.accounts.push(teller.tell(pod).map_err(|error| vec![error.to_string()])?);
                    known.insert(key, answer.accounts.len() - 1);
                    answer.accounts.len() - 1
                }
            };
            answer.pods.push(Asked { name: pod.key(), account });
        }
        Ok(answer)
    }
}

/// Whether the account of another pod that asks for the same is this one's too: nothing is said of this one by name.
#[must_use]
pub fn is_like_others(pod: &PodInfo) -> bool {
    pod.gates.is_empty()
        && pod.nominated_node_name.is_none()
        && pod.scheduling_group.is_none()
        && pod.excess.is_none()
        && !pod.class.uses_objects()
}
