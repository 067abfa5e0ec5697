//! The settings of the process before its start.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use flotilla_configuration::Configuration;
use flotilla_framework::registry::Registry;
use flotilla_machine::event::Configuration as MachineConfiguration;
use serde_json::Value;

use super::{configuration, migrated};
use crate::{
    args::{Args, Program},
    client::Connection,
    lease::LeaseConfig,
    serve::ServeConfig,
};

pub(super) const FIRST_GENERATION: u64 = 1;

pub(super) struct Settings {
    pub(super) connection: Connection,
    /// Leader election; `None` if disabled.
    pub(super) election: Option<LeaseConfig>,
    pub(super) machine: MachineConfiguration,
    pub(super) configuration: Configuration,
    pub(super) text: Option<String>,
    pub(super) serve: ServeConfig,
}

impl Settings {
    /// Reads the configuration file, and applies the flags. `identity` is the candidate of the election.
    ///
    /// # Errors
    /// A file that cannot be read, all errors in it, or invalid election settings.
    pub(super) fn load(args: &Args, identity: &str, registry: Registry) -> anyhow::Result<Self> {
        let text = args.config.as_deref().map(configuration::read).transpose()?;
        let mut configuration = configuration::effective(args, text.as_deref(), registry)
            .map_err(|error| migrated::answer(error, args.config.as_deref(), text.as_deref()))?;
        let serve = serve_config(args);
        // Not part of a reload, so that each is logged once.
        configuration.warnings.extend(args.ineffective.warnings.iter().cloned().chain(serve.warnings()));
        let election = &configuration.leader_election;
        Ok(Self {
            connection: configuration::connection(args, &configuration.client_connection),
            election: election.leader_elect.then(|| configuration::lease(election, identity, &args.gates)),
            machine: configuration::machine(args, FIRST_GENERATION, &configuration),
            configuration,
            text,
            serve,
        })
    }

    pub(super) fn configz(&self) -> Value {
        self.configuration.to_v1()
    }

    /// Writes the active configuration as YAML, in the order of the documentation.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write_to(&self, path: &PathBuf) -> anyhow::Result<()> {
        let text = serde_yaml::to_string(&self.configz()).context("cannot write the configuration as YAML")?;
        std::fs::write(path, text)
            .with_context(|| format!("cannot write --write-config-to {}; check that its folder exists", path.display()))
    }
}

fn serve_config(args: &Args) -> ServeConfig {
    ServeConfig {
        bind_address: args.bind_address,
        secure_port: args.secure_port,
        health_listen: args.health_listen.clone(),
        tls_cert_file: args.tls_cert_file.clone(),
        tls_private_key_file: args.tls_private_key_file.clone(),
        tls: args.tls.clone(),
    }
}

