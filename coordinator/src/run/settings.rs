//! What the flags and the configuration file come to.
//!
//! Knows: which flag overrides which field. Must not know: what anything is set for.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use flotilla_framework::config::{self, ClientConnection, LeaderElection};
use flotilla_framework::features::FeatureGates;
use flotilla_machine::event::Configuration as MachineConfiguration;
use serde_json::Value;

use crate::{args::Args, client::Connection, lease::LeaseConfig, serve::ServeConfig};

/// The first configuration of a process.
const FIRST_GENERATION: u64 = 1;

/// Everything that is settled before anything starts.
pub(super) struct Settings {
    /// The API server.
    pub(super) connection: Connection,
    /// Leader election; `None` where there is none.
    pub(super) election: Option<LeaseConfig>,
    /// What the machine works by.
    pub(super) machine: MachineConfiguration,
    /// The configuration in force, as it would be written.
    pub(super) configz: Value,
    /// What is accepted but may not do what its author thinks.
    pub(super) warnings: Vec<String>,
    /// The HTTPS endpoints.
    pub(super) serve: ServeConfig,
}

impl Settings {
    /// Reads the file that the flags name, and lets the flags override it. `identity` is who stands for election.
    ///
    /// # Errors
    /// A file that cannot be read, everything that is wrong in it, or an election that cannot work.
    pub(super) fn load(args: &Args, identity: &str) -> anyhow::Result<Self> {
        let mut configuration = match &args.config {
            Some(path) => {
                let file = path.display().to_string();
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("cannot read --config {file}; check the path and its mode"))?;
                config::load(&text, &file, &FeatureGates::default())?
            }
            None => config::Configuration::default(),
        };
        args.leader_election.apply(&mut configuration.leader_election);
        let election = &configuration.leader_election;
        let election = election.leader_elect.then(|| lease(election, identity));
        if let Some(election) = &election {
            election.validate()?;
        }
        if let Some(kubeconfig) = &args.kubeconfig {
            configuration.client_connection.kubeconfig = kubeconfig.display().to_string();
        }
        Ok(Self {
            connection: connection(args, &configuration.client_connection),
            election,
            configz: configuration.to_v1(),
            warnings: std::mem::take(&mut configuration.warnings),
            machine: machine(args, configuration),
            serve: ServeConfig {
                bind_address: args.bind_address,
                secure_port: args.secure_port,
                tls_cert_file: args.tls_cert_file.clone(),
                tls_private_key_file: args.tls_private_key_file.clone(),
            },
        })
    }
}

fn lease(election: &LeaderElection, identity: &str) -> LeaseConfig {
    LeaseConfig {
        name: election.resource_name.clone(),
        namespace: election.resource_namespace.clone(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_millis(election.lease_duration_ms),
        renew_deadline: Duration::from_millis(election.renew_deadline_ms),
        retry_period: Duration::from_millis(election.retry_period_ms),
    }
}

/// kube-scheduler's default pace of 50 requests a second is no pace for binding pods: what nobody asked for is not
/// applied, and the API server's own priority and fairness decides.
fn connection(args: &Args, written: &ClientConnection) -> Connection {
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

fn machine(args: &Args, written: config::Configuration) -> MachineConfiguration {
    let milliseconds = |seconds: i64| u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
    let unschedulable = args.pod_max_in_unschedulable_pods_duration.as_millis();
    MachineConfiguration {
        tie_break_seed: args.tie_break_seed,
        pod_initial_backoff_ms: milliseconds(written.pod_initial_backoff_seconds),
        pod_max_backoff_ms: milliseconds(written.pod_max_backoff_seconds),
        pod_max_in_unschedulable_ms: u64::try_from(unschedulable).unwrap_or(u64::MAX),
        ..MachineConfiguration::new(FIRST_GENERATION, written.profiles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[&str], file: Option<&str>) -> anyhow::Result<Settings> {
        let directory = tempfile::tempdir()?;
        let mut line = vec!["flotilla-coordinator".to_owned(), "--insecure-worker-transport".to_owned()];
        line.extend(flags.iter().map(|flag| (*flag).to_owned()));
        if let Some(file) = file {
            let path = directory.path().join("config.yaml");
            std::fs::write(&path, file)?;
            line.push(format!("--config={}", path.display()));
        }
        Settings::load(&Args::read_from(line)?, "host_1")
    }

    const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

    #[test]
    fn without_a_file_there_is_one_profile_and_an_election_for_the_lease_flotilla() {
        let settings = settings(&[], None).expect("the defaults are sound");
        let election = settings.election.expect("there is an election");
        assert_eq!((&*election.namespace, &*election.name, &*election.identity), ("kube-system", "flotilla", "host_1"));
        assert_eq!(settings.machine.generation, 1);
        assert_eq!(&*settings.machine.profiles[0].scheduler_name, "default-scheduler");
        assert_eq!((settings.connection.qps, settings.connection.burst), (None, None), "nobody asked for a pace");
    }

    #[test]
    fn a_flag_overrides_the_file_and_the_configuration_that_is_shown() {
        let file =
            format!("{HEAD}leaderElection: {{leaseDuration: 30s, resourceName: ours}}\npodMaxBackoffSeconds: 20\n");
        let settings =
            settings(&["--leader-elect-lease-duration=40s", "--tie-break-seed=7"], Some(&file)).expect("sound");
        let election = settings.election.expect("there is an election");
        assert_eq!((&*election.name, election.lease_duration), ("ours", Duration::from_secs(40)));
        assert_eq!(settings.configz["leaderElection"]["leaseDuration"], "40s");
        assert_eq!((settings.machine.pod_max_backoff_ms, settings.machine.tie_break_seed), (20_000, 7));
    }

    #[test]
    fn without_leader_election_the_rules_of_its_fields_do_not_matter() {
        let flags = ["--leader-elect=false", "--leader-elect-lease-duration=1s"];
        assert!(settings(&flags, None).expect("sound").election.is_none());
    }

    #[test]
    fn an_election_that_cannot_work_is_refused_before_anything_starts() {
        let error = settings(&["--leader-elect-lease-duration=5s"], None).err().expect("shorter than the renewal");
        assert!(format!("{error:#}").contains("renewDeadline"), "{error:#}");
    }

    #[test]
    fn a_file_that_is_not_there_or_not_right_is_named() {
        let absent = settings(&["--config=/nowhere/config.yaml"], None).err().expect("not there");
        assert!(format!("{absent:#}").starts_with("cannot read --config /nowhere/config.yaml"), "{absent:#}");
        let wrong = settings(&[], Some(&format!("{HEAD}parallelism: 0\n"))).err().expect("not right");
        assert!(format!("{wrong:#}").contains("config.yaml:3"), "{wrong:#}");
    }

    #[test]
    fn a_pace_that_was_asked_for_is_kept() {
        let settings =
            settings(&[], Some(&format!("{HEAD}clientConnection: {{qps: 500, burst: 1000}}\n"))).expect("sound");
        assert_eq!((settings.connection.qps, settings.connection.burst), (Some(500.0), Some(1_000)));
    }
}
