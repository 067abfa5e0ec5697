//! Flags of earlier releases of kube-scheduler: kube-scheduler 1.37 rejects them, and so does this program, with advice.

const LOG: &str = "remove it; the log goes to standard error";
const PROFILE: &str = "write the plugins as a profile into the file of --config";
const POLICY: &str = "write the policy as profiles and extenders into the file of --config";

const REMOVED: &[(&str, &str)] = &[
    ("--address", "write --bind-address; --secure-port serves HTTPS"),
    ("--algorithm-provider", PROFILE),
    ("--alsologtostderr", LOG),
    ("--experimental-logging-sanitization", "remove it"),
    (
        "--hard-pod-affinity-symmetric-weight",
        "set hardPodAffinityWeight of InterPodAffinityArgs in the file of --config",
    ),
    ("--lock-object-name", "write --leader-elect-resource-name"),
    ("--lock-object-namespace", "write --leader-elect-resource-namespace"),
    ("--log-dir", LOG),
    ("--log-file", LOG),
    ("--log-file-max-size", LOG),
    ("--logtostderr", LOG),
    ("--one-output", LOG),
    ("--policy-config-file", POLICY),
    ("--policy-configmap", POLICY),
    ("--policy-configmap-namespace", POLICY),
    ("--port", "remove it; --secure-port serves HTTPS"),
    ("--scheduler-name", "set schedulerName of the profile in the file of --config"),
    ("--skip-headers", LOG),
    ("--stderrthreshold", LOG),
    ("--use-legacy-policy-config", "remove it"),
];

/// The answer to the flag `given`, `--name`; `None` if it is not a removed flag.
pub(super) fn advice(given: &str) -> Option<String> {
    let (flag, advice) = REMOVED.iter().find(|(flag, _)| *flag == given)?;
    Some(format!("{flag} is a flag of earlier releases, which kube-scheduler 1.37 does not accept either: {advice}"))
}
