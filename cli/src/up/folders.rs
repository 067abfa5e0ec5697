//! Cache and state directories, by the XDG Base Directory Specification.

use std::{
    env,
    ffi::OsString,
    path::{self, PathBuf},
};

use anyhow::Context as _;

type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The directory of built programs: the requested one, or `flotilla` in the user's cache directory.
pub(super) fn cache(asked: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let found = match asked {
        Some(folder) => folder,
        None => of_user(&|name| env::var_os(name), "XDG_CACHE_HOME", ".cache").context(
            "neither XDG_CACHE_HOME nor HOME is set; set --cache-dir to the directory for the built \
            programs",
        )?,
    };
    path::absolute(&found).with_context(|| format!("--cache-dir {} is no path", found.display()))
}

/// The directory of the state file: `FLOTILLA_STATE_DIR`, or `flotilla` in the user's state directory.
pub(super) fn state() -> anyhow::Result<PathBuf> {
    let lookup = |name: &str| env::var_os(name);
    let found = given(&lookup, "FLOTILLA_STATE_DIR").or_else(|| of_user(&lookup, "XDG_STATE_HOME", ".local/state"));
    let found = found.context("neither XDG_STATE_HOME nor HOME is set; set FLOTILLA_STATE_DIR to a folder")?;
    path::absolute(&found).with_context(|| format!("FLOTILLA_STATE_DIR {} is no path", found.display()))
}

fn of_user(lookup: Lookup<'_>, variable: &str, below_home: &str) -> Option<PathBuf> {
    // The specification requires relative paths to be ignored.
    let base = given(lookup, variable).filter(|folder| folder.is_absolute());
    base.or_else(|| given(lookup, "HOME").map(|home| home.join(below_home))).map(|base| base.join("flotilla"))
}

fn given(lookup: Lookup<'_>, variable: &str) -> Option<PathBuf> {
    lookup(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_folder_of_the_user_is_where_the_specification_puts_it() {
        for (variables, expected) in [
            (&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")][..], Some("/c/flotilla")),
            (&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")], Some("/h/.cache/flotilla")),
            (&[("XDG_CACHE_HOME", ""), ("HOME", "/h")], Some("/h/.cache/flotilla")),
            (&[("HOME", "")], None),
            (&[], None),
        ] {
            let lookup = |name: &str| {
                variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(*value))
            };
            let found = of_user(&lookup, "XDG_CACHE_HOME", ".cache");
            assert_eq!(found.as_deref(), expected.map(Path::new), "{variables:?}");
        }
    }
}
