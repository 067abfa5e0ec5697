//! Leader election on a `coordination.k8s.io/v1` Lease, by client-go's algorithm.
//!
//! [`election`] decides the steps; this module performs them. Writers check the end of the lead against their own clock before every write.
//!
//! Like client-go's, this election is no fence: a leader that is paused between its check and its write may still write after another one
//! has started. No write *begins* later than `renew_deadline` after the last acknowledged renewal was sent. No other process starts to lead
//! before that moment plus `lease_duration - renew_deadline`, if both clocks run at about the same rate.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::wall;

mod candidate;
mod clock;
pub mod election;
mod record;
mod request;
mod standby;

pub use clock::now;
pub use election::Loss;
use election::{Claim, Election, JITTER_FACTOR, Step, Timings, committed_text};
pub use record::epoch_at_second;
use record::{epoch_of, record_of};
use request::{Failure, timed, timed_out};
use standby::Standby;
pub use standby::uid;

/// Limit of one request for the Lease; less if the lead ends sooner.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const RELEASE_ATTEMPTS: usize = 3;
const LAST_EVENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Annotation of a released Lease: the `resourceVersion` up to which the holder's writes to pods are committed.
pub const COMMITTED: &str = "flotilla.io/committed";

/// Checks whether something works: `Err` has the reason. Must not block.
pub type Probe = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The Lease, identity and timing of an election. See `leaderElection` of `KubeSchedulerConfiguration`.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// `metadata.name` of the Lease.
    pub name: String,
    /// `metadata.namespace` of the Lease.
    pub namespace: String,
    /// This process's identity in the record; unique per process, see [`identity`].
    pub identity: String,
    /// How long others wait after the last observed renewal. Written rounded up to whole seconds.
    pub lease_duration: Duration,
    /// How long this process leads after it sent the last acknowledged renewal.
    pub renew_deadline: Duration,
    /// Between two attempts.
    pub retry_period: Duration,
    /// A controller of the API server elects the leader, by the gate CoordinatedLeaderElection.
    pub coordinated: bool,
}

/// Whether this process leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It does not lead.
    Following {
        /// The leader, as last observed; `None` if unknown or if there is none.
        holder: Option<String>,
    },
    /// It leads.
    Leading {
        /// Derived from the Lease's creation time and transitions, see `epoch_of`: each later leader has a larger one.
        epoch: u64,
        /// The end of this lead unless renewed, on the clock of [`now`].
        valid_until: Instant,
    },
}

impl Leadership {
    /// The state before the first observation.
    pub const UNKNOWN: Self = Self::Following { holder: None };

    /// The epoch, if this lead is still valid at `now`.
    pub fn epoch_at(&self, now: Instant) -> Option<u64> {
        match self {
            Self::Leading { epoch, valid_until } if now < *valid_until => Some(*epoch),
            _ => None,
        }
    }
}

/// The `resourceVersion` up to which a leader's writes to pods are committed, passed on through the Lease. Empty: unknown.
#[derive(Debug, Default)]
pub struct Handover {
    /// The previous leader's value, known when this process begins to lead.
    pub before: OnceLock<u64>,
    /// This process's value, known when its last write is answered.
    pub ours: OnceLock<u64>,
}

/// Signals between an election and the rest of the process.
pub struct Signals {
    /// Updated with every renewal and every change of holder.
    pub leading: watch::Sender<Leadership>,
    /// The process ends: a candidate leaves at once, a leader renews until `drained`.
    pub shutdown: CancellationToken,
    /// The last write under this lead is answered or given up: the Lease may be released.
    pub drained: CancellationToken,
    /// The values passed between leaders.
    pub handover: Arc<Handover>,
    /// Checked before every write of the record. A stalled process fails it and loses the lead.
    pub progress: Option<Probe>,
    /// Checked before a candidate writes the record: a process that cannot schedule does not acquire the lease.
    pub candidacy: Option<Probe>,
    /// The controller of a coordinated election has chosen another leader: this one has to end its lead and leave by `shutdown`.
    pub end_of_term: CancellationToken,
    /// Set as soon as the API server has the LeaseCandidate of a coordinated election.
    pub is_candidate: Arc<AtomicBool>,
}