pub(super) fn written(outcome: anyhow::Result<()>, path: &Path, program: Program) -> ExitCode {
    let name = program.name();
    match outcome {
        Ok(()) => {
            eprintln!("{name}: wrote the configuration to {}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn settings(flags: &[&str], file: Option<&str>) -> anyhow::Result<Settings> {
        load("flotilla-coordinator", flags, file)
    }

    fn load(program: &str, flags: &[&str], file: Option<&str>) -> anyhow::Result<Settings> {
        let directory = tempfile::tempdir()?;
        let mut line = vec![program.to_owned()];
        line.extend(flags.iter().map(|flag| (*flag).to_owned()));
        if let Some(file) = file {
            let path = directory.path().join("config.yaml");
            std::fs::write(&path, file)?;
            line.push(format!("--config={}", path.display()));
        }
        Settings::load(&Args::read_from(line)?, "host_1", Registry::built_in())
    }

    const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

    #[test]
    fn without_a_file_there_is_one_profile_and_an_election_for_the_lease_flotilla() {
        let settings = settings(&[], None).expect("the defaults are sound");
        let election = settings.election.expect("there is an election");
        assert_eq!((&*election.namespace, &*election.name, &*election.identity), ("kube-system", "flotilla", "host_1"));
        assert_eq!(settings.machine.generation, 1);
        assert_eq!(&*settings.machine.profiles[0].scheduler_name, "default-scheduler");
        assert_eq!((settings.connection.qps, settings.connection.burst), (None, None), "no pace is configured");
    }

    #[test]
    fn a_flag_overrides_the_file_and_the_configuration_that_is_shown() {
        let file =
            format!("{HEAD}leaderElection: {{leaseDuration: 30s, resourceName: ours}}\npodMaxBackoffSeconds: 20\n");
        let settings =
            settings(&["--leader-elect-lease-duration=40s", "--tie-break-seed=7"], Some(&file)).expect("sound");
        let election = settings.election.as_ref().expect("there is an election");
        assert_eq!((&*election.name, election.lease_duration), ("ours", Duration::from_secs(40)));
        assert_eq!(settings.configz()["leaderElection"]["leaseDuration"], "40s");
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
    fn deprecated_flags_count_only_without_a_file() {
        let flags = ["--kube-api-qps=500", "--profiling=false"];
        let without = settings(&flags, None).expect("sound");
        assert_eq!((without.connection.qps, without.configuration.enable_profiling), (Some(500.0), false));
        let with = settings(&flags, Some(HEAD)).expect("sound");
        assert_eq!((with.connection.qps, with.configuration.enable_profiling), (None, true));
        let expected = [
            "--profiling is ignored, as by kube-scheduler: set enableProfiling in --config",
            "--kube-api-qps is ignored, as by kube-scheduler: set clientConnection.qps in --config",
        ];
        assert_eq!(with.configuration.warnings, expected);
    }

    #[test]
    fn the_kubeconfig_of_the_file_stands_before_that_of_the_flag() {
        let named = |settings: &Settings| settings.connection.kubeconfig.clone().map(|path| path.display().to_string());
        let file = format!("{HEAD}clientConnection: {{kubeconfig: /file}}\n");
        let both = settings(&["--kubeconfig=/flag"], Some(&file)).expect("sound");
        assert_eq!(named(&both).as_deref(), Some("/file"));
        assert_eq!(
            both.configuration.warnings,
            ["--kubeconfig is ignored: clientConnection.kubeconfig in --config is /file"]
        );
        let flag = settings(&["--kubeconfig=/flag"], Some(HEAD)).expect("sound");
        assert_eq!((named(&flag).as_deref(), flag.configuration.warnings.len()), (Some("/flag"), 0));
    }

    #[test]
    fn what_is_written_is_the_configuration_with_the_flags_applied() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("written.yaml");
        let file = format!("{HEAD}parallelism: 3\n");
        let settings = settings(&["--leader-elect-resource-name=ours"], Some(&file)).expect("sound");
        settings.write_to(&path).expect("written");
        let written: Value = serde_yaml::from_str(&std::fs::read_to_string(&path).expect("there")).expect("YAML");
        assert_eq!((&written["parallelism"], &written["leaderElection"]["resourceName"]), (&3.into(), &"ours".into()));
        assert_eq!(written, settings.configz());
        let nowhere = settings.write_to(&"/nowhere/f".into()).expect_err("no such folder");
        assert!(nowhere.to_string().starts_with("cannot write --write-config-to /nowhere/f"), "{nowhere}");
    }

    fn as_kube_scheduler(flags: &[&str], file: Option<&str>) -> anyhow::Result<Settings> {
        load("kube-scheduler", flags, file)
    }

    #[test]
    fn as_kube_scheduler_the_lease_is_kube_schedulers_unless_the_file_names_another() {
        let lease = |file: Option<&str>| {
            let settings = as_kube_scheduler(&[], file).expect("sound");
            settings.election.expect("there is an election").name
        };
        assert_eq!(lease(None), "kube-scheduler");
        assert_eq!(lease(Some(HEAD)), "kube-scheduler");
        assert_eq!(lease(Some(&format!("{HEAD}leaderElection: {{resourceName: ours}}\n"))), "ours");
    }

    #[test]
    fn without_workers_a_new_leader_waits_for_none() {
        let grace = |settings: anyhow::Result<Settings>| settings.expect("sound").machine.worker_grace_ms;
        assert_eq!(grace(as_kube_scheduler(&[], None)), 0);
        assert_eq!(grace(settings(&["--worker-service="], None)), 0);
        assert_eq!(grace(as_kube_scheduler(&["--workers=a:1"], None)), grace(settings(&[], None)));
    }

    #[test]
    fn flags_without_effect_are_warnings_with_and_without_a_file() {
        for file in [None, Some(HEAD)] {
            let settings = settings(&["--vmodule=a=1", "--tls-min-version=VersionTLS11"], file).expect("sound");
            let warnings = settings.configuration.warnings;
            assert!(matches!(&*warnings, [a, b] if a.starts_with("--vmodule") && b.starts_with("--tls-min-version")));
        }
    }

    #[test]
    fn a_file_of_an_older_version_is_answered_with_its_text_in_v1() {
        let v1beta3 = HEAD.replace("/v1\n", "/v1beta3\n");
        let tail = "# ours\nprofiles:\n- schedulerName: my-scheduler\n";
        let error = settings(&[], Some(&format!("{v1beta3}{tail}"))).err().expect("not v1").to_string();
        assert!(error.contains("config.yaml:1") && error.contains("which kube-scheduler no longer reads"), "{error}");
        let (_, text) = error.split_once("start again:\n\n").expect("the text in v1");
        assert_eq!(text, format!("{HEAD}{tail}"));
        let other = settings(&[], Some(&format!("{HEAD}parallelism: 0\n"))).err().expect("not right").to_string();
        assert!(!other.contains("start again"), "{other}");
    }

    #[test]
    fn a_pace_that_was_asked_for_is_kept() {
        let settings =
            settings(&[], Some(&format!("{HEAD}clientConnection: {{qps: 500, burst: 1000}}\n"))).expect("sound");
        assert_eq!((settings.connection.qps, settings.connection.burst), (Some(500.0), Some(1_000)));
    }
}
