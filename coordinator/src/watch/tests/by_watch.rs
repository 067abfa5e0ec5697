//! Lists as the start of a watch, and their failures.

use super::*;

/// The bookmark after the initial objects.
fn end(version: &str) -> Value {
    let annotations = json!({ "k8s.io/initial-events-end": "true" });
    line("BOOKMARK", &json!({ "metadata": { "resourceVersion": version, "annotations": annotations } }))
}

fn begins(server: &Server, lines: &[Value]) {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    server.answers("begin", 200, lines);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_a_watch_begins_with_is_told_to_its_bookmark_and_watched_from_there() {
    let server = Server::default();
    let early = line("BOOKMARK", &json!({ "metadata": { "resourceVersion": "9" } }));
    let added = |name: &str, uid: &str, version: &str| line("ADDED", &pod(name, uid, version));
    let gone = line("DELETED", &pod("b", "u2", "9"));
    begins(&server, &[added("a", "u1", "5"), added("b", "u2", "3"), early, gone, end("10")]);
    server.watches(&[added("c", "u3", "11")]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 4).await, ["+u1", "+u2", "-u2", "+u3"]);
    assert!(shared.listed.is_cancelled());
    assert_eq!((shared.tally().lists, shared.tally().stale), (1, 0));
    let asked = server.asked.lock().expect("unpoisoned").clone();
    for part in [
        "resourceVersionMatch=NotOlderThan",
        "allowWatchBookmarks=true",
        "fieldSelector=status.phase",
        "resourceVersion=&",
    ] {
        assert!(format!("{}&", asked[0]).contains(part), "{part}: {asked:?}");
    }
    assert!(asked[1].contains("resourceVersion=10") && !asked[1].contains("sendInitialEvents"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_counts_as_listed_or_gone_before_the_bookmark_and_pages_follow_a_list_that_broke_off() {
    let server = Server::default();
    begins(&server, &[line("ADDED", &pod("a", "u1", "5")), end("10")]);
    let expired = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version" });
    server.watches(&[line("ERROR", &expired)]);
    begins(&server, &[line("ADDED", &pod("b", "u2", "12"))]);
    server.lists("20", &[pod("b", "u2", "12"), pod("c", "u3", "15")]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 5).await, ["+u1", "+u2", "+u2", "+u3", "-u1"]);
    assert!(shared.tally().failures >= 2, "the watch that expired and the list that broke off");
    let asked = server.asked.lock().expect("unpoisoned").clone();
    assert!(asked[2].contains("sendInitialEvents=true") && asked[2].ends_with("resourceVersion="), "{asked:?}");
    assert!(asked[3].contains("limit=1000"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_has_not_got_so_far_is_asked_for_pages_which_it_may_not_set_back_either() {
    let server = Server::default();
    begins(&server, &[line("ADDED", &pod("a", "u1", "5")), end("20")]);
    server.watches(&[json!("nonsense")]);
    let future = json!({ "kind": "Status", "code": 504, "reason": "Timeout", "message": "Too large resource version" });
    server.answers("begin", 504, &future);
    server.lists("15", &[]).lists("21", &[pod("b", "u2", "19")]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 3).await, ["+u1", "+u2", "-u1"]);
    assert_eq!(shared.tally().stale, 1);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_older_than_what_was_told_is_not_watched_from() {
    let server = Server::default();
    begins(&server, &[line("ADDED", &pod("a", "u1", "5")), end("20")]);
    server.watches(&[json!("nonsense")]);
    begins(&server, &[line("ADDED", &pod("a", "u1", "5")), end("15")]);
    server.lists("21", &[pod("a", "u1", "5")]).watches(&[line("DELETED", &pod("a", "u1", "22"))]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 4).await, ["+u1", "+u1", "+u1", "-u1"]);
    assert_eq!(shared.tally().stale, 1);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_without_such_lists_is_asked_for_one_once() {
    let server = Server::default();
    server.answers("begin", 400, json!({ "kind": "Status", "code": 400, "message": "Invalid value" }));
    server.lists("10", &[pod("a", "u1", "5")]).watches(&[json!("nonsense")]);
    server.lists("20", &[pod("b", "u2", "19")]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 3).await, ["+u1", "+u2", "-u1"]);
    assert_eq!(shared.tally().lists, 2);
    let asked = server.asked.lock().expect("unpoisoned").clone();
    assert_eq!(asked.iter().filter(|query| query.contains("sendInitialEvents")).count(), 1, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_never_says_that_its_list_is_through_is_given_up() {
    let server = Server::default();
    let unending = line("BOOKMARK", &json!({ "metadata": { "resourceVersion": "9" } }));
    begins(&server, &[line("ADDED", &pod("a", "u1", "5")), unending]);
    server.lists("10", &[pod("b", "u2", "6")]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 3).await, ["+u1", "+u2", "-u1"]);
    assert!(shared.tally().lists == 1 && shared.tally().failures > 0, "{:?}", shared.tally());
}
