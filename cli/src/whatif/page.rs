//! The answer as a page with both sides.

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, Write},
    sync::Arc,
};

use flotilla_account::explainer::Explainer;
use flotilla_framework::{class::PodInfo, extender::Extender, profile::Profile, registry::Registry};

use super::{
    compare::{Answer, Change},
    side::{Side, State},
};
use crate::{
    explain::explain_all,
    page::{
        self, Report,
        report::{Comparison, PodLocation, Stand},
    },
};
use crate::{groups::GroupResult, rollouts::Rollout};

pub(crate) struct Compared {
    /// The API server refuses pods only with the changes.
    pub(crate) is_refused: bool,
    pub(super) answer: Answer,
    pub(super) before: Side,
    pub(super) after: Side,
    /// The profiles of the second side.
    pub(super) profiles: Vec<Profile>,
    /// The extenders of the second side.
    pub(super) extenders: Vec<Extender>,
    /// The input, as text for the heading.
    pub(super) subject: String,
    pub(super) registry: Registry,
    /// The page answers new questions.
    pub(super) is_asked: bool,
}

struct Row<'a> {
    before: Option<&'a Arc<PodInfo>>,
    after: Option<&'a Arc<PodInfo>>,
    places: [PodLocation; 2],
    message: &'a str,
}

impl Compared {
    /// All pods in the order of the report; `None` for pods that the changes remove.
    pub(crate) fn pods(&self) -> Vec<Option<Arc<PodInfo>>> {
        self.rows().iter().map(|row| row.after.cloned()).collect()
    }

    /// Evaluates pods after the changes.
    pub(crate) fn explainer(&self) -> Explainer {
        Explainer::new(self.registry, &self.after.cluster, &self.profiles)
    }

    /// Passes the report, without accounts, to `write`.
    ///
    /// # Errors
    /// Those of `write`, or the cluster cannot be encoded.
    pub(crate) fn report<T>(&self, write: impl FnOnce(Report<'_>) -> io::Result<T>) -> io::Result<T> {
        let rows = self.rows();
        let stands: Vec<Stand<'_>> = rows.iter().filter_map(Row::stand).collect();
        let mut report = Report::new(&[&self.before.cluster.nodes, &self.after.cluster.nodes], &stands);
        report.command = "whatif";
        report.subject.clone_from(&self.subject);
        report.sides = &["before", "after"];
        report.comparison = Some(self.comparison());
        let refused = self.after.cluster.made.refused.iter().map(|refused| refused.text.clone());
        report.not_created = refused.chain(self.answer.not_created.iter().map(|one| one.message.clone())).collect();
        if self.is_asked {
            report.kept = page::kept(&self.after.cluster, &self.profiles, self.registry, &self.extenders)?;
        }
        write(report)
    }

    /// Writes the page with accounts of the pods that stay pending after the changes.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let accounts = explain_all(&mut self.explainer(), self.after.pending.iter()).map_err(io::Error::other)?;
        self.report(|mut report| {
            accounts.put_into(&mut report)?;
            page::write(&report, out)
        })
    }

    fn comparison(&self) -> Comparison {
        let Answer { changes, pods, preemptions, rollouts, groups, removal, bottleneck, .. } = &self.answer;
        let held = removal.iter().flat_map(|removal| removal.held_lines());
        let ends = Rollout::lines(rollouts).into_iter().chain(GroupResult::lines(groups));
        let pods = pods.iter().filter(|row| row.change != Change::Waiting);
        let preempted = preemptions.iter().map(|one| (one.pod.clone(), one.node.clone(), one.by.clone()));
        Comparison {
            changes: changes.iter().cloned().chain(held).chain(ends).collect(),
            pods: pods.map(|row| (row.pod.clone(), row.change.word())).collect(),
            preemptions: preempted.collect(),
            bottleneck: bottleneck.as_ref().map(|one| (one.pod.clone(), one.message.clone(), one.advice.clone())),
        }
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let (before, after) = (infos(&self.before), infos(&self.after));
        let keys: BTreeSet<&String> = self.before.pods.keys().chain(self.after.pods.keys()).collect();
        let row = |key: &String| Row {
            before: before.get(key).copied(),
            after: after.get(key).copied(),
            places: [place(&self.before, key), place(&self.after, key)],
            message: match self.after.pods.get(key) {
                Some(State::Pending(message)) => message,
                _ => "",
            },
        };
        keys.into_iter().map(row).filter(|row| row.before.or(row.after).is_some()).collect()
    }
}

impl<'a> Row<'a> {
    fn stand(&self) -> Option<Stand<'a>> {
        let [was, is] = self.places.clone();
        Stand::compared([(self.before, was), (self.after, is)], self.message)
    }
}

fn infos(side: &Side) -> HashMap<String, &Arc<PodInfo>> {
    side.cluster.bound.iter().chain(&side.pending).map(|pod| (pod.key(), pod)).collect()
}

fn place(side: &Side, key: &str) -> PodLocation {
    match side.pods.get(key) {
        None => PodLocation::Absent,
        Some(State::Pending(_)) => PodLocation::Pending,
        Some(State::On(node)) => PodLocation::On(Arc::clone(node)),
    }
}
