//! Checks of a single plugin, node by node and by columns, for table tests.

use std::sync::Arc;

use super::{NodeBuilder, PodBuilder};
use crate::{
    class::{Class, ClassId, PodInfo},
    evaluate::{Columns, Scratch},
    evaluation::Evaluation,
    extension::{ClusterEvent, Extremes, Facts, Plugin, PreFilter, Preparation, pod_fields},
    node::{NodeId, NodeInfo},
    plugins::{image_locality, inter_pod_affinity},
    prepared::{NodeResult, Prepared},
    profile::{Args, Plugins, Profile, WeightedPlugin},
    registry::Registry,
    select::View,
    snapshot::Snapshot,
    status::Code,
    symbols::Lookup,
    testing::storage::{standing, stored},
    volumes::{facts::VolumeFacts, objects::StorageObject, storage::Storage},
};

/// The result of a filter for a node: feasible, or the code and messages.
pub type Said = Result<(), (Code, Vec<String>)>;

/// A refusal that preemption could resolve.
///
/// # Errors
/// Always: the refusal.
pub fn unschedulable(reasons: &[&str]) -> Said {
    Err((Code::Unschedulable, reasons.iter().map(|&reason| reason.to_owned()).collect()))
}

/// A refusal that preemption cannot resolve.
///
/// # Errors
/// Always: the refusal.
pub fn unresolvable(reasons: &[&str]) -> Said {
    Err((Code::UnschedulableAndUnresolvable, reasons.iter().map(|&reason| reason.to_owned()).collect()))
}

/// A profile with one plugin at all of its extension points.
#[derive(Debug, Clone)]
pub struct Alone {
    registry: Registry,
    profile: Profile,
    facts: fn(Facts) -> Facts,
    storage: Storage,
}

/// An additional plugin, alone.
///
/// # Panics
/// If a built-in plugin has its name.
#[must_use]
pub fn alone_of(plugin: impl Plugin + 'static) -> Alone {
    let name = plugin.name();
    let registry = Registry::built_in().with([Box::new(plugin) as Box<dyn Plugin>]).expect("a name of its own");
    Alone { registry, ..alone(name) }
}

/// The plugin with this name, alone, with default arguments.
#[must_use]
pub fn alone(plugin: &str) -> Alone {
    let name = || vec![plugin.to_owned()];
    let plugins = Plugins {
        pre_filter: name(),
        filter: name(),
        pre_score: name(),
        score: vec![WeightedPlugin { name: plugin.to_owned(), weight: 1 }],
        ..Plugins::default()
    };
    Alone {
        registry: Registry::built_in(),
        profile: Profile {
            scheduler_name: "alone".into(),
            percentage_of_nodes_to_score: None,
            plugins,
            args: Args::default(),
        },
        facts: |facts| facts,
        storage: Storage::default(),
    }
}

/// A node with the pods on it.
pub type NodeWithPods = (NodeBuilder, Vec<PodBuilder>);

impl Alone {
    /// Changes the arguments.
    #[must_use]
    pub fn args(mut self, change: impl FnOnce(&mut Args)) -> Self {
        change(&mut self.profile.args);
        self
    }

    /// Changes the cluster-wide facts about the pod.
    #[must_use]
    pub fn facts(mut self, change: fn(Facts) -> Facts) -> Self {
        self.facts = change;
        self
    }

    /// Adds storage objects.
    #[must_use]
    pub fn storage(mut self, objects: impl IntoIterator<Item = StorageObject>) -> Self {
        self.storage = stored(objects);
        self
    }

    /// Disables PreFilter, so that node names are not restricted before the filter runs.
    #[must_use]
    pub fn without_pre_filter(mut self) -> Self {
        self.profile.plugins.pre_filter.clear();
        self
    }

    /// Disables PreScore.
    #[must_use]
    pub fn without_pre_score(mut self) -> Self {
        self.profile.plugins.pre_score.clear();
        self
    }

    fn class(&self, pod: &PodBuilder) -> Class {
        let fields = pod_fields(self.registry, std::slice::from_ref(&self.profile));
        let info = PodInfo { class: Arc::new(pod.clone().into_class()), ..pod.pod.clone() };
        Class::clone(&Arc::new(info).showing(&fields).class)
    }

