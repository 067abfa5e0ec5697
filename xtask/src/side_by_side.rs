//! Integration tests, two at a time: each mostly waits, for a control plane to start or for a lead to run out.
//!
//! Knows: how tests are built and run, and how what they print is kept apart. Must not know: what any of them tests.

use std::{
    io::{Read as _, Seek as _, Write as _},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use crate::{root, step};

/// More than two would make the waiting long on the machines that this is run on, which have two cores.
const SIDES: usize = 2;

/// Builds the tests and runs them: those of `first` one after the other, then the others two at a time, in this order. All
/// are run, whatever becomes of those before; what each has printed is shown when it has ended.
///
/// # Errors
/// Where they do not build; and with the names of those that failed.
pub(crate) fn run(first: &[&str], others: &[&str]) -> Result<()> {
    let tests = first.iter().chain(others).flat_map(|test| ["--test", test]);
    let build: Vec<&str> =
        ["cargo", "test", "--quiet", "--workspace"].into_iter().chain(tests).chain(["--no-run"]).collect();
    step("integration tests, built", &build)?;
    let begun = Instant::now();
    let course = Course { count: first.len() + others.len(), ended: AtomicUsize::new(0), failed: Mutex::default() };
    first.iter().try_for_each(|test| course.run(test))?;
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let side = || {
            while let Some(test) = others.get(next.fetch_add(1, Ordering::Relaxed)) {
                course.run(test)?;
            }
            Ok(())
        };
        let sides: Vec<_> = (0..SIDES).map(|_| scope.spawn(side)).collect();
        sides.into_iter().try_for_each(|side| side.join().unwrap_or_else(|_| bail!("a side of the tests panicked")))
    })?;
    let failed = course.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let [one, ..] = &failed[..] {
        let again = command(one).join(" ");
        bail!(
            "{} of {} integration tests failed: {}; one alone: {again}",
            failed.len(),
            course.count,
            failed.join(", ")
        );
    }
    eprintln!("xtask: integration tests: {} s", begun.elapsed().as_secs());
    Ok(())
}

/// How the tests fare.
struct Course {
    count: usize,
    ended: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

impl Course {
    /// Runs one test to its end. That it fails is no error.
    fn run(&self, test: &str) -> Result<()> {
        let begun = Instant::now();
        let mut printed = tempfile::tempfile().context("cannot make a temporary file; is TMPDIR writable?")?;
        let [program, arguments @ ..] = &command(test);
        let status = Command::new(program)
            .args(arguments)
            .current_dir(root())
            .stdout(printed.try_clone()?)
            .stderr(printed.try_clone()?)
            .status()
            .with_context(|| format!("{program} cannot be started; is it installed and on the PATH?"))?;
        // One at a time from here, so that nothing is mixed.
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        printed.rewind()?;
        let mut bytes = Vec::new();
        printed.read_to_end(&mut bytes)?;
        let mut out = std::io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()?;
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        let outcome = if status.success() { "ok" } else { "FAILED" };
        eprintln!("xtask: {test}: {outcome}, {} s ({ended} of {})", begun.elapsed().as_secs(), self.count);
        if !status.success() {
            failed.push(test.to_owned());
        }
        Ok(())
    }
}

/// What runs one of them.
fn command(test: &str) -> [&str; 7] {
    // All of the workspace is selected, as when it was built: with other features every dependency would be built again.
    ["cargo", "test", "--workspace", "--test", test, "--", "--test-threads=1"]
}
