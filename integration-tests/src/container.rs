//! A container of a manifest as a process: with the manifest's command, in the files of the image and of the manifest's volumes.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flotilla_control_plane::ControlPlane;
use flotilla_image::{layer, program::Program};
use kube::{
    Client, Config,
    api::{GetParams, Request},
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{deployed::kubectl, fleet::binary};

/// Folder of a service account's credentials in a pod.
const SERVICE_ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// A manifest: several objects, one of which is a Pod or has a template of pods.
#[derive(Debug)]
pub struct Manifest {
    objects: Vec<Value>,
}

/// A container, and the parts of its pod that it uses.
#[derive(Clone, Debug)]
pub struct Container {
    /// Its command and arguments.
    pub command: Vec<String>,
    /// Its probes by kind: `livenessProbe`, `readinessProbe` and `startupProbe`.
    pub probes: BTreeMap<&'static str, Probe>,
    /// Contents of its files by absolute path, with only the owner's permissions if they are credentials.
    pub files: BTreeMap<PathBuf, String>,
    /// Namespace and name of its service account; `None` for a static pod, which has none.
    pub account: Option<(String, String)>,
}

/// The `httpGet` of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// `scheme://host:port`.
    pub origin: String,
    /// The path.
    pub path: String,
}

impl Manifest {
    /// Reads a manifest from YAML.
    ///
    /// # Errors
    /// The text is no YAML.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let documents = serde_yaml::Deserializer::from_str(text).map(Value::deserialize);
        Ok(Self { objects: documents.collect::<Result<_, _>>()? })
    }

    /// Applies all objects except pods, which only a kubelet creates from files.
    ///
    /// # Errors
    /// The API server rejects an object.
    pub fn apply(&self, cluster: &ControlPlane) -> anyhow::Result<()> {
        let objects: Vec<String> = self
            .objects
            .iter()
            .filter(|object| object["kind"] != "Pod")
            .map(|object| format!("---\n{object}\n"))
            .collect();
        if objects.is_empty() {
            return Ok(());
        }
        let file = cluster.folder().join("manifest.yaml");
        fs::write(&file, objects.concat())?;
        kubectl(cluster, &["apply", "-f", &file.display().to_string()]).map(drop)
    }

    /// The container `name`. Files of the host have the contents `host_files`, by path.
    ///
    /// # Errors
    /// It does not exist, or uses something that is not modelled here.
    pub fn container(&self, name: &str, host_files: &BTreeMap<&str, String>) -> anyhow::Result<Container> {
        let pods = self.objects.iter().map(|object| match object["kind"].as_str() {
            Some("Pod") => (object, &object["spec"]),
            _ => (object, &object["spec"]["template"]["spec"]),
        });
        let containers = pods.flat_map(|(object, spec)| {
            spec["containers"].as_array().into_iter().flatten().map(move |container| (object, spec, container))
        });
        let mut named = containers.filter(|(.., container)| container["name"] == name);
        let (object, spec, container) = named.next().with_context(|| format!("there is no container {name}"))?;
        let command = [&container["command"], &container["args"]].into_iter().flat_map(|words| words.as_array());
        let command = command.flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let account = spec["serviceAccountName"].as_str().map(|name| (namespace.to_owned(), name.to_owned()));
        let mut files = BTreeMap::new();
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            files.extend(self.mounted(spec, mount, host_files)?);
        }
        Ok(Container { command, probes: probes(container)?, files, account })
    }

    fn mounted(
        &self,
        spec: &Value,
        mount: &Value,
        host_files: &BTreeMap<&str, String>,
    ) -> anyhow::Result<BTreeMap<PathBuf, String>> {
        let volumes = spec["volumes"].as_array().into_iter().flatten();
        let volume = volumes.clone().find(|volume| volume["name"] == mount["name"]);
        let volume = volume.with_context(|| format!("there is no volume for {mount}"))?;
        let at = PathBuf::from(mount["mountPath"].as_str().context("a mountPath")?);
        if let Some(path) = volume["hostPath"]["path"].as_str() {
            let content = host_files.get(path).with_context(|| format!("the host has no file {path}"))?;
            return Ok(BTreeMap::from([(at, content.clone())]));
        }
        let name = &volume["configMap"]["name"];
        let map =
            self.objects.iter().find(|object| object["kind"] == "ConfigMap" && object["metadata"]["name"] == *name);
        let data = map.and_then(|map| map["data"].as_object());
        let data = data.with_context(|| format!("{volume} is no file of the host and no ConfigMap of the manifest"))?;
        Ok(data.iter().map(|(key, text)| (at.join(key), text.as_str().unwrap_or_default().to_owned())).collect())
    }
}

