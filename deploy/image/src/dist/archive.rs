//! The reproducible archive of one architecture: without times and users.

use std::io::Write as _;

use anyhow::Result;
use flate2::{Compression, write::GzEncoder};
use flotilla_image::entry::{file, header};
use tar::{Builder, EntryType};

use crate::contents::{Contents, PLUGIN};

/// All contents in one folder of this name.
pub(crate) fn of(folder: &str, contents: &Contents<'_>) -> Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for program in contents.programs {
        file(&mut builder, &format!("{folder}/{}", program.name), &program.bytes, 0o755)?;
    }
    let mut link = header(0, 0o777);
    link.set_entry_type(EntryType::Symlink);
    builder.append_link(&mut link, format!("{folder}/{PLUGIN}"), "flotilla")?;
    for document in contents.documents {
        file(&mut builder, &format!("{folder}/{}", document.path), &document.bytes, 0o644)?;
    }
    file(&mut builder, &format!("{folder}/sbom.cdx.json"), contents.materials, 0o644)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&builder.into_inner()?)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use flate2::read::GzDecoder;
    use flotilla_image::program::Program;
    use tar::Archive;

    use super::*;
    use crate::contents::Document;

    fn archive() -> Vec<u8> {
        let programs = [Program { name: "flotilla".to_owned(), bytes: b"program".to_vec() }];
        let documents = [Document { path: "man/man1/flotilla.1".to_owned(), bytes: b".TH".to_vec() }];
        of("f", &Contents { programs: &programs, documents: &documents, materials: b"{}" }).expect("it is laid out")
    }

    #[test]
    fn the_same_files_make_the_same_archive() {
        assert_eq!(archive(), archive());
    }

    #[test]
    fn all_lies_in_one_folder_and_only_programs_can_be_run() {
        let bytes = archive();
        let mut archive = Archive::new(GzDecoder::new(&*bytes));
        let found: Vec<(String, u32, Option<String>)> = archive
            .entries()
            .expect("an archive")
            .map(|entry| {
                let entry = entry.expect("an entry");
                let link = entry.link_name().expect("a path").map(|link| link.display().to_string());
                let mode = entry.header().mode().expect("a mode");
                (entry.path().expect("a path").display().to_string(), mode, link)
            })
            .collect();
        let wanted = [
            ("f/flotilla", 0o755, None),
            ("f/kubectl-flotilla", 0o777, Some("flotilla")),
            ("f/man/man1/flotilla.1", 0o644, None),
            ("f/sbom.cdx.json", 0o644, None),
        ];
        let wanted = wanted.map(|(path, mode, link)| (path.to_owned(), mode, link.map(str::to_owned)));
        assert_eq!(found, wanted);
    }
}
