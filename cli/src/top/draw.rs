//! The screen of `flotilla top`.

use flotilla_coordinator::serve::status::{CoordinatorStatus, WorkerStatus};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Paragraph, Row, Sparkline, Table},
};

use super::view::View;
use crate::{
    output::printable,
    status::{micros, rate, span},
};

const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const GOOD: Style = Style::new().fg(Color::Green);
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws the screen; lines that do not fit are omitted.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let area = frame.area();
    let Some(report) = &view.report else {
        return frame.render_widget(Paragraph::new("asking; q quits"), area);
    };
    let mut top = vec![headline(view)];
    for problem in report.problems.iter().take(3) {
        let style = if problem.severe { BAD } else { Style::new() };
        top.push(Line::styled(printable(&problem.what).into_owned(), style));
    }
    let Some(leader) = report.leader() else {
        return frame.render_widget(Paragraph::new(top), area);
    };
    top.extend(numbers(leader));
    let slow = u16::try_from(leader.slowest_evaluations.len().min(4)).unwrap_or(0);
    let top_height = u16::try_from(top.len()).unwrap_or(u16::MAX);
    let [head, spark, workers, slowest] = Layout::vertical([
        Constraint::Length(top_height),
        Constraint::Length(3),
        Constraint::Min(3),
        Constraint::Length(if slow > 0 { slow + 2 } else { 0 }),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(top), head);
    sparkline(frame, view, spark);
    frame.render_widget(worker_table(leader, workers), workers);
    frame.render_widget(slowest_table(leader), slowest);
}

fn headline(view: &View) -> Line<'static> {
    let Some(report) = &view.report else { return Line::default() };
    let verdict = if report.healthy { Span::styled("healthy", GOOD) } else { Span::styled("NOT healthy", BAD) };
    let who = report.leader().map(|leader| {
        let ready = leader.workers.iter().filter(|worker| worker.ready).count();
        format!(": {} leads, {ready} of {} workers ready", printable(&leader.identity), leader.workers.len())
    });
    Line::from(vec![verdict, Span::raw(" (q quits)"), Span::raw(who.unwrap_or_default())])
}

fn numbers(leader: &CoordinatorStatus) -> [Line<'static>; 2] {
    let (queue, decisions) = (&leader.queue, &leader.decisions);
    let waiting = format!(
        "queue: {} active, {} backing off, {} unschedulable, {} gated; {} binds in flight",
        queue.active, queue.backing_off, queue.unschedulable, queue.gated, queue.binding
    );
    let decided = format!(
        "decisions/s: {} in the last 10 s, {} since the start, {} in all",
        rate(decisions.per_second),
        rate(decisions.per_second_since_start),
        decisions.total
    );
    [Line::raw(waiting), Line::raw(decided)]
}

fn sparkline(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let fits = usize::from(area.width);
    let skipped = view.rates.len().saturating_sub(fits);
    let rates: Vec<u64> = view.rates.iter().skip(skipped).copied().collect();
    frame.render_widget(Sparkline::default().data(rates).style(Style::new().fg(Color::Cyan)), area);
}

/// Workers that are not ready first, then by longest answer.
fn worker_table(leader: &CoordinatorStatus, area: Rect) -> Table<'static> {
    let mut workers: Vec<&WorkerStatus> = leader.workers.iter().collect();
    workers.sort_by_key(|worker| {
        (worker.ready, std::cmp::Reverse((worker.oldest_ms, worker.round_trip_p99_us)), worker.name.clone())
    });
    let rows = workers.into_iter().take(usize::from(area.height)).map(|worker| {
        let state = if worker.ready { "ready" } else { "not ready" };
        let cells = [
            printable(&worker.name).into_owned(),
            state.to_owned(),
            worker.nodes.to_string(),
            worker.revisions_behind.to_string(),
            worker.in_flight.to_string(),
            micros(worker.round_trip_p50_us),
            micros(worker.round_trip_p99_us),
        ];
        Row::new(cells).style(if worker.ready { Style::new() } else { BAD })
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
    ];
    let header = Row::new(["WORKER", "STATE", "NODES", "BEHIND", "IN FLIGHT", "P50", "P99"]).style(HEAD);
    Table::new(rows, widths).header(header)
}

fn slowest_table(leader: &CoordinatorStatus) -> Table<'static> {
    let rows = leader.slowest_evaluations.iter().take(4).map(|slow| {
        let pod = slow.pod.clone().unwrap_or_else(|| format!("(class {})", slow.class));
        let name = format!("{}/{pod}", slow.namespace);
        let cells = [name, span(slow.took_ms), span(slow.ago_ms), slow.last_worker.clone()];
        Row::new(cells.map(|cell| printable(&cell).into_owned()))
    });
    let widths = [Constraint::Fill(2), Constraint::Length(9), Constraint::Length(9), Constraint::Fill(1)];
    let header = Row::new(["SLOWEST EVALUATIONS", "TOOK", "AGO", "LAST WORKER"]).style(HEAD);
    Table::new(rows, widths).header(header)
}

#[cfg(test)]
mod tests;
