//! Parsing of command lines.

use clap::CommandFactory as _;
use flotilla_configuration::LeaderElection;

use super::*;

fn read(line: &str) -> Result<Args, clap::Error> {
    Args::read_from(std::iter::once("flotilla-coordinator").chain(line.split_whitespace()))
}

fn refusal(line: &str) -> String {
    let error = read(line).expect_err("a usage error");
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn the_command_line_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn no_flag_gives_the_defaults() {
    let args = read("").expect("sound");
    assert_eq!((args.secure_port, args.bind_address), (10259, IpAddr::from([0, 0, 0, 0])));
    assert_eq!((args.worker_service.as_str(), args.worker_namespace), ("flotilla-worker", None));
    assert_eq!(args.pod_max_in_unschedulable_pods_duration, Duration::from_secs(300));
    assert_eq!((args.verbosity, args.logging_format, args.tie_break_seed), (0, LoggingFormat::Text, 0));
    let mut election = LeaderElection::default();
    args.leader_election.given().apply(&mut election);
    assert_eq!(election, LeaderElection::default());
}

#[test]
fn only_election_flags_that_were_given_override_the_file() {
    let file = LeaderElection {
        leader_elect: false,
        lease_duration_ms: 60_000,
        resource_name: "from-file".to_owned(),
        ..LeaderElection::default()
    };
    let mut election = file.clone();
    // An explicit default overrides the file.
    let args = read("--leader-elect-lease-duration=15s --leader-elect --leader-elect-resource-lock leases");
    args.expect("sound").leader_election.given().apply(&mut election);
    assert_eq!(election, LeaderElection { leader_elect: true, lease_duration_ms: 15_000, ..file });
}

#[test]
fn booleans_are_written_as_in_go() {
    for (line, value) in [
        ("--leader-elect", Some(true)),
        ("--leader-elect=true", Some(true)),
        ("--leader-elect=false", Some(false)),
        ("--leader-elect=F", Some(false)),
        ("", None),
    ] {
        assert_eq!(read(line).expect("sound").leader_election.leader_elect, value, "{line}");
    }
    assert!(refusal("--leader-elect=no").contains("write true or false"));
}

#[test]
fn verbosity_is_written_as_in_klog() {
    for line in ["-v=4", "-v 4", "--v=4", "--v 4", "-v4"] {
        let args = read(line).expect(line);
        assert_eq!(args.verbosity, 4, "{line}");
    }
    assert_eq!(read("-v=10").expect("sound").verbosity, 10);
}

#[test]
fn arguments_without_a_flag_are_refused_in_plain_words() {
    let message = refusal("--leader-elect false");
    assert!(message.contains("does not take any arguments, got \"false\""), "{message}");
}

#[test]
fn an_unknown_flag_is_a_usage_error_and_those_of_earlier_kube_schedulers_come_with_advice() {
    assert!(refusal("--no-such-flag").contains("--no-such-flag"));
    let message = refusal("--port=0");
    assert!(message.contains("--port is a flag of earlier releases") && message.contains("--secure-port"), "{message}");
}

#[test]
fn flags_of_kube_scheduler_without_effect_are_accepted_with_one_warning_each() {
    let warnings = |line: &str| read(line).expect(line).ineffective.warnings;
    assert_eq!(warnings(""), Vec::<String>::new());
    assert_eq!(
        warnings("--vmodule=a=1 --vmodule=b=2 --requestheader-client-ca-file d"),
        [
            "--requestheader-client-ca-file has no effect: authenticating proxies are not supported, and their headers are ignored",
            "--vmodule has no effect: -v applies to all modules; the environment variable RUST_LOG sets the level of one",
        ]
    );
    let met = "--emulated-version=1.37 --authentication-tolerate-lookup-failure --log-json-split-stream=false";
    assert_eq!(warnings(met), Vec::<String>::new());
    assert_eq!(warnings("--authentication-tolerate-lookup-failure=false --emulated-version=kube=1.36").len(), 2);
    assert!(refusal("--log-json-split-stream=maybe").contains("true"));
}

#[test]
fn the_last_of_repeated_flags_counts_and_lists_add_up() {
    let args = read("--secure-port=1 --secure_port=2 --leader-elect=false --leader-elect").expect("sound");
    assert_eq!((args.secure_port, args.leader_election.leader_elect), (2, Some(true)));
    let args = read("--tls-cipher-suites=TLS_AES_128_GCM_SHA256 --workers=a:1 --workers=b:2").expect("sound");
    assert_eq!(args.workers, ["a:1", "b:2"]);
}

#[test]
fn flags_for_tls_take_the_names_and_numbers_of_kube_scheduler() {
    let line = "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305,TLS_RSA_WITH_AES_128_CBC_SHA \
                --tls-min-version=VersionTLS13 --tls-curve-preferences=23,29";
    let tls = read(line).expect("sound").tls;
    assert_eq!(tls.tls_cipher_suites, ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]);
    assert_eq!((tls.tls_curve_preferences, &*tls.tls_min_version), (vec![23, 29], "VersionTLS13"));
    assert!(refusal("--tls-cipher-suites=AES").contains("no such cipher suite"));
    assert!(refusal("--tls-min-version=1.3").contains("VersionTLS13"));
}

