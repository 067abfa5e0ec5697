//! The reproducible layer of the image: without times and users of the build machine.

use std::io::Write as _;

use anyhow::Result;
use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType};

use crate::{
    entry::{file, header},
    program::Program,
};

/// The user of the programs in the project's manifests. The image itself sets no user, as that of kube-scheduler.
const USER: u32 = 65_532;

/// The environment variable `PATH` of the image.
pub const PATH: &str = "/usr/local/bin:/bin:/";

/// The program that also answers to the name `kube-scheduler`.
const COORDINATOR: &str = "flotilla-coordinator";

/// Paths of kube-scheduler in the images of Kubernetes and of scheduler-plugins, each a symbolic link to the coordinator.
const KUBE_SCHEDULER: [(&str, &str); 2] = [
    ("usr/local/bin/kube-scheduler", "../../../flotilla-coordinator"),
    ("bin/kube-scheduler", "../flotilla-coordinator"),
];

/// The passwd entries, for programs that look them up.
fn users() -> String {
    format!("root:x:0:0:root:/:/sbin/nologin\nflotilla:x:{USER}:{USER}:flotilla:/:/sbin/nologin\n")
}

/// A layer.
#[derive(Debug)]
pub struct Layer {
    /// The tar archive of its files.
    pub tar: Vec<u8>,
    /// The same, compressed.
    pub gzip: Vec<u8>,
}

/// Creates the layer from the programs and an optional bill of materials. The coordinator among them is also at the paths of
/// kube-scheduler.
///
/// # Errors
/// Writing to memory fails.
pub fn of(programs: &[Program], materials: Option<&[u8]>) -> Result<Layer> {
    let mut builder = Builder::new(Vec::new());
    folder(&mut builder, "etc/", 0o755)?;
    file(&mut builder, "etc/passwd", users().as_bytes(), 0o644)?;
    folder(&mut builder, "tmp/", 0o1777)?;
    for program in programs {
        file(&mut builder, &program.name, &program.bytes, 0o755)?;
    }
    if programs.iter().any(|program| program.name == COORDINATOR) {
        for name in ["usr/", "usr/local/", "usr/local/bin/", "bin/"] {
            folder(&mut builder, name, 0o755)?;
        }
        for (path, target) in KUBE_SCHEDULER {
            link(&mut builder, path, target)?;
        }
    }
    if let Some(materials) = materials {
        file(&mut builder, "sbom.cdx.json", materials, 0o644)?;
    }
    let tar = builder.into_inner()?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&tar)?;
    Ok(Layer { gzip: encoder.finish()?, tar })
}

fn folder(builder: &mut Builder<Vec<u8>>, name: &str, mode: u32) -> Result<()> {
    let mut header = header(0, mode);
    header.set_entry_type(EntryType::Directory);
    Ok(builder.append_data(&mut header, name, &[][..])?)
}

fn link(builder: &mut Builder<Vec<u8>>, path: &str, target: &str) -> Result<()> {
    let mut header = header(0, 0o777);
    header.set_entry_type(EntryType::Symlink);
    Ok(builder.append_link(&mut header, path, target)?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use flate2::read::GzDecoder;
    use tar::Archive;

    fn layer() -> Layer {
        of(&[Program { name: "flotilla".to_owned(), bytes: b"program".to_vec() }], Some(b"{}")).unwrap()
    }

    #[test]
    fn the_same_programs_make_the_same_layer() {
        assert_eq!(layer().gzip, layer().gzip);
    }

    #[test]
    fn a_layer_holds_each_file_once_as_roots_and_programs_can_be_run_by_every_user() {
        let gzip = layer().gzip;
        let mut archive = Archive::new(GzDecoder::new(&*gzip));
        let found: Vec<(String, u32, u64)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                (entry.path().unwrap().display().to_string(), header.mode().unwrap(), header.uid().unwrap())
            })
            .collect();
        let wanted =
            [("etc/", 0o755), ("etc/passwd", 0o644), ("tmp/", 0o1777), ("flotilla", 0o755), ("sbom.cdx.json", 0o644)];
        assert_eq!(found, wanted.map(|(name, mode)| (name.to_owned(), mode, 0)));
    }

    #[test]
    fn the_coordinator_is_also_where_manifests_start_kube_scheduler() {
        let program = Program { name: COORDINATOR.to_owned(), bytes: b"program".to_vec() };
        let folder = tempfile::tempdir().unwrap();
        Archive::new(&*of(&[program], None).unwrap().tar).unpack(folder.path()).unwrap();
        for path in ["usr/local/bin/kube-scheduler", "bin/kube-scheduler"] {
            assert_eq!(std::fs::read(folder.path().join(path)).unwrap(), b"program", "{path}");
            let name = format!("/{path}");
            assert!(PATH.split(':').any(|entry| name == format!("{entry}/kube-scheduler")), "{path} is on the PATH");
        }
    }

    #[test]
    fn what_is_stored_unpacks_to_what_is_counted() {
        let layer = layer();
        let mut tar = Vec::new();
        GzDecoder::new(&*layer.gzip).read_to_end(&mut tar).unwrap();
        assert_eq!(tar, layer.tar);
    }
}
