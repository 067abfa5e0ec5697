//! Any bytes decode to an object, a page, a frame, a status or an error.
//!
//! Covers `Item::read` of each kind with `flotilla_framework::ingest`, `Page::decode`, `Frames::cut`, `Change::decode` and
//! `Status::decode`, in JSON and protobuf.

#![allow(missing_docs)]

use std::{fs, path::PathBuf};

use bytes::Bytes;
use flotilla_encoding::{
    Encoding, FRAME_BYTES, Frames, Page, Status,
    testing::{KINDS, read, read_frame, read_item},
};
use flotilla_mutate::{Bound, Decoder, Form};

const PROTOBUF: Form = Form::Protobuf { prefix: 4 };

fn recorded(kind: &str, ending: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recorded/{kind}.{ending}"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut written = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 128 {
        written.push(u8::try_from(length % 128).expect("less than 128") | 128);
        length /= 128;
    }
    written.push(u8::try_from(length).expect("less than 128"));
    [&written, content].concat()
}

fn enveloped(message: &[u8]) -> Vec<u8> {
    [b"k8s\0".to_vec(), field(2, message)].concat()
}

/// The object of an envelope with a kind shorter than 128 bytes.
fn opened(envelope: &[u8]) -> Vec<u8> {
    let after_kind = &envelope[4 + 2 + usize::from(envelope[5])..];
    let start = after_kind.iter().skip(1).position(|byte| byte & 128 == 0).expect("a length") + 2;
    let length = after_kind[1..start].iter().rev().fold(0, |length, byte| length << 7 | usize::from(byte & 127));
    after_kind[start..start + length].to_vec()
}

fn page_of(kind: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Json => {
            let object = String::from_utf8(recorded(kind, "json")).expect("JSON");
            let metadata = r#""metadata":{"resourceVersion":"12","continue":"abc"}"#;
            format!(r#"{{"kind":"List",{metadata},"items":[{object},{object}]}}"#).into_bytes()
        }
        Encoding::Protobuf => {
            let object = opened(&recorded(kind, "pb"));
            enveloped(&[field(1, &field(3, b"abc")), field(2, &object), field(2, &object)].concat())
        }
    }
}

fn change_of(kind: &str, encoding: Encoding, change: &str) -> Vec<u8> {
    match encoding {
        Encoding::Json => {
            let object = String::from_utf8(recorded(kind, "json")).expect("JSON");
            format!(r#"{{"type":"{change}","object":{object}}}"#).into_bytes()
        }
        Encoding::Protobuf => [field(1, change.as_bytes()), field(2, &field(1, &recorded(kind, "pb")))].concat(),
    }
}

fn framed(encoding: Encoding, change: &[u8]) -> Vec<u8> {
    match encoding {
        Encoding::Json => [change, b"\n"].concat(),
        Encoding::Protobuf => [&u32::try_from(change.len()).expect("a short frame").to_be_bytes()[..], change].concat(),
    }
}

fn form(encoding: Encoding) -> Form {
    if encoding == Encoding::Json { Form::Text } else { PROTOBUF }
}

/// Memory limit for any decoded input. The maximum is a pod with empty containers, which no API server sends: each takes three bytes in
/// JSON and two in protobuf, and a vector that has just doubled holds three times its content.
fn bound(encoding: Encoding) -> Bound {
    Bound { times: if encoding == Encoding::Json { 4096 } else { 2048 }, plus: 4096 }
}

#[test]
fn an_object_of_any_kind_is_read_within_a_multiple_of_its_bytes() {
    for (kind, _) in KINDS {
        for (encoding, ending) in [(Encoding::Json, "json"), (Encoding::Protobuf, "pb")] {
            let name = format!("{kind}.{ending}");
            let samples = [recorded(kind, ending)];
            Decoder { name: &name, samples: &samples, form: form(encoding), bound: bound(encoding) }
                .stands(|bytes| read(kind, encoding, bytes).is_ok_and(|()| true));
        }
    }
}

#[test]
fn a_page_and_its_items_are_read_within_a_multiple_of_its_bytes() {
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let samples = ["Pod", "Node", "Service"].map(|kind| page_of(kind, encoding));
        let name = format!("a page, {encoding:?}");
        Decoder { name: &name, samples: &samples, form: form(encoding), bound: bound(encoding) }.stands(|bytes| {
            let Ok(page) = Page::decode(encoding, Bytes::copy_from_slice(bytes)) else { return false };
            page.items.iter().for_each(|item| drop(read_item("Pod", item)));
            true
        });
    }
}

#[test]
fn the_frames_of_a_watch_are_read_within_a_multiple_of_their_bytes() {
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let changes = [("Pod", "ADDED"), ("Pod", "MODIFIED"), ("Node", "DELETED"), ("Pod", "BOOKMARK")];
        let changes = changes.map(|(kind, change)| change_of(kind, encoding, change));
        let name = format!("a change, {encoding:?}");
        let inner = if encoding == Encoding::Json { Form::Text } else { Form::Protobuf { prefix: 0 } };
        Decoder { name: &name, samples: &changes, form: inner, bound: bound(encoding) }
            .stands(|bytes| read_frame("Pod", encoding, Bytes::copy_from_slice(bytes)).is_ok());
        let samples = [changes.concat(), changes.map(|change| framed(encoding, &change)).concat()];
        let name = format!("frames, {encoding:?}");
        Decoder { name: &name, samples: &samples[1..], form: Form::Bytes, bound: bound(encoding) }.stands(|bytes| {
            let mut frames = Frames::new(encoding);
            for part in bytes.chunks(1000) {
                frames.receive(part);
                loop {
                    match frames.cut() {
                        Ok(Some(frame)) => drop(read_frame("Pod", encoding, frame)),
                        Ok(None) => break,
                        Err(_) => return false,
                    }
                }
            }
            frames.finish().is_ok()
        });
    }
}

#[test]
fn a_header_that_promises_a_frame_reserves_nothing_for_it() {
    let header = u32::try_from(FRAME_BYTES).expect("some mebibytes").to_be_bytes();
    let bound = Bound { times: 4, plus: 1024 };
    let decoder = Decoder { name: "a header", samples: &[], form: Form::Bytes, bound };
    let is_cut = decoder.stands_one(&header, |bytes| {
        let mut frames = Frames::new(Encoding::Protobuf);
        frames.receive(bytes);
        frames.cut().is_ok_and(|frame| frame.is_some())
    });
    assert!(!is_cut);
}

#[test]
fn a_status_is_read_within_a_multiple_of_its_bytes() {
    let json = br#"{"kind":"Status","status":"Failure","message":"no","reason":"Expired","code":410}"#.to_vec();
    let status = [field(2, b"Failure"), field(3, b"no"), field(4, b"Expired"), vec![0x30, 0x9a, 3]].concat();
    for (encoding, sample) in [(Encoding::Json, json), (Encoding::Protobuf, enveloped(&status))] {
        let name = format!("a status, {encoding:?}");
        Decoder { name: &name, samples: &[sample], form: form(encoding), bound: bound(encoding) }.stands(|bytes| {
            let status = Status::decode(encoding, 410, Bytes::copy_from_slice(bytes));
            assert!(!status.to_string().is_empty());
            status.reason == "Expired"
        });
    }
}
