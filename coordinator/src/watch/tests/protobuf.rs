//! Lists and watches in handwritten protobuf.

use super::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 128 {
        bytes.push((number % 128) as u8 | 128);
        number /= 128;
    }
    bytes.push(number as u8);
    bytes
}

fn field(number: usize, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [varint(number << 3 | 2), varint(bytes.len()), bytes.to_vec()].concat()
}

fn number(number: usize, value: usize) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn enveloped(object: impl AsRef<[u8]>) -> Vec<u8> {
    let unknown = [field(1, [field(1, "v1"), field(2, "Any")].concat()), field(2, object)].concat();
    [b"k8s\0".to_vec(), unknown].concat()
}

fn change(kind: &str, object: impl AsRef<[u8]>) -> Vec<u8> {
    let event = [field(1, kind), field(2, field(1, enveloped(object)))].concat();
    [u32::try_from(event.len()).expect("short").to_be_bytes().to_vec(), event].concat()
}

fn metadata(name: &str, uid: &str, version: &str) -> Vec<u8> {
    // generateName and selfLink are empty, as Go writes them; 17 are managedFields, 99 is unknown.
    let named = [field(1, name), field(2, ""), field(3, "default"), field(4, ""), field(5, uid), field(6, version)];
    field(1, [named.concat(), field(17, field(1, "kubelet")), field(99, "?")].concat())
}

fn pod(name: &str, uid: &str, version: &str) -> Vec<u8> {
    let container = [field(1, "c"), field(2, "i"), field(7, field(1, "SETTING")), number(16, 0)].concat();
    [metadata(name, uid, version), field(2, [field(2, container), field(10, "")].concat()), field(99, "?")].concat()
}

fn status(code: usize, message: &str) -> Vec<u8> {
    [field(3, message), number(6, code)].concat()
}

fn bookmark(version: &str, annotations: &[(&str, &str)]) -> Vec<u8> {
    let annotations = annotations.iter().flat_map(|(key, value)| field(12, [field(1, key), field(2, value)].concat()));
    change("BOOKMARK", field(1, field(6, version).into_iter().chain(annotations).collect::<Vec<_>>()))
}

pub(super) fn lists(server: &Server, version: &str, pods: &[(&str, &str, &str)]) {
    let pods: Vec<Vec<u8>> = pods.iter().map(|(name, uid, version)| pod(name, uid, version)).collect();
    server.lists_protobuf(version, "", &pods);
}

impl Server {
    fn lists_protobuf(&self, version: &str, more: &str, pods: &[Vec<u8>]) -> &Self {
        let items: Vec<u8> = pods.iter().flat_map(|pod| field(2, pod)).collect();
        let metadata = field(1, [field(2, version), field(3, more)].concat());
        self.answers_in(PROTOBUF, "list", 200, enveloped([metadata, items].concat()))
    }

