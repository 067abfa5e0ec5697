//! Bills of materials in CycloneDX: all crates of the programs.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, PackageId};
use cyclonedx_bom::{
    models::{
        component::Classification,
        license::{LicenseChoice, Licenses},
    },
    prelude::{Bom, Component, Components, Purl, SpdxExpression},
};

use crate::program::{Architecture, root};

const ROOTS: [&str; 3] = ["flotilla", "flotilla-coordinator", "flotilla-worker"];

/// All crates of these programs as CycloneDX 1.5 JSON, sorted by name.
///
/// # Errors
/// Cargo fails.
pub fn of(architecture: Architecture) -> Result<Vec<u8>> {
    let metadata = MetadataCommand::new()
        .current_dir(root())
        .other_options(["--locked".to_owned(), "--filter-platform".to_owned(), architecture.target().to_owned()])
        .exec()
        .context("asking cargo for the dependencies")?;
    let resolve = metadata.resolve.as_ref().context("cargo resolved nothing")?;
    let mut open: Vec<&PackageId> = metadata
        .packages
        .iter()
        .filter(|package| ROOTS.contains(&package.name.as_str()))
        .map(|package| &package.id)
        .collect();
    let mut inside: BTreeSet<&PackageId> = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !inside.insert(id) {
            continue;
        }
        let node = resolve.nodes.iter().find(|node| node.id == *id);
        for dependency in node.into_iter().flat_map(|node| &node.deps) {
            if dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal) {
                open.push(&dependency.pkg);
            }
        }
    }
    let mut packages: Vec<_> = metadata.packages.iter().filter(|package| inside.contains(&package.id)).collect();
    packages.sort_by(|left, right| (&left.name, &left.version).cmp(&(&right.name, &right.version)));
    let components = packages.iter().map(|package| {
        let version = package.version.to_string();
        let mut component = Component::new(
            Classification::Library,
            &package.name,
            &version,
            Some(format!("{}@{version}", package.name)),
        );
        component.purl = Purl::new("cargo", &package.name, &version).ok();
        let license = package.license.clone().and_then(|license| SpdxExpression::parse_lax(license).ok());
        component.licenses = license.map(|license| Licenses(vec![LicenseChoice::Expression(license)]));
        component
    });
    let bom = Bom { components: Some(Components(components.collect())), ..Bom::default() };
    let mut json = Vec::new();
    bom.output_as_json_v1_5(&mut json).context("writing the bill of materials")?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_names_the_programs_and_what_they_link_and_not_what_only_tests_need() {
        let bill: serde_json::Value = serde_json::from_slice(&of(Architecture::Amd64).unwrap()).unwrap();
        let names: Vec<&str> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|component| component["name"].as_str().unwrap())
            .collect();
        for wanted in ["flotilla-coordinator", "flotilla-worker", "kube", "tonic", "ring", "mimalloc"] {
            assert!(names.contains(&wanted), "{wanted} is missing");
        }
        assert!(!names.contains(&"proptest"));
    }
}
