//! Hash of everything that a result depends on: the files of the checkout, the tools and the environment.

use std::{
    env,
    ffi::OsStr,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    process::Command,
};

/// Prefixes of variables that affect a build or a test.
const VARIABLES: [&str; 13] = [
    "AR",
    "CARGO_BUILD_",
    "CARGO_ENCODED_",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "CC",
    "CFLAGS",
    "FLOTILLA_",
    "GO",
    "PROPTEST_",
    "RUSTC",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
];

#[derive(Debug, Clone, Hash)]
struct Parts {
    head: Vec<u8>,
    /// Changes of tracked files.
    changed: Vec<u8>,
    new: Vec<(Vec<u8>, Vec<u8>)>,
    tools: Vec<Vec<u8>>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
}

/// `None` outside a git checkout.
pub(crate) fn now(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| output(root, "git", arguments);
    // The user's git settings must not change the output.
    let diff =
        ["diff", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-renames", "--no-textconv", "HEAD"];
    let names = git(&["ls-files", "-z", "--others", "--exclude-standard"])?;
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let parts = Parts {
        head: git(&["rev-parse", "HEAD^{tree}"])?,
        changed: git(&diff)?,
        new: names.map(|name| (name.to_vec(), content(&root.join(OsStr::from_bytes(name))))).collect(),
        tools: [("rustc", "-vV"), ("go", "version")]
            .map(|(tool, question)| output(root, tool, &[question]).unwrap_or_default())
            .to_vec(),
        environment: environment(
            env::vars_os().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())),
        ),
    };
    Some(parts.number())
}

impl Parts {
    fn number(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

fn environment(all: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let counts = |name: &[u8]| VARIABLES.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
    let mut chosen: Vec<_> = all.filter(|(name, _)| counts(name)).collect();
    chosen.sort();
    chosen
}

fn content(path: &Path) -> Vec<u8> {
    match fs::read_link(path) {
        Ok(to) => to.as_os_str().as_bytes().to_vec(),
        Err(_) => fs::read(path).unwrap_or_default(),
    }
}

fn output(folder: &Path, program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new(program).args(arguments).current_dir(folder).output().ok()?;
    output.status.success().then_some(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        Parts {
            head: b"tree".to_vec(),
            changed: Vec::new(),
            new: vec![(b"a".to_vec(), b"1".to_vec())],
            tools: vec![b"rustc 1".to_vec()],
            environment: Vec::new(),
        }
    }

    #[test]
    fn the_same_parts_have_the_same_number() {
        assert_eq!(parts().number(), parts().number());
    }

    #[test]
    fn a_change_of_any_part_is_another_number() {
        let others = [
            Parts { head: b"other".to_vec(), ..parts() },
            Parts { changed: b"+a line".to_vec(), ..parts() },
            Parts { new: vec![(b"a".to_vec(), b"2".to_vec())], ..parts() },
            Parts { new: vec![(b"b".to_vec(), b"1".to_vec())], ..parts() },
            Parts { new: Vec::new(), ..parts() },
            Parts { tools: vec![b"rustc 2".to_vec()], ..parts() },
            Parts { environment: vec![(b"RUSTFLAGS".to_vec(), b"-O".to_vec())], ..parts() },
        ];
        let mut numbers: Vec<String> = others.iter().map(Parts::number).chain([parts().number()]).collect();
        numbers.sort();
        numbers.dedup();
        assert_eq!(numbers.len(), others.len() + 1);
    }

    #[test]
    fn variables_count_that_change_a_build_and_no_others() {
        let all = ["TERM", "RUSTFLAGS", "FLOTILLA_SEED", "HOME", "CARGO_PKG_NAME"];
        let chosen = environment(all.iter().map(|name| (name.as_bytes().to_vec(), b"x".to_vec())));
        let names: Vec<_> = chosen.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
        assert_eq!(names, ["FLOTILLA_SEED", "RUSTFLAGS"]);
    }

    #[test]
    fn a_checkout_has_another_number_when_a_file_is_changed_or_new_and_the_old_one_when_that_is_undone() {
        let folder = tempfile::tempdir().expect("there is a temporary folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("it can be written");
        let git = |arguments: &[&str]| assert!(output(folder.path(), "git", arguments).is_some(), "{arguments:?}");
        assert_eq!(now(folder.path()), None);
        write("known", "1");
        write(".gitignore", "ignored");
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"]);
        let first = now(folder.path());
        assert!(first.is_some());
        write("ignored", "1");
        assert_eq!(now(folder.path()), first);
        write("known", "2");
        assert_ne!(now(folder.path()), first);
        write("known", "1");
        assert_eq!(now(folder.path()), first);
        write("new", "1");
        assert_ne!(now(folder.path()), first);
    }
}