    fn streams(&self, to: &str, frames: &[Vec<u8>]) -> &Self {
        self.answers_in(STREAM, to, 200, frames.concat())
    }
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_are_told_as_those_in_json_are() {
    let server = Server::default();
    server.lists_protobuf("", "more", &[pod("a", "u1", "5")]).lists_protobuf("10", "", &[pod("b", "u2", "6")]);
    let expired = change("ERROR", status(410, "too old resource version"));
    server.streams(
        "watch",
        &[
            change("ADDED", pod("c", "u3", "11")),
            change("MODIFIED", pod("a", "u1", "12")),
            change("DELETED", pod("b", "u2", "13")),
            change("ADDED", pod("d", "u4", "12")),
            bookmark("20", &[]),
            expired,
        ],
    );
    server.lists_protobuf("30", "", &[pod("a", "u9", "25")]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 8).await, ["+u1", "+u2", "+u3", "+u1", "-u2", "-u1", "+u9", "-u3"]);
    let mut reached = shared.reached.subscribe();
    reached.wait_for(|version| *version == 30).await.expect("the source lives");
    assert_eq!((shared.tally().stale, shared.tally().lists, shared.tally().unusable), (1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_a_watch_begins_with_ends_with_its_bookmark() {
    let server = Server::default();
    let end = bookmark("10", &[("k8s.io/initial-events-end", "true")]);
    server.streams("begin", &[change("ADDED", pod("a", "u1", "5")), bookmark("9", &[]), end]);
    server.streams("watch", &[change("DELETED", pod("a", "u1", "11"))]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 2).await, ["+u1", "-u1"]);
    assert!(server.asked.lock().expect("unpoisoned")[1].contains("resourceVersion=10"));
    assert_eq!((shared.tally().lists, shared.tally().stale), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn each_answer_is_in_the_encoding_that_it_names() {
    let server = Server::default();
    server.lists("10", &[super::pod("a", "u1", "5")]).streams("watch", &[change("DELETED", pod("a", "u1", "11"))]);
    server
        .watches(&[line("ADDED", &super::pod("b", "u2", "12"))])
        .streams("watch", &[change("ADDED", pod("c", "u3", "13"))]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 4).await, ["+u1", "-u1", "+u2", "+u3"]);
    assert_eq!(shared.tally().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_no_mention_of_protobuf_is_asked_for_json() {
    let server = Server { only_json: true, ..Server::default() };
    server.lists("10", &[super::pod("a", "u1", "5")]).watches(&[line("ADDED", &super::pod("b", "u2", "11"))]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 2).await, ["+u1", "+u2"]);
    assert_eq!((shared.tally().lists, shared.tally().unusable), (1, 0));
    // The watch that would start with the list, the page, the watch, and later ones.
    assert!(server.refused.load(Ordering::Relaxed) >= 3);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_protobuf_is_understood() {
    let server = Server::default();
    server.answers_in(PROTOBUF, "begin", 422, enveloped(status(422, "sendInitialEvents: Forbidden")));
    server.answers_in(PROTOBUF, "list", 403, enveloped(status(403, "pods is forbidden")));
    server.lists_protobuf("10", "", &[pod("a", "u1", "5")]);
    server.answers_in(PROTOBUF, "watch", 410, enveloped(status(410, "too old resource version")));
    server.lists_protobuf("12", "", &[]);
    let (mut heard, shared, _) = server.heard();
    assert_eq!(told(&mut heard, 2).await, ["+u1", "-u1"]);
    assert!(shared.tally().failures >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_decode_is_left_out_reported_and_stops_nothing() {
    let undecodable = |version: &str| [metadata("bad", "u2", version), field(2, field(10, [0xff, 0xfe]))].concat();
    let server = Server::default();
    server.lists_protobuf("10", "", &[undecodable("6"), pod("a", "u1", "8")]);
    server.streams("watch", &[change("MODIFIED", undecodable("11")), change("ADDED", pod("b", "u4", "12"))]);
    let (mut heard, shared, reporter) = server.heard();
    assert_eq!(told(&mut heard, 2).await, ["+u1", "+u4"]);
    assert_eq!((shared.tally().unusable, reporter.events().tally().waiting), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn what_is_malformed_is_followed_by_a_new_list() {
    let length = |length: u32| length.to_be_bytes().to_vec();
    let malformed = [
        ("no message", [length(3), b"\xff\xff\xff".to_vec()].concat()),
        ("no object", [length(7), field(1, "ADDED")].concat()),
        ("no envelope", {
            let event = [field(1, "ADDED"), field(2, field(1, pod("a", "u1", "11")))].concat();
            [length(u32::try_from(event.len()).expect("short")), event].concat()
        }),
        ("a change of no known type", change("MOVED", pod("a", "u1", "11"))),
        ("not even a name", change("ADDED", b"\x0a\xff")),
        ("too long", length(u32::MAX)),
        ("compressed", {
            let object = [b"k8s\0".to_vec(), field(2, "?"), field(3, "gzip")].concat();
            let event = [field(1, "ADDED"), field(2, field(1, object))].concat();
            [length(u32::try_from(event.len()).expect("short")), event].concat()
        }),
    ];
    for (what, frame) in malformed {
        let server = Server::default();
        server.lists_protobuf("10", "", &[pod("a", "u1", "5")]);
        server.streams("watch", &[change("ADDED", pod("b", "u2", "11")), frame, change("ADDED", pod("c", "u3", "12"))]);
        server.lists_protobuf("20", "", &[pod("d", "u4", "15")]);
        let (mut heard, shared, _) = server.heard();
        assert_eq!(told(&mut heard, 5).await, ["+u1", "+u2", "+u4", "-u1", "-u2"], "{what}");
        assert!(shared.tally().lists == 2 && shared.tally().failures > 0, "{what}: {:?}", shared.tally());
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_malformed_is_asked_for_again() {
    for body in [b"k8s\0\xff\xff".to_vec(), b"nothing".to_vec(), enveloped(field(2, field(1, "\x0f")))] {
        let server = Server::default();
        server.answers_in(PROTOBUF, "list", 200, body).lists_protobuf("10", "", &[pod("a", "u1", "5")]);
        let (mut heard, shared, _) = server.heard();
        assert_eq!(told(&mut heard, 1).await, ["+u1"]);
        assert!(shared.tally().lists == 1 && shared.tally().failures > 0, "{:?}", shared.tally());
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_within_a_frame_goes_on_from_the_frame_before() {
    let whole = change("ADDED", pod("b", "u2", "12"));
    for length in 1..whole.len() {
        let server = Server::default();
        server.lists_protobuf("10", "", &[]);
        server.streams("watch", &[change("ADDED", pod("a", "u1", "11")), whole[..length].to_vec()]);
        server.streams("watch", std::slice::from_ref(&whole));
        let (mut heard, shared, _) = server.heard();
        assert_eq!(told(&mut heard, 2).await, ["+u1", "+u2"]);
        assert!(shared.tally().lists == 1 && shared.tally().failures > 0, "{length} bytes: {:?}", shared.tally());
        assert!(server.asked.lock().expect("unpoisoned")[2].contains("resourceVersion=11"));
    }
}
