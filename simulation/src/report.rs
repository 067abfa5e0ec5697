//! Runs seeds and reports the results.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::ValueEnum as _;
use flotilla_planted::DEFECTS;
use flotilla_simulation::{
    course::RunOutcome,
    guard::Guard,
    minimise::minimise,
    plan::{Hostile, Plan},
};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Args;

/// Number of failed runs after which the search stops: their causes are mostly the same.
const ENOUGH: usize = 5;

/// Executes the command line; `false` if a violation was found.
pub(crate) fn carry_out(args: &Args) -> anyhow::Result<bool> {
    if args.defect.as_deref() == Some("list") {
        DEFECTS.iter().for_each(|(name, what)| println!("{name:<35} {what}"));
        return Ok(true);
    }
    let defect = args.defect.as_deref().map(named).transpose()?;
    match args.seed {
        Some(seed) => Ok(one(&plan_of(args, seed, defect))),
        None if args.defects => all_defects(args),
        None => {
            let sum = many(args, defect, ENOUGH)?;
            Ok(tell(args, sum))
        }
    }
}

fn name_of(hostile: Hostile) -> String {
    hostile.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

fn named(name: &str) -> anyhow::Result<&'static str> {
    let found = DEFECTS.iter().find(|(known, _)| *known == name);
    found.map(|(known, _)| *known).with_context(|| format!("there is no defect {name:?}; --defect list lists them"))
}

fn plan_of(args: &Args, seed: u64, defect: Option<&'static str>) -> Plan {
    let plan = Plan { defect, ..Plan::draw(seed) };
    match args.hostile {
        Some(hostile) => plan.with_hostile(hostile),
        None => plan,
    }
}

fn all_defects(args: &Args) -> anyhow::Result<bool> {
    let mut missed = 0;
    for (name, _) in DEFECTS {
        let sum = many(args, Some(name), 1)?;
        match sum.failed.first() {
            Some((plan, outcome)) => {
                let found = outcome.violations.first().map_or("", |violation| violation.invariant);
                println!("{name:<35} found after {:>5} runs by {found}, seed {}", sum.runs, plan.seed);
            }
            None => {
                missed += 1;
                println!("{name:<35} NOT FOUND in {} runs", sum.runs);
            }
        }
    }
    println!("{} of {} defects found", DEFECTS.len() - missed, DEFECTS.len());
    Ok(missed == 0)
}

fn one(plan: &Plan) -> bool {
    println!("{plan:#?}");
    let mut guard = Guard::default();
    let outcome = guard.run(plan);
    outcome.recent.iter().for_each(|line| println!("{line}"));
    describe(&outcome);
    let again = guard.run(plan);
    if again.hash != outcome.hash {
        println!("the same plan led to different histories: {:x} and {:x}", outcome.hash, again.hash);
        if let Some((one, other)) = outcome.recent.iter().zip(&again.recent).find(|(one, other)| one != other) {
            println!("{one}\n{other}");
        }
    }
    outcome.violations.is_empty() && again.hash == outcome.hash
}

fn describe(outcome: &RunOutcome) {
    let RunOutcome { commits, binds, evictions, lasted, hash, violations, most_work, .. } = outcome;
    println!(
        "{commits} commits, {binds} bindings and {evictions} evictions in {lasted:?} of virtual time; at most {most_work} units of \
         work in an event; history {hash:x}"
    );
    for violation in violations {
        println!("{} at {} ms: {}", violation.invariant, violation.at_ms, violation.what);
    }
}

#[derive(Default)]
struct Counters {
    next: AtomicU64,
    enough: AtomicBool,
    commits: AtomicU64,
    binds: AtomicU64,
    evictions: AtomicU64,
    own_ms: AtomicU64,
    most_work: AtomicU64,
    failed: Mutex<Vec<(Plan, RunOutcome)>>,
}

struct Sum {
    runs: u64,
    threads: usize,
    took: Duration,
    counters: Counters,
    failed: Vec<(Plan, RunOutcome)>,
}

/// Runs until `enough` runs have failed.
#[expect(clippy::disallowed_methods, reason = "how long the runs take is for people")]
fn many(args: &Args, defect: Option<&'static str>, enough: usize) -> anyhow::Result<Sum> {
    let threads = args.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let (counters, began) = (Counters::default(), Instant::now());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {per_sec}, {eta} left")?;
    let bar = ProgressBar::new(args.seeds).with_style(style);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(args, defect, enough, &counters, &bar));
        }
    });
    bar.finish_and_clear();
    let failed = std::mem::take(&mut *counters.failed.lock().unwrap_or_else(PoisonError::into_inner));
    let runs = counters.next.load(Ordering::Relaxed).min(args.seeds);
    Ok(Sum { runs, threads, took: began.elapsed(), counters, failed })
}

/// Prints the results; `false` if a violation was found.
fn tell(args: &Args, sum: Sum) -> bool {
    let Sum { runs, threads, took, counters, failed } = sum;
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{runs} runs in {:.1} s, {:.1} a second on {threads} threads; {} hours of virtual time, {} commits, {} bindings, {} evictions, at most {} units of \
         work in an event",
        took.as_secs_f64(),
        runs as f64 / took.as_secs_f64(),
        of(&counters.own_ms) / 3_600_000,
        of(&counters.commits),
        of(&counters.binds),
        of(&counters.evictions),
        of(&counters.most_work),
    );
    for (plan, outcome) in &failed {
        println!();
        if !args.whole {
            let (smaller, outcome) = minimise(plan, outcome);
            println!("minimised: {smaller:#?}");
            outcome.recent.iter().for_each(|line| println!("{line}"));
            describe(&outcome);
        }
        println!("seed {}:", plan.seed);
        describe(outcome);
        let defect = plan.defect.map_or(String::new(), |defect| format!(" --defect {defect}"));
        let hostile = args.hostile.map_or(String::new(), |hostile| format!(" --hostile {}", name_of(hostile)));
        println!("again: cargo xtask sim --seed {}{defect}{hostile}", plan.seed);
    }
    if failed.is_empty() {
        println!("no invariant violated");
    }
    failed.is_empty()
}

fn work(args: &Args, defect: Option<&'static str>, enough: usize, counters: &Counters, bar: &ProgressBar) {
    let mut guard = Guard::default();
    while !counters.enough.load(Ordering::Relaxed) {
        let number = counters.next.fetch_add(1, Ordering::Relaxed);
        if number >= args.seeds {
            return;
        }
        let plan = plan_of(args, args.from + number, defect);
        let outcome = guard.run(&plan);
        counters.most_work.fetch_max(outcome.most_work, Ordering::Relaxed);
        bar.inc(1);
        for (counter, more) in [
            (&counters.commits, outcome.commits),
            (&counters.binds, outcome.binds),
            (&counters.evictions, outcome.evictions),
            (&counters.own_ms, u64::try_from(outcome.lasted.as_millis()).unwrap_or(0)),
        ] {
            counter.fetch_add(more, Ordering::Relaxed);
        }
        if !outcome.violations.is_empty() {
            let mut failed = counters.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.push((plan, outcome));
            counters.enough.store(failed.len() >= enough, Ordering::Relaxed);
        }
    }
}