    fn plugin(&self) -> &'static dyn Plugin {
        self.registry.find(&self.profile.plugins.filter[0]).expect("a built plugin")
    }

    /// The result of PreFilter: `continue`, `skip`, `only <names>` or `refuse <message>`.
    #[must_use]
    pub fn pre_filter(&self, pod: &PodBuilder) -> String {
        let nodes = Snapshot::new(0);
        let (table, taint_sets) = nodes.tables();
        let symbols = Lookup::of(table);
        let (class, args) = (&self.class(pod), &self.profile.args);
        let facts = &Facts { volumes: self.storage.facts(class, &standing(&self.storage, [])), ..Facts::default() };
        let mut preparation =
            Preparation { class, args, facts, symbols, taint_sets, is_pre_filtered: true, is_filtered: true };
        let plugin = self.plugin();
        match plugin.pre_filter(&mut preparation) {
            PreFilter::Continue => "continue".to_owned(),
            PreFilter::Skip => "skip".to_owned(),
            PreFilter::Only(names) => {
                let mut names: Vec<&str> = names.iter().map(|&name| preparation.symbols.text(name)).collect();
                names.sort_unstable();
                format!("only {}", names.join(" "))
            }
            PreFilter::Refuse(message) => format!("refuse {message}"),
            PreFilter::Fail(error) => format!("fail {error}"),
        }
    }

    /// The filter's result for one node with these pods on it; verifies that both ways agree.
    ///
    /// # Errors
    /// The refusal.
    pub fn filter(&self, pod: &PodBuilder, node: &NodeBuilder, standing: &[PodBuilder]) -> Said {
        let (prepared, nodes) = self.prepare(pod, &[(node.clone(), standing.to_vec())], true);
        let said = match prepared.judge(&nodes, 0) {
            NodeResult::Feasible(_) => Ok(()),
            NodeResult::Refused(order, refusal) => Err((refusal.code, prepared.reasons(order, refusal.detail))),
        };
        let columns = evaluate(&prepared, &nodes);
        let by_columns = columns.refused.first().map_or(Ok(()), |refused| {
            Err((refused.refusal.code, prepared.reasons(refused.order, refused.refusal.detail)))
        });
        assert_eq!(said, by_columns, "node by node and by columns");
        said
    }

    /// The filter's result for each node, for a filter that counts over domains.
    #[must_use]
    pub fn verdicts(&self, pod: &PodBuilder, nodes: &[NodeWithPods]) -> Vec<Said> {
        let (prepared, snapshot) = self.prepare(pod, nodes, true);
        let view = View::new(&prepared, vec![evaluate(&prepared, &snapshot)]);
        let said = |place| match view.judged(&prepared, NodeId(place), None) {
            None | Some(Ok(_)) => Ok(()),
            Some(Err((order, refusal))) => Err((refusal.code, prepared.reasons(order, refusal.detail))),
        };
        (0..).zip(nodes).map(|(place, _)| said(place)).collect()
    }

    /// The normalised scores of nodes by a plugin that counts over domains; `None` if it does not apply.
    #[must_use]
    pub fn totals(&self, pod: &PodBuilder, nodes: &[NodeWithPods]) -> Option<Vec<i64>> {
        let (prepared, snapshot) = self.prepare(pod, nodes, false);
        let mut view = View::new(&prepared, vec![evaluate(&prepared, &snapshot)]);
        view.best(&prepared, None);
        (0..).zip(nodes).map(|(place, _)| view.judged(&prepared, NodeId(place), None)?.ok()).collect()
    }

    /// The scores of nodes, normalised if the plugin does so; `None` if PreScore skips it.
    #[must_use]
    pub fn scores(&self, pod: &PodBuilder, nodes: &[NodeWithPods]) -> Option<Vec<i64>> {
        // A filter that refuses would hide the scores.
        self.scores_where(pod, nodes, false)
    }

    /// As [`Self::scores`], for a score that uses its filter's results; -1 for a node that the filter refuses.
    #[must_use]
    pub fn scores_after_filter(&self, pod: &PodBuilder, nodes: &[NodeWithPods]) -> Option<Vec<i64>> {
        self.scores_where(pod, nodes, true)
    }

    fn scores_where(&self, pod: &PodBuilder, nodes: &[NodeWithPods], filters: bool) -> Option<Vec<i64>> {
        let (prepared, snapshot) = self.prepare(pod, nodes, filters);
        let plugin = self.plugin();
        if prepared.plain().is_empty() && prepared.normalized().is_empty() {
            return None;
        }
        let raws: Vec<i64> = (0..)
            .zip(nodes)
            .map(|(slot, _)| match prepared.judge(&snapshot, slot) {
                NodeResult::Feasible(feasible) => feasible.raws.first().copied().unwrap_or(feasible.base),
                NodeResult::Refused(..) => -1,
            })
            .collect();
        let (Some(normalize), Some(&min), Some(&max)) = (plugin.normalize(), raws.iter().min(), raws.iter().max())
        else {
            return Some(raws);
        };
        Some(raws.into_iter().map(|raw| normalize(raw, Extremes { min, max })).collect())
    }

    /// The error that prevents scoring of the class.
    #[must_use]
    pub fn score_error(&self, pod: &PodBuilder) -> Option<String> {
        self.prepare(pod, &[], false).0.score_error().map(str::to_owned)
    }

    /// Whether an event requeues a pod that the plugin refused.
    #[must_use]
    pub fn wakes(&self, event: ClusterEvent<'_>, pod: &PodBuilder) -> bool {
        let plugin = self.plugin();
        plugin.wakes(event, &self.class(pod), &self.profile.args)
    }

    fn prepare(&self, pod: &PodBuilder, nodes: &[NodeWithPods], filters: bool) -> (Prepared, Snapshot) {
        let mut snapshot = snapshot(nodes);
        let class = self.class(pod);
        let volumes = self.take_up_storage(&class, nodes, &mut snapshot);
        let facts = (self.facts)(Facts { volumes, ..facts(&class, nodes) });
        let mut profile = self.profile.clone();
        if !filters {
            profile.plugins.filter.clear();
        }
        let prepared = Prepared::new(self.registry, &profile, &class, &facts, &snapshot);
        (prepared, snapshot)
    }
}

