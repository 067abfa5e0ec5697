//! The report of a simulation for the page.

use std::{
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
}

impl Simulated {
    pub(super) fn new(
        args: &SimulateArgs,
        figures: Figures,
        mut cluster: Cluster,
        outcome: SimulationResult,
        settings: Settings,
    ) -> Self {
        let nodes = cluster.nodes.clone();
        let stood =
            |pod: &Arc<PodInfo>| Row { pod: Arc::clone(pod), before: pod.node_name.clone(), message: String::new() };
        let mut pods: Vec<Row> = cluster.bound.iter().map(stood).collect();
        cluster.pending.clear();
        for placement in outcome.placements {
            let pod = match placement.node {
                Some(node) => Arc::new(PodInfo { node_name: Some(node), ..PodInfo::clone(&placement.pod) }),
                None => placement.pod,
            };
            let side = if pod.node_name.is_some() { &mut cluster.bound } else { &mut cluster.pending };
            side.push(Arc::clone(&pod));
            pods.push(Row { pod, before: None, message: placement.message });
        }
        let is_asked = !args.no_questions;
        Self { nodes, pods, after: cluster, subject: subject(args), figures, settings, is_asked }
    }

    /// All pods, in the order of the report.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.iter().map(|row| &row.pod)
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
        if self.is_asked {
            let Settings { registry, profiles, extenders, .. } = &self.settings;
            report.kept = page::kept(&self.after, profiles, *registry, extenders)?;
        }
        Ok(report)
    }

    /// Writes the page with the accounts of pending pods.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let pending = self.pods().filter(|pod| pod.node_name.is_none());
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
