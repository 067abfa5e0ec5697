//! The page's module matches the sources and has no imports.
//!
//! With `FLOTILLA_RECORD=1`, as set by `cargo xtask page-engine`, the module is built again.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use miniz_oxide::{deflate::compress_to_vec_zlib, inflate::decompress_to_vec_zlib};
use ring::digest::{Context, SHA256};

const MODULE: &str = "cli/assets/engine.wasm.zlib";
/// The digest of the module's sources, and the size of the module.
const RECORD: &str = "cli/assets/engine.txt";
const MANIFEST: &str = "cli/engine/Cargo.toml";
const LOCK: &str = "cli/engine/Cargo.lock";

/// The workspace crates in the module, and their directories.
const CRATES: [(&str, &str); 10] = [
    ("flotilla-account", "cli/account"),
    ("flotilla-cel", "framework/cel"),
    ("flotilla-cluster", "cli/cluster"),
    ("flotilla-engine", "cli/engine"),
    ("flotilla-framework", "framework"),
    ("flotilla-machine", "coordinator/machine"),
    ("flotilla-objects", "cli/objects"),
    ("flotilla-planted", "testing/planted"),
    ("flotilla-workloads", "cli/workloads"),
    ("flotilla-yaml", "configuration/yaml"),
];

/// A report grows by four thirds of the module: 2.7 million bytes of text for this many.
const MOST_BYTES: usize = 2_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The packages of a lock file: version, and whether it is from a registry.
fn packages(lock: &str) -> BTreeSet<(String, String, bool)> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let package =
        |block: &str| Some((value(block, "name")?, value(block, "version")?, value(block, "source").is_some()));
    lock.split("[[package]]").filter_map(package).collect()
}

/// The code of a file without comments and the tests at its end, because these do not change the module.
fn code(text: &str) -> String {
    let mut lines = text.lines().peekable();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.starts_with("mod tests {")) {
            break;
        }
        let line = line.trim();
        if !line.is_empty() && !line.starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// The Rust files below a folder, except tests.
fn sources(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).expect("UTF-8");
            let key = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            found.insert(key, code(&text));
        }
    }
}

