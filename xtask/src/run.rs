//! Runs the steps of a task in order; records passed steps and skips them later.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    args::{Part, Task},
    background::{self, Background},
    compile_cost, fingerprint, go_programs,
    progress::{Cost, Estimate, Ticker, heading, shortened, table, words},
    record::Record,
    side_by_side,
    steps::{self, Step, Work},
};

pub(crate) fn task(task: Task) -> Result<()> {
    let steps = match task {
        Task::GoPrograms { part } => return go_programs::build(part),
        Task::LastPrograms => return last_programs(),
        Task::Test { all: false, fresh } => {
            let steps = [steps::check(), steps::unit(root())].concat();
            // An interrupted run of all tests keeps the integration tests that have passed.
            let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
            return test(steps, fresh, |passed| names.contains(&passed));
        }
        Task::Test { all: true, fresh } => {
            go_programs::check()
                .context("`cargo xtask test --all` needs Go; without it there is `cargo xtask test`")?;
            let last = vec![steps::real_node()];
            return test([steps::check(), steps::unit(root()), steps::integration(), last].concat(), fresh, |_| true);
        }
        Task::Integration => {
            go_programs::check()?;
            steps::integration()
        }
        Task::Check => steps::check(),
        Task::Unit => steps::unit(root()),
        Task::RealNode => vec![steps::real_node()],
        Task::Differential(differential) => steps::differential(differential),
        Task::Chaos(chaos) => steps::after_programs(vec![steps::chaos(chaos)]),
        Task::E2e(e2e) => steps::after_programs(vec![steps::e2e(e2e)]),
        Task::Upstream(upstream) => steps::after_programs(vec![steps::upstream(upstream)]),
        Task::Clients => steps::after_programs(vec![steps::clients()]),
        Task::Versions(versions) => steps::after_programs(steps::versions(versions)),
        Task::Image { arguments } => steps::on_musl(vec![steps::image(arguments)]),
        Task::Dist { arguments } => steps::on_musl(vec![steps::dist(arguments)]),
        Task::Sim { arguments } => steps::sim(arguments),
        Task::Perf { arguments } => vec![steps::perf(arguments)],
        Task::PageEngine => vec![steps::page_engine()],
        Task::Bench => steps::bench(),
    };
    Course::new(steps, false).run()
}

/// Builds the programs of the last integration tests. The cost of the first command is checked only after a cold build.
fn last_programs() -> Result<()> {
    let is_cold = compile_cost::is_cold(root());
    let first = Course::new(vec![steps::yardstick(), steps::first_command()], false);
    first.run()?;
    go_programs::build(Some(Part::Special))?;
    let cpu = |index: usize| first.costs.borrow().get(index).filter(|_| is_cold).and_then(|cost: &Cost| cost.cpu);
    compile_cost::check(root(), cpu(1), cpu(0))
}

/// Resumes the last run on this tree. When all steps have passed, their record is deleted, so that the next run starts over.
fn test(steps: Vec<Step>, fresh: bool, is_of_this: impl Fn(&str) -> bool) -> Result<()> {
    let course = Course::new(steps, true);
    if fresh {
        course.record.forget(&is_of_this)?;
    }
    if course.record.is_of_no_tree() {
        eprintln!("xtask: not a git checkout: a failed run cannot resume");
    }
    course.run().inspect_err(|_| {
        eprintln!("xtask: passed steps are recorded: run the same command again to resume, as long as no file changes");
    })?;
    course.record.forget(is_of_this)
}

struct Course {
    steps: Vec<Step>,
    record: Record,
    resume: bool,
    begun: Instant,
    costs: RefCell<Vec<Cost>>,
}

impl Course {
    fn new(steps: Vec<Step>, resume: bool) -> Self {
        let record = Record::open(&folder(), fingerprint::now(root()));
        Self { steps, record, resume, begun: Instant::now(), costs: RefCell::default() }
    }

    fn run(&self) -> Result<()> {
        let mut go = self.start_go_programs()?;
        for (index, step) in self.steps.iter().enumerate() {
            if let Some(go) = &mut go {
                go.has_ended()?;
            }
            if self.is_done(step) {
                let count = self.steps.len();
                eprintln!("xtask: step {} of {count}: {}: passed before on this tree, skipped", index + 1, step.name);
                continue;
            }
            self.tell(index, go.as_ref());
            let (begun, cpu) = (Instant::now(), cpu_of_children());
            self.record.begins(step.name)?;
            self.run_one(step, go.as_mut())?;
            let cpu = cpu_of_children().zip(cpu).map(|(after, before)| after.saturating_sub(before));
            self.costs.borrow_mut().push(Cost { name: step.name, wall: begun.elapsed(), cpu });
            eprintln!("xtask: {}: passed in {}", step.name, words(begun.elapsed()));
            if !matches!(step.work, Work::GoPrograms) {
                self.record.passes(step.name, begun.elapsed(), fingerprint::now(root()).as_deref())?;
            }
        }
        eprint!("{}", table(&self.costs.borrow()));
        eprintln!("xtask: all passed in {}", words(self.begun.elapsed()));
        Ok(())
    }

