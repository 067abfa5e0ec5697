//! Writes OCI archives: a tar of the OCI image layout.

use std::{collections::HashMap, fs, fs::File, path::Path};

use anyhow::{Context as _, Result};
use oci_spec::image::{
    Arch, ConfigBuilder, Descriptor, ImageConfigurationBuilder, ImageIndexBuilder, ImageManifestBuilder, MediaType,
    OciLayoutBuilder, Os, PlatformBuilder, RootFsBuilder, Sha256Digest,
};
use sha2::{Digest as _, Sha256};
use tar::{Builder, Header};

use flotilla_image::{
    layer::{Layer, PATH},
    program::Architecture,
};

/// Annotations that containerd and podman read as the name of an imported image.
const NAMES: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

pub(crate) const LABELS: &[(&str, &str)] = &[
    ("org.opencontainers.image.title", "flotilla"),
    ("org.opencontainers.image.description", "A Kubernetes scheduler in two parts: coordinator and workers"),
    ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
    ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION")),
];

#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) architecture: Architecture,
    pub(crate) layer: Layer,
    pub(crate) entrypoint: String,
    pub(crate) labels: &'static [(&'static str, &'static str)],
}

struct Layout<W: std::io::Write>(Builder<W>);

/// Writes an archive with one image name for all architectures.
pub(crate) fn write(output: &Path, name: &str, images: &[Image]) -> Result<()> {
    if let Some(folder) = output.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut layout = Layout(Builder::new(File::create(output)?));
    let layout_file = OciLayoutBuilder::default().image_layout_version("1.0.0").build()?;
    layout.file("oci-layout", &serde_json::to_vec(&layout_file)?)?;
    let mut manifests = Vec::new();
    for image in images {
        manifests.push(layout.image(image)?);
    }
    // A single image is named directly. Several get a named index, from which each machine picks one.
    let mut top = match <[Descriptor; 1]>::try_from(manifests) {
        Ok([only]) => only,
        Err(several) => {
            let index = ImageIndexBuilder::default().schema_version(2_u32).manifests(several).build()?;
            layout.blob(MediaType::ImageIndex, &serde_json::to_vec(&index)?)?
        }
    };
    top.set_annotations(Some(NAMES.iter().map(|&key| (key.to_owned(), name.to_owned())).collect()));
    let index = ImageIndexBuilder::default()
        .schema_version(2_u32)
        .media_type(MediaType::ImageIndex)
        .manifests(vec![top])
        .build()?;
    layout.file("index.json", &serde_json::to_vec(&index)?)?;
    layout.0.into_inner()?.sync_all()?;
    Ok(())
}

impl<W: std::io::Write> Layout<W> {
    fn image(&mut self, image: &Image) -> Result<Descriptor> {
        let arch = match image.architecture {
            Architecture::Amd64 => Arch::Amd64,
            Architecture::Arm64 => Arch::ARM64,
        };
        let labels: HashMap<String, String> =
            image.labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let config = ConfigBuilder::default()
            .working_dir("/".to_owned())
            .entrypoint(vec![image.entrypoint.clone()])
            .env(vec![format!("PATH={PATH}")])
            .labels(labels)
            .build()?;
        let files = RootFsBuilder::default()
            .typ("layers".to_owned())
            .diff_ids(vec![format!("sha256:{}", digest(&image.layer.tar))])
            .build()?;
        let configuration = ImageConfigurationBuilder::default()
            .architecture(arch.clone())
            .os(Os::Linux)
            .config(config)
            .rootfs(files)
            .history(vec![])
            .build()?;
        let configuration = self.blob(MediaType::ImageConfig, &serde_json::to_vec(&configuration)?)?;
        let layer = self.blob(MediaType::ImageLayerGzip, &image.layer.gzip)?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(2_u32)
            .media_type(MediaType::ImageManifest)
            .config(configuration)
            .layers(vec![layer])
            .build()?;
        let mut manifest = self.blob(MediaType::ImageManifest, &serde_json::to_vec(&manifest)?)?;
        manifest.set_platform(Some(PlatformBuilder::default().architecture(arch).os(Os::Linux).build()?));
        Ok(manifest)
    }

    fn blob(&mut self, media_type: MediaType, bytes: &[u8]) -> Result<Descriptor> {
        let digest = digest(bytes);
        self.file(&format!("blobs/sha256/{digest}"), bytes)?;
        let digest: Sha256Digest = digest.parse().context("a digest of our own")?;
        Ok(Descriptor::new(media_type, bytes.len() as u64, digest))
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut header = Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        Ok(self.0.append_data(&mut header, name, bytes)?)
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
