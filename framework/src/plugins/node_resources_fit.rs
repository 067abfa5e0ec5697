//! NodeResourcesFit: the pod's requests must fit the free resources of the node. The score depends on the resulting utilization.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    class::Class,
    devices::{extended::CLASS_PREFIX, model::class::DeviceClass, objects::DeviceObject},
    extension::{ClusterEvent, Facts, Filter, Lack, NodeContext, NodeFilter, Plugin, Preparation, Score},
    node::NodeInfo,
    plugins::{
        scorer::{self, Shareholders},
        wakers::{NODE_ADD, NODE_ALLOCATABLE, POD_DELETE, POD_SCALE_DOWN, TARGET_SCALE_DOWN},
    },
    profile::{Args, NodeResourcesFitArgs, ScoringStrategyKind},
    resources::{Resources, is_extended},
    snapshot::{Accounts, ScalarColumn, Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::Symbol,
};

const TOO_MANY_PODS: u64 = 1;
const CPU: u64 = 1 << 1;
const MEMORY: u64 = 1 << 2;
const EPHEMERAL_STORAGE: u64 = 1 << 3;

/// First bit of the extended resources. A pod with more than 60 gets the reason of the 60th for the rest.
const FIRST_SCALAR: usize = 4;

/// The plugin.
#[derive(Debug)]
pub struct NodeResourcesFit;

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let NodeResourcesFitArgs { ignored_resources, ignored_resource_groups, .. } =
            &preparation.args.node_resources_fit;
        let mut fits = Fits::new(preparation.class, ignored_resources, ignored_resource_groups);
        if let (Some(resize), Some(node)) = (&mut fits.resize, &preparation.class.node_name) {
            resize.node = preparation.symbols.number(node);
        }
        Some(Filter::Node(Box::new(fits.with_facts(preparation.facts))))
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let strategy = &preparation.args.node_resources_fit.scoring_strategy;
        let shareholders =
            Shareholders::new(&strategy.resources, true, |name| preparation.class.score_requests.get(name))
                .or_devices(preparation.facts);
        Some(match strategy.kind {
            ScoringStrategyKind::LeastAllocated => shareholders.scored_by(scorer::least_allocated),
            ScoringStrategyKind::MostAllocated => shareholders.scored_by(scorer::most_allocated),
            ScoringStrategyKind::RequestedToCapacityRatio => {
                let shape = strategy.shape.clone();
                shareholders.scored_by(move |shares| scorer::requested_to_capacity_ratio(shares, &shape))
            }
        })
    }

    fn lacks(&self, class: &Class, args: &Args, place: NodeContext<'_>) -> Vec<Lack> {
        let NodeResourcesFitArgs { ignored_resources, ignored_resource_groups, .. } = &args.node_resources_fit;
        let fits = Fits::new(class, ignored_resources, ignored_resource_groups);
        let is_own = class.node_name.as_ref() == Some(&place.node.name);
        let more = fits.resize.as_ref().filter(|_| is_own).map(|resize| &resize.more);
        fits.lacks(&place.nodes.accounts, place.slot, more)
    }

    /// Like upstream's hint, this one does not consider the ignored resources.
    fn events(&self) -> &'static [&'static str] {
        &[
            POD_DELETE,
            POD_SCALE_DOWN,
            NODE_ADD,
            NODE_ALLOCATABLE,
            TARGET_SCALE_DOWN,
            "DeviceClassAdd",
            "DeviceClassUpdate",
        ]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        let fits = || Fits::new(class, &[], &[]);
        let concerns = |node: &NodeInfo| !class.resize_deferred || class.node_name.as_ref() == Some(&node.name);
        match event {
            ClusterEvent::NodeAdded(node) => concerns(node) && fits().empty(node),
            ClusterEvent::NodeUpdated { old, new } => {
                let fits = fits();
                concerns(new) && fits.empty(new) && fits.grew(old, new)
            }
            ClusterEvent::PodRemoved(_) => true,
            ClusterEvent::PodUpdated { old, new } => old.accounted != new.accounted,
            ClusterEvent::TargetUpdated { old, new } => old.requests.exceeds(&new.requests),
            ClusterEvent::DeviceChanged { old, new: Some(DeviceObject::Class(new)) } => {
                let old = if let Some(DeviceObject::Class(old)) = old { Some(&**old) } else { None };
                is_behind(old, new, class)
            }
            _ => false,
        }
    }
}

/// Whether a DeviceClass newly provides an extended resource that the pod requests. Source: `isSchedulableAfterDeviceClassEvent`.
fn is_behind(old: Option<&DeviceClass>, new: &DeviceClass, class: &Class) -> bool {
    let asks_for = |name: &str| class.requests.scalars.iter().any(|(known, _)| **known == *name);
    let is_explicit = || new.extended_resource.as_ref().is_some_and(|name| asks_for(name));
    match old {
        Some(old) => old.extended_resource != new.extended_resource && is_explicit(),
        None => asks_for(&format!("{CLASS_PREFIX}{}", new.name)) || is_explicit(),
    }
}

