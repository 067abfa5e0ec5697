//! The report of a simulation for the page.

use std::{
    collections::{BTreeMap, HashSet},
    io::{self, Write},
    sync::Arc,
};

use flotilla_account::explainer::Explainer;
use flotilla_cluster::Cluster;
use flotilla_framework::{class::PodInfo, node::NodeInfo};
use flotilla_simulate::{ledger::SimulationResult, run::Settings};

use super::args::SimulateArgs;
use crate::{
    explain::explain_all,
    input,
    page::{
        self, Report,
        report::{Figures, Stand},
    },
};

/// The cluster before and after a simulation.
#[derive(Debug)]
pub(crate) struct Simulated {
    nodes: Vec<Arc<NodeInfo>>,
    /// First the bound pods, then the others in decision order.
    pods: Vec<Row>,
    /// The cluster with all placed pods on their nodes.
    after: Cluster,
    subject: String,
    figures: Figures,
    /// A sentence for each workload with pods that are not created.
    not_created: Vec<String>,
    settings: Settings,
    /// The page answers new questions.
    is_asked: bool,
}

#[derive(Debug)]
struct Row {
    /// The pod after the simulation.
    pod: Arc<PodInfo>,
    before: Option<Arc<str>>,
    /// Why the pod stays pending.
    message: String,
    /// Deleted, and not recreated.
    is_gone: bool,
}

impl Simulated {
    pub(super) fn new(
        args: &SimulateArgs,
        figures: Figures,
        mut cluster: Cluster,
        mut outcome: SimulationResult,
        settings: Settings,
    ) -> Self {
        outcome.settle(&mut cluster);
        let nodes = cluster.nodes.clone();
        let stood = |pod: &Arc<PodInfo>| Row {
            pod: Arc::clone(pod),
            before: pod.node_name.clone(),
            message: String::new(),
            is_gone: false,
        };
        let mut pods: Vec<Row> = cluster.bound.iter().map(stood).collect();
        cluster.pending.clear();
        // A controller recreates a deleted pod under its name; then one row shows both.
        let preempted = outcome.evicted.iter().map(|one| (&one.pod, format!("preempted by {}", one.by)));
        let removed = outcome.removed.iter().map(|one| (&one.pod, "deleted by its controller".to_owned()));
        let mut deleted: BTreeMap<String, (Arc<PodInfo>, String)> =
            preempted.chain(removed).map(|(pod, why)| (pod.key(), (Arc::clone(pod), why))).collect();
        let gone: HashSet<Arc<str>> = outcome.gone(&cluster).map(|pod| Arc::clone(&pod.uid)).collect();
        pods.retain(|row| !gone.contains(&row.pod.uid));
        cluster.bound.retain(|pod| !gone.contains(&pod.uid));
        for placement in outcome.placements {
            let pod = match placement.node {
                Some(node) => Arc::new(PodInfo { node_name: Some(node), ..PodInfo::clone(&placement.pod) }),
                None => placement.pod,
            };
            let side = if pod.node_name.is_some() { &mut cluster.bound } else { &mut cluster.pending };
            side.push(Arc::clone(&pod));
            let before = deleted.remove(&pod.key()).filter(|(pod, _)| gone.contains(&pod.uid));
            let before = before.and_then(|(pod, _)| pod.node_name.clone());
            pods.push(Row { pod, before, message: placement.message, is_gone: false });
        }
        pods.extend(deleted.into_values().map(|(pod, message)| Row {
            before: pod.node_name.clone(),
            pod: Arc::new(PodInfo { node_name: None, ..PodInfo::clone(&pod) }),
            message,
            is_gone: true,
        }));
        let is_asked = !args.no_questions;
        let refused = cluster.made.refused.iter().map(|refused| refused.text.clone());
        let not_created = refused.chain(outcome.report.not_created.iter().map(|one| one.text())).collect();
        Self { nodes, pods, after: cluster, subject: subject(args), figures, not_created, settings, is_asked }
    }

    /// All pods, in the order of the report; `None` for a deleted one.
    pub(crate) fn pods(&self) -> impl Iterator<Item = Option<&Arc<PodInfo>>> {
        self.pods.iter().map(|row| (!row.is_gone).then_some(&row.pod))
    }

    /// Evaluates pods in the cluster after the simulation.
    pub(crate) fn explainer(&self) -> Explainer {
        Explainer::new(self.settings.registry, &self.after, &self.settings.profiles)
    }

    /// The report, without accounts.
    ///
    /// # Errors
    /// The cluster cannot be encoded.
    pub(crate) fn report(&self) -> io::Result<Report<'_>> {
        let stands: Vec<Stand<'_>> = self.pods.iter().map(Row::stand).collect();
        let mut report = Report::new(&[&self.nodes], &stands);
        report.command = "simulate";
        report.subject.clone_from(&self.subject);
        report.sides = &["before", "after"];
        report.figures = Some(self.figures);
        report.not_created.clone_from(&self.not_created);
        if self.is_asked {
            let Settings { registry, profiles, extenders, .. } = &self.settings;
            report.kept = page::kept(&self.after, profiles, *registry, extenders)?;
        }
        Ok(report)
    }

    /// Writes the page with the accounts of pending pods.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let pending = self.pods().flatten().filter(|pod| pod.node_name.is_none());
        let accounts = explain_all(&mut self.explainer(), pending).map_err(io::Error::other)?;
        let mut report = self.report()?;
        accounts.put_into(&mut report)?;
        page::write(&report, out)
    }
}

impl Row {
    fn stand(&self) -> Stand<'_> {
        Stand::new(&self.pod, [self.before.clone(), self.pod.node_name.clone()], &self.message)
    }
}

/// The input, as text for the heading.
fn subject(args: &SimulateArgs) -> String {
    let made_up = args.generate.as_ref().map(|words| format!("{} generated nodes", words.nodes));
    let files = Some(input::names(&args.files)).filter(|names| !names.is_empty());
    made_up.into_iter().chain(files).collect::<Vec<_>>().join(", ")
}
