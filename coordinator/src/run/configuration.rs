//! The effective configuration of file and flags.
//!
//! Source: `Options.ApplyTo` in `cmd/kube-scheduler/app/options/options.go`. A file disables deprecated flags, not those of leader
//! election.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use flotilla_configuration::{
    ClientConnection, Configuration, LeaderElection, features::FeatureGates, load_beside, named_modules,
};
use flotilla_framework::registry::Registry;
use flotilla_machine::event::Configuration as MachineConfiguration;

use flotilla_runtime::{extender, modules};
use serde_json::{Value, json};

use crate::{args::Args, client::Connection, lease::LeaseConfig};

/// Limit of a read: the parser rejects files larger than 1 MiB with an error.
const MOST_BYTES: u64 = 2 * 1024 * 1024;

/// The text of a configuration file.
///
/// # Errors
/// A file that does not exist, cannot be read, or is not UTF-8.
pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    file.with_context(|| format!("cannot read --config {shown}; check the path and its mode"))?;
    String::from_utf8(bytes).with_context(|| format!("--config {shown} is not UTF-8; is it the right file?"))
}

/// The configuration from the text of the file, if there is one, and the flags, with its warnings.
///
/// # Errors
/// All errors in the text, unusable files of extenders, or invalid election settings.
pub(super) fn effective(args: &Args, text: Option<&str>, registry: Registry) -> anyhow::Result<Configuration> {
    let flags = args.election();
    modules::find(registry, &text.map(named_modules).unwrap_or_default());
    let mut configuration = match (text, &args.config) {
        (Some(text), Some(path)) => load_beside(text, &path.display().to_string(), &args.gates, registry, &flags)?,
        _ => {
            let mut defaults = Configuration::of_gates(&args.gates);
            flags.apply(&mut defaults.leader_election);
            defaults
        }
    };
    let has_file = text.is_some();
    if !has_file {
        args.deprecated.apply(&mut configuration);
    }
    for (flag, field) in args.deprecated.given() {
        let is = if has_file { "ignored, as by kube-scheduler" } else { "deprecated, as in kube-scheduler" };
        configuration.warnings.push(format!("{flag} is {is}: set {field} in --config"));
    }
    kubeconfig(args, &mut configuration);
    extender::check(&configuration.extenders)?;
    let election = &configuration.leader_election;
    if election.leader_elect {
        lease(election, "anybody", &args.gates).validate()?;
    }
    Ok(configuration)
}

/// With a file, kube-scheduler ignores `--kubeconfig` and uses the service account of the pod. Here too the file takes precedence, but only
/// if it names a kubeconfig: silently ignoring the flag could select another cluster.
fn kubeconfig(args: &Args, configuration: &mut Configuration) {
    let Some(flag) = args.kubeconfig.as_ref().map(|path| path.display().to_string()) else { return };
    let written = &mut configuration.client_connection.kubeconfig;
    if written.is_empty() {
        *written = flag;
    } else if *written != flag {
        let warning = format!("--kubeconfig is ignored: clientConnection.kubeconfig in --config is {written}");
        configuration.warnings.push(warning);
    }
}

pub(super) fn shown(written: &Configuration, generation: u64) -> Value {
    let mut shown = written.to_v1();
    shown["flotilla"] = json!({ "generation": generation, "acknowledgedBy": 0 });
    shown
}

pub(super) fn lease(election: &LeaderElection, identity: &str, gates: &FeatureGates) -> LeaseConfig {
    LeaseConfig {
        name: election.resource_name.clone(),
        namespace: election.resource_namespace.clone(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_millis(election.lease_duration_ms),
        renew_deadline: Duration::from_millis(election.renew_deadline_ms),
        retry_period: Duration::from_millis(election.retry_period_ms),
        coordinated: gates.enabled("CoordinatedLeaderElection"),
    }
}

/// kube-scheduler's default limit of 50 requests a second is too low for binding pods: without an explicit setting no limit is applied, and
/// the API server's priority and fairness decides.
pub(super) fn connection(args: &Args, written: &ClientConnection) -> Connection {
    let defaults = ClientConnection::default();
    let paced = (written.qps, written.burst) != (defaults.qps, defaults.burst);
    Connection {
        kubeconfig: Some(&written.kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from),
        master: args.master.clone(),
        purpose: None,
        qps: paced.then_some(written.qps),
        burst: u32::try_from(written.burst).ok().filter(|_| paced),
    }
}

pub(super) fn machine(args: &Args, generation: u64, written: &Configuration) -> MachineConfiguration {
    let milliseconds = |seconds: i64| u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
    let new = MachineConfiguration::new(generation, written.profiles.clone());
    let unschedulable = args.pod_max_in_unschedulable_pods_duration.as_millis();
    MachineConfiguration {
        extenders: flotilla_framework::extender::in_order(&written.extenders).into(),
        tie_break_seed: args.tie_break_seed,
        generic_workload: args.gates.enabled("GenericWorkload"),
        announces_nodes: args.gates.enabled("NominatedNodeNameForExpectation"),
        pod_initial_backoff_ms: milliseconds(written.pod_initial_backoff_seconds),
        pod_max_backoff_ms: milliseconds(written.pod_max_backoff_seconds),
        pops_from_backoff: args.gates.enabled("SchedulerPopFromBackoffQ"),
        pod_max_in_unschedulable_ms: u64::try_from(unschedulable).unwrap_or(u64::MAX),
        worker_grace_ms: if args.expects_workers() { new.worker_grace_ms } else { 0 },
        ..new
    }
}
