//! The krew manifest of the kubectl plugin.
//!
//! Source: <https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/>.

use anyhow::Result;
use flotilla_image::program::Architecture;
use serde_json::json;

const DESCRIPTION: &str = "\
Simulates what Flotilla, a scheduler that gives kube-scheduler's answer, decides about pods on the nodes of files or of a
live cluster, explains why a pod is pending or where it would go, checks and compares scheduler configurations, and shows
how a Flotilla in the cluster is doing.
";

#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) architecture: Architecture,
    pub(crate) uri: String,
    pub(crate) sha256: String,
    pub(crate) folder: String,
}

/// The manifest as YAML.
pub(crate) fn manifest(version: &str, platforms: &[Platform]) -> Result<String> {
    let platforms: Vec<_> = platforms
        .iter()
        .map(|platform| {
            let labels = json!({ "os": "linux", "arch": platform.architecture.name() });
            let files = [format!("{}/flotilla", platform.folder), format!("{}/LICENSE", platform.folder)];
            json!({
                "selector": { "matchLabels": labels },
                "uri": platform.uri,
                "sha256": platform.sha256,
                "files": files.map(|from| json!({ "from": from, "to": "." })),
                "bin": "flotilla",
            })
        })
        .collect();
    let manifest = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": { "name": "flotilla" },
        "spec": {
            "version": format!("v{version}"),
            "homepage": "https://github.com/flotilla-scheduler/flotilla",
            "shortDescription": "Simulate and explain scheduling decisions",
            "description": DESCRIPTION,
            "platforms": platforms,
        },
    });
    Ok(serde_yaml::to_string(&manifest)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_each_archive_with_its_checksum() {
        let platform = |architecture: Architecture| Platform {
            architecture,
            uri: format!("https://example.com/{}.tar.gz", architecture.name()),
            sha256: "0".repeat(64),
            folder: format!("flotilla-{}", architecture.name()),
        };
        let text = manifest("1.2.3", &[platform(Architecture::Amd64), platform(Architecture::Arm64)]).expect("YAML");
        let manifest: serde_json::Value = serde_yaml::from_str(&text).expect("YAML");
        assert_eq!(manifest["spec"]["version"], "v1.2.3");
        let platforms = manifest["spec"]["platforms"].as_array().expect("a list");
        let of = |index: usize, path: &str| platforms[index].pointer(path).cloned();
        assert_eq!(of(0, "/selector/matchLabels/arch"), Some("amd64".into()));
        assert_eq!(of(1, "/uri"), Some("https://example.com/arm64.tar.gz".into()));
        assert_eq!(of(1, "/files/0/from"), Some("flotilla-arm64/flotilla".into()));
        assert!(manifest["spec"]["shortDescription"].as_str().is_some_and(|text| text.len() <= 50), "krew's own limit");
    }
}
