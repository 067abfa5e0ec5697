//! The running cluster, described for the user.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The schedulerName of pods without one.
pub(super) const DEFAULT_SCHEDULER: &str = "default-scheduler";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Running {
    /// The Kubernetes version.
    pub(super) kubernetes: String,
    pub(super) nodes: u32,
    pub(super) workers: u16,
    pub(super) scheduler_names: Vec<String>,
    /// The administrator's kubeconfig.
    pub(super) kubeconfig: PathBuf,
    /// The directory that contains only kubectl.
    pub(super) kubectl_folder: PathBuf,
    /// An example manifest.
    pub(super) hello: PathBuf,
    /// The base URL of the coordinator's endpoints.
    pub(super) coordinator: String,
    /// The CA certificate of the coordinator.
    pub(super) authority: PathBuf,
    /// The administrator's certificate and key.
    pub(super) administrator: (PathBuf, PathBuf),
    #[serde(default)]
    pub(super) devices: Option<PathBuf>,
    #[serde(default)]
    pub(super) jaeger: Option<String>,
    pub(super) logs: PathBuf,
}

impl Running {
    /// The shell commands that select the cluster.
    pub(super) fn exports(&self) -> String {
        let (kubeconfig, folder) = (quoted(&self.kubeconfig), quoted(&self.kubectl_folder));
        let jaeger = self.jaeger.as_ref().map(|url| format!("  export FLOTILLA_JAEGER={url}\n")).unwrap_or_default();
        format!("  export KUBECONFIG={kubeconfig}\n  export PATH={folder}:\"$PATH\"\n{jaeger}")
    }

    /// The text printed when the cluster is up. `program` is the program as the user called it. `detached`: it runs in the background.
    pub(super) fn summary(&self, program: &str, detached: bool) -> String {
        let Self { kubernetes, nodes, workers, coordinator, .. } = self;
        let (hello, authority, logs) = (quoted(&self.hello), quoted(&self.authority), quoted(&self.logs));
        let (certificate, key) = (quoted(&self.administrator.0), quoted(&self.administrator.1));
        let names = self.scheduler_names.join(", ");
        let unnamed = self.scheduler_names.iter().any(|name| name == DEFAULT_SCHEDULER);
        let whose = if unnamed { format!("{names}, or without one") } else { names };
        let (node_s, worker_s) = (plural(*nodes), plural((*workers).into()));
        let end = if detached {
            format!("`{program} down`")
        } else {
            format!("Ctrl-C, or `{program} down` in another terminal")
        };
        let exports = self.exports();
        let devices = self.devices.as_ref().map(|manifest| devices_of(manifest)).unwrap_or_default();
        let tracing = match &self.jaeger {
            Some(url) => format!(
                "The trace of a scheduling attempt; Jaeger's API is at {url}:\n\n  {program} trace pod/NAME\n\n"
            ),
            None => String::new(),
        };
        format!(
            "\
The cluster is up: Kubernetes {kubernetes} with {nodes} node{node_s}.
Flotilla, with {workers} worker{worker_s}, schedules pods with schedulerName {whose}.

{exports}
Try it:

  kubectl apply -f {hello}
  kubectl rollout status deployment/hello && kubectl get pods -o wide
  kubectl get events -o wide --field-selector reason=Scheduled

{devices}Why a pod is pending, and its state in the queue:

  {program} explain pod NAME --coordinator {coordinator} --coordinator-ca {authority}

Its status (top instead of status shows it live):

  {program} status --coordinator {coordinator} --coordinator-ca {authority}

{tracing}The coordinator's metrics and its configuration:

  alias ask='curl --cacert {authority} --cert {certificate} --key {key}'
  ask {coordinator}/metrics
  ask {coordinator}/configz

Logs are in {logs}.
End it with {end}. This deletes the cluster's data and logs.
"
        )
    }

    /// A Deployment for this cluster's scheduler.
    pub(super) fn hello_manifest(scheduler_name: &str) -> String {
        let name = match scheduler_name {
            DEFAULT_SCHEDULER => String::new(),
            // JSON strings are valid YAML.
            other => format!("\n      schedulerName: {}", serde_json::Value::from(other)),
        };
        format!(
            "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: hello
spec:
  replicas: 10
  selector:
    matchLabels: {{app: hello}}
  template:
    metadata:
      labels: {{app: hello}}
    spec:{name}
      containers:
      - name: pause
        image: registry.k8s.io/pause:3.10
        resources:
          requests: {{cpu: 500m, memory: 256Mi}}
"
        )
    }
}

