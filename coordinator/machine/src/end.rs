//! Ends of attempts without a node: reports, nominations by the machine itself, and the next place of the pod.
//!
//! Source: `backend/queue/nominator.go` for nominations.

use std::sync::Arc;

use flotilla_framework::{class::Scheduled, devices::facts::with_claim_names, diagnosis::Diagnosis};

use crate::{
    action::{Action, Binding, Nomination, Reason, Report},
    cycle::Progress,
    event::TimeMs,
    judge::nominator::Nominated,
    machine::Machine,
    pods::{Indexed, PodStage},
    queue::{Plugins, Rejectors},
    subject::{Subject, Uid},
};

impl Nominated {
    pub(crate) fn of(pod: &Indexed) -> Option<Self> {
        let node = pod.nominated_node.as_ref().filter(|_| pod.stage.waits() && pod.info.node_name.is_none())?;
        let class = (pod.class, Arc::clone(&pod.info.class));
        Some(Self { node: Arc::clone(node), priority: pod.info.priority, class })
    }
}

impl Machine {
    /// The pod is infeasible on all nodes, as are all pods of its class with the same or a lower priority. `nominated` is the node where
    /// preemption makes room, if any.
    pub(crate) fn turn_down(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        diagnosis: Diagnosis,
        nominated: Option<Arc<str>>,
    ) -> Progress {
        let rejectors = Rejectors { plugins: diagnosis.plugins.as_slice().into(), pending: Plugins::default() };
        let known = self.pods.get(uid).map(|pod| (pod.stage, pod.class, pod.info.priority));
        let is_for_all = nominated.is_none() && !rejectors.plugins.is_empty();
        let nomination = self.nominate_local(now_ms, uid, nominated);
        let progress = self.set_aside(now_ms, uid, diagnosis, nomination);
        if let Some((PodStage::Queued(profile), class, priority)) = known.filter(|_| is_for_all) {
            self.queue.answer_for_all((profile, class), priority, rejectors, now_ms);
        }
        progress
    }

    /// The pod is infeasible on all nodes, for reasons that need not apply to other pods of its class: parks it.
    pub(crate) fn set_aside(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        diagnosis: Diagnosis,
        nomination: Nomination,
    ) -> Progress {
        let Some(pod) = self.pods.get(uid) else { return Progress::Decided };
        let PodStage::Queued(profile) = pod.stage else { return Progress::Decided };
        let subject = (profile, pod.class);
        self.count_attempt(now_ms, uid, Some((subject, false)));
        let Some(attempts) = self.pods.attempts_mut(uid) else { return Progress::Decided };
        attempts.end();
        if diagnosis.plugins.is_empty() {
            // Without a plugin no event can help; kube-scheduler also counts this as an error.
            attempts.fail();
            self.queue.park_with_error(&mut self.pods, now_ms, uid);
        } else {
            attempts.errors = 0;
            // An attempt before the end of the backoff keeps the backoff.
            attempts.kept_ms = attempts.popped.take();
            attempts.refusals += u32::from(attempts.kept_ms.is_none());
            let plugins = diagnosis.plugins.as_slice().into();
            let rejectors = Rejectors { plugins, pending: Plugins::default() };
            let is_alone = self.judge.nominator().of(uid).is_some();
            self.queue.park_pod(&mut self.pods, (now_ms, uid), rejectors, is_alone);
        }
        self.status.unschedulable += 1;
        self.report_with(uid, Reason::Unschedulable, diagnosis.into_message(), true, nomination);
        Progress::Decided
    }

    pub(crate) fn fail(&mut self, now_ms: TimeMs, uid: &Uid, message: String) -> Progress {
        self.count_attempt(now_ms, uid, None);
        self.retry_later(now_ms, uid);
        self.report_failure(now_ms, uid, message);
        Progress::Decided
    }

    /// The next attempt would fail in the same way: gates the pod with the error.
    pub(crate) fn hold_pod(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject, error: String) {
        self.count_attempt(now_ms, uid, None);
        let Some(attempts) = self.pods.attempts_mut(uid) else { return };
        attempts.end();
        self.held.hold(uid, self.judge.facts_version(subject), now_ms);
        self.leave_untried(now_ms, uid, subject.0, error);
    }

