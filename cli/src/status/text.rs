//! The report as text: problems first, then one screen of tables.

use std::io::{self, Write};

use flotilla_coordinator::serve::status::{ClassStatus, CoordinatorStatus, EvaluationStatus, WorkerStatus};

use super::report::Report;
use crate::output::{printable, table};

/// Rows of each table on one screen.
const WORKERS: usize = 8;
const CLASSES: usize = 3;
const SLOWEST: usize = 3;

/// `wide` omits nothing.
pub(super) fn print(report: &Report, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", printable(&headline(report)))?;
    for problem in &report.problems {
        let sign = if problem.severe { '✗' } else { '!' };
        writeln!(out, "{sign} {}\n  next: {}", printable(&problem.what), printable(&problem.next))?;
    }
    match report.leader() {
        Some(leader) => {
            writeln!(out)?;
            of_leader(report, leader, wide, out)?;
        }
        None => {
            for status in report.statuses() {
                writeln!(out)?;
                numbers(status, out)?;
            }
        }
    }
    Ok(())
}

fn headline(report: &Report) -> String {
    let verdict = if report.healthy { "healthy" } else { "NOT healthy" };
    match report.leader() {
        Some(leader) => {
            let ready = leader.workers.iter().filter(|worker| worker.ready).count();
            let known = leader.workers.len() + leader.more_workers;
            format!("{verdict}: {} leads, with {ready} of {known} workers ready", leader.identity)
        }
        None => verdict.to_owned(),
    }
}

fn of_leader(report: &Report, leader: &CoordinatorStatus, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    numbers(leader, out)?;
    if let Some(lease) = report.lease.as_ref().filter(|_| wide) {
        let since = lease.since.as_deref().unwrap_or("an unknown time");
        let (holder, lease_name) = (printable(&lease.identity), printable(&lease.lease));
        writeln!(out, "lease      {lease_name} of {holder} since {since}, changed hands {} times", lease.transitions)?;
    }
    if !leader.workers.is_empty() {
        writeln!(out, "\n{}", workers(leader, wide))?;
    }
    if !leader.classes.is_empty() {
        let shown = if wide { leader.classes.len() } else { CLASSES };
        writeln!(out, "\n{}", classes(leader.classes.iter().take(shown)))?;
    }
    if !leader.slowest_evaluations.is_empty() {
        let shown = if wide { leader.slowest_evaluations.len() } else { SLOWEST };
        writeln!(out, "\n{}", slowest(leader.slowest_evaluations.iter().take(shown)))?;
    }
    Ok(())
}

fn count(status: &CoordinatorStatus) -> String {
    match status.workers.len() + status.more_workers {
        1 => "1 worker".to_owned(),
        known => format!("{known} workers"),
    }
}

fn numbers(status: &CoordinatorStatus, out: &mut dyn Write) -> io::Result<()> {
    let CoordinatorStatus { configuration, decisions, queue, .. } = status;
    let up = span(status.uptime_ms);
    let identity = printable(&status.identity);
    match (status.leading, &status.leader) {
        (true, _) => {
            let leading = span(status.leading_for_ms.unwrap_or(0));
            let epoch = status.epoch;
            writeln!(out, "leader     {identity} for {leading}, epoch {epoch}, version {}, up {up}", status.version)?;
        }
        (false, Some(leader)) => writeln!(out, "follower   {identity}, up {up}; {} leads", printable(leader))?,
        (false, None) => writeln!(out, "follower   {identity}, up {up}; no coordinator leads")?,
    }
    let (generation, acknowledged) = (configuration.generation, configuration.acknowledged_by);
    let profiles = configuration.profiles.join(", ");
    let by =
        if status.leading { format!(", acknowledged by {acknowledged} of {}", count(status)) } else { String::new() };
    writeln!(out, "config     generation {generation}{by}; profiles {}", printable(&profiles))?;
    writeln!(out, "cluster    {} nodes, revision {}", status.nodes, status.revision)?;
    let (now, ever) = (rate(decisions.per_second), rate(decisions.per_second_since_start));
    let (total, placed) = (decisions.total, decisions.placed);
    writeln!(out, "decisions  {now}/s in the last 10 s, {ever}/s since the start; {total} in all, {placed} placed")?;
    write!(out, "queue      {} active, {} backing off, ", queue.active, queue.backing_off)?;
    write!(out, "{} unschedulable, {} gated", queue.unschedulable, queue.gated)?;
    writeln!(out, "; {} binds in flight, {} preparing volumes", queue.binding, queue.preparing)
}

