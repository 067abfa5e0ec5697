//! The reproducible layer of the image: without times and users of the build machine.

use std::io::Write as _;

use anyhow::Result;
use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType};

use flotilla_image::{
    entry::{file, header},
    program::Program,
};

/// The user of the programs; the manifests use the same number.
pub(crate) const USER: u32 = 65_532;

/// The passwd entry of that user, for programs that look it up.
const USERS: &str = "root:x:0:0:root:/:/sbin/nologin\nflotilla:x:65532:65532:flotilla:/:/sbin/nologin\n";

#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) tar: Vec<u8>,
    pub(crate) gzip: Vec<u8>,
}

/// Creates the layer from the programs and an optional bill of materials.
pub(crate) fn of(programs: &[Program], materials: Option<&[u8]>) -> Result<Layer> {
    let mut builder = Builder::new(Vec::new());
    folder(&mut builder, "etc/", 0o755)?;
    file(&mut builder, "etc/passwd", USERS.as_bytes(), 0o644)?;
    folder(&mut builder, "tmp/", 0o1777)?;
    for program in programs {
        file(&mut builder, &program.name, &program.bytes, 0o755)?;
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
    fn what_is_stored_unpacks_to_what_is_counted() {
        let layer = layer();
        let mut tar = Vec::new();
        GzDecoder::new(&*layer.gzip).read_to_end(&mut tar).unwrap();
        assert_eq!(tar, layer.tar);
    }
}
