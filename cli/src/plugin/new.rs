//! `flotilla plugin new`: writes a project for a WebAssembly plugin. The project contains the SDK, so that it builds anywhere.

use std::{fs, process::ExitCode};

use anyhow::{Context as _, ensure};

use super::{Lang, NewArgs};
use crate::output::{Failure, print};

/// A file of a project: path and text. `{{name}}` is the name, `{{module}}` the name with underscores.
type Template = (&'static str, &'static str);

const RUST: &[Template] = &[
    ("Cargo.toml", include_str!("rust/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("rust/lib.rs.txt")),
    ("scheduler.yaml", include_str!("rust/scheduler.yaml.txt")),
    ("README.md", include_str!("rust/README.md.txt")),
    (".gitignore", "/target\n"),
    ("sdk/Cargo.toml", include_str!("rust/sdk.toml.txt")),
    ("sdk/src/lib.rs", include_str!("../../../sdk/rust/src/lib.rs")),
    ("sdk/src/testing.rs", include_str!("../../../sdk/rust/src/testing.rs")),
];

const GO: &[Template] = &[
    ("go.mod", include_str!("go/go.mod.txt")),
    ("main.go", include_str!("go/main.go.txt")),
    ("main_test.go", include_str!("go/main_test.go.txt")),
    ("scheduler.yaml", include_str!("go/scheduler.yaml.txt")),
    ("README.md", include_str!("go/README.md.txt")),
    (".gitignore", "*.wasm\n"),
    ("sdk/go.mod", include_str!("../../../sdk/go/go.mod")),
    ("sdk/plugin.go", include_str!("../../../sdk/go/plugin.go")),
    ("sdk/exports.go", include_str!("../../../sdk/go/exports.go")),
    ("sdk/register.go", include_str!("../../../sdk/go/register.go")),
    ("sdk/batch.go", include_str!("../../../sdk/go/batch.go")),
];

pub(super) fn new(args: &NewArgs) -> Result<ExitCode, Failure> {
    let NewArgs { name, lang, directory } = args;
    let is_small = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(is_small) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        let text = format!("flotilla: {name:?} is no name for a project; use small letters, digits and hyphens");
        return Err(Failure::input(vec![text]));
    }
    let directory = directory.clone().unwrap_or_else(|| name.into());
    let files = if *lang == Lang::Rust { RUST } else { GO };
    write(&directory, files, name).map_err(Failure::run)?;
    let shown = directory.display();
    print(|out| writeln!(out, "wrote {shown}; its README.md describes how to test, build and use it"))?;
    Ok(ExitCode::SUCCESS)
}

fn write(directory: &std::path::Path, files: &[Template], name: &str) -> anyhow::Result<()> {
    let shown = directory.display();
    ensure!(!directory.exists(), "{shown} is there already; name another folder with --directory");
    let module = name.replace('-', "_");
    // The plugin's name in configurations has kube-scheduler's style: TeamNodes.
    let title = |word: &str| word.get(..1).map_or_else(String::new, |first| first.to_uppercase() + &word[1..]);
    let plugin: String = name.split('-').map(title).collect();
    let place = std::path::absolute(directory).with_context(|| format!("cannot find {shown}"))?;
    for (path, text) in files {
        let path = directory.join(path);
        let text = text.replace("{{name}}", name).replace("{{module}}", &module).replace("{{plugin}}", &plugin);
        let text = text.replace("{{place}}", &place.display().to_string());
        let folder = path.parent().unwrap_or(directory);
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
