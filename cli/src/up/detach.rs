//! `flotilla up --detach`: starts the background process, shows its progress, and returns.

use std::{
    env,
    fs::{self, File},
    process::Stdio,
};

use anyhow::{Context as _, bail};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use super::{
    UpOutcome, args::UpArgs, notes::Note, notes::Notifier as _, notes::Screen, process_id::ProcessId, running::Running,
    state::StateFolder, supervise::Ends,
};

/// Log lines of a background process that ended without a message.
const TAIL_LINES: usize = 20;

/// Starts the background process and waits until its cluster is up.
///
/// # Errors
/// The cluster did not start.
pub(super) async fn detach(
    args: &UpArgs,
    folder: &StateFolder,
    is_up: impl FnOnce(&Running),
) -> anyhow::Result<UpOutcome> {
    let mut ends = Ends::listen().context("cannot listen for signals")?;
    folder.create()?;
    let log = folder.log();
    let output = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let this = env::current_exe().context("cannot find the file of this program")?;
    let mut supervisor = Command::new(this)
        .args(args.of_the_supervisor())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(output)
        .spawn()
        .context("cannot start the process in the background")?;
    let id = supervisor.id().map(ProcessId::of);
    let mut notes = BufReader::new(supervisor.stdout.take().context("its output is a pipe")?).lines();
    let screen = Screen::new();
    let mut interrupted = false;
    loop {
        let line = tokio::select! {
            line = notes.next_line() => line.context("cannot read the output of the background process")?,
            _ = ends.next() => {
                interrupted = true;
                if let Some(id) = id {
                    id.terminate().context("cannot end the process in the background")?;
                }
                continue;
            }
        };
        match line.as_deref().map(serde_json::from_str) {
            Some(Ok(Note::Up { running })) => {
                is_up(&running);
                return Ok(UpOutcome::Detached);
            }
            Some(Ok(Note::Failed { why })) => {
                supervisor.wait().await.context("cannot wait for the process in the background")?;
                bail!(why)
            }
            Some(Ok(note)) => screen.tell(note),
            // A line of another program.
            Some(Err(_)) => {}
            None if interrupted => return Ok(UpOutcome::Interrupted),
            None => {
                let status = supervisor.wait().await.context("cannot wait for the process in the background")?;
                let words = fs::read_to_string(&log).unwrap_or_default();
                let words: Vec<&str> = words.lines().collect();
                let tail = words[words.len().saturating_sub(TAIL_LINES)..].join("\n");
                bail!("the process in the background has ended ({status}); the end of {}:\n{tail}", log.display())
            }
        }
    }
}