/// The reason why an election ended, or could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// An invalid field of [`LeaseConfig`].
    #[error("leader election of {lease}: {reason}")]
    Config {
        /// `namespace/name`.
        lease: String,
        /// The field, the reason and the next step.
        reason: String,
    },
    /// This process has lost the lead. It must end without any further write.
    #[error("leader election lost: {loss} (lease {lease}); the process ends, so that no two lead")]
    Lost {
        /// `namespace/name`.
        lease: String,
        /// The cause.
        loss: Loss,
    },
}

impl LeaseConfig {
    /// Applies client-go's checks of its `LeaderElectionConfig`, and checks that the record can hold the values.
    ///
    /// # Errors
    /// [`LeaseError::Config`] for the first invalid field.
    pub fn validate(&self) -> Result<(), LeaseError> {
        let Self { lease_duration, renew_deadline, retry_period, .. } = self;
        let reason = if self.name.is_empty() || self.namespace.is_empty() {
            "resourceName and resourceNamespace must not be empty".to_owned()
        } else if self.identity.is_empty() {
            "the identity must not be empty".to_owned()
        } else if retry_period.is_zero() {
            "retryPeriod must be longer than zero".to_owned()
        } else if lease_duration <= renew_deadline {
            format!(
                "leaseDuration ({lease_duration:?}) must be longer than renewDeadline ({renew_deadline:?}): \
                 the difference is what keeps two leaders apart"
            )
        } else if *renew_deadline <= retry_period.mul_f64(JITTER_FACTOR) {
            format!(
                "renewDeadline ({renew_deadline:?}) must be longer than {JITTER_FACTOR} times retryPeriod \
                 ({retry_period:?}), or there is no time to retry a renewal"
            )
        } else if *lease_duration > Duration::from_secs(i32::MAX as u64) {
            format!("leaseDuration ({lease_duration:?}) must fit in 32 bits of seconds")
        } else {
            return Ok(());
        };
        Err(LeaseError::Config { lease: self.lease(), reason })
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// `leaseDurationSeconds` as written. Rounded up: with a shorter one others could take over before this process's deadline.
    fn duration_s(&self) -> i32 {
        let seconds = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }
}

/// An identity as in kube-scheduler: the host name, an underscore and a random UUID, new in every process.
pub fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .or_else(|| std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()))
        .unwrap_or_else(|| "unknown".to_owned());
    format!("{host}_{}", uuid::Uuid::new_v4())
}

/// The check `leaderElection` of `/healthz` and `/readyz`: fails while this process is still marked as leader, more than `tolerance` after
/// its lead ended. The election itself is stuck then. kube-scheduler tolerates 20 s.
pub fn watchdog(leading: watch::Receiver<Leadership>, tolerance: Duration) -> Probe {
    Arc::new(move || match &*leading.borrow() {
        Leadership::Leading { valid_until, .. } if now() > *valid_until + tolerance => {
            Err(format!("the lead ended {:?} ago and the election has not noticed", now() - *valid_until))
        }
        _ => Ok(()),
    })
}