fn probes(container: &Value) -> anyhow::Result<BTreeMap<&'static str, Probe>> {
    let mut probes = BTreeMap::new();
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let get = &container[kind]["httpGet"];
        let Some(path) = get["path"].as_str() else { continue };
        let named = |port: &&Value| port["name"] == get["port"];
        let port = match get["port"].as_u64() {
            Some(number) => number,
            None => container["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .find(named)
                .map(|port| &port["containerPort"])
                .and_then(Value::as_u64)
                .with_context(|| format!("{kind} names no port of the container"))?,
        };
        let scheme = get["scheme"].as_str().unwrap_or("HTTP").to_lowercase();
        // By default the address of the pod; here all pods are in the network of the host.
        let host = get["host"].as_str().unwrap_or("127.0.0.1");
        probes.insert(kind, Probe { origin: format!("{scheme}://{host}:{port}"), path: path.to_owned() });
    }
    Ok(probes)
}

impl Probe {
    /// The status code and the body. As a kubelet, it verifies no certificate and has no credentials.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn get(&self) -> anyhow::Result<(u16, String)> {
        let mut config = Config::new(self.origin.parse()?);
        config.accept_invalid_certs = true;
        config.proxy_url = None;
        let request = Request::new("").get(self.path.trim_start_matches('/'), &GetParams::default())?;
        match Client::try_from(config)?.request_text(request).await {
            Ok(body) => Ok((200, body)),
            Err(kube::Error::Api(status)) => Ok((status.code, status.message)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Container {
    /// Starts the container as a process of the cluster's group.
    ///
    /// # Errors
    /// The files cannot be written, or the process cannot be started.
    pub fn start(&self, cluster: &ControlPlane, process: &str) -> anyhow::Result<()> {
        let root = cluster.folder().join("containers").join(process);
        // A restarted container begins with the files of the image.
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        let placeholder = Program { name: "flotilla-coordinator".to_owned(), bytes: Vec::new() };
        let image = layer::of(&[placeholder], None)?;
        tar::Archive::new(&*image.tar).unpack(&root).context("cannot unpack the layer of the image")?;
        for (path, content) in &self.files {
            write(&root, path, content)?;
        }
        // Found with the PATH of this process, not that of the container.
        let unshare = which("unshare").context("unshare is not on the PATH; install util-linux")?;
        let mut command = Command::new(unshare);
        command.args(["--map-root-user", "--mount", "/bin/sh"]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("drop-in/enter.sh"));
        command.arg(&root).arg(binary("flotilla-coordinator")?).args(&self.command);
        command.env_clear().env("PATH", layer::PATH);
        if let Some((namespace, name)) = &self.account {
            mount_account(cluster, &root, namespace, name)?;
            let url = cluster.url();
            let (_, address) = url.split_once("://").context("a URL")?;
            let (host, port) = address.trim_end_matches('/').rsplit_once(':').context("an address with a port")?;
            command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
        }
        cluster.processes().spawn(process, command)?;
        Ok(())
    }
}

fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Writes a file that only its owner can read, as kubeadm does for kubeconfigs.
fn write(root: &Path, path: &Path, content: &str) -> anyhow::Result<()> {
    let inside = root.join(path.strip_prefix("/").unwrap_or(path));
    if let Some(folder) = inside.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&inside);
    let mut file = file.with_context(|| format!("cannot write {}", inside.display()))?;
    file.write_all(content.as_bytes())?;
    Ok(())
}

/// Writes the files that a kubelet mounts for a service account.
fn mount_account(cluster: &ControlPlane, root: &Path, namespace: &str, name: &str) -> anyhow::Result<()> {
    let token = kubectl(cluster, &["create", "token", "--namespace", namespace, name])?;
    let authority = fs::read_to_string(cluster.authority_certificate())?;
    for (file, content) in [("token", &*token), ("ca.crt", &*authority), ("namespace", namespace)] {
        write(root, &Path::new(SERVICE_ACCOUNT).join(file), content)?;
    }
    Ok(())
}

/// A kubeconfig with its certificates and keys inside, as kubeadm writes it.
///
/// # Errors
/// A file cannot be read.
pub fn with_certificates_inside(kubeconfig: &Path) -> anyhow::Result<String> {
    let mut config: Value = serde_json::from_str(&fs::read_to_string(kubeconfig)?)?;
    for (list, object, fields) in [
        ("clusters", "cluster", &["certificate-authority"][..]),
        ("users", "user", &["client-certificate", "client-key"]),
    ] {
        let object = config[list][0][object].as_object_mut().with_context(|| format!("{list} has no {object}"))?;
        for field in fields {
            let path = object.remove(*field).with_context(|| format!("{list} has no {field}"))?;
            let path = path.as_str().with_context(|| format!("{field} is no path"))?;
            let bytes = fs::read(path).with_context(|| format!("cannot read {field} {path}"))?;
            object.insert(format!("{field}-data"), STANDARD.encode(bytes).into());
        }
    }
    Ok(config.to_string())
}
