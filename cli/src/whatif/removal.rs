//! The nodes that can go, as sentences, tables and for JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    sync::Arc,
};

use comfy_table::Cell;
use flotilla_account::amount::Amount;
use flotilla_framework::node::NodeInfo;
use flotilla_model::Obstacle;
use flotilla_simulate::removal::{HeldNode, Hold, Removals, RemovedNode, Search, Share};
use serde::Serialize;

use super::{
    output::names,
    side::{Side, State},
    survey::Survey,
};
use crate::output::{printable, table};

/// The argument of `--remove-node` that means a search.
pub(super) const AUTO: &str = "auto";

/// The limit of rows of a table.
const MOST_ROWS: usize = 100;
/// The limit of held nodes that a page lists.
const MOST_LINES: usize = 20;

#[derive(Debug, Serialize)]
pub(super) struct Removal {
    /// The nodes that can go together, in the order of their removal.
    nodes: Vec<Removable>,
    /// The allocatable resources of these nodes.
    freed: BTreeMap<Arc<str>, Amount>,
    /// All others, in the order of the attempts.
    held: Vec<Held>,
}

#[derive(Debug, Serialize)]
struct Removable {
    node: String,
    requested: Requested,
    /// The evicted pods.
    pods: Vec<Evicted>,
}

#[derive(Debug, Serialize)]
struct Evicted {
    pod: String,
    /// The node after all removals; absent for a pod that no controller recreates.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

/// The largest requested share of a resource, before the first removal.
#[derive(Debug, Serialize)]
struct Requested {
    resource: String,
    /// Percentage with one decimal.
    percent: f64,
}

#[derive(Debug, Serialize)]
struct Held {
    node: String,
    requested: Requested,
    reason: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<String>,
    message: String,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
enum Reason {
    Annotation,
    ControlPlane,
    NoController,
    EmptyDir,
    Resources,
    Pending,
    Budget,
    NotTried,
}

/// The nodes of the current cluster, each with the annotation by which autoscalers keep it. Nodes that the changes add are no candidates.
pub(super) fn candidates(survey: &Survey, nodes: &[Arc<NodeInfo>]) -> Search {
    let annotation = |node: &NodeInfo| {
        let known = survey.objects.get(&("Node".to_owned(), node.name.to_string()));
        known.and_then(|known| known.keeps)
    };
    let candidates = nodes.iter().map(|node| (Arc::clone(&node.name), annotation(node)));
    Search { candidates: candidates.collect(), progress: "{bar:40} {pos}/{len} nodes tried, {eta} left" }
}

impl Removal {
    pub(super) fn new(removals: &Removals, after: &Side) -> Self {
        let mut freed: BTreeMap<Arc<str>, i128> = BTreeMap::new();
        for RemovedNode { node, .. } in &removals.removed {
            let allocatable = &node.allocatable;
            let own = [
                ("cpu", allocatable.milli_cpu),
                ("memory", allocatable.memory),
                ("ephemeral-storage", allocatable.ephemeral_storage),
                ("pods", node.allowed_pods),
            ];
            let all = own.into_iter().chain(allocatable.scalars.iter().map(|(name, amount)| (&**name, *amount)));
            for (name, amount) in all.filter(|(_, amount)| *amount > 0) {
                *freed.entry(name.into()).or_default() += i128::from(amount);
            }
        }
        Self {
            nodes: removals.removed.iter().map(|removed| Removable::of(removed, after)).collect(),
            freed: freed.into_iter().map(|(name, amount)| (Arc::clone(&name), Amount::of(&name, amount))).collect(),
            held: removals.held.iter().map(Held::of).collect(),
        }
    }

    /// Whether a node can go.
    pub(super) fn is_any(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// One sentence about all nodes.
    pub(super) fn sentence(&self) -> String {
        let (count, of) = (self.nodes.len(), self.nodes.len() + self.held.len());
        let of = if of == 1 { "1 node".to_owned() } else { format!("{of} nodes") };
        let removed: Vec<String> = self.nodes.iter().map(|removable| removable.node.clone()).collect();
        match count {
            0 => format!("remove nodes: none of {of} can go"),
            1 => format!("remove nodes: 1 of {of} can go: {}", names(&removed)),
            _ => format!("remove nodes: {count} of {of} can go together: {}", names(&removed)),
        }
    }

    /// One line for each of the first held nodes.
    pub(super) fn held_lines(&self) -> Vec<String> {
        let shown = self.held.iter().take(MOST_LINES).map(|held| format!("{} is held: {}", held.node, held.message));
        let mut lines: Vec<String> = shown.collect();
        if self.held.len() > MOST_LINES {
            lines.push(format!("... and {} more nodes; -o json has them all", self.held.len() - MOST_LINES));
        }
        lines
    }

    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.freed.is_empty() {
            let turn =
                |name: &str| ["cpu", "memory", "pods"].iter().position(|first| *first == name).unwrap_or(usize::MAX);
            let mut freed: Vec<_> = self.freed.iter().collect();
            freed.sort_by_key(|(name, _)| turn(name));
            let amount = |(name, amount): (&Arc<str>, &Amount)| format!("{} {name}", amount.rounded());
            let freed: Vec<String> = freed.into_iter().map(amount).collect();
            writeln!(out, "  frees {}", printable(&freed.join(", ")))?;
        }
        let more = |out: &mut dyn Write, count: usize| match count.checked_sub(MOST_ROWS) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(out, "... and {more} more nodes; -o json has them all"),
        };
        if !self.nodes.is_empty() {
            let rows = self.nodes.iter().take(MOST_ROWS).map(Removable::cells);
            writeln!(out, "\n{}", table(["REMOVABLE", "REQUESTED", "PODS", "MOVE TO"], rows).trim_fmt())?;
            more(out, self.nodes.len())?;
        }
        if !self.held.is_empty() {
            let cells = |held: &Held| {
                [held.node.clone(), held.requested.text(), held.message.clone()].map(|text| Cell::new(printable(&text)))
            };
            let rows = self.held.iter().take(MOST_ROWS).map(cells);
            writeln!(out, "\n{}", table(["HELD", "REQUESTED", "BECAUSE"], rows).trim_fmt())?;
            more(out, self.held.len())?;
        }
        Ok(())
    }
}

impl Removable {
    fn of(RemovedNode { node, requested, pods }: &RemovedNode, after: &Side) -> Self {
        let place = |pod: &String| match after.pods.get(pod) {
            Some(State::On(node)) => Some(node.to_string()),
            _ => None,
        };
        let pods = pods.iter().map(|pod| Evicted { pod: pod.clone(), node: place(pod) }).collect();
        Self { node: node.name.to_string(), requested: Requested::of(requested), pods }
    }