/// Runs the election until the process ends or loses the lead; a process leads at most once.
///
/// `client` should not be shared, so that no burst of other requests delays a renewal; it must not retry. Returns `Ok` after `shutdown`: as
/// a candidate at once, as a leader after `drained` and an attempt to release the Lease.
///
/// # Errors
/// [`LeaseError::Config`] before the first request; [`LeaseError::Lost`] when the lead is lost.
pub async fn run(config: LeaseConfig, client: kube::Client, signals: Signals) -> Result<(), LeaseError> {
    config.validate()?;
    let candidate = config.coordinated.then(|| candidate::Candidate {
        client: client.clone(),
        config: config.clone(),
        leading: signals.leading.subscribe(),
        candidacy: signals.candidacy.clone(),
        is_known: Arc::clone(&signals.is_candidate),
    });
    let candidacy = async {
        match candidate {
            Some(candidate) => Box::pin(candidate::run(candidate)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ended = Box::pin(elect(config, client, signals)) => ended,
        () = candidacy => Ok(()),
    }
}

async fn elect(config: LeaseConfig, client: kube::Client, signals: Signals) -> Result<(), LeaseError> {
    let mut elector = Elector::new(config, client, signals);
    info!(lease = %elector.config.lease(), identity = %elector.config.identity, "attempting to acquire leader lease");
    loop {
        elector.publish();
        if elector.signals.shutdown.is_cancelled() && !elector.announced {
            return elector.leave().await;
        }
        match elector.election.next(now()) {
            Step::Wait(until) => {
                if elector.wait(until).await {
                    return elector.leave().await;
                }
            }
            Step::Get => elector.get().await,
            Step::Create(claim) => elector.write(claim, true).await,
            Step::Update(claim) => elector.write(claim, false).await,
            Step::Lost(loss) => {
                elector.retire();
                return Err(LeaseError::Lost { lease: elector.config.lease(), loss });
            }
        }
    }
}

struct Elector {
    config: LeaseConfig,
    client: kube::Client,
    api: Api<Lease>,
    signals: Signals,
    election: Election,
    /// The object as last read or written, with the fields of other writers. Writes need its version.
    lease: Option<Lease>,
    standby: Option<Standby<Lease>>,
    announced: bool,
    /// The announced epoch, constant for the whole lead.
    epoch: u64,
}

impl Elector {
    fn new(config: LeaseConfig, client: kube::Client, signals: Signals) -> Self {
        let api: Api<Lease> = Api::namespaced(client.clone(), &config.namespace);
        let timings = Timings {
            lease_duration: config.lease_duration,
            renew_deadline: config.renew_deadline,
            retry_period: config.retry_period,
        };
        let seed = flotilla_runtime::surroundings::number();
        let election = Election::new(config.identity.clone(), timings, seed, now()).coordinated(config.coordinated);
        let standby = Some(Standby::start(api.clone(), &config.name, config.retry_period));
        Self { config, client, api, signals, election, lease: None, standby, announced: false, epoch: 0 }
    }

    /// Waits until `until`, or for a change of the record. True if this process has to leave the election.
    async fn wait(&mut self, until: Instant) -> bool {
        let leaving = if self.announced { &self.signals.drained } else { &self.signals.shutdown };
        tokio::select! {
            biased;
            () = leaving.cancelled() => return true,
            seen = standby::next(&mut self.standby) => self.election.notice(now(), seen.as_ref().map(record_of)),
            () = tokio::time::sleep(until.saturating_duration_since(now())) => {}
        }
        false
    }

    /// The limit of one request: at most the rest of the lead it renews.
    fn deadline(&self) -> Duration {
        let left = self.election.lead().map_or(REQUEST_TIMEOUT, |(until, _)| until.saturating_duration_since(now()));
        left.min(REQUEST_TIMEOUT).min(self.config.renew_deadline / 2)
    }

    async fn get(&mut self) {
        match timed(self.deadline(), self.api.get_opt(&self.config.name)).await {
            Ok(lease) => {
                self.election.observe(now(), lease.as_ref().map(record_of));
                self.lease = lease;
            }
            Err(failure) => {
                warn!(lease = %self.config.lease(), %failure, "cannot read the lease; retrying");
                self.election.failed(now());
            }
        }
    }

    async fn write(&mut self, claim: Claim, create: bool) {
        if let Some(Err(reason)) = self.signals.progress.as_ref().map(|progress| progress()) {
            warn!(lease = %self.config.lease(), reason, "not writing the lease: this process makes no progress");
            return self.election.failed(now());
        }
        let candidacy = self.signals.candidacy.as_ref().filter(|_| !self.announced);
        if let Some(Err(reason)) = candidacy.map(|candidacy| candidacy()) {
            info!(lease = %self.config.lease(), reason, "not attempting to acquire leader lease");
            return self.election.failed(now());
        }
        let lease = self.claimed(claim, create);
        let (sent, params) = (now(), PostParams::default());
        let answer = if create {
            timed(self.deadline(), self.api.create(&params, &lease)).await
        } else {
            timed(self.deadline(), self.api.replace(&self.config.name, &params, &lease)).await
        };
        match answer {
            Ok(lease) => {
                self.election.written(sent, now(), record_of(&lease));
                self.lease = Some(lease);
            }
            Err(failure) if failure.is_refusal(create) => {
                debug!(lease = %self.config.lease(), %failure, "the lease has changed; reading it again");
                self.election.refused(now());
            }
            Err(failure) => {
                warn!(lease = %self.config.lease(), %failure, "cannot write the lease; retrying");
                self.election.failed(now());
            }
        }
    }

    /// The object for `claim`. An update keeps the version it was read at, and all fields of other writers.
    fn claimed(&self, claim: Claim, create: bool) -> Lease {
        let mut lease = self.lease.clone().filter(|_| !create).unwrap_or_default();
        if create {
            lease.metadata = ObjectMeta {
                name: Some(self.config.name.clone()),
                namespace: Some(self.config.namespace.clone()),
                ..ObjectMeta::default()
            };
        }
        if let Some(annotations) = &mut lease.metadata.annotations {
            annotations.remove(COMMITTED);
        }
        let time = wall::now();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.config.identity.clone());
        spec.lease_duration_seconds = Some(self.config.duration_s());
        spec.acquire_time = Some(MicroTime(claim.acquired.unwrap_or(time)));
        spec.renew_time = Some(MicroTime(time));
        spec.lease_transitions = Some(claim.transitions);
        lease
    }

    fn publish(&mut self) {
        if let Some(successor) = self.election.successor()
            && !self.signals.end_of_term.is_cancelled()
        {
            warn!(lease = %self.config.lease(), successor, "the term of this leader has ended");
            self.signals.end_of_term.cancel();
        }
        let Some((valid_until, transitions)) = self.election.lead() else {
            return self.tell(Leadership::Following { holder: self.election.holder().map(str::to_owned) });
        };
        if !self.announced {
            // A process that is ending does not begin to lead: it releases the lease it has just acquired.
            if self.signals.shutdown.is_cancelled() {
                return;
            }
            self.announced = true;
            self.epoch = epoch_of(self.lease.as_ref(), transitions);
            self.standby = None;
            if let Some(after) = self.election.after() {
                let _ = self.signals.handover.before.set(after);
            }
            info!(lease = %self.config.lease(), identity = %self.config.identity, transitions, "became leader");
            if let Some(event) =
                standby::event(&self.client, &self.config.identity, self.lease.as_ref(), "became leader")
            {
                tokio::spawn(tokio::time::timeout(REQUEST_TIMEOUT, event));
            }
        }
        self.tell(Leadership::Leading { epoch: self.epoch, valid_until });
    }

    fn tell(&self, state: Leadership) {
        self.signals.leading.send_if_modified(|known| {
            let news = *known != state;
            if news {
                if let Leadership::Following { holder: Some(holder) } = &state {
                    info!(lease = %self.config.lease(), holder, "leader observed");
                }
                *known = state;
            }
            news
        });
    }

    fn retire(&self) {
        let holder = self.election.holder().filter(|holder| *holder != self.config.identity).map(str::to_owned);
        self.tell(Leadership::Following { holder });
    }

    /// Leaves the election, and releases the Lease if this process holds it. A failure costs the others one lease duration.
    async fn leave(mut self) -> Result<(), LeaseError> {
        self.retire();
        if self.election.lead().is_none() {
            return Ok(());
        }
        match timed_out(REQUEST_TIMEOUT.min(self.config.renew_deadline), self.release()).await {
            Ok(()) => {
                info!(lease = %self.config.lease(), "released the lease");
                let event = standby::event(&self.client, &self.config.identity, self.lease.as_ref(), "stopped leading");
                if let Some(event) = event {
                    let _ = tokio::time::timeout(LAST_EVENT_TIMEOUT, event).await;
                }
            }
            Err(failure) => {
                warn!(lease = %self.config.lease(), %failure, "cannot release the lease; others have to wait until it expires");
            }
        }
        Ok(())
    }

    /// Empties the record as client-go does: no holder, a duration of one second. The annotation has the committed version.
    async fn release(&mut self) -> Result<(), Failure> {
        let mut refusal = None;
        for _ in 0..RELEASE_ATTEMPTS {
            let Some(lease) = &mut self.lease else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.config.identity) {
                return Ok(());
            }
            let now = wall::now();
            let time = Some(MicroTime(now));
            if let Some(version) = self.signals.handover.ours.get() {
                let text = committed_text(spec.lease_transitions.unwrap_or(0), now, *version);
                lease.metadata.annotations.get_or_insert_default().insert(COMMITTED.to_owned(), text);
            }
            *spec = LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                acquire_time: time.clone(),
                renew_time: time,
                lease_transitions: spec.lease_transitions,
                ..LeaseSpec::default()
            };
            match self.api.replace(&self.config.name, &PostParams::default(), lease).await.map_err(Failure::from) {
                Ok(_) => return Ok(()),
                // The answer to a renewal was lost: this process holds the record in a newer version.
                Err(failure) if failure.is_refusal(false) => refusal = Some(failure),
                Err(failure) => return Err(failure),
            }
            self.lease = self.api.get_opt(&self.config.name).await?;
        }
        refusal.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
