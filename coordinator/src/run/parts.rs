//! The parts of the process that perform the machine's actions.

use std::sync::{Arc, OnceLock};

use flotilla_framework::pod_group::GroupApi;
use flotilla_machine::{action::Action, machine::Machine};
use flotilla_runtime::{
    driver::{Handle, Lap, Moment, Performer},
    extender::Callers,
    fanout::{Attach, Fanout, Transport},
};
use flotilla_spans::Spans;
use flotilla_transport::{Mutual, Role};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{debug, field::display, info, warn};

use super::Reloads;
use crate::{
    attempts::Recorder,
    bind::Binder,
    extender::Extenders,
    lease::Leadership,
    metrics::{EventHistograms, Scheduled},
    preempt::Evictor,
    status::{Events, Reporter},
    writer::Writer,
};

/// The shared parts of the process. Cheap to clone.
#[derive(Clone)]
pub struct Parts {
    /// The API server.
    pub client: kube::Client,
    /// Whether this process leads.
    pub leading: watch::Receiver<Leadership>,
    /// The machine's thread.
    pub handle: Handle,
    /// The streams to the workers.
    pub fanout: Fanout,
    /// Binds.
    pub binder: Binder,
    /// Calls to extenders.
    pub callers: Callers,
    /// Writes before binds.
    pub writer: Writer,
    /// Evictions.
    pub evictor: Evictor,
    /// Conditions and events.
    pub reporter: Reporter,
    /// Metrics that are observed one by one.
    pub scheduled: Scheduled,
    /// The active configuration for `/configz`.
    pub configz: watch::Sender<Value>,
    /// Results of configuration reloads.
    pub reloads: Arc<Reloads>,
}

pub(super) enum Reach {
    /// No workers are configured.
    Unused,
    /// Over connections.
    Network(Transport),
    /// Within this process.
    Local(Arc<dyn Attach>),
}

pub(super) type Drive = Box<dyn FnOnce(Machine, ActionPerformer) -> Handle + Send>;

impl Parts {
    /// Starts the machine and the performers of its actions. `/configz` shows the configuration `shown` until it changes.
    pub(super) fn start(
        client: kube::Client,
        leading: watch::Receiver<Leadership>,
        reporter: Reporter,
        workers: Reach,
        (machine, drive): (Machine, Drive),
        spans: Spans,
        shown: Value,
    ) -> Self {
        let performers = Arc::<OnceLock<Performers>>::default();
        let registry = machine.registry();
        let handle =
            drive(machine, ActionPerformer { performers: Arc::clone(&performers), known: EventHistograms::default() });
        let recorder = Recorder::new(spans.clone(), handle.started());
        let (scheduled, callers) = (Scheduled::default(), Callers::default());
        let binder = Binder::new(
            client.clone(),
            handle.clone(),
            reporter.clone(),
            scheduled.clone(),
            leading.clone(),
            callers.clone(),
            recorder.clone(),
        );
        let events = reporter.events().clone();
        let teller = events.clone();
        let expects_workers = !matches!(workers, Reach::Unused);
        let parts = Self {
            fanout: match workers {
                Reach::Network(transport) => {
                    Fanout::observed(handle.clone(), transport, registry, spans, scheduled.observer())
                }
                Reach::Unused => {
                    Fanout::new(handle.clone(), Transport::Mutual(Mutual::new(Role::Coordinator)), registry)
                }
                Reach::Local(attach) => Fanout::attached_by(attach, handle.clone(), registry),
            },
            binder,
            writer: Writer::new(client.clone(), handle.clone(), leading.clone(), reporter.versions().claims.clone()),
            evictor: Evictor::new(client.clone(), handle.clone(), events, scheduled.clone(), leading.clone()),
            client,
            leading,
            handle,
            callers,
            reporter,
            scheduled,
            configz: watch::Sender::new(shown),
            reloads: Arc::default(),
        };
        let extenders = Extenders::new(parts.client.clone(), parts.handle.clone(), parts.callers.clone());
        let _ =
            performers.set(Performers { parts: parts.clone(), extenders, recorder, events: teller, expects_workers });
        parts
    }
}

struct Performers {
    parts: Parts,
    extenders: Extenders,
    recorder: Recorder,
    events: Events,
    expects_workers: bool,
}

impl Performers {
    fn perform(&self, action: Action, moment: Moment) {
        let parts = &self.parts;
        match action {
            Action::Send { worker, word } => parts.fanout.send(worker, word),
            Action::DropWorker { worker, reason, pause_ms } => parts.fanout.drop_worker(worker, &reason, pause_ms),
            Action::Bind(binding) => parts.binder.bind(binding),
            Action::Extend(extension) => self.extenders.extend(extension),
            Action::ExtendPreemption(proposal) => self.extenders.extend_preemption(proposal),
            Action::PreBind(pre_bind) => parts.writer.pre_bind(pre_bind),
            Action::Unreserve(unreserve) => parts.writer.unreserve(unreserve),
            Action::Preempt(preemption) => parts.evictor.preempt(preemption),
            Action::Nominate(change) => parts.reporter.nominate(change),
            Action::Report(report) => {
                let trace_id = report.trace.map(|context| display(context.trace_id()));
                let pod = format_args!("{}/{}", report.namespace, report.name);
                debug!(%pod, reason = report.message, trace_id, "pod not scheduled");
                if let Some(began_ms) = report.began_ms {
                    parts.scheduled.refuse(&report, moment.since(began_ms));
                }
                parts.reporter.report(report);
            }
            Action::ReportGroup(report) => {
                debug!(group = %format_args!("{}/{}", report.namespace, report.name), report.status, report.message, "tried");
                if report.api == GroupApi::Kubernetes {
                    parts.reporter.groups().write(report);
                }
            }
            Action::Acknowledged { generation, workers } => {
                info!(generation, workers, "all workers acknowledged the configuration");
                parts.configz.send_modify(|shown| {
                    shown["flotilla"]["generation"] = json!(generation);
                    shown["flotilla"]["acknowledgedBy"] = json!(workers);
                });
            }
            // A choice needs no warning.
            Action::Alone(true) if !self.expects_workers => debug!("evaluating all nodes in this process"),
            Action::Alone(true) => warn!("no worker is reachable: evaluating in the coordinator"),
            Action::Trace(trace) => self.recorder.record(*trace, moment),
            Action::DeviceWaitBegan(wait) => self.events.waits_for_devices(&wait),
            Action::DeviceWaitEnded(end) => parts.scheduled.waited_for_devices(&end),
            Action::Alone(false) => info!("workers are reachable again: evaluating on them"),
        }
    }
}

/// The performer on the machine's thread. It receives no action before the parts are set, so that no action is lost.
pub(super) struct ActionPerformer {
    performers: Arc<OnceLock<Performers>>,
    known: EventHistograms,
}

impl Performer for ActionPerformer {
    fn perform(&mut self, action: Action, moment: Moment) {
        if let Some(performers) = self.performers.get() {
            performers.perform(action, moment);
        }
    }

    fn observe(&mut self, lap: &Lap<'_>) {
        if let Some(performers) = self.performers.get() {
            performers.parts.scheduled.event(lap, &mut self.known);
        }
    }
}
