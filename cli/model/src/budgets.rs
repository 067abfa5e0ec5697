//! The disruption controller, and the budgets as the eviction subresource reads them.
//!
//! Source: `pkg/controller/disruption/disruption.go` and `pkg/registry/core/pod/storage/eviction.go`.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_cluster::{
    Cluster,
    lifecycle::{BudgetSpec, Owner, Scale},
};
use flotilla_framework::{class::PodInfo, preemption::Budget};

use crate::{
    budget_status::{BudgetStatus, Controller},
    report::Obstacle,
};

/// All budgets with the counts of their pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budgets {
    all: Vec<Guard>,
    by_namespace: BTreeMap<Arc<str>, Vec<usize>>,
    scales: BTreeMap<Arc<Owner>, Scale>,
}

#[derive(Debug, Clone)]
struct Guard {
    budget: Budget,
    /// `None`: the status never changes.
    spec: Option<BudgetSpec>,
    current_healthy: i32,
    desired_healthy: i32,
    /// Why the controller cannot compute the status.
    failure: Option<String>,
    pods: i32,
    healthy: i32,
    /// The number of pods of each controller; those of ReplicaSets count for their Deployment.
    owners: BTreeMap<Arc<Owner>, i32>,
    /// The pods have changed since the status was computed.
    is_outdated: bool,
    /// `disruptionsAllowed` as last reported to the scheduler.
    reported: i32,
}

impl Budgets {
    /// The budgets of a cluster, without pods.
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let mut budgets = Self::default();
        for budget in &cluster.budgets {
            let key = (Arc::clone(&budget.namespace), Arc::clone(&budget.name));
            budgets.by_namespace.entry(Arc::clone(&budget.namespace)).or_default().push(budgets.all.len());
            budgets.all.push(Guard::new(budget, cluster.lifecycle.budgets.get(&key)));
        }
        if !budgets.all.is_empty() {
            budgets.scales.clone_from(&cluster.lifecycle.scales);
        }
        budgets
    }

    /// From now on, changes of pods change the status. Budgets with a status in the input keep it until then.
    pub(crate) fn begin(&mut self) {
        for guard in &mut self.all {
            guard.is_outdated = guard.spec.as_ref().is_some_and(|spec| spec.status.is_none());
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Budget> {
        self.all.iter().map(|guard| &guard.budget)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Counts a pod in (1) or out (-1).
    pub(crate) fn count(&mut self, pod: &PodInfo, owner: Option<&Arc<Owner>>, is_healthy: bool, by: i32) {
        let root = owner.map(|owner| self.scales.get(owner).map_or(owner, |scale| &scale.root).clone());
        for at in self.of(pod) {
            let Some(guard) = self.all.get_mut(at) else { continue };
            guard.pods += by;
            guard.healthy += if is_healthy { by } else { 0 };
            guard.is_outdated = true;
            if let Some(root) = &root {
                let count = guard.owners.entry(Arc::clone(root)).or_default();
                *count += by;
                if *count == 0 {
                    guard.owners.remove(root);
                }
            }
        }
    }

    /// Counts a pod as healthy.
    pub(crate) fn heal(&mut self, pod: &PodInfo) {
        for at in self.of(pod) {
            let Some(guard) = self.all.get_mut(at) else { continue };
            guard.healthy += 1;
            guard.is_outdated = true;
        }
    }

    /// Computes the status of budgets with changed pods, and returns those that allow another number of disruptions than the scheduler
    /// knows.
    pub(crate) fn sync(&mut self) -> Vec<Budget> {
        let Self { all, scales, .. } = self;
        for guard in all.iter_mut().filter(|guard| guard.is_outdated) {
            guard.compute(scales);
        }
        let changed = all.iter_mut().filter(|guard| guard.reported != guard.budget.disruptions_allowed);
        let report = |guard: &mut Guard| {
            guard.reported = guard.budget.disruptions_allowed;
            guard.budget.clone()
        };
        changed.map(report).collect()
    }

    /// Uses the budget of a pod for an eviction.
    ///
    /// # Errors
    /// Why the API server refuses the eviction.
    pub(crate) fn use_for(&mut self, pod: &PodInfo, is_healthy: bool) -> Result<(), Obstacle> {
        let found = self.of(pod);
        let names = || found.iter().filter_map(|at| self.all.get(*at)).map(Guard::key);
        if found.len() > 1 {
            return Err(Obstacle::SeveralBudgets(names().collect()));
        }
        let Some(guard) = found.first().and_then(|at| self.all.get_mut(*at)) else { return Ok(()) };
        if !is_healthy {
            let is_undisturbed = guard.current_healthy >= guard.desired_healthy && guard.desired_healthy > 0;
            if guard.spec.as_ref().is_some_and(|spec| spec.allows_unhealthy) || is_undisturbed {
                return Ok(());
            }
        }
        if guard.budget.disruptions_allowed > 0 {
            guard.budget.disruptions_allowed -= 1;
            return Ok(());
        }
        Err(Obstacle::Budget { name: guard.key(), cause: guard.cause() })
    }

    /// The budgets that select a pod.
    fn of(&self, pod: &PodInfo) -> Vec<usize> {
        let namespace = self.by_namespace.get(&pod.class.namespace);
        let selects =
            |at: &usize| self.all.get(*at).is_some_and(|guard| guard.budget.selector.matches(&pod.class.labels));
        namespace.into_iter().flatten().copied().filter(selects).collect()
    }
}

impl Guard {
    fn new(budget: &Budget, spec: Option<&BudgetSpec>) -> Self {
        let (current_healthy, desired_healthy) = spec.and_then(|spec| spec.status).unwrap_or_default();
        Self {
            budget: budget.clone(),
            spec: spec.cloned(),
            current_healthy,
            desired_healthy,
            failure: None,
            pods: 0,
            healthy: 0,
            owners: BTreeMap::new(),
            is_outdated: false,
            reported: budget.disruptions_allowed,
        }
    }

    fn key(&self) -> String {
        format!("{}/{}", self.budget.namespace, self.budget.name)
    }

    /// Source: `trySync` and `updatePdbStatus`.
    fn compute(&mut self, scales: &BTreeMap<Arc<Owner>, Scale>) {
        self.is_outdated = false;
        let Some(spec) = &self.spec else { return };
        // An eviction in progress ends within a round.
        self.budget.disrupted.clear();
        let controllers = self.owners.iter().map(|(owner, pods)| Controller {
            kind: &owner.kind,
            // A controller that the input lacks counts with its pods.
            replicas: scales.get(owner).map_or(*pods, |scale| scale.replicas),
        });
        match BudgetStatus::new(spec.bound, (self.pods, self.healthy), controllers) {
            Ok(status) => {
                self.failure = None;
                self.current_healthy = self.healthy;
                self.desired_healthy = status.desired_healthy;
                self.budget.disruptions_allowed = status.disruptions_allowed;
            }
            Err(failure) => {
                self.failure = Some(failure);
                self.budget.disruptions_allowed = 0;
            }
        }
    }

    /// Source: `checkAndDecrement`.
    fn cause(&self) -> String {
        let (name, needs, has) = (&self.budget.name, self.desired_healthy, self.current_healthy);
        match &self.failure {
            Some(failure) => format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {failure}"
            ),
            None if has <= needs => {
                format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently")
            }
            None => format!("The disruption budget {name} does not allow evicting pods currently"),
        }
    }
}
