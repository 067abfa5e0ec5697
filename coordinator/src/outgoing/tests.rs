//! Classification of the API server's answers.

use super::*;

#[test]
fn one_answer_without_a_version_leaves_unknown_what_is_committed() {
    let answered = Answered::default();
    assert_eq!(answered.version(), Some(0));
    answered.note(br#"{"kind":"Pod","metadata":{"name":"web","resourceVersion":"812"}}"#);
    answered.note(br#"{"metadata":{"resourceVersion":"790"}}"#);
    assert_eq!(answered.version(), Some(812));
    for lost in
        [&br#"{"kind":"Status","metadata":{},"status":"Success"}"#[..], b"", br#"{"metadata":{"resourceVersion":"x"}}"#]
    {
        let answered = Answered::default();
        answered.note(lost);
        answered.note(br#"{"metadata":{"resourceVersion":"812"}}"#);
        assert_eq!(answered.version(), None);
    }
}

#[test]
fn only_the_api_servers_own_404_says_that_an_object_is_not_there() {
    assert!(is_absence("pods \"web-1\" not found", "web-1"));
    let others =
        ["404 page not found", "pods \"web-12\" not found", "the server could not find the requested resource"];
    assert!(others.iter().all(|message| !is_absence(message, "web-1")));
}

#[test]
fn an_object_with_another_uid_is_told_from_a_conflict_that_passes() {
    let of = |code, message: &str| Refusal::of(code, message.to_owned());
    let (gone, passing, lasting) = (Refusal::Gone, Refusal::Passing, Refusal::Lasting);
    let immutable = "Pod \"web-1\" is invalid: metadata.uid: Invalid value: \"u1\": field is immutable";
    let precondition =
        "Operation cannot be fulfilled: Precondition failed: UID in precondition: u1, UID in object meta: u2";
    for (code, message) in [(422, immutable), (409, precondition), (404, "")] {
        assert_eq!(of(code, message), gone(message.to_owned()), "{code}");
    }
    for (code, message) in [(409, "the object has been modified"), (429, ""), (500, ""), (503, "")] {
        assert_eq!(of(code, message), passing(message.to_owned()), "{code}");
    }
    for (code, message) in [(403, ""), (422, "status.conditions")] {
        assert_eq!(of(code, message), lasting(message.to_owned()), "{code}");
    }
}
