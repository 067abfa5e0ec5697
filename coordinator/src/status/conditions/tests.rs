//! Conditions against a scripted API server.

use flotilla_machine::action::Reason;

use super::*;

fn report(uid: &str, message: &str) -> Report {
    Report {
        uid: Arc::from(uid),
        namespace: Arc::from("default"),
        name: Arc::from("web-1"),
        scheduler_name: Arc::from("default-scheduler"),
        generation: 0,
        reason: Reason::Unschedulable,
        message: message.to_owned(),
        write_condition: true,
        nomination: Nomination::Keep,
        attempt: 1,
        began_ms: None,
        trace: None,
    }
}

fn write(uid: &str, message: &str) -> Write {
    report(uid, message).into()
}

fn clearing(uid: &str, message: &str) -> Write {
    Report { nomination: Nomination::Clear, ..report(uid, message) }.into()
}

fn message(write: Write) -> Option<String> {
    write.condition.map(|condition| condition.message)
}

#[test]
fn of_two_reports_on_a_pod_that_wait_only_the_newer_is_written() {
    let mut pending = Pending::default();
    pending.push(write("u1", "old"));
    pending.push(write("u2", "other"));
    pending.push(write("u1", "new"));
    let written: Vec<_> = std::iter::from_fn(|| pending.pop()).filter_map(message).collect();
    assert_eq!(written, ["new", "other"]);
}

#[test]
fn a_nomination_that_was_to_be_taken_back_is_taken_back_by_whichever_report_is_written() {
    let mut pending = Pending::default();
    pending.push(clearing("u1", "old"));
    pending.push(write("u1", "new"));
    let written = pending.pop().expect("a report");
    let status = &patch(&written, &Pod::default(), Timestamp::UNIX_EPOCH)["status"];
    assert_eq!(status["conditions"][0]["message"], "new");
    assert_eq!(status.get("nominatedNodeName"), Some(&Value::Null));
}

#[test]
fn a_nomination_alone_takes_nothing_from_a_condition_that_waits() {
    let mut pending = Pending::default();
    pending.push(write("u1", "old"));
    let pod = PodName { uid: "u1".into(), namespace: "default".into(), name: "web-1".into() };
    pending.push(NominationChange { pod, node: Some(Arc::from("n1")) }.into());
    let written = pending.pop().expect("a report");
    let both = patch(&written, &Pod::default(), Timestamp::UNIX_EPOCH);
    assert_eq!(both["status"]["conditions"][0]["message"], "old");
    assert_eq!(both["status"]["nominatedNodeName"], "n1");
    let alone = patch(&Write { condition: None, ..written }, &Pod::default(), Timestamp::UNIX_EPOCH);
    assert_eq!(alone["status"], json!({ "nominatedNodeName": "n1" }));
}

#[test]
fn a_newer_report_waits_until_the_older_one_is_written() {
    let mut pending = Pending::default();
    pending.push(write("u1", "old"));
    assert!(pending.pop().is_some());
    pending.push(write("u1", "new"));
    assert_eq!(pending.pop(), None);
    assert!(pending.superseded(&write("u1", "old")));
    pending.done(&Arc::from("u1"));
    assert_eq!(pending.pop().and_then(message).as_deref(), Some("new"));
    pending.done(&Arc::from("u1"));
    assert_eq!((pending.pop(), pending.len(), pending.writing.len()), (None, 0, 0));
}

#[test]
fn a_report_that_is_taken_back_is_not_written_but_for_one_that_takes_a_nomination_back() {
    let mut pending = Pending::default();
    pending.push(write("u1", "old"));
    pending.push(clearing("u2", "nominated"));
    assert!(pending.withdraw("u1") && !pending.withdraw("u1") && !pending.withdraw("u2"));
    pending.push(write("u1", "new"));
    let written: Vec<_> = std::iter::from_fn(|| pending.pop()).filter_map(message).collect();
    assert_eq!(written, ["new", "nominated"], "each once, whatever places are left in the order");
    pending.done(&Arc::from("u1"));
    assert_eq!((pending.pop(), pending.len()), (None, 0));
}

fn shown(version: u64, status: bool, message: &str) -> Pod {
    let (reason, message) = (Arc::from("Unschedulable"), Arc::from(message));
    Pod { version, condition: Some(Scheduled { status, reason, message }), ..Pod::default() }
}

#[test]
fn the_patch_names_the_uid_and_the_version_and_has_a_time_only_when_the_condition_begins() {
    let mut report = report("u1", "0/1 nodes are available: 1 Insufficient cpu.");
    let now = Timestamp::from_second(1).expect("within range");
    let bare = json!({
        "metadata": { "uid": "u1", "resourceVersion": "7" },
        "status": { "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient cpu.",
        }] },
    });
    assert_eq!(patch(&report.clone().into(), &shown(7, false, "other"), now), bare);
    report.generation = 2;
    for pod in [Pod::default(), shown(0, true, "")] {
        let full = patch(&report.clone().into(), &pod, now);
        assert_eq!(full["metadata"], json!({ "uid": "u1" }));
        assert_eq!(full["status"]["conditions"][0]["observedGeneration"], 2);
        assert_eq!(full["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:01Z");
    }
}

#[test]
fn only_news_is_written() {
    let same = write("u1", "no");
    assert!(!is_news(&same, &shown(7, false, "no")));
    assert!(is_news(&same, &shown(7, true, "no")) && is_news(&same, &shown(7, false, "never")));
    assert!(is_news(&same, &Pod::default()));
    assert!(is_news(&clearing("u1", "no"), &shown(7, false, "no")));
}
