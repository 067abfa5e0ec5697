//! Answers of coordinators and their text.

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::{live::Holder, status::report::Answer};

fn leader() -> serde_json::Value {
    json!({
        "version": "0.1.0", "identity": "flotilla-0_ab", "leading": true, "leader": "flotilla-0_ab",
        "leadingForMs": 7_260_000, "epoch": 3, "uptimeMs": 7_300_000, "synced": true, "nodes": 10, "revision": 812,
        "configuration": {"generation": 2, "acknowledgedBy": 1, "profiles": ["flotilla"]},
        "workers": [
            {"name": "10.0.0.1:10270", "ready": true, "version": "0.1.0", "nodes": 10, "generation": 2, "inFlight": 1,
             "oldestMs": 4, "revisionsBehind": 2, "roundTripP50Us": 310, "roundTripP99Us": 4_200,
             "certificateNotAfter": "2026-12-01T00:00:00Z"},
            {"name": "10.0.0.2:10270", "ready": false, "why": "not connected: refused", "nodes": 0, "generation": 0,
             "inFlight": 0, "oldestMs": 0, "revisionsBehind": 0},
        ],
        "queue": {"active": 1, "backingOff": 2, "unschedulable": 41, "gated": 3, "preparing": 0, "binding": 5},
        "classes": [{"namespace": "shop", "pod": "web-1", "schedulerName": "flotilla",
                     "active": 1, "backingOff": 2, "unschedulable": 41, "gated": 0}],
        "decisions": {"total": 900, "placed": 850, "unschedulable": 50, "perSecond": 12.34,
                      "perSecondSinceStart": 0.123, "bindFailures": 0},
        "slowestEvaluations": [{"namespace": "shop", "pod": "web-1", "class": 7, "schedulerName": "flotilla",
                                "tookMs": 45, "agoMs": 61_000, "lastWorker": "10.0.0.1:10270"}],
    })
}

fn screen(status: &serde_json::Value, wide: bool) -> String {
    let status = serde_json::from_value(status.clone()).expect("an answer");
    let answer = Answer { name: "url".into(), status: Some(status), error: None };
    let lease = Ok(Holder { identity: "flotilla-0_ab".into(), transitions: 2, ..Holder::default() });
    let now: Timestamp = "2026-11-21T00:00:00Z".parse().expect("a time");
    let mut out = Vec::new();
    print(&Report::new(lease, vec![answer], now), wide, &mut out).expect("a buffer");
    String::from_utf8(out).expect("text")
}

#[test]
fn what_is_wrong_comes_first_and_all_of_it_fits_on_a_screen() {
    let expected = "\
healthy: flotilla-0_ab leads, with 1 of 2 workers ready
! worker 10.0.0.2:10270 is not ready: not connected: refused
  next: read its log; it is tried again until it is removed

leader     flotilla-0_ab for 2 h 1 min, epoch 3, version 0.1.0, up 2 h 1 min
config     generation 2, acknowledged by 1 of 2 workers; profiles flotilla
cluster    10 nodes, revision 812
decisions  12.3/s in the last 10 s, 0.1/s since the start; 900 in all, 850 placed
queue      1 active, 2 backing off, 41 unschedulable, 3 gated; 5 binds in flight, 0 preparing volumes

WORKER          STATE      NODES  BEHIND  IN FLIGHT  P50     P99     CONFIG  CERTIFICATE ENDS
10.0.0.2:10270  not ready  0      0       0          -       -       0       -
10.0.0.1:10270  ready      10     2       1          310 us  4.2 ms  2       2026-12-01T00:00:00Z

WAITING               PODS  ACTIVE  BACKOFF  UNSCHEDULABLE  GATED
shop/web-1 and alike  44    1       2        41             0
flotilla explain pod NAME -n NAMESPACE explains why a pod waits

SLOWEST EVALUATIONS  TOOK   AGO     LAST WORKER
shop/web-1           45 ms  61.0 s  10.0.0.1:10270
";
    assert_eq!(screen(&leader(), false), expected);
}

#[test]
fn more_workers_than_fit_are_counted_and_a_wide_answer_shows_them_with_their_reasons() {
    let mut many = leader();
    let worker = many["workers"][1].clone();
    many["workers"] = json!(vec![worker; 12]);
    let cut = screen(&many, false);
    assert!(cut.contains("and 4 more; -o wide shows up to 256"), "{cut}");
    assert_eq!(cut.matches("  not ready  ").count(), 8, "{cut}");
    let wide = screen(&many, true);
    assert_eq!(wide.matches("10.0.0.2:10270  not connected: refused").count(), 12, "{wide}");
    assert!(wide.contains("changed hands 2 times"), "{wide}");
}

#[test]
fn a_follower_says_who_leads_and_no_name_reaches_the_terminal_as_a_command_to_it() {
    let mut follower = leader();
    follower["leading"] = json!(false);
    follower["identity"] = json!("flotilla-1\u{1b}[31m");
    let text = screen(&follower, false);
    assert!(text.starts_with("NOT healthy\n✗ flotilla-0_ab leads, and was not asked"), "{text}");
    assert!(text.contains("follower   flotilla-1\u{fffd}[31m, up 2 h 1 min; flotilla-0_ab leads\n"), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn times_are_told_in_the_unit_that_people_would_use() {
    for (ms, expected) in [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_500, "1.5 s"),
        (119_999, "120.0 s"),
        (120_000, "2 min"),
        (7_260_000, "2 h 1 min"),
        (180_000_000, "2 d 2 h"),
    ] {
        assert_eq!(span(ms), expected);
    }
}