fn workers(leader: &CoordinatorStatus, wide: bool) -> String {
    let mut rows: Vec<&WorkerStatus> = leader.workers.iter().collect();
    rows.sort_by_key(|worker| (worker.ready, std::cmp::Reverse(worker.oldest_ms)));
    let shown = if wide { rows.len() } else { WORKERS };
    let more = rows.len().saturating_sub(shown) + leader.more_workers;
    let header = ["WORKER", "STATE", "NODES", "BEHIND", "IN FLIGHT", "P50", "P99", "CONFIG", "CERTIFICATE ENDS"];
    let cells = rows.into_iter().take(shown).map(|worker| {
        let state = match &worker.why {
            None => "ready",
            Some(why) if wide => why,
            Some(_) => "not ready",
        };
        [
            printable(&worker.name).into_owned(),
            printable(state).into_owned(),
            worker.nodes.to_string(),
            worker.revisions_behind.to_string(),
            worker.in_flight.to_string(),
            micros(worker.round_trip_p50_us),
            micros(worker.round_trip_p99_us),
            worker.generation.to_string(),
            printable(worker.certificate_not_after.as_deref().unwrap_or("-")).into_owned(),
        ]
    });
    let more = if more > 0 { format!("\nand {more} more; -o wide shows up to 256") } else { String::new() };
    trimmed(&table(header, cells).to_string()) + &more
}

fn classes<'a>(classes: impl Iterator<Item = &'a ClassStatus>) -> String {
    let header = ["WAITING", "PODS", "ACTIVE", "BACKOFF", "UNSCHEDULABLE", "GATED"];
    let cells = classes.map(|class| {
        let numbers = [class.active, class.backing_off, class.unschedulable, class.gated];
        let pods: usize = numbers.iter().sum();
        let name = format!("{}/{}", class.namespace, class.pod);
        let name = if pods > 1 { format!("{name} and alike") } else { name };
        let [active, backoff, unschedulable, gated] = numbers.map(|number| number.to_string());
        [printable(&name).into_owned(), pods.to_string(), active, backoff, unschedulable, gated]
    });
    trimmed(&table(header, cells).to_string()) + "\nflotilla explain pod NAME -n NAMESPACE explains why a pod waits"
}

fn slowest<'a>(evaluations: impl Iterator<Item = &'a EvaluationStatus>) -> String {
    let header = ["SLOWEST EVALUATIONS", "TOOK", "AGO", "LAST WORKER"];
    let cells = evaluations.map(|slow| {
        let pod = slow.pod.clone().unwrap_or_else(|| format!("(class {})", slow.class));
        let name = format!("{}/{pod}", slow.namespace);
        let (took, ago) = (span(slow.took_ms), span(slow.ago_ms));
        [printable(&name).into_owned(), took, ago, printable(&slow.last_worker).into_owned()]
    });
    trimmed(&table(header, cells).to_string())
}

/// Without trailing blanks.
fn trimmed(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

pub(crate) fn micros(us: Option<u64>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us) if us < 1_000 => format!("{us} us"),
        Some(us) => format!("{:.1} ms", us as f64 / 1_000.0),
    }
}

/// A rate with as many digits as necessary.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        120_000..7_200_000 => format!("{} min", seconds / 60),
        7_200_000..172_800_000 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests;