fn as_kube_scheduler(line: &str) -> Result<Args, clap::Error> {
    Args::read_from(std::iter::once("/usr/local/bin/kube-scheduler").chain(line.split_whitespace()))
}

#[test]
fn as_kube_scheduler_it_has_no_workers_and_kube_schedulers_lease_unless_flags_name_others() {
    let args = as_kube_scheduler("").expect("sound");
    assert_eq!((args.program, args.expects_workers()), (Program::KubeScheduler, false));
    let mut election = LeaderElection::default();
    args.election().apply(&mut election);
    assert_eq!((&*election.resource_namespace, &*election.resource_name), ("kube-system", "kube-scheduler"));
    for line in ["--workers=a:1", "--worker-service=flotilla-worker"] {
        assert!(as_kube_scheduler(line).expect("sound").expects_workers(), "{line}");
    }
    let named = as_kube_scheduler("--leader-elect-resource-name=ours").expect("sound");
    named.election().apply(&mut election);
    assert_eq!(election.resource_name, "ours");
    assert!(read("").expect("sound").expects_workers() && !read("--worker-service=").expect("sound").expects_workers());
}

#[test]
fn as_kube_scheduler_help_version_and_errors_have_its_name() {
    let help = as_kube_scheduler("--help").expect_err("ends the process").to_string();
    assert!(help.contains("Usage: kube-scheduler [OPTIONS]") && help.contains("(default kube-scheduler)"), "{help}");
    for line in ["--version", "--version=raw"] {
        let version = as_kube_scheduler(line).expect_err("ends the process");
        assert_eq!(version.exit_code(), 0);
        assert_eq!(version.to_string(), format!("Kubernetes v1.37.2 (Flotilla {})\n", env!("CARGO_PKG_VERSION")));
    }
    let error = as_kube_scheduler("now").expect_err("an argument").to_string();
    assert!(error.contains("kube-scheduler does not take any arguments, got \"now\""), "{error}");
}

#[test]
fn version_and_help_are_no_errors() {
    let version = Args::read_from(["flotilla-coordinator", "--version"]).expect_err("ends the process");
    assert_eq!(version.exit_code(), 0);
    assert_eq!(version.to_string(), format!("flotilla-coordinator {}\n", env!("CARGO_PKG_VERSION")));
    let help = Args::read_from(["flotilla-coordinator", "--help"]).expect_err("ends the process");
    assert_eq!(help.exit_code(), 0);
    let help = help.to_string();
    for heading in [CONFIGURATION, ELECTION, SERVING, WORKERS, SCHEDULING, LOGGING, "Examples"] {
        assert!(help.contains(&format!("\n{heading}:\n")), "{heading} in {help}");
    }
    assert!(!help.contains("ARGUMENTS"), "the hidden rest stays hidden");
}

#[test]
fn an_insecure_transport_has_to_be_asked_for_and_goes_with_no_certificates() {
    let flags = read("").expect("sound").transport;
    assert!(!flags.insecure_worker_transport && flags.worker_tls_dir.is_none());
    assert_eq!((&*flags.worker_ca_secret, &*flags.worker_tls_secret), ("flotilla-worker-ca", "flotilla-worker-tls"));
    assert!(!read("--insecure-worker-transport=false").expect("sound").transport.insecure_worker_transport);
    assert!(read("--insecure-worker-transport").expect("sound").transport.insecure_worker_transport);
    refusal("--insecure-worker-transport --worker-tls-dir=tls");
    refusal("--worker-tls-dir=tls --worker-ca-secret=ours");
    read("--workers=a:1 --worker-namespace=flotilla").expect("the namespace is that of the Secrets too");
}

