//! The arguments of a WebAssembly plugin.
//!
//! Source: `PluginConfig` in `scheduler/plugin/config.go` of kubernetes-sigs/kube-scheduler-wasm-extension; `sha256`, `podFields`,
//! `nodeFields` and `limits` are Flotilla's.

use flotilla_framework::{
    extension::PodField,
    modules::Digest,
    profile::{Args, ArgsError, read_args},
};
use serde::Deserialize;
use serde_json::Value;

/// Default fuel of a call, about one unit per instruction.
pub(crate) const FUEL: u64 = 20_000_000;
/// Factor for starting an instance, which also starts the runtime of its language.
pub(crate) const FUEL_OF_START: u64 = 10;
/// Default memory of an instance in bytes.
const MEMORY: u64 = 256 << 20;
/// Maximum memory: the range of 32-bit addresses.
const MOST_MEMORY: u64 = 4 << 30;

/// `args` of a WebAssembly plugin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModuleArgs {
    /// Address of the module: `file://` or `https://`.
    #[serde(rename = "guestURL")]
    pub guest_url: String,
    /// The module's configuration.
    #[serde(default)]
    pub guest_config: String,
    /// Minimum severity of the module's log: 0 info, 1 warning, 2 error, 3 fatal.
    #[serde(default)]
    pub log_severity: i32,
    /// The module's command line.
    #[serde(default, alias = "Args")]
    pub args: Vec<String>,
    /// SHA-256 digest of the module in hexadecimal; required for `https://`.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Pod fields that the module sees; all known ones by default.
    #[serde(default)]
    pub pod_fields: Option<Vec<String>>,
    /// Node fields that the module sees; all known ones by default.
    #[serde(default)]
    pub node_fields: Option<Vec<String>>,
    /// Limits of a call.
    #[serde(default)]
    pub limits: Limits,
}

/// Limits of a call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Fuel of a call, at least 1; 20,000,000 by default. Starting the module may use ten times that.
    pub fuel_per_call: u64,
    /// Memory of an instance as a quantity; 256Mi by default, at most 4Gi.
    pub memory: Memory,
}

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Memory(pub u64);

impl TryFrom<Value> for Memory {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let text = match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("", 0)];
        let parsed = units.into_iter().find_map(|(unit, shift)| {
            let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(1 << shift)
        });
        let range = (64 << 10)..=MOST_MEMORY;
        parsed
            .filter(|bytes| range.contains(bytes))
            .map(Self)
            .ok_or_else(|| format!("found {text:?}, expected bytes from 64Ki to 4Gi, such as 256Mi"))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { fuel_per_call: FUEL, memory: Memory(MEMORY) }
    }
}

/// Pod fields that a module sees.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodFields {
    /// Metadata fields in a class, sorted.
    pub metadata: Vec<PodField>,
    /// `spec.nodeSelector`.
    pub node_selector: bool,
    /// `spec.affinity.nodeAffinity`.
    pub node_affinity: bool,
    /// `spec.tolerations`.
    pub tolerations: bool,
    /// `spec.containers`.
    pub containers: bool,
}

/// A node field that a module sees.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeField {
    /// `metadata.name`.
    Name,
    /// `metadata.labels['<key>']`.
    Label(String),
    /// `metadata.labels`.
    Labels,
    /// `spec.taints`.
    Taints,
    /// `spec.unschedulable`.
    Unschedulable,
    /// `status.allocatable['<resource>']`.
    Resource(String),
    /// `status.allocatable`.
    Allocatable,
    /// `status.images`.
    Images,
}

impl PodFields {
    /// All fields.
    #[must_use]
    pub fn all() -> Self {
        let metadata = vec![PodField::Name, PodField::Namespace, PodField::Labels];
        Self { metadata, node_selector: true, node_affinity: true, tolerations: true, containers: true }
    }

    /// Reads `podFields`.
    ///
    /// # Errors
    /// The index of an invalid path, and the problem.
    pub fn read(paths: &[String]) -> Result<Self, (usize, String)> {
        let mut fields = Self::default();
        for (at, path) in paths.iter().enumerate() {
            match path.as_str() {
                "spec.nodeSelector" => fields.node_selector = true,
                "spec.affinity" | "spec.affinity.nodeAffinity" => fields.node_affinity = true,
                "spec.tolerations" => fields.tolerations = true,
                "spec.containers" => fields.containers = true,
                path => fields.metadata.push(path.parse().map_err(|_| {
                    let known = "metadata.name, metadata.namespace, metadata.labels, metadata.labels['KEY'], \
                                 spec.nodeSelector, spec.affinity.nodeAffinity, spec.tolerations or spec.containers";
                    (at, format!("found {path:?}, expected {known}"))
                })?),
            }
        }
        fields.metadata.sort_unstable();
        fields.metadata.dedup();
        Ok(fields)
    }