    fn cells(&self) -> [Cell; 4] {
        let to: BTreeSet<&String> = self.pods.iter().filter_map(|evicted| evicted.node.as_ref()).collect();
        let to: Vec<String> = to.into_iter().cloned().collect();
        let to = if to.is_empty() { "-".to_owned() } else { names(&to) };
        [self.node.clone(), self.requested.text(), self.pods.len().to_string(), to]
            .map(|text| Cell::new(printable(&text)))
    }
}

impl Requested {
    fn of(share: &Share) -> Self {
        Self { resource: share.resource.to_string(), percent: (share.percent * 10.0).round() / 10.0 }
    }

    fn text(&self) -> String {
        format!("{}% of {}", self.percent, self.resource)
    }
}

impl Held {
    fn of(HeldNode { node, requested, hold }: &HeldNode) -> Self {
        let (reason, pod, budgets) = match hold {
            Hold::Annotation(_) => (Reason::Annotation, None, Vec::new()),
            Hold::ControlPlane => (Reason::ControlPlane, None, Vec::new()),
            Hold::PodAnnotation { pod, .. } => (Reason::Annotation, Some(pod), Vec::new()),
            Hold::Unmanaged(pod) => (Reason::NoController, Some(pod), Vec::new()),
            Hold::EmptyDir(pod) => (Reason::EmptyDir, Some(pod), Vec::new()),
            Hold::Room { .. } => (Reason::Resources, None, Vec::new()),
            Hold::Pending { pod, .. } => (Reason::Pending, Some(pod), Vec::new()),
            Hold::Blocked(blocked) => {
                let budgets = match &blocked.by {
                    Obstacle::Budget { name, .. } => vec![name.clone()],
                    Obstacle::SeveralBudgets(names) => names.clone(),
                };
                (Reason::Budget, Some(&blocked.pod.key), budgets)
            }
            Hold::NotTried(_) => (Reason::NotTried, None, Vec::new()),
        };
        let (node, requested) = (node.to_string(), Requested::of(requested));
        Self { node, requested, reason, pod: pod.cloned(), budgets, message: message(hold) }
    }
}

fn message(hold: &Hold) -> String {
    match hold {
        Hold::Annotation(annotation) => format!("the node has the annotation {annotation}"),
        Hold::ControlPlane => "the node runs the control plane".to_owned(),
        Hold::PodAnnotation { pod, annotation } => format!("{pod} has the annotation {annotation}"),
        Hold::Unmanaged(pod) => format!("{pod} has no controller that recreates it"),
        Hold::EmptyDir(pod) => format!("{pod} has an emptyDir volume, whose data eviction deletes"),
        Hold::Room { resource, requested, free } => {
            let amount = |amount: i128| Amount::of(resource, amount).rounded();
            match &**resource {
                "pods" => format!("{requested} pods have to move, and all other nodes have room for {free}"),
                _ => format!(
                    "its pods request {} {resource}, and all other nodes have {} free",
                    amount(*requested),
                    amount(*free)
                ),
            }
        }
        Hold::Pending { pod, message, may_preempt } if message.starts_with("0/") => {
            let without = if *may_preempt { " without preemption" } else { "" };
            format!("{pod} fits nowhere{without} because {message}")
        }
        Hold::Pending { pod, message, .. } => format!("{pod} stays pending: {message}"),
        Hold::Blocked(blocked) => {
            let pod = &blocked.pod.key;
            match &blocked.by {
                Obstacle::Budget { name, .. } => {
                    format!("{pod} is blocked by budget {name}, which allows no disruption")
                }
                Obstacle::SeveralBudgets(budgets) => {
                    format!("{pod} is blocked because budgets {} select it", budgets.join(" and "))
                }
            }
        }
        Hold::NotTried(count) => format!("not tried, after {count} emptier nodes"),
    }
}