/// How to use the devices of the nodes.
fn devices_of(manifest: &Path) -> String {
    format!(
        "\
Devices of two simulated drivers, and pods that claim some:

  kubectl get deviceclasses,resourceslices
  kubectl apply -f {}
  kubectl get pods -l example=devices -o wide && kubectl get resourceclaims

",
        quoted(manifest)
    )
}

pub(super) fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Quotes a path for a shell.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(scheduler_names: &[&str]) -> Running {
        Running {
            kubernetes: "v1.37.2".into(),
            nodes: 1,
            workers: 2,
            scheduler_names: scheduler_names.iter().map(|name| (*name).to_owned()).collect(),
            kubeconfig: "/tmp/my cluster/kubeconfig".into(),
            kubectl_folder: "/tmp/flotilla-x/bin".into(),
            hello: "/tmp/flotilla-x/hello.yaml".into(),
            coordinator: "https://127.0.0.1:10000".into(),
            authority: "/tmp/flotilla-x/pki/ca.crt".into(),
            administrator: ("/tmp/flotilla-x/pki/a.crt".into(), "/tmp/flotilla-x/pki/a.key".into()),
            devices: None,
            jaeger: None,
            logs: "/tmp/flotilla-x/logs".into(),
        }
    }

    #[test]
    fn the_summary_says_whose_pods_are_served_and_how_to_end_it() {
        let text = running(&["flotilla"]).summary("target/release/flotilla", true);
        for expected in [
            "Kubernetes v1.37.2 with 1 node.\n",
            "with 2 workers, schedules pods with schedulerName flotilla.\n",
            "  export KUBECONFIG='/tmp/my cluster/kubeconfig'\n  export PATH=/tmp/flotilla-x/bin:\"$PATH\"\n",
            "explain pod NAME --coordinator https://127.0.0.1:10000 --coordinator-ca /tmp/flotilla-x/pki/ca.crt\n",
            "release/flotilla status --coordinator https://127.0.0.1:10000 --coordinator-ca /tmp/flotilla-x/pki/ca.crt\n",
            "--cert /tmp/flotilla-x/pki/a.crt --key /tmp/flotilla-x/pki/a.key",
            "End it with `target/release/flotilla down`.",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        let text = running(&["a", DEFAULT_SCHEDULER]).summary("flotilla", false);
        assert!(text.contains("with schedulerName a, default-scheduler, or without one.\n"), "{text}");
        assert!(text.contains("End it with Ctrl-C, or `flotilla down` in another terminal"), "{text}");
    }

    #[test]
    fn the_summary_says_how_to_try_devices_where_there_are_some() {
        let without = running(&["flotilla"]);
        assert!(!without.summary("flotilla", true).contains("evices"));
        let text = Running { devices: Some("/tmp/x/devices.yaml".into()), ..without }.summary("flotilla", true);
        assert!(text.contains("  kubectl apply -f /tmp/x/devices.yaml\n"), "{text}");
    }

    #[test]
    fn the_summary_says_how_to_see_a_trace_where_there_is_jaeger() {
        let without = running(&["flotilla"]);
        assert!(!without.summary("flotilla", true).contains("trace"));
        let with = Running { jaeger: Some("http://127.0.0.1:1234".into()), ..without };
        let text = with.summary("flotilla", true);
        for expected in
            ["  export FLOTILLA_JAEGER=http://127.0.0.1:1234\n", "  flotilla trace pod/NAME\n\nThe coordinator's"]
        {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn the_manifest_names_the_scheduler_unless_it_is_the_default() {
        let name = |text: &str| -> serde_json::Value {
            let manifest: serde_json::Value = serde_yaml::from_str(&Running::hello_manifest(text)).expect("YAML");
            manifest["spec"]["template"]["spec"]["schedulerName"].clone()
        };
        assert_eq!(name("flotilla"), "flotilla");
        assert_eq!(name("a: \"b\"#"), "a: \"b\"#");
        assert!(name(DEFAULT_SCHEDULER).is_null());
    }

    #[test]
    fn a_path_is_quoted_where_a_shell_would_break_it() {
        for (path, expected) in [("/a/b-1.c", "/a/b-1.c"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
