//! Runs the integration tests three at a time: they mostly wait for a control plane to start or a lease to expire.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write as _,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    fingerprint,
    progress::{Ticker, clear, side_by_side, words},
    record::Record,
    run::root,
    steps::{FIRST, SIDE_BY_SIDE, one_module},
};

/// With 2, half of the time of two cores is idle; with more than 3, tests wait for the cores.
const SIDES: u32 = 3;

/// Duration on two cores of a test that is not recorded yet.
const MEASURED: Duration = Duration::from_secs(60);

pub(crate) fn have_passed(record: &Record) -> bool {
    FIRST.iter().chain(SIDE_BY_SIDE).all(|test| record.has_passed(&recorded(test)))
}

pub(crate) fn expected(record: &Record, resume: bool) -> Duration {
    let of = |tests: &[&'static str]| -> Vec<Duration> {
        left(tests, record, resume).iter().map(|test| record.took(&recorded(test)).unwrap_or(MEASURED)).collect()
    };
    side_by_side(&of(FIRST), &of(SIDE_BY_SIDE), SIDES)
}

/// Runs all tests, even after a failure, and prints the output of each when it ends. The tests must be built.
pub(crate) fn run(record: &Record, resume: bool, logs: &Path) -> Result<()> {
    let (first, others) = (left(FIRST, record, resume), left(SIDE_BY_SIDE, record, resume));
    let count = first.len() + others.len();
    let passed = FIRST.len() + SIDE_BY_SIDE.len() - count;
    if passed > 0 {
        eprintln!("xtask: {passed} of the integration tests passed before on this tree and are skipped");
    }
    fs::create_dir_all(logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let under_way = Arc::default();
    let course = Course { record, logs, count, ended: AtomicUsize::new(0), failed: Mutex::default(), under_way };
    let under_way = Arc::clone(&course.under_way);
    let ticker = Ticker::silent(move || {
        let tests: Vec<&str> = locked(&under_way).iter().copied().collect();
        tests.join(", ")
    });
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
    drop(ticker);
    let failed = course.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let [one, ..] = &failed[..] {
        let again = command(one).join(" ");
        bail!("{} of {count} integration tests failed: {}; one alone: {again}", failed.len(), failed.join(", "));
    }
    Ok(())
}

struct Course<'a> {
    record: &'a Record,
    logs: &'a Path,
    count: usize,
    ended: AtomicUsize,
    failed: Mutex<Vec<&'static str>>,
    under_way: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Course<'_> {
    /// A failed test is recorded, and is no error.
    fn run(&self, test: &'static str) -> Result<()> {
        let begun = Instant::now();
        let name = recorded(test);
        self.record.begins(&name)?;
        let path = self.logs.join(format!("{test}.log"));
        let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        locked(&self.under_way).insert(test);
        let command = command(test);
        let (program, arguments) = command.split_first().context("a test without a command")?;
        let status = flotilla_test_programs::command(program.as_ref())
            .args(arguments)
            .stdout(log.try_clone()?)
            .stderr(log)
            .status()
            .with_context(|| format!("{program} cannot be started; is it installed and on the PATH?"))?;
        locked(&self.under_way).remove(test);
        // The lock keeps the outputs of tests apart.
        let mut failed = locked(&self.failed);
        let mut out = std::io::stdout().lock();
        clear();
        out.write_all(&fs::read(&path)?)?;
        out.flush()?;
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        let outcome = if status.success() { "ok" } else { "FAILED" };
        eprintln!("xtask: {test}: {outcome}, {} ({ended} of {})", words(begun.elapsed()), self.count);
        if status.success() {
            self.record.passes(&name, begun.elapsed(), fingerprint::now(root()).as_deref())?;
        } else {
            failed.push(test);
        }
        Ok(())
    }
}

/// The tests to run: with `resume` only those that have not passed.
fn left(tests: &[&'static str], record: &Record, resume: bool) -> Vec<&'static str> {
    tests.iter().copied().filter(|test| !resume || !record.has_passed(&recorded(test))).collect()
}

fn recorded(test: &str) -> String {
    format!("integration test {test}")
}

fn command(test: &str) -> Vec<String> {
    one_module(&format!("{test}::")).split(' ').map(str::to_owned).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
