//! Settings outside profiles: leader election, the client, backoffs, percentages.
//!
//! Source: `SetDefaults_KubeSchedulerConfiguration` in `pkg/scheduler/apis/config/v1/defaults.go`, and
//! `k8s.io/component-base/config/validation`; for the retry period `k8s.io/client-go/tools/leaderelection`.

use flotilla_framework::profile::duration;

use super::path::Path;
use super::report::{Problem, Report, quoted};
use super::wire::{self, Block, Duration};

/// `leaderElection`. Durations are in milliseconds, rounded up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether there is an election; true by default.
    pub leader_elect: bool,
    /// Duration of a lease without renewal; 15 seconds by default.
    pub lease_duration_ms: u64,
    /// Time to renew before the leader gives up; 10 seconds by default, always less than the lease.
    pub renew_deadline_ms: u64,
    /// Time between attempts; 2 seconds by default.
    pub retry_period_ms: u64,
    /// Always `leases` if there is an election.
    pub resource_lock: String,
    /// Name of the Lease; `flotilla` by default.
    pub resource_name: String,
    /// Namespace of the Lease; `kube-system` by default.
    pub resource_namespace: String,
}

/// Leader election flags. A set flag overrides the field of its name.
///
/// Source: `Options.ApplyLeaderElectionTo` in `cmd/kube-scheduler/app/options/options.go`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElectionFlags {
    /// `--leader-elect`.
    pub leader_elect: Option<bool>,
    /// `--leader-elect-lease-duration`, greater than 0.
    pub lease_duration_ms: Option<u64>,
    /// `--leader-elect-renew-deadline`, greater than 0.
    pub renew_deadline_ms: Option<u64>,
    /// `--leader-elect-retry-period`, greater than 0.
    pub retry_period_ms: Option<u64>,
    /// `--leader-elect-resource-lock`.
    pub resource_lock: Option<String>,
    /// `--leader-elect-resource-name`.
    pub resource_name: Option<String>,
    /// `--leader-elect-resource-namespace`.
    pub resource_namespace: Option<String>,
    /// The name of the Lease if neither the flag nor the file has one; `None` for [`LeaderElection::default`].
    pub default_resource_name: Option<String>,
}

impl ElectionFlags {
    /// Overrides the fields of the set flags in an election without a file; the caller validates the result.
    pub fn apply(&self, election: &mut LeaderElection) {
        fn set<T: Clone>(to: &mut T, given: Option<&T>) {
            if let Some(given) = given {
                to.clone_from(given);
            }
        }
        set(&mut election.leader_elect, self.leader_elect.as_ref());
        set(&mut election.lease_duration_ms, self.lease_duration_ms.as_ref());
        set(&mut election.renew_deadline_ms, self.renew_deadline_ms.as_ref());
        set(&mut election.retry_period_ms, self.retry_period_ms.as_ref());
        set(&mut election.resource_lock, self.resource_lock.as_ref());
        set(&mut election.resource_name, self.resource_name.as_ref().or(self.default_resource_name.as_ref()));
        set(&mut election.resource_namespace, self.resource_namespace.as_ref());
    }
}

impl Default for LeaderElection {
    /// kube-scheduler's defaults, except for the name of the Lease: holding kube-scheduler's own Lease takes scheduling away from it, so
    /// the configuration has to name it explicitly.
    fn default() -> Self {
        Self {
            leader_elect: true,
            lease_duration_ms: 15_000,
            renew_deadline_ms: 10_000,
            retry_period_ms: 2_000,
            resource_lock: "leases".to_owned(),
            resource_name: "flotilla".to_owned(),
            resource_namespace: "kube-system".to_owned(),
        }
    }
}

/// `clientConnection`.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientConnection {
    /// Path of a kubeconfig file; empty for the pod's service account.
    pub kubeconfig: String,
    /// The `Accept` header; empty for the client's default.
    pub accept_content_types: String,
    /// The `Content-Type` header; `application/vnd.kubernetes.protobuf` by default.
    pub content_type: String,
    /// Requests per second, 50 by default; negative for no limit.
    pub qps: f32,
    /// Burst of requests; 100 by default, never negative.
    pub burst: i32,
}

impl Default for ClientConnection {
    fn default() -> Self {
        Self {
            kubeconfig: String::new(),
            accept_content_types: String::new(),
            content_type: "application/vnd.kubernetes.protobuf".to_owned(),
            qps: 50.0,
            burst: 100,
        }
    }
}

/// Reads `leaderElection`. Its rules apply only if it is on.
pub(super) fn leader_election(
    report: &mut Report<'_>,
    written: Option<Block<wire::LeaderElection>>,
    flags: &ElectionFlags,
) -> LeaderElection {
    let path = Path::default().key("leaderElection");
    let Block(written) = written.unwrap_or_default();
    let written = overridden(written, flags);
    let defaults = LeaderElection::default();
    let leader_elect = written.leader_elect.unwrap_or(defaults.leader_elect);
    if leader_elect {
        check_durations(report, &written, &defaults, &path);
    }
    let resource_lock = text_or(written.resource_lock, defaults.resource_lock);
    if leader_elect && resource_lock != "leases" {
        report.error(Problem::value(path.key("resourceLock"), quoted(&resource_lock), "leases"));
    }
    LeaderElection {
        leader_elect,
        lease_duration_ms: milliseconds(written.lease_duration, defaults.lease_duration_ms),
        renew_deadline_ms: milliseconds(written.renew_deadline, defaults.renew_deadline_ms),
        retry_period_ms: milliseconds(written.retry_period, defaults.retry_period_ms),
        resource_lock,
        resource_name: text_or(
            written.resource_name,
            flags.default_resource_name.clone().unwrap_or(defaults.resource_name),
        ),
        resource_namespace: text_or(written.resource_namespace, defaults.resource_namespace),
    }
}

