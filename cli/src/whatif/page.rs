//! The answer as a page: both sides, and what differs between them.
//!
//! Knows: what the page is told of each side. Must not know: how the page looks, or how anything was found out.

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, Write},
    sync::Arc,
};

use flotilla_account::telling::Teller;
use flotilla_framework::{class::PodInfo, extender::Extender, profile::Profile, registry::Registry};

use super::{
    compare::Answer,
    side::{Side, State},
};
use crate::{
    explain::tell_all,
    page::{
        self, Report,
        report::{Comparison, Place, Stand},
    },
};

/// Both sides with what differs.
pub(crate) struct Compared {
    pub(super) answer: Answer,
    pub(super) before: Side,
    pub(super) after: Side,
    /// Those that decide on the second side.
    pub(super) profiles: Vec<Profile>,
    /// Extenders that they ask.
    pub(super) extenders: Vec<Extender>,
    /// What was read, as the command line says it.
    pub(super) subject: String,
    pub(super) registry: Registry,
    /// The page answers new questions.
    pub(super) is_asked: bool,
}

/// A pod on both sides.
struct Row<'a> {
    before: Option<&'a Arc<PodInfo>>,
    after: Option<&'a Arc<PodInfo>>,
    places: [Place; 2],
    message: &'a str,
}

impl Compared {
    /// All pods in the order of the report; none for one that is gone after the changes, of which no account can be given.
    pub(crate) fn pods(&self) -> Vec<Option<Arc<PodInfo>>> {
        self.rows().iter().map(|row| row.after.cloned()).collect()
    }

    /// Gives account of pods as they are after the changes.
    pub(crate) fn teller(&self) -> Teller {
        Teller::new(self.registry, &self.after.cluster, &self.profiles)
    }

    /// Gives the report, without accounts, to `write`.
    ///
    /// # Errors
    /// As `write`, and where the cluster cannot be kept.
    pub(crate) fn report<T>(&self, write: impl FnOnce(Report<'_>) -> io::Result<T>) -> io::Result<T> {
        let rows = self.rows();
        let stands: Vec<Stand<'_>> = rows.iter().filter_map(Row::stand).collect();
        let mut report = Report::new(&[&self.before.cluster.nodes, &self.after.cluster.nodes], &stands);
        report.command = "whatif";
        report.subject.clone_from(&self.subject);
        report.sides = &["before", "after"];
        report.comparison = Some(self.comparison());
        if self.is_asked {
            report.kept = page::kept(&self.after.cluster, &self.profiles, self.registry, &self.extenders)?;
        }
        write(report)
    }

    /// Writes the page with the accounts of the pods that stay pending after the changes.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let accounts = tell_all(&mut self.teller(), self.after.pending.iter()).map_err(io::Error::other)?;
        self.report(|mut report| {
            accounts.put_into(&mut report)?;
            page::write(&report, out)
        })
    }

    fn comparison(&self) -> Comparison {
        let Answer { changes, pods, preemptions, bottleneck, .. } = &self.answer;
        let preempted = preemptions.iter().map(|one| (one.pod.clone(), one.node.clone(), one.by.clone()));
        Comparison {
            changes: changes.clone(),
            pods: pods.iter().map(|row| (row.pod.clone(), row.change.word())).collect(),
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

/// The pods of a side by `namespace/name`.
fn infos(side: &Side) -> HashMap<String, &Arc<PodInfo>> {
    side.cluster.bound.iter().chain(&side.pending).map(|pod| (pod.key(), pod)).collect()
}

fn place(side: &Side, key: &str) -> Place {
    match side.pods.get(key) {
        None => Place::Absent,
        Some(State::Pending(_)) => Place::Pending,
        Some(State::On(node)) => Place::On(Arc::clone(node)),
    }
}