/// The digest of the module's inputs: code, manifests, versions of dependencies, and the compiler.
fn digest() -> String {
    let lock = read(LOCK);
    let names: BTreeSet<String> = packages(&lock).into_iter().map(|(name, ..)| name).collect();
    let mut parts =
        BTreeMap::from([(LOCK.to_owned(), lock), ("rust-toolchain.toml".to_owned(), read("rust-toolchain.toml"))]);
    for (_, folder) in CRATES {
        sources(&root().join(folder).join("src"), &mut parts);
        let manifest = format!("{folder}/Cargo.toml");
        let text = read(&manifest);
        parts.insert(manifest, text.split("[dev-dependencies]").next().unwrap_or_default().to_owned());
    }
    // Features of workspace dependencies.
    let of = |line: &&str| line.split_once([' ', '.']).is_some_and(|(name, _)| names.contains(name));
    parts.insert("Cargo.toml".to_owned(), read("Cargo.toml").lines().filter(of).collect::<Vec<_>>().join("\n"));
    let mut context = Context::new(&SHA256);
    for (path, text) in &parts {
        context.update(format!("{path}\0{}\0{text}", text.len()).as_bytes());
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Builds the module reproducibly, without paths of this machine.
fn build() -> Vec<u8> {
    let root = root().canonicalize().expect("the repository");
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo"))).expect("a home of cargo");
    let flags = format!(
        "--remap-path-prefix={}=/flotilla\x1f--remap-path-prefix={}=/cargo",
        root.display(),
        home.canonicalize().unwrap_or(home).display()
    );
    let folder = root.join("target/engine");
    let status = Command::new("cargo")
        .args(["build", "--release", "--locked", "--target", "wasm32-unknown-unknown", "--manifest-path", MANIFEST])
        .current_dir(&root)
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env("CARGO_TARGET_DIR", &folder)
        .status();
    assert!(status.expect("cargo runs").success(), "the module cannot be built");
    fs::read(folder.join("wasm32-unknown-unknown/release/flotilla_engine.wasm")).expect("the module")
}

/// Reads an unsigned LEB128 number; also returns the rest.
fn number(bytes: &[u8]) -> (usize, &[u8]) {
    let (mut value, mut shift) = (0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return (value, &bytes[at + 1..]);
        }
    }
    panic!("a number without an end")
}

/// The sections of a module by number; custom sections have number 0.
fn sections(module: &[u8]) -> Vec<(u8, &[u8])> {
    assert_eq!(module.get(..8), Some(&b"\0asm\x01\0\0\0"[..]), "it is a module");
    let (mut rest, mut found) = (&module[8..], Vec::new());
    while let Some((kind, behind)) = rest.split_first() {
        let (length, behind) = number(behind);
        found.push((*kind, &behind[..length]));
        rest = &behind[length..];
    }
    found
}

const IMPORTS: u8 = 2;
const EXPORTS: u8 = 7;

fn exports(section: &[u8]) -> Vec<String> {
    let (count, mut rest) = number(section);
    let mut names = Vec::new();
    for _ in 0..count {
        let (length, behind) = number(rest);
        names.push(String::from_utf8(behind[..length].to_vec()).expect("a name"));
        rest = number(&behind[length + 1..]).1;
    }
    names
}

#[test]
fn the_module_of_the_page_is_made_of_the_sources() {
    let digest = digest();
    if env::var_os("FLOTILLA_RECORD").is_some() {
        let module = build();
        fs::write(root().join(MODULE), compress_to_vec_zlib(&module, 10)).expect("assets");
        fs::write(root().join(RECORD), format!("sources {digest}\nbytes {}\n", module.len())).expect("assets");
    }
    let packed = fs::read(root().join(MODULE)).expect("the module");
    let module = decompress_to_vec_zlib(&packed).expect("it is packed");
    let expected = format!("sources {digest}\nbytes {}\n", module.len());
    assert_eq!(
        read(RECORD),
        expected,
        "the page's module does not match the sources: build it again with `cargo xtask page-engine`"
    );
    eprintln!("the module has {} bytes, {} of them packed", module.len(), packed.len());
    assert!(packed.len() <= MOST_BYTES, "{} bytes are more than a report should grow by", packed.len());
}

#[test]
fn the_module_asks_for_nothing_and_gives_what_the_page_calls() {
    let packed = fs::read(root().join(MODULE)).expect("the module");
    let module = decompress_to_vec_zlib(&packed).expect("it is packed");
    let sections = sections(&module);
    assert!(sections.iter().all(|(kind, _)| *kind != IMPORTS), "it imports something");
    let (_, section) = sections.iter().find(|(kind, _)| *kind == EXPORTS).expect("it exports something");
    let names = exports(section);
    let script = read("cli/assets/engine.js");
    let called = script.match_indices("flotilla_").map(|(at, _)| {
        let rest = &script[at..];
        rest.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .next()
            .unwrap_or_default()
            .to_owned()
    });
    let called: BTreeSet<String> = called.chain(["memory".to_owned()]).collect();
    for name in &called {
        assert!(names.contains(name), "{name} is none of {names:?}");
    }
    assert_eq!(called.len(), 7, "{called:?}");
    let root = root().canonicalize().expect("the repository").display().to_string();
    assert!(!String::from_utf8_lossy(&module).contains(&root), "it names the folder that it was built in");
}

#[test]
fn the_module_is_locked_to_what_the_commands_are_made_of() {
    let (of_module, of_commands) = (packages(&read(LOCK)), packages(&read("Cargo.lock")));
    for package in &of_module {
        let is_engine = package.0 == "flotilla-engine";
        assert!(
            is_engine || of_commands.contains(package),
            "{package:?} is in {LOCK}, and Cargo.lock has another version"
        );
    }
    let own: BTreeSet<&str> =
        of_module.iter().filter(|(.., is_foreign)| !is_foreign).map(|(name, ..)| name.as_str()).collect();
    let known: BTreeSet<&str> = CRATES.into_iter().map(|(name, _)| name).filter(|name| own.contains(name)).collect();
    assert_eq!(known, own, "a crate whose sources are not watched over");
    assert_eq!(known.len(), CRATES.len(), "a crate that is in no module");
}
