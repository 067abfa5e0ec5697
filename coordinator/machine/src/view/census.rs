//! Counts computed on request. A census reads every pod once: some 5 ms for 150,000, each time the metrics are read.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::class::PodInfo;

use crate::{machine::Machine, queue::Incoming, subject::ProfileIndex, tally::PluginPoint};

/// The counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Pods with a node, assumed ones included.
    pub pods: u64,
    /// Assumed pods.
    pub assumed_pods: u64,
    /// Unschedulable pods by profile and plugin. A pod counts for each plugin that refused it.
    ///
    /// Source: `unschedulable_pods`, gated pods included.
    pub unschedulable: BTreeMap<(Arc<str>, &'static str), u64>,
    /// Attempts since the start, by the plugins that took part.
    pub judged: BTreeMap<PluginPoint, u64>,
    /// Failures of PreBind since the start, by plugin.
    pub pre_bind_failures: BTreeMap<&'static str, u64>,
    /// Pods that entered a queue since the start.
    pub incoming: Incoming,
}

impl Machine {
    /// Every known pod, as shown by the watch.
    #[must_use]
    pub fn pod_infos(&self) -> Vec<Arc<PodInfo>> {
        self.pods.values().map(|pod| Arc::clone(&pod.info)).collect()
    }

    /// Computes the counts.
    #[must_use]
    pub fn census(&self) -> Census {
        let profiles = self.settings.configuration().map(|configuration| &*configuration.profiles).unwrap_or_default();
        let judged = self.tally.judged(self.settings.registry(), profiles);
        let unschedulable = unschedulable_by_plugin(self);
        let mut census = Census {
            judged,
            unschedulable,
            pre_bind_failures: self.preparations.failures.clone(),
            incoming: self.queue.incoming().clone(),
            ..Census::default()
        };
        for pod in self.pods.values() {
            census.pods += u64::from(pod.charge.is_some());
            census.assumed_pods += u64::from(pod.stage.is_decided());
        }
        census
    }
}

/// The number of waiting or gated pods per refusing plugin, by `schedulerName` and plugin. A pod counts for each plugin that refused
/// it.
///
/// Source: the metric `unschedulable_pods`.
fn unschedulable_by_plugin(machine: &Machine) -> BTreeMap<(Arc<str>, &'static str), u64> {
    let mut counts = BTreeMap::new();
    let mut add = |profile: ProfileIndex, plugin: &'static str, pods: usize| {
        if let Some(profile) = machine.settings.profile(profile) {
            *counts.entry((Arc::clone(&profile.scheduler_name), plugin)).or_insert(0) += pods as u64;
        }
    };
    for ((profile, plugin), pods) in machine.queue.refused_by_plugin() {
        add(profile, plugin, pods);
    }
    for (plugin, pods) in machine.gates.by_plugin() {
        pods.iter().for_each(|((profile, _), _)| add(*profile, plugin, 1));
    }
    counts
}
