//! `flotilla completion`: prints a shell completion script.

use std::process::ExitCode;

use clap_complete::{Shell, generate};

use crate::output::{end, print};

const INSTALL: &str = "\
Examples:
  # Bash, in this shell; the package bash-completion is needed
  source <(flotilla completion bash)
  # Bash, in every new shell
  flotilla completion bash > ~/.local/share/bash-completion/completions/flotilla

  # Zsh, in this shell; compinit has to run before
  source <(flotilla completion zsh)
  # Zsh, in every new shell
  flotilla completion zsh > \"${fpath[1]}/_flotilla\"

  # Fish, in this shell and in every new one
  flotilla completion fish | source
  flotilla completion fish > ~/.config/fish/completions/flotilla.fish

  # PowerShell, in this shell and in every new one
  flotilla completion powershell | Out-String | Invoke-Expression
  flotilla completion powershell >> $PROFILE

  # Elvish, in every new shell
  flotilla completion elvish >> ~/.config/elvish/rc.elv

Exit codes:
  0  the script is printed
  2  the flags are not valid";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = INSTALL)]
pub(crate) struct CompletionArgs {
    /// The shell to print the script for
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

pub(crate) fn command(args: &CompletionArgs, mut line: clap::Command) -> ExitCode {
    let mut script = Vec::new();
    generate(args.shell, &mut line, "flotilla", &mut script);
    end(print(|out| out.write_all(&script)).map(|()| ExitCode::SUCCESS))
}