impl Alone {
    fn take_up_storage(
        &self,
        class: &Class,
        nodes: &[NodeWithPods],
        snapshot: &mut Snapshot,
    ) -> Option<Arc<VolumeFacts>> {
        for (number, (node, _)) in (0..).map(NodeId).zip(nodes) {
            let csi = self.storage.node_csi(&node.0.name);
            snapshot.upsert_node(number, &NodeInfo { csi, ..node.0.clone() });
        }
        let classes: Vec<_> = snapshot.classes_since(0).map(|(id, class)| (id, Arc::clone(class))).collect();
        for (id, class) in &classes {
            snapshot.set_attachments(*id, &self.storage.attached_by(class).unwrap_or_default().into());
        }
        let standing = standing(&self.storage, classes.iter().map(|(id, class)| (*id, &**class)));
        self.storage.facts(class, &standing)
    }
}

/// The nodes at positions 0, 1, ... with their pods.
#[must_use]
pub fn snapshot(nodes: &[NodeWithPods]) -> Snapshot {
    let mut snapshot = Snapshot::new(0);
    let mut class = 0;
    for (number, (node, pods)) in (0..).map(NodeId).zip(nodes) {
        snapshot.upsert_node(number, &node.0);
        for pod in pods {
            class += 1;
            snapshot.register_class(ClassId(class), pod.clone().into_class().into());
            assert!(snapshot.add_pod(number, ClassId(class)), "a standing pod");
        }
    }
    snapshot
}

/// The facts about a class from nodes and their pods: an image has the size that the first node reports. Namespaces have no labels.
#[must_use]
pub fn facts(class: &Class, nodes: &[NodeWithPods]) -> Facts {
    let contribution = |name: &str| {
        let sizes = nodes.iter().filter_map(|(node, _)| {
            let holds = |(names, _): &&(Vec<Arc<str>>, i64)| names.iter().any(|known| &**known == name);
            node.0.images.iter().find(holds).map(|(_, size)| *size)
        });
        let sizes: Vec<i64> = sizes.collect();
        image_locality::contribution(sizes.first().copied().unwrap_or(0), sizes.len(), nodes.len())
    };
    let others: Vec<Class> = nodes.iter().flat_map(|(_, pods)| pods).map(|pod| pod.clone().into_class()).collect();
    let (repelling_keys, scoring_keys) = inter_pod_affinity::keys_in_play(class, &[], others.iter());
    Facts {
        image_contributions: class.images.iter().map(|name| contribution(name)).collect(),
        repelling_keys,
        scoring_keys,
        ..Facts::default()
    }
}

/// One complete evaluation by columns.
#[must_use]
pub fn evaluate(prepared: &Prepared, nodes: &Snapshot) -> Evaluation {
    let (mut columns, mut scratch) = (Columns::default(), Scratch::default());
    columns.refresh(prepared, nodes, &mut scratch);
    columns.answer_all(prepared, nodes, usize::MAX, &mut scratch)
}
