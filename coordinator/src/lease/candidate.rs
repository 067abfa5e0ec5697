//! This process's LeaseCandidate, for coordinated leader election.
//!
//! The API server's controller asks all candidates of a Lease for a renewal, and writes the best one into the Lease as its holder. A candidate
//! that does not answer within five seconds is not elected.
//!
//! Source: client-go's `tools/leaderelection/leasecandidate.go`. Flotilla's candidate names the configured Lease, and does not answer while
//! this process cannot schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1beta1::LeaseCandidate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Resource as _;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::request::{Failure, timed};
use super::standby::{self, Standby};
use super::{Leadership, LeaseConfig, Probe, REQUEST_TIMEOUT, now};
use crate::wall;

const GROUP: &str = "coordination.k8s.io";
/// The versions of LeaseCandidate with these fields, the newest first.
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha2"];
/// The name of the resource in the API.
const PLURAL: &str = "leasecandidates";
/// The strategy of kube-scheduler: the lowest emulation version is elected, then the lowest version, then the oldest candidate.
const STRATEGY: &str = "OldestEmulationVersion";
/// The version of kube-scheduler that this process behaves like, in the form of the API.
const BINARY_VERSION: &str = "1.37.2";
const EMULATION_VERSION: &str = "1.37.0";
/// Between two renewals without a request of the controller. Source: `requeueInterval`.
const RENEWAL: Duration = Duration::from_secs(5 * 60);
/// Longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The inputs of a candidate.
pub(super) struct Candidate {
    pub(super) client: kube::Client,
    pub(super) config: LeaseConfig,
    /// Whether this process leads: a leader answers in any case.
    pub(super) leading: watch::Receiver<Leadership>,
    /// Whether this process could schedule.
    pub(super) candidacy: Option<Probe>,
    /// Set as soon as the API server has the candidate.
    pub(super) is_known: Arc<AtomicBool>,
}

/// The LeaseCandidate of this process in one version of the API.
struct Registration {
    candidate: Candidate,
    api: Api<DynamicObject>,
    resource: ApiResource,
    /// As the API server last showed it; `None`: it does not exist.
    seen: Option<DynamicObject>,
    failures: u32,
    due: Instant,
}

/// Creates and renews the LeaseCandidate until the future is dropped.
pub(super) async fn run(candidate: Candidate) {
    let resource = served(&candidate).await;
    let api = Api::namespaced_with(candidate.client.clone(), &candidate.config.namespace, &resource);
    let mut standby = Some(Standby::start(api.clone(), &candidate.config.identity, candidate.config.retry_period));
    let mut registration = Registration { candidate, api, resource, seen: None, failures: 0, due: now() };
    loop {
        tokio::select! {
            biased;
            seen = standby::next(&mut standby) => registration.observe(seen),
            () = tokio::time::sleep(registration.due.saturating_duration_since(now())) => registration.ensure().await,
        }
    }
}

/// The newest version of LeaseCandidate that the API server serves. Waits until it serves one.
async fn served(candidate: &Candidate) -> ApiResource {
    let mut failures = 0;
    loop {
        for version in VERSIONS {
            let group_version = format!("{GROUP}/{version}");
            let found = candidate.client.list_api_group_resources(&group_version);
            match timed(REQUEST_TIMEOUT, found).await {
                Ok(list) if list.resources.iter().any(|resource| resource.name == PLURAL) => return resource(version),
                Ok(_) => {}
                Err(failure) => debug!(version, %failure, "cannot read the resources of {GROUP}"),
            }
        }
        warn!(
            lease = %candidate.config.lease(),
            "the API server serves no LeaseCandidates, so this process cannot be elected; start it with \
             --feature-gates=CoordinatedLeaderElection=true and --runtime-config={GROUP}/{}=true, or leave the feature gate out here",
            VERSIONS[0]
        );
        tokio::time::sleep(pause(candidate.config.retry_period, failures)).await;
        failures += 1;
    }
}

fn resource(version: &str) -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: version.to_owned(),
        api_version: format!("{GROUP}/{version}"),
        kind: LeaseCandidate::kind(&()).into_owned(),
        plural: PLURAL.to_owned(),
    }
}

/// The pause after this many failures in a row.
fn pause(period: Duration, failures: u32) -> Duration {
    period.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE)
}

impl Registration {
    /// The watch shows the object, or its deletion.
    fn observe(&mut self, seen: Option<DynamicObject>) {
        if seen.as_ref().is_none_or(is_asked) {
            self.due = now();
        }
        if seen.is_some() {
            self.candidate.is_known.store(true, Ordering::Relaxed);
        }
        self.seen = seen;
    }

    /// Creates the object, or renews it.
    async fn ensure(&mut self) {
        let config = &self.candidate.config;
        let leads = matches!(*self.candidate.leading.borrow(), Leadership::Leading { .. });
        let candidacy = self.candidate.candidacy.as_ref().filter(|_| !leads);
        if let Some(Err(reason)) = candidacy.map(|candidacy| candidacy()) {
            info!(lease = %config.lease(), reason, "not a candidate for the lease");
            self.due = now() + config.retry_period;
            return;
        }
        let params = PostParams::default();
        let answer = match &self.seen {
            None => timed(REQUEST_TIMEOUT, self.api.create(&params, &self.new_object())).await,
            Some(seen) => timed(REQUEST_TIMEOUT, self.api.replace(&config.identity, &params, &renewed(seen))).await,
        };
        match answer {
            Ok(object) => {
                if self.seen.is_none() {
                    info!(lease = %config.lease(), identity = %config.identity, version = %self.resource.version, "created the lease candidate");
                }
                self.candidate.is_known.store(true, Ordering::Relaxed);
                self.seen = Some(object);
                self.failures = 0;
                self.due = now() + RENEWAL;
            }
            Err(failure) => self.failed(&failure),
        }
    }

    fn failed(&mut self, failure: &Failure) {
        let code = failure.code();
        if code == Some(404) {
            // Garbage collected, or the namespace is missing.
            self.seen = None;
        }
        if failure.is_refusal(false) {
            debug!(%failure, "the lease candidate has changed; waiting for the watch");
        } else {
            warn!(
                lease = %self.candidate.config.lease(), %failure,
                "cannot write the lease candidate; retrying. It needs create, update, list and watch on {PLURAL}.{GROUP} in its namespace"
            );
        }
        self.due = now() + pause(self.candidate.config.retry_period, self.failures);
        self.failures += 1;
    }

    fn new_object(&self) -> DynamicObject {
        let LeaseConfig { name, namespace, identity, .. } = &self.candidate.config;
        let spec = json!({
            "leaseName": name,
            "binaryVersion": BINARY_VERSION,
            "emulationVersion": EMULATION_VERSION,
            "strategy": STRATEGY,
            "renewTime": time(),
        });
        DynamicObject::new(identity, &self.resource).within(namespace).data(json!({ "spec": spec }))
    }
}

fn time() -> Value {
    json!(MicroTime(wall::now()))
}

fn renewed(seen: &DynamicObject) -> DynamicObject {
    let mut renewed = seen.clone();
    renewed.data["spec"]["renewTime"] = time();
    renewed
}

/// Whether the controller asks for a renewal.
fn is_asked(seen: &DynamicObject) -> bool {
    let time = |field: &str| serde_json::from_value::<MicroTime>(seen.data["spec"][field].clone()).ok();
    let (asked, renewed) = (time("pingTime"), time("renewTime"));
    asked.is_some_and(|asked| renewed.is_none_or(|renewed| asked.0 > renewed.0))
}

#[cfg(test)]
mod tests;