    /// Starts the background build if a remaining step needs it.
    fn start_go_programs(&self) -> Result<Option<Background>> {
        let needed = self.steps.iter().any(|step| step.needs_go() && !self.is_done(step));
        needed.then(|| Background::start(background::GO_PROGRAMS, &folder())).transpose()
    }

    fn is_done(&self, step: &Step) -> bool {
        match step.work {
            Work::Command { .. } => self.resume && self.record.has_passed(step.name),
            Work::SideBySide => self.resume && side_by_side::have_passed(&self.record),
            Work::GoPrograms => !self.steps.iter().any(|other| other.needs_go() && !self.is_done(other)),
        }
    }

    fn tell(&self, index: usize, go: Option<&Background>) {
        let step = &self.steps[index];
        let estimate = self.estimate(step);
        let what = match &step.work {
            Work::Command { words, .. } => shortened(&words.join(" ")),
            Work::GoPrograms => "waits for the build in the background".to_owned(),
            Work::SideBySide => "cargo test --workspace --test integration -- ..., three modules at a time".to_owned(),
        };
        let count = self.steps.len();
        let times = (self.begun.elapsed(), self.remaining(index, go.map(Background::elapsed).unwrap_or_default()));
        eprintln!("{}", heading((index + 1, count), (step.name, &what, step.why), estimate, times));
    }

    /// Estimates the steps from `from` on. The Go programs build in parallel, so they add only the time by which they exceed the steps
    /// before.
    fn remaining(&self, from: usize, go_elapsed: Duration) -> Duration {
        self.steps[from..].iter().filter(|step| !self.is_done(step)).fold(Duration::ZERO, |sum, step| {
            let takes = self.estimate(step).duration();
            match step.work {
                Work::GoPrograms => sum.max(takes.saturating_sub(go_elapsed)),
                Work::Command { .. } | Work::SideBySide => sum + takes,
            }
        })
    }

    fn estimate(&self, step: &Step) -> Estimate {
        match step.work {
            Work::SideBySide => {
                let expected = side_by_side::expected(&self.record, self.resume);
                self.record.took(step.name).map_or(Estimate::Measured(expected), |_| Estimate::LastTime(expected))
            }
            // The build time depends on the programs that exist already.
            Work::GoPrograms => Estimate::Measured(step.measured),
            Work::Command { .. } => Estimate::of(&self.record, step.name, step.measured),
        }
    }

    fn run_one(&self, step: &Step, go: Option<&mut Background>) -> Result<()> {
        match &step.work {
            Work::Command { words, variables } => command(step.name, words, variables),
            Work::GoPrograms => go.map_or(Ok(()), Background::wait),
            Work::SideBySide => {
                let mut builds = Background::start(background::LAST_PROGRAMS, &folder())?;
                side_by_side::run(&self.record, self.resume, &folder().join("integration-tests"))?;
                builds.wait()
            }
        }
    }
}

fn command(name: &str, words: &[String], variables: &[(&'static str, String)]) -> Result<()> {
    let (program, arguments) = words.split_first().context("a step without a command")?;
    let ticker = Ticker::talking(name.to_owned());
    let status = flotilla_test_programs::command(program.as_ref())
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .status()
        .with_context(|| format!("{program} cannot be started; is it installed and on the PATH?"))?;
    drop(ticker);
    if !status.success() {
        bail!("{name} failed ({status}); run it alone with: {}", words.join(" "));
    }
    Ok(())
}

/// CPU time of all ended descendants; `None` without `/proc`.
fn cpu_of_children() -> Option<Duration> {
    /// Milliseconds per tick of `/proc/PID/stat`: USER_HZ is 100 on all Linux architectures of Rust.
    const TICK_MS: u64 = 10;
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name is in parentheses and may contain spaces; cutime and cstime are the 14th and 15th field after it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(13)? + ticks(14)?) * TICK_MS))
}

fn folder() -> PathBuf {
    root().join("target/xtask")
}

pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}