    /// Whether every pod has different values in these fields.
    #[must_use]
    pub fn distinguishes_pods(&self) -> bool {
        self.metadata.contains(&PodField::Name)
    }
}

impl NodeField {
    pub(crate) const ALL: [Self; 6] =
        [Self::Name, Self::Labels, Self::Taints, Self::Unschedulable, Self::Allocatable, Self::Images];

    /// Reads `nodeFields`.
    ///
    /// # Errors
    /// The index of an invalid path, and the problem.
    pub fn read(paths: &[String]) -> Result<Vec<Self>, (usize, String)> {
        let read = |(at, path): (usize, &String)| {
            let key = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']").map(str::to_owned);
            Ok(match path.as_str() {
                "metadata.name" => Self::Name,
                "metadata.labels" => Self::Labels,
                "spec.taints" => Self::Taints,
                "spec.unschedulable" => Self::Unschedulable,
                "status.allocatable" => Self::Allocatable,
                "status.images" => Self::Images,
                _ => match (key("metadata.labels['"), key("status.allocatable['")) {
                    (Some(label), _) => Self::Label(label),
                    (None, Some(resource)) => Self::Resource(resource),
                    (None, None) => {
                        let known = "metadata.name, metadata.labels, metadata.labels['KEY'], spec.taints, \
                                     spec.unschedulable, status.allocatable, status.allocatable['RESOURCE'] or \
                                     status.images";
                        return Err((at, format!("found {path:?}, expected {known}")));
                    }
                },
            })
        };
        paths.iter().enumerate().map(read).collect()
    }
}

impl ModuleArgs {
    /// Reads `args`.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn read(args: &Value) -> Result<Self, ArgsError> {
        let read: Self = read_args(args)?;
        let at = |field: &str, place: usize, message: String| {
            let mut error = ArgsError::at(field, message);
            error.path.push(flotilla_framework::profile::ArgsStep::Element(place));
            error
        };
        if let Some(paths) = &read.pod_fields {
            PodFields::read(paths).map_err(|(place, message)| at("podFields", place, message))?;
        }
        if let Some(paths) = &read.node_fields {
            NodeField::read(paths).map_err(|(place, message)| at("nodeFields", place, message))?;
        }
        if read.limits.fuel_per_call == 0 {
            let mut error = ArgsError::at("limits", "found 0, expected at least 1");
            error.path.push(flotilla_framework::profile::ArgsStep::Field("fuelPerCall".to_owned()));
            return Err(error);
        }
        if let Some(digest) = read.sha256.as_deref().filter(|digest| Digest::read(digest).is_none()) {
            return Err(ArgsError::at("sha256", format!("found {digest:?}, expected 64 hexadecimal digits")));
        }
        if read.guest_url.starts_with("https://") && read.sha256.is_none() {
            let message = "found no digest, expected one with a guestURL of https://; sha256sum FILE.wasm prints it";
            return Err(ArgsError::at("sha256", message));
        }
        if !read.guest_url.starts_with("https://") && !read.guest_url.starts_with("file://") {
            let found = &read.guest_url;
            let message = format!("found {found:?}, expected file:///PATH or https://HOST/PATH");
            return Err(ArgsError::at("guestURL", message));
        }
        if !(0..=3).contains(&read.log_severity) {
            return Err(ArgsError::at("logSeverity", format!("found {}, expected 0 to 3", read.log_severity)));
        }
        Ok(read)
    }

    /// Arguments with only an address.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self {
            guest_url: url.to_owned(),
            guest_config: String::new(),
            log_severity: 0,
            args: Vec::new(),
            sha256: None,
            pod_fields: None,
            node_fields: None,
            limits: Limits::default(),
        }
    }

    /// The arguments of a plugin in a profile; `None` if invalid.
    pub(crate) fn of(args: &Args, plugin: &str) -> Option<Self> {
        Self::read(args.own.get(plugin)?).ok()
    }

    /// The module's digest, if configured.
    pub(crate) fn digest(&self) -> Option<Digest> {
        Digest::read(self.sha256.as_deref()?)
    }
}