fn beyond(requests: &Resources, charged: &Resources) -> Resources {
    let more = |request: i64, charged: i64| (request - charged).max(0);
    let scalars = requests.scalars.iter().map(|(name, amount)| (Arc::clone(name), more(*amount, charged.get(name))));
    Resources {
        milli_cpu: more(requests.milli_cpu, charged.milli_cpu),
        memory: more(requests.memory, charged.memory),
        ephemeral_storage: more(requests.ephemeral_storage, charged.ephemeral_storage),
        scalars: scalars.collect(),
    }
}

struct Fits {
    milli_cpu: i64,
    memory: i64,
    ephemeral_storage: i64,
    /// Extended resources that are not ignored, with amounts above 0.
    scalars: Vec<(Arc<str>, i64)>,
    /// Resources that devices provide if a node has none.
    mapped: Vec<Arc<str>>,
    nothing: bool,
    resize: Option<Resize>,
}

/// A deferred resize of a bound pod.
struct Resize {
    node: Symbol,
    /// The requests beyond those that are charged to the node. Source: `adjustDeltasToAccomodateCacheDiscrepancy`.
    more: Resources,
}

impl Fits {
    fn new(class: &Class, ignored_resources: &[String], ignored_groups: &[String]) -> Self {
        let requests = &class.requests;
        let ignored = |name: &str| {
            let group = name.split('/').next().unwrap_or(name);
            is_extended(name)
                && (ignored_resources.iter().any(|ignored| ignored == name)
                    || ignored_groups.iter().any(|ignored| ignored == group))
        };
        let scalars = requests.scalars.iter().filter(|(name, amount)| *amount > 0 && !ignored(name)).cloned();
        Self {
            milli_cpu: requests.milli_cpu,
            memory: requests.memory,
            ephemeral_storage: requests.ephemeral_storage,
            scalars: scalars.collect(),
            mapped: class.devices.iter().flat_map(|devices| &devices.mapped).cloned().collect(),
            nothing: requests.is_nothing(),
            resize: class
                .resize_deferred
                .then(|| Resize { node: Symbol::NONE, more: beyond(requests, &class.accounted) }),
        }
    }

    /// Adds cluster-wide facts about extended resources.
    fn with_facts(mut self, facts: &Facts) -> Self {
        if let Some(extended) = facts.extended() {
            self.mapped = extended.mapped().cloned().collect();
        }
        self
    }

    /// Whether DynamicResources handles a resource on a node with this allocatable amount. Source: `shouldDelegateResourceToDRA`.
    fn is_delegated(&self, name: &Arc<str>, allocatable: i64) -> bool {
        allocatable <= 0 && self.mapped.contains(name)
    }

    /// Whether the pod would fit the node without other pods.
    fn empty(&self, node: &NodeInfo) -> bool {
        let has = &node.allocatable;
        node.allowed_pods >= 1
            && self.milli_cpu <= has.milli_cpu
            && self.memory <= has.memory
            && self.ephemeral_storage <= has.ephemeral_storage
            && self
                .scalars
                .iter()
                .all(|(name, amount)| *amount <= has.get(name) || self.is_delegated(name, has.get(name)))
    }

    fn grew(&self, old: &NodeInfo, new: &NodeInfo) -> bool {
        let (before, after) = (&old.allocatable, &new.allocatable);
        new.allowed_pods > old.allowed_pods
            || (self.milli_cpu > 0 && after.milli_cpu > before.milli_cpu)
            || (self.memory > 0 && after.memory > before.memory)
            || (self.ephemeral_storage > 0 && after.ephemeral_storage > before.ephemeral_storage)
            || self
                .scalars
                .iter()
                .any(|(name, _)| after.get(name) > before.get(name) || self.is_delegated(name, after.get(name)))
    }
}

/// Columns of the extended resources, in the order of [`Fits::scalars`].
type ScalarColumns<'a> = SmallVec<[Option<&'a ScalarColumn>; 2]>;

