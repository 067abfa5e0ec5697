//! Counts that are not kept, taken on request: a look at the machine that changes nothing.
//!
//! Knows: which pods count for what. Must not know: who asks, or in which format.
//!
//! A census looks at every pod once: some 5 ms where there are 150,000, every time that the metrics are read.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::class::PodInfo;

use crate::{machine::Machine, queue::Incoming, tally::Judged};

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Pods that are on a node, or are to be.
    pub pods: u64,
    /// Those of them that the watch does not show there yet.
    pub assumed_pods: u64,
    /// Pods that could not be placed, by profile and plugin. Several plugins may have refused a pod.
    ///
    /// Source: `unschedulable_pods`, gated pods included.
    pub unschedulable: BTreeMap<(Arc<str>, &'static str), u64>,
    /// Attempts since the start, by the plugins that had a part in them.
    pub judged: BTreeMap<Judged, u64>,
    /// How often the PreBind of a plugin has failed since the start, by its name.
    pub pre_bind_failures: BTreeMap<&'static str, u64>,
    /// Pods that came into a queue since the start.
    pub incoming: Incoming,
}

impl Machine {
    /// Every pod that is known, as the watch shows it.
    #[must_use]
    pub fn pod_infos(&self) -> Vec<Arc<PodInfo>> {
        self.pods.values().map(|pod| Arc::clone(&pod.info)).collect()
    }

    /// Counts.
    #[must_use]
    pub fn census(&self) -> Census {
        let profiles = self.configuration.as_ref().map(|configuration| &*configuration.profiles).unwrap_or_default();
        let judged = self.tally.judged(self.registry, profiles);
        let unschedulable = self.unschedulable_by_plugin();
        let mut census = Census {
            judged,
            unschedulable,
            pre_bind_failures: self.preparations.failures.clone(),
            incoming: self.queue_incoming().clone(),
            ..Census::default()
        };
        for pod in self.pods.values() {
            census.pods += u64::from(pod.charge.is_some());
            census.assumed_pods += u64::from(pod.stage.is_decided());
        }
        census
    }
}
