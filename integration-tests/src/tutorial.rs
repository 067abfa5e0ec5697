//! Runs the commands of a documentation page.

use std::{env, path::Path, process::Command};

use anyhow::{Context as _, ensure};

/// Commands in a page's `console` blocks, with their here-documents up to `END`.
#[must_use]
pub fn commands(page: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut in_block, mut in_here) = (false, false);
    for line in page.lines() {
        // Blocks in lists are indented.
        let line = if in_here { line } else { line.trim_start() };
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if let (true, Some(command)) = (in_here, commands.last_mut()) {
            command.push('\n');
            command.push_str(line);
            in_here = line != "END";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            in_here = command.contains("<<'END'");
            commands.push(command.to_owned());
        }
    }
    commands
}

/// Section of a page, up to the next heading of the same level.
///
/// # Errors
/// The heading is missing.
pub fn section<'a>(page: &'a str, heading: &str) -> anyhow::Result<&'a str> {
    let (_, rest) = page.split_once(&format!("{heading}\n")).with_context(|| format!("no {heading:?} in the page"))?;
    let level = heading.split(' ').next().unwrap_or("#");
    Ok(rest.split_once(&format!("\n{level} ")).map_or(rest, |(section, _)| section))
}

/// Runs commands in one shell with `programs` on the `PATH`, up to the first failure, and then `last` in any case. Returns the output.
///
/// # Errors
/// A command fails; contains the output.
pub fn typed(
    folder: &Path,
    programs: &Path,
    variables: &[(&str, &Path)],
    commands: &[String],
    last: &str,
) -> anyhow::Result<String> {
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap_or_default());
    let script = format!("trap '{last}' EXIT\nset -ex\n{}\n", commands.join("\n"));
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(folder).env("PATH", path).envs(variables.iter().copied());
    // Users do not have cargo's variables for tests.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let is_of_cargo = name == "CARGO" || name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if is_of_cargo || ["RUST_LOG", "KUBECONFIG", "LD_LIBRARY_PATH"].contains(&&*name) {
            shell.env_remove(name);
        }
    }
    let output = shell.output().context("bash cannot be started")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    Ok(text(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::{commands, section};

    #[test]
    fn what_is_typed_is_told_from_the_rest() {
        let page = "# A\n## B\n```console\n$ cat > f <<'END'\n  a\nEND\nsaid\n$ ls\n```\n1. x\n   ```console\n   $ cd f\n   ```\n\
                    ```yaml\n$ no\n```\n## C\n```console\n$ rm\n```\n";
        assert_eq!(commands(section(page, "## B").expect("there")), ["cat > f <<'END'\n  a\nEND", "ls", "cd f"]);
        assert_eq!(commands(page).len(), 4);
        assert!(section(page, "## D").is_err());
    }
}