    pub(crate) fn retry_later(&mut self, now_ms: TimeMs, uid: &Uid) {
        // The profiles may have changed since the attempt began.
        let profile = self.pods.get(uid).and_then(|pod| self.settings.profile_index(&pod.info.scheduler_name));
        let Some(profile) = profile else { return self.edit(now_ms, uid, |pod| pod.enter(PodStage::Foreign)) };
        if let Some(group) = self.pods.get(uid).and_then(|pod| self.settings.waits_with(&pod.info)) {
            self.join_group(now_ms, uid, profile, &group);
            return self.turns().rejoined(now_ms, &group);
        }
        self.edit(now_ms, uid, |pod| {
            pod.stage = PodStage::Queued(profile);
            pod.attempts.end();
            pod.attempts.fail();
        });
        self.queue.park_with_error(&mut self.pods, now_ms, uid);
    }

    pub(crate) fn bind(&mut self, binding: Binding) {
        // The binder records the end of the attempt.
        self.pods.attempts_mut(&binding.uid).into_iter().for_each(|attempts| attempts.trace.ended = attempts.count);
        self.binding.insert(Arc::clone(&binding.uid));
        self.actions.push(Action::Bind(binding));
    }

    /// Nominates a pod or removes its nomination. The change counts at once, until the watch shows a change. Returns the change to write.
    pub(crate) fn nominate_local(&mut self, now_ms: TimeMs, uid: &Uid, node: Option<Arc<str>>) -> Nomination {
        let Some(pod) = self.pods.get(uid) else { return Nomination::Keep };
        if pod.info.class.resize_deferred {
            // The pod is on its node.
            return Nomination::Keep;
        }
        if pod.nominated_node() == node.as_ref() && !pod.announced {
            return Nomination::Keep;
        }
        self.edit(now_ms, uid, |pod| {
            pod.announced = false;
            pod.nominate_locally(node.clone());
        });
        node.map_or(Nomination::Clear, Nomination::To)
    }

    /// As [`Self::report_with`], for a failed attempt: also removes the nomination.
    pub(crate) fn report_failure(&mut self, now_ms: TimeMs, uid: &Uid, message: String) {
        let nomination = self.nominate_local(now_ms, uid, None);
        self.report_with(uid, Reason::SchedulerError, message, true, nomination);
    }

    /// Reports why a pod is not placed, with a change of the nomination. Remembers the report, so that the condition is written only when it
    /// changes.
    pub(crate) fn report_with(
        &mut self,
        uid: &Uid,
        reason: Reason,
        message: String,
        condition: bool,
        nomination: Nomination,
    ) {
        if self.leading.is_none() {
            return;
        }
        let message = match self.pods.get(uid) {
            Some(pod) => with_claim_names(message, &pod.info.class),
            None => return,
        };
        let trace = if condition { self.trace_failure(uid, reason, &message) } else { None };
        let Some(pod) = self.pods.get(uid) else { return };
        let last = pod.attempts.last_report.as_ref();
        let told = last.is_some_and(|(known, text)| *known == reason && *text == message);
        let is_same =
            |shown: &Scheduled| !shown.status && &*shown.reason == reason.as_str() && *shown.message == *message;
        let shown = pod.info.condition.as_ref().is_some_and(is_same);
        let is_known = shown || (told && pod.info.condition.is_none());
        let last_report = condition.then(|| (reason, message.clone()));
        // A pod with a deferred resize runs, whatever the result.
        if !condition || !pod.info.class.resize_deferred {
            self.actions.push(Action::Report(Report {
                uid: Arc::clone(uid),
                namespace: Arc::clone(&pod.info.class.namespace),
                name: Arc::clone(&pod.info.name),
                scheduler_name: Arc::clone(&pod.info.scheduler_name),
                generation: pod.info.generation,
                reason,
                message,
                write_condition: condition && !is_known,
                nomination,
                attempt: pod.attempts.count,
                began_ms: pod.attempts.trial.began_ms.filter(|_| condition),
                trace,
            }));
        }
        if let Some((attempts, report)) = self.pods.attempts_mut(uid).zip(last_report) {
            attempts.last_report = Some(report);
        }
    }
}