fn overridden(written: wire::LeaderElection, flags: &ElectionFlags) -> wire::LeaderElection {
    let duration = |flag: Option<u64>, written: Option<Duration>| {
        let flag = flag.map(|ms| Duration(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000)));
        flag.or(written)
    };
    wire::LeaderElection {
        leader_elect: flags.leader_elect.or(written.leader_elect),
        lease_duration: duration(flags.lease_duration_ms, written.lease_duration),
        renew_deadline: duration(flags.renew_deadline_ms, written.renew_deadline),
        retry_period: duration(flags.retry_period_ms, written.retry_period),
        resource_lock: flags.resource_lock.clone().or(written.resource_lock),
        resource_name: flags.resource_name.clone().or(written.resource_name),
        resource_namespace: flags.resource_namespace.clone().or(written.resource_namespace),
    }
}

fn check_durations(report: &mut Report<'_>, written: &wire::LeaderElection, defaults: &LeaderElection, path: &Path) {
    let fields = [
        ("leaseDuration", written.lease_duration),
        ("renewDeadline", written.renew_deadline),
        ("retryPeriod", written.retry_period),
    ];
    for (name, value) in fields {
        if value.is_some_and(|value| value.0 < 0) {
            report.error(Problem::new(path.key(name), "found a negative duration", "a duration greater than 0"));
        }
    }
    let lease = nanoseconds(written.lease_duration, defaults.lease_duration_ms);
    let renew = nanoseconds(written.renew_deadline, defaults.renew_deadline_ms);
    let shown = duration::format;
    if lease <= renew {
        let found = format!("a leaseDuration of {} with a renewDeadline of {}", shown(lease), shown(renew));
        let at = if written.lease_duration.is_some() { "leaseDuration" } else { "renewDeadline" };
        report.error(Problem::value(path.key(at), found, "a lease that outlasts renewDeadline"));
    }
    // kube-scheduler fails only when the election starts: client-go extends a period by up to a factor of 1.2.
    let retry = nanoseconds(written.retry_period, defaults.retry_period_ms);
    if i128::from(renew) * 10 <= i128::from(retry) * 12 && renew > 0 && retry > 0 {
        let found = format!("a renewDeadline of {} with a retryPeriod of {}", shown(renew), shown(retry));
        let at = if written.retry_period.is_some() { "retryPeriod" } else { "renewDeadline" };
        report.error(Problem::value(path.key(at), found, "a renewDeadline of more than 1.2 times retryPeriod"));
    }
}

/// Go does not distinguish a duration of 0 from an unset one: both give the default.
fn set(value: Option<Duration>) -> Option<i64> {
    value.map(|value| value.0).filter(|nanoseconds| *nanoseconds != 0)
}

fn nanoseconds(value: Option<Duration>, default_ms: u64) -> i64 {
    set(value).unwrap_or_else(|| i64::try_from(default_ms).unwrap_or(0).saturating_mul(1_000_000))
}

fn milliseconds(value: Option<Duration>, default_ms: u64) -> u64 {
    set(value).map_or(default_ms, duration::milliseconds)
}

/// Go does not distinguish an empty text from an unset one.
fn text_or(text: Option<String>, default: String) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or(default)
}

pub(super) fn client_connection(
    report: &mut Report<'_>,
    written: Option<Block<wire::ClientConnection>>,
) -> ClientConnection {
    let path = Path::default().key("clientConnection");
    let Block(written) = written.unwrap_or_default();
    let defaults = ClientConnection::default();
    let burst = written.burst.filter(|burst| *burst != 0).unwrap_or(defaults.burst);
    if burst < 0 {
        report.error(Problem::value(path.key("burst"), burst, "0 or more"));
    }
    let wide = written.qps.unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "the field is a float32 in Go, and what overflows is refused")]
    let narrow = wide as f32;
    // A value below the range of 32 bits becomes 0, and 0 is unset.
    let qps = if narrow == 0.0 { defaults.qps } else { narrow };
    if !qps.is_finite() {
        report.error(Problem::value(path.key("qps"), format!("{wide:e}"), "a number that fits in 32 bits"));
    }
    ClientConnection {
        kubeconfig: written.kubeconfig.unwrap_or_default(),
        accept_content_types: written.accept_content_types.unwrap_or_default(),
        content_type: text_or(written.content_type, defaults.content_type),
        qps,
        burst,
    }
}

pub(super) fn percentage_of_nodes_to_score(report: &mut Report<'_>, percentage: Option<i32>, parent: &Path) {
    let Some(percentage) = percentage else { return };
    let path = parent.key("percentageOfNodesToScore");
    if !(0..=100).contains(&percentage) {
        report.error(Problem::value(path, percentage, "a percentage from 0 to 100"));
    } else if percentage != 100 {
        report.warning(&path, format!("{percentage} is accepted, but Flotilla scores every node that is feasible"));
    }
}

pub(super) fn backoffs(report: &mut Report<'_>, initial: Option<i64>, max: Option<i64>) -> (i64, i64) {
    let root = Path::default();
    let at = root.key(if max.is_some() { "podMaxBackoffSeconds" } else { "podInitialBackoffSeconds" });
    let (initial, max) = (initial.unwrap_or(1), max.unwrap_or(10));
    if initial <= 0 {
        let at = root.key("podInitialBackoffSeconds");
        report.error(Problem::value(at, initial, "a number of seconds greater than 0"));
    }
    if max < initial {
        let found = format!("a podMaxBackoffSeconds of {max} with a podInitialBackoffSeconds of {initial}");
        report.error(Problem::value(at, found, "a maximum that is no less than the initial backoff"));
    }
    (initial, max)
}