impl Fits {
    fn columns<'a>(&self, accounts: &'a Accounts) -> ScalarColumns<'a> {
        self.scalars.iter().map(|(name, _)| accounts.scalar(name)).collect()
    }

    /// Insufficient resources of [`Self::judge`], with amounts.
    fn lacks(&self, accounts: &Accounts, slot: Slot, more: Option<&Resources>) -> Vec<Lack> {
        let at = slot as usize;
        let lack = |name: &str, request: i64, allocatable: i64, charged: i64| {
            let needed = more.filter(|_| name != "pods").map_or(request, |more| more.get(name));
            let short = needed.saturating_sub(allocatable.saturating_sub(charged));
            (request > 0 && short > 0).then(|| Lack::Resource { name: name.into(), short, request, allocatable })
        };
        let pods = lack("pods", 1, accounts.allowed_pods[at], accounts.pods[at]);
        if self.nothing {
            return pods.into_iter().collect();
        }
        let fixed = [
            pods,
            lack("cpu", self.milli_cpu, accounts.allocatable_milli_cpu[at], accounts.milli_cpu[at]),
            lack("memory", self.memory, accounts.allocatable_memory[at], accounts.memory[at]),
            lack(
                "ephemeral-storage",
                self.ephemeral_storage,
                accounts.allocatable_ephemeral_storage[at],
                accounts.ephemeral_storage[at],
            ),
        ];
        let scalars = self.scalars.iter().map(|(name, request)| {
            let (allocatable, charged) = accounts.scalar_amounts(name, slot);
            let is_charged = more.is_some_and(|more| more.get(name) == 0);
            let is_skipped = is_charged || self.is_delegated(name, allocatable);
            if is_skipped { None } else { lack(name, *request, allocatable, charged) }
        });
        fixed.into_iter().chain(scalars).flatten().collect()
    }

    /// `RESIZED` is a constant, so that classes without a deferred resize take no branch for one.
    fn judge<const RESIZED: bool>(&self, nodes: &Snapshot, scalars: &ScalarColumns<'_>, slot: Slot) -> FilterResult {
        let (accounts, at) = (&nodes.accounts, slot as usize);
        let own = self.resize.as_ref().filter(|resize| RESIZED && resize.node == nodes.name(slot));
        let more = own.map(|resize| &resize.more);
        let mut short = 0;
        let mut never = false;
        if accounts.pods[at] + 1 > accounts.allowed_pods[at] {
            short |= TOO_MANY_PODS;
        }
        if !self.nothing {
            let mut check = |bit: u64, [request, needed]: [i64; 2], allocatable: i64, charged: i64| {
                if request > 0 && needed > allocatable.saturating_sub(charged) {
                    short |= bit;
                    never |= request > allocatable;
                }
            };
            let both = |request, needed: fn(&Resources) -> i64| [request, more.map_or(request, needed)];
            let cpu = both(self.milli_cpu, |more| more.milli_cpu);
            check(CPU, cpu, accounts.allocatable_milli_cpu[at], accounts.milli_cpu[at]);
            let memory = both(self.memory, |more| more.memory);
            check(MEMORY, memory, accounts.allocatable_memory[at], accounts.memory[at]);
            check(
                EPHEMERAL_STORAGE,
                both(self.ephemeral_storage, |more| more.ephemeral_storage),
                accounts.allocatable_ephemeral_storage[at],
                accounts.ephemeral_storage[at],
            );
            for (index, ((name, request), column)) in self.scalars.iter().zip(scalars).enumerate() {
                let (allocatable, charged) =
                    column.map_or((0, 0), |column| (column.allocatable(slot), column.charged(slot)));
                let needed = more.map_or(*request, |more| more.get(name));
                if (RESIZED && needed == 0) || self.is_delegated(name, allocatable) {
                    continue;
                }
                // Of a scalar, kube-scheduler compares only the missing part with the size of the node.
                check(1 << (FIRST_SCALAR + index).min(63), [needed; 2], allocatable, charged);
            }
        }
        match (short, never) {
            (0, _) => Ok(()),
            (short, true) => Err(Refusal::unresolvable(short)),
            (short, false) => Err(Refusal::unschedulable(short)),
        }
    }

    fn sieve_as<const RESIZED: bool>(
        &self,
        nodes: &Snapshot,
        todo: &mut Vec<Slot>,
        refused: &mut dyn FnMut(Slot, Refusal),
    ) {
        let scalars = self.columns(&nodes.accounts);
        todo.retain(|&slot| {
            self.judge::<RESIZED>(nodes, &scalars, slot).map_err(|refusal| refused(slot, refusal)).is_ok()
        });
    }
}

impl NodeFilter for Fits {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        let scalars = self.columns(&nodes.accounts);
        match self.resize {
            None => self.judge::<false>(nodes, &scalars, slot),
            Some(_) => self.judge::<true>(nodes, &scalars, slot),
        }
    }

    fn sieve(&self, nodes: &Snapshot, todo: &mut Vec<Slot>, refused: &mut dyn FnMut(Slot, Refusal)) {
        match self.resize {
            None => self.sieve_as::<false>(nodes, todo, refused),
            Some(_) => self.sieve_as::<true>(nodes, todo, refused),
        }
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let fixed = [
            (TOO_MANY_PODS, "Too many pods"),
            (CPU, "Insufficient cpu"),
            (MEMORY, "Insufficient memory"),
            (EPHEMERAL_STORAGE, "Insufficient ephemeral-storage"),
        ];
        let fixed = fixed.iter().filter(|(bit, _)| detail & bit != 0).map(|(_, reason)| (*reason).to_owned());
        let scalars = self.scalars.iter().take(64 - FIRST_SCALAR).enumerate();
        let scalars = scalars
            .filter(|(index, _)| detail & (1 << (FIRST_SCALAR + index)) != 0)
            .map(|(_, (name, _))| format!("Insufficient {name}"));
        fixed.chain(scalars).collect()
    }
}

#[cfg(test)]
mod tests;
