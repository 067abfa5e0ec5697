//! The machine's requests to the API server, collected until the end of a round.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Instant,
};

use flotilla_framework::class::PodInfo;
use flotilla_machine::action::{Action, PreBind, Preemption, Unreserve};
use flotilla_runtime::fanout::Fanout;

use crate::ledger::Ledger;

/// A request to the API server.
pub(super) enum Request {
    /// The pod with its node.
    Bind(Arc<PodInfo>),
    PreBind(Arc<PodInfo>, PreBind),
    Unreserve(Unreserve),
    Preempt {
        preemption: Preemption,
        /// It is from the first attempt of the pod or group.
        is_first: bool,
    },
}

/// Requests in the order in which the machine made them. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Requests(Arc<Mutex<Vec<Request>>>);

impl Requests {
    fn push(&self, request: Request) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    /// All requests since the last call.
    pub(super) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Performs an action on the machine's thread; it must not block.
pub(super) fn perform(
    ledger: Ledger,
    requests: Requests,
    fanout: Arc<OnceLock<Fanout>>,
) -> impl FnMut(Action) + Send + 'static {
    move |action| match action {
        Action::Bind(binding) => {
            if let Some(pod) = ledger.placed(&binding, Instant::now()) {
                requests.push(Request::Bind(pod));
            }
        }
        Action::PreBind(pre_bind) => {
            if let Some(pod) = ledger.reserved(&pre_bind.uid, Instant::now()) {
                requests.push(Request::PreBind(pod, pre_bind));
            }
        }
        Action::Unreserve(unreserve) => requests.push(Request::Unreserve(unreserve)),
        Action::Preempt(preemption) => {
            let is_first = ledger.is_first_attempt(&preemption);
            requests.push(Request::Preempt { preemption, is_first });
        }
        Action::Report(report) => ledger.reported(report, Instant::now()),
        Action::Send { worker, word } => {
            if let Some(fanout) = fanout.get() {
                fanout.send(worker, word);
            }
        }
        Action::DropWorker { worker, reason, pause_ms } => {
            if let Some(fanout) = fanout.get() {
                fanout.drop_worker(worker, &reason, pause_ms);
            }
        }
        // No extender manages any of the pods.
        Action::Nominate(_)
        | Action::Extend(_)
        | Action::ExtendPreemption(_)
        | Action::ReportGroup(_)
        | Action::Acknowledged { .. }
        | Action::Alone(_)
        | Action::Trace(_)
        | Action::DeviceWaitBegan(_)
        | Action::DeviceWaitEnded(_) => {}
    }
}