#[test]
fn workers_are_hosts_and_ports() {
    let args = read("--workers=a.b-c:1,127.0.0.1:7443,[::1]:65535").expect("sound");
    assert_eq!(args.workers, ["a.b-c:1", "127.0.0.1:7443", "[::1]:65535"]);
    for (line, why) in [
        ("--workers=http://a:1", "without a scheme"),
        ("--workers=a", "write host:port"),
        ("--workers=a:0", "from 1 to 65535"),
        ("--workers=a:65536", "from 1 to 65535"),
        ("--workers=::1:80", "IPv6 address in brackets"),
        ("--workers=a:1,", "write host:port"),
        ("--workers=a:1 --worker-service=b", "cannot be used with"),
    ] {
        assert!(refusal(line).contains(why), "{line}: {}", refusal(line));
    }
}

#[test]
fn half_a_certificate_and_another_lock_are_refused() {
    assert!(refusal("--tls-cert-file=a").contains("--tls-private-key-file"));
    assert!(refusal("--leader-elect-resource-lock=endpoints").contains("the only lock is leases"));
}

#[test]
fn a_duration_of_a_flag_needs_its_unit() {
    assert!(refusal("--leader-elect-retry-period=2").contains("lacks a unit"));
    assert!(refusal("--leader-elect-retry-period=0s").contains("at least 1ms"));
}

#[test]
fn deprecated_flags_set_their_fields_and_say_where_they_belong() {
    let line =
        "--profiling=false --contention-profiling --kube-api-content-type=a/b --kube-api-qps=-1 --kube-api-burst=7";
    let deprecated = read(line).expect("sound").deprecated;
    let mut configuration = flotilla_configuration::Configuration::default();
    deprecated.apply(&mut configuration);
    let client = &configuration.client_connection;
    assert_eq!((configuration.enable_profiling, configuration.enable_contention_profiling), (false, true));
    assert_eq!((&*client.content_type, client.qps, client.burst), ("a/b", -1.0, 7));
    assert_eq!(deprecated.given().len(), 5);
    assert_eq!(
        read("--kube-api-qps=5").expect("sound").deprecated.given(),
        [("--kube-api-qps", "clientConnection.qps")]
    );
    assert!(refusal("--kube-api-burst=-1").contains("-1 is not in 0.."));
}

#[test]
fn feature_gates_are_read_from_every_flag_and_refused_by_name() {
    let args =
        read("--feature-gates=CBORServingAndStorage=true,ComponentFlagz=false --feature-gates=ComponentStatusz=false");
    let gates = args.expect("sound").gates;
    let on = ["CBORServingAndStorage", "ComponentFlagz", "ComponentStatusz"].map(|name| gates.enabled(name));
    assert_eq!(on, [true, false, false]);
    assert_eq!(read("").expect("sound").gates, FeatureGates::default());
    assert!(refusal("--feature-gates=GenericWorkloads=true").contains("GenericWorkload"));
    assert!(refusal("--feature-gates=GenericWorkload").contains("--feature-gates: GenericWorkload"));
}

#[test]
fn the_endpoints_are_guarded_unless_that_is_refused_in_so_many_words() {
    let access = read("").expect("sound").access;
    assert!(!access.insecure_open_endpoints && !access.authentication_skip_lookup);
    assert_eq!(access.authorization_always_allow_paths, ["/healthz", "/readyz", "/livez"]);
    assert_eq!(access.authentication_token_webhook_cache_ttl, Duration::from_secs(10));
    let access = read(
        "--insecure-open-endpoints --authentication-kubeconfig=a --authorization-kubeconfig=b --client-ca-file=c \
         --authorization-always-allow-paths=/metrics,/healthz/* --authorization-webhook-cache-unauthorized-ttl=1m",
    );
    let access = access.expect("sound").access;
    assert!(access.insecure_open_endpoints);
    assert_eq!(access.authorization_always_allow_paths, ["/metrics", "/healthz/*"]);
    assert_eq!(access.authorization_webhook_cache_unauthorized_ttl, Duration::from_secs(60));
}
