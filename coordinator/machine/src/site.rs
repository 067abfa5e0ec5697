//! The parts of the machine that an attempt works on.

use flotilla_framework::{shard::RequestId, trace::Sampling};

use crate::{
    groups::{Groups, members::Turns},
    machine::Machine,
    pods::Pods,
    preempt::Residents,
    preparations::Preparations,
    queue::Queue,
    settings::Settings,
    shards::Shards,
    subject::Uid,
    tally::Tally,
    trace::{Asker, Part},
};

/// The cluster for requests to workers, attempts at groups, and searches of victims. It changes neither pods nor the queue: the results are
/// values, which the machine carries out.
#[derive(Debug)]
pub(crate) struct Site<'m> {
    pub(crate) shards: Shards<'m>,
    pub(crate) settings: &'m Settings,
    pub(crate) pods: &'m Pods,
    pub(crate) queue: &'m Queue,
    pub(crate) groups: &'m mut Groups,
    pub(crate) residents: &'m Residents,
    pub(crate) preparations: &'m Preparations,
    pub(crate) tally: &'m mut Tally,
    pub(crate) tracing: Option<Sampling>,
    /// The traced pod for which workers are asked.
    pub(crate) cause: &'m mut Option<Uid>,
}

impl Machine {
    pub(crate) const fn shards(&mut self) -> Shards<'_> {
        let Site { shards, .. } = self.site();
        shards
    }

    pub(crate) const fn turns(&mut self) -> Turns<'_> {
        Turns {
            groups: &mut self.groups,
            queue: &mut self.queue,
            judge: &mut self.judge,
            pods: &self.pods,
            settings: &self.settings,
            rooms_made: self.rooms_made,
        }
    }

    pub(crate) const fn site(&mut self) -> Site<'_> {
        Site {
            shards: Shards {
                settings: &self.settings,
                roster: &mut self.roster,
                judge: &mut self.judge,
                budgets: &mut self.budgets,
                preemptions: &mut self.preemptions,
                actions: &mut self.actions,
                status: &mut self.status,
                epoch: self.leading,
                last_request: &mut self.next_request,
                now_ms: self.tally.now_ms,
            },
            settings: &self.settings,
            pods: &self.pods,
            queue: &self.queue,
            groups: &mut self.groups,
            residents: &self.residents,
            preparations: &self.preparations,
            tally: &mut self.tally,
            tracing: self.tracing,
            cause: &mut self.cause,
        }
    }
}

impl Site<'_> {
    /// The span of the next request.
    pub(crate) fn asker(&self, request: RequestId) -> Option<Asker> {
        let pod = self.pods.get(self.cause.as_ref()?)?;
        let attempt = pod.traced(self.tracing, pod.attempts.count + 1)?;
        let within = if pod.attempts.from.is_some() { attempt.part(Part::Cycle) } else { attempt.context };
        Some(Asker { context: within.child("evaluate", request), parent: within.span })
    }
}
