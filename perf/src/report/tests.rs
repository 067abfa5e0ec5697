//! Tests of the report with artificial runs.

use std::collections::BTreeMap;

use super::*;
use crate::{
    measured::{Latency, Rate},
    requests::Row,
    shape::Size,
    usage::Usage,
};

const SIZE: Size = Size { nodes: 10, standing: 0, pods: 1000, rate: 0 };

fn run(scheduler: Scheduler, round: u32, mean: f64) -> Measured {
    let usage = |cpu_s: f64| Usage { cpu_s, resident_bytes: 1 << 20, peak_bytes: 3 << 20 };
    let own: &[(&str, f64)] = match scheduler {
        Scheduler::Ceiling => &[("ceiling", 0.5)],
        Scheduler::CeilingWithEvents => &[("ceiling-events", 0.75)],
        Scheduler::Stock => &[("kube-scheduler", 2.0)],
        Scheduler::Flotilla => &[("coordinator", 0.8), ("worker-0", 0.1), ("worker-1", 0.1)],
    };
    let all = [("kube-apiserver", 8.0), ("etcd", 2.0), ("client", 0.7)];
    let processes: BTreeMap<String, Usage> =
        own.iter().chain(&all).map(|(name, cpu_s)| ((*name).to_owned(), usage(*cpu_s))).collect();
    let row = Row {
        verb: "POST".to_owned(),
        resource: "pods/binding".to_owned(),
        requests: 1000.0,
        refused: 0.0,
        request_bytes: 0.0,
        response_bytes: 0.0,
        mean_ms: 5.0,
        watches_ended: 0.0,
    };
    Measured {
        shape: Shape::Basic,
        size: SIZE,
        round,
        scheduler,
        rate: Rate {
            created: 1000,
            bound: 1000,
            seconds: 2.0,
            mean,
            bound_over_time: vec![400, 1000],
            ..Rate::default()
        },
        latency: Latency { p50_ms: 1.0, p99_ms: f64::from(round), max_ms: 9.0 },
        processes,
        requests: vec![row],
        elsewhere: 0.25,
        settle_s: 0.5,
        misplaced: Vec::new(),
    }
}

fn rounds() -> Vec<Measured> {
    let rates = [(1, [100.0, 90.0, 50.0, 90.0]), (2, [200.0, 160.0, 40.0, 190.0]), (3, [300.0, 240.0, 60.0, 240.0])];
    let of = |(round, rates): (u32, [f64; 4])| {
        Scheduler::ALL.into_iter().zip(rates).map(move |(scheduler, rate)| run(scheduler, round, rate))
    };
    rates.into_iter().flat_map(of).collect()
}

fn of(report: &Report, scheduler: Scheduler) -> &Summary {
    report.summaries.iter().find(|summary| summary.scheduler == scheduler).expect("it was run")
}

#[test]
fn ratios_are_taken_within_a_round_and_the_median_of_them_counts() {
    let report = Report::new(rounds());
    let flotilla = of(&report, Scheduler::Flotilla);
    // 0.90, 0.95 and 0.80 to the ceiling; 1.8, 4.75 and 4.0 to kube-scheduler.
    assert_eq!(flotilla.to_ceiling, Some(0.9));
    assert_eq!(flotilla.to_ceiling_with_events, Some(1.0));
    assert_eq!(flotilla.to_kube_scheduler, Some(4.0));
    assert_eq!((flotilla.pods_per_second, flotilla.lowest, flotilla.highest), (190.0, 90.0, 240.0));
    assert_eq!(flotilla.p99_ms, 2.0);
}

#[test]
fn a_round_in_which_not_all_pods_were_bound_has_no_ratio() {
    let mut runs = rounds();
    for run in runs.iter_mut().filter(|run| run.scheduler == Scheduler::Ceiling && run.round != 3) {
        run.rate.bound = 999;
    }
    let report = Report::new(runs);
    assert_eq!(of(&report, Scheduler::Flotilla).to_ceiling, Some(0.8));
    assert!(report.tables().contains("basic, round 1, ceiling: only 999 of 1000 pods were bound"));
}

#[test]
fn a_scheduler_that_was_not_run_has_no_row_and_no_ratio() {
    let report = Report::new(rounds().into_iter().filter(|run| run.scheduler == Scheduler::Flotilla).collect());
    assert_eq!(report.summaries.len(), 1);
    assert_eq!((report.summaries[0].to_ceiling, report.summaries[0].to_kube_scheduler), (None, None));
}

#[test]
fn the_cpu_of_a_scheduler_is_that_of_all_its_processes_and_not_of_the_load() {
    let report = Report::new(rounds());
    let flotilla = of(&report, Scheduler::Flotilla);
    assert!((flotilla.own_cpu_share.expect("servers ran") - 0.1).abs() < 1e-9);
    assert_eq!(flotilla.own().count(), 3);
    let coordinator = flotilla.processes.iter().find(|process| process.name == "coordinator").expect("it ran");
    assert_eq!((coordinator.cpu_s_per_thousand, coordinator.peak_bytes), (0.8, 3 << 20));
}

#[test]
fn the_tables_have_a_row_for_each_shape_and_scheduler() {
    let text = Report::new(rounds()).tables();
    let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    let words: Vec<String> = row("| basic | flotilla").split('|').map(|cell| cell.trim().to_owned()).collect();
    assert_eq!(words[1..10], ["basic", "flotilla", "3", "190", "90", "240", "0.90", "1.00", "4.00"]);
    assert!(text.contains("coordinator 0.80, worker-0 0.10, worker-1 0.10"), "{text}");
    let words: Vec<String> =
        row("| basic | POST").split('|').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    assert_eq!(
        words,
        ["basic", "POST", "pods/binding"].into_iter().chain(["1,000", "5.0"].repeat(4)).collect::<Vec<_>>()
    );
}

#[test]
fn what_is_wrong_with_a_placement_is_below_the_tables() {
    let mut runs = rounds();
    runs[3].misplaced = vec!["3 nodes have more pods than they may have".to_owned()];
    let text = Report::new(runs).tables();
    assert!(text.ends_with("basic, round 1, flotilla: 3 nodes have more pods than they may have\n"), "{text}");
}

#[test]
fn the_json_has_all_runs_with_their_requests_and_the_points_of_the_picture() {
    let json = serde_json::to_value(Report::new(rounds())).expect("it is data");
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(12));
    assert_eq!(json["runs"][0]["scheduler"], "ceiling");
    assert_eq!(json["runs"][0]["requests"][0]["resource"], "pods/binding");
    assert_eq!(json["runs"][0]["rate"]["bound_over_time"], serde_json::json!([400, 1000]));
    assert_eq!(json["summaries"][3]["to_ceiling"], 0.9);
}

#[test]
fn the_picture_has_a_line_for_each_run_and_names_the_schedulers() {
    let picture = Report::new(rounds()).picture().expect("it can be drawn");
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{picture}");
    // One per run and one per scheduler in the legend, plus those of the axes.
    let blue = picture.matches("stroke=\"#0072B2\"").count();
    assert_eq!(blue, 4, "{picture}");
    for scheduler in Scheduler::ALL {
        assert!(picture.contains(scheduler.name()), "{}", scheduler.name());
    }
}
