//! CSI volume handles of in-tree volumes. Source: csi-translation-lib plugins/aws_ebs.go, azure_disk.go, azure_file.go, gce_pd.go.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as api;

use super::{address, topology::BETWEEN_ZONES};

/// Annotation with the resource group of a share.
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";

/// The disk in `aws://zone/vol-1`; other texts are unchanged. Source: `KubernetesVolumeIDToEBSVolumeID`.
pub(super) fn aws_ebs(id: &str) -> Result<String, String> {
    let wrap = |error: String| format!("failed to translate Kubernetes ID to EBS Volume ID {error}");
    if !id.starts_with("aws://") {
        return Ok(id.to_owned());
    }
    let path = address::path(id).map_err(|error| wrap(format!("Invalid disk name ({id}): {error}")))?;
    let name = path.trim_matches('/');
    match name.strip_prefix("vol-") {
        Some(rest) if !rest.contains('/') => Ok(name.to_owned()),
        _ => Err(wrap(format!("Invalid format for AWS volume ({id})"))),
    }
}

pub(super) fn azure_disk(disk: &api::AzureDiskVolumeSource) -> Result<String, String> {
    match disk.kind.as_deref() {
        Some(kind) if !kind.eq_ignore_ascii_case("Managed") => {
            Err(format!("kind({kind}) is not supported in csi migration"))
        }
        _ => Ok(disk.disk_uri.clone()),
    }
}

/// Resource group, account, share, volume and namespace of the secret.
pub(super) fn azure_file(
    volume: &api::PersistentVolume,
    spec: &api::PersistentVolumeSpec,
    share: &api::AzureFilePersistentVolumeSource,
) -> Result<String, String> {
    let annotations = volume.metadata.annotations.as_ref();
    let group = annotations.and_then(|annotations| annotations.get(RESOURCE_GROUP)).map_or("", String::as_str);
    let of_claim = || spec.claim_ref.as_ref().and_then(|claim| claim.namespace.as_deref());
    let namespace = share.secret_namespace.as_deref().or_else(of_claim).unwrap_or_default();
    if namespace.is_empty() {
        return Err("could not find a secret namespace in PersistentVolumeSource or ClaimRef".to_owned());
    }
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    Ok(format!("{group}#{}#{}#{name}#{namespace}", account(&share.secret_name), share.share_name))
}

/// The same for an inline volume, with the secret in the pod's namespace.
pub(super) fn azure_file_inline(volume: &api::Volume, share: &api::AzureFileVolumeSource, namespace: &str) -> String {
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    format!("#{}#{}#{}#{namespace}", account(&share.secret_name), share.share_name, volume.name)
}

/// The storage account in the name of a secret, or the whole name.
///
/// Source: `getStorageAccountName`, with the pattern `azure-storage-account-(.+)-secret` at its first match.
fn account(secret: &str) -> &str {
    const BEFORE: &str = "azure-storage-account-";
    let mut rest = secret;
    while let Some(start) = rest.find(BEFORE) {
        rest = &rest[start + BEFORE.len()..];
        let line = rest.split('\n').next().unwrap_or_default();
        match line.rfind("-secret") {
            Some(end) if end > 0 => return &line[..end],
            _ => {}
        }
    }
    secret
}

/// A disk in the zone or region of the volume's labels.
pub(super) fn gce_pd(labels: Option<&BTreeMap<String, String>>, disk: &str) -> Result<String, String> {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).filter(|zones| !zones.is_empty());
    let zones = label("failure-domain.beta.kubernetes.io/zone").or_else(|| label("topology.kubernetes.io/zone"));
    let place = match zones {
        None => "zones/UNSPECIFIED".to_owned(),
        Some(zones) if zones.contains(BETWEEN_ZONES) => {
            let region = region(zones).map_err(|error| format!("failed to get region from zones: {error}"))?;
            format!("regions/{region}")
        }
        Some(zone) => format!("zones/{zone}"),
    };
    Ok(format!("projects/UNSPECIFIED/{place}/disks/{disk}"))
}

/// The common region of zones. Source: `gceGetRegionFromZones`.
fn region(zones: &str) -> Result<String, String> {
    let mut regions = BTreeSet::new();
    for zone in zones.split(BETWEEN_ZONES) {
        let [locale, region, _] = zone.split('-').collect::<Vec<_>>()[..] else {
            return Err(format!("zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"));
        };
        regions.insert(format!("{locale}-{region}"));
    }
    let list: Vec<String> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
    match (regions.pop_first(), regions.is_empty()) {
        (Some(region), true) => Ok(region),
        _ => Err(format!("multiple or no regions gotten from zones, got: map[{}]", list.join(" "))),
    }
}
