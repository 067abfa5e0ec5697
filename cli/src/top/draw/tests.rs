//! Reports and their screens.

use flotilla_coordinator::serve::status::{DecisionStatus, EvaluationStatus};
use jiff::Timestamp;
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::status::{Answer, Report};

fn worker(name: &str, ready: bool, p99: u64) -> WorkerStatus {
    WorkerStatus {
        name: name.into(),
        ready,
        why: (!ready).then(|| "not connected: refused".to_owned()),
        version: Some("1".into()),
        nodes: 5,
        round_trip_p50_us: Some(310),
        round_trip_p99_us: Some(p99),
        ..WorkerStatus::default()
    }
}

fn report(decisions: u64, workers: Vec<WorkerStatus>) -> Report {
    let slow = EvaluationStatus {
        namespace: "shop".into(),
        pod: Some("web-1".into()),
        took_ms: 45,
        ago_ms: 3_000,
        last_worker: "a:1".into(),
        ..EvaluationStatus::default()
    };
    let status = CoordinatorStatus {
        version: "1".into(),
        identity: "flotilla-0".into(),
        leader: Some("flotilla-0".into()),
        leading: true,
        synced: true,
        uptime_ms: decisions * 10,
        workers,
        decisions: DecisionStatus { total: decisions, per_second: 12.34, ..DecisionStatus::default() },
        slowest_evaluations: vec![slow],
        ..CoordinatorStatus::default()
    };
    let answer = Answer { name: "url".into(), status: Some(status), error: None };
    Report::new(Err("no Lease".into()), vec![answer], Timestamp::UNIX_EPOCH)
}

fn view() -> View {
    let workers = || vec![worker("a:1", true, 900), worker("b:1", true, 4_200), worker("c:1", false, 0)];
    let mut view = View::default();
    for decisions in [100, 200, 300, 400] {
        view.take_in(report(decisions, workers()));
    }
    view
}

fn screen(view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| draw(frame, view)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
    (0..height).map(|row| line(row).trim_end().to_owned()).collect()
}

#[test]
fn eighty_by_twenty_four_show_all_of_it_with_the_workers_that_need_a_look_first() {
    let lines = screen(&view(), 80, 24);
    assert_eq!(lines[0], "healthy (q quits): flotilla-0 leads, 2 of 3 workers ready");
    assert!(lines[1].starts_with("worker c:1 is not ready: not connected"), "{lines:#?}");
    assert!(lines[2].starts_with("queue: 0 active, 0 backing off"), "{lines:#?}");
    assert!(lines[3].starts_with("decisions/s: 12.3 in the last 10 s"), "{lines:#?}");
    assert_eq!((lines[4].as_str(), lines[6].as_str()), ("███", "███"), "{lines:#?}");
    let names: Vec<&str> = lines[7..11].iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["WORKER", "c:1", "b:1", "a:1"], "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("shop/web-1") && line.contains("45 ms")), "{lines:#?}");
}

#[test]
fn no_size_of_the_terminal_is_too_small() {
    for (width, height) in (0..12).flat_map(|width| (0..12).map(move |height| (width, height))) {
        screen(&view(), width, height);
        screen(&View::default(), width, height);
    }
}

#[test]
fn before_the_first_answer_and_without_a_leader_there_is_something_to_read() {
    assert_eq!(screen(&View::default(), 40, 2)[0], "asking; q quits");
    let mut view = View::default();
    view.take_in(Report::new(Err("there is no Lease".into()), vec![], Timestamp::UNIX_EPOCH));
    let lines = screen(&view, 80, 4);
    assert_eq!(lines[0], "NOT healthy (q quits)");
    assert_eq!(lines[1], "no leader is known: there is no Lease");
}

#[test]
fn rates_are_of_one_leader_and_start_again_with_another() {
    let mut view = view();
    assert_eq!(view.rates, [100, 100, 100]);
    view.take_in(report(40, vec![]));
    assert_eq!(view.rates.len(), 3, "the counter of a process that was started anew goes back");
    view.take_in(report(50, vec![]));
    assert_eq!(view.rates.len(), 4);
}
