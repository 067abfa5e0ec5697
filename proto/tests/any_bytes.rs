//! Any bytes in either direction decode to a message or an error that names a field.
//!
//! Covers `prost` and [`Wire`], including JSON arguments. Both ends reject more than [`MAX_MESSAGE_BYTES`] before decoding.

#![allow(missing_docs)]

#[path = "support/values.rs"]
#[allow(dead_code, reason = "the other test needs parts of messages as well")]
mod values;

use flotilla_framework::shard::{FromWorker, ToWorker};
use flotilla_mutate::{Bound, Decoder, Form};
use flotilla_proto::{Wire, bounds::MAX_MESSAGE_BYTES, codec::read, lists::Lists, pb};
use proptest::{
    strategy::{Strategy, ValueTree as _},
    test_runner::TestRunner,
};
use prost::Message;

/// Number of mutated messages, of a few kilobytes each.
const SAMPLES: usize = 200;

fn samples<T: Wire<Message: Message> + std::fmt::Debug>(values: impl Strategy<Value = T>) -> Vec<Vec<u8>> {
    let mut runner = TestRunner::deterministic();
    let mut sample = || values.new_tree(&mut runner).expect("a value").current().encode().encode_to_vec();
    (0..SAMPLES).map(|_| sample()).collect()
}

fn reads<T: Wire<Message: Message + Default + Lists>>(bytes: &[u8]) -> bool {
    let Ok(message) = read::<T::Message>(bytes) else { return false };
    match T::decode(message) {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.field.is_empty() && !error.problem.to_string().is_empty(), "{error:?}");
            false
        }
    }
}

#[test]
fn a_worker_reads_any_bytes_within_a_multiple_of_them() {
    let samples = samples(values::to_worker());
    // A profile takes 416 bytes, and two on the wire; a vector that has just doubled holds three times as much. Measured: a factor of 640.
    let bound = Bound { times: 1024, plus: 4096 };
    let form = Form::Protobuf { prefix: 0 };
    Decoder { name: "ToWorker", samples: &samples, form, bound }.stands(reads::<ToWorker>);
}

#[test]
fn a_coordinator_reads_any_bytes_within_a_multiple_of_them() {
    let samples = samples(values::from_worker());
    // A stratum takes 128 bytes, and two on the wire if it is one of a few thousand. Measured: a factor of 254.
    let bound = Bound { times: 512, plus: 4096 };
    let form = Form::Protobuf { prefix: 0 };
    Decoder { name: "FromWorker", samples: &samples, form, bound }.stands(reads::<FromWorker>);
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut written = vec![number << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut written);
    [written, content.to_vec()].concat()
}

/// Without the check of lists, the first of these occupied 384 MiB.
#[test]
fn no_message_of_the_most_bytes_makes_a_coordinator_hold_more_than_an_eighth_of_a_gibibyte() {
    // Leaves room for the tags and lengths around a list.
    let room = MAX_MESSAGE_BYTES - 64;
    let empties = |number: u8| field(number, &[]).repeat(room / 2);
    let refused = field(4, &[0x10, 1, 0x28, 1]).repeat(room / 6);
    let domains = field(3, &field(2, &vec![0; room]));
    let messages = [
        field(5, &empties(3)),
        field(5, &empties(5)),
        field(7, &empties(2)),
        field(8, &empties(2)),
        empties(9),
        field(5, &refused),
        field(5, &domains),
    ];
    let bound = Bound { times: 0, plus: 128 << 20 };
    for (number, message) in messages.iter().enumerate() {
        assert!(message.len() <= MAX_MESSAGE_BYTES, "{number}: {}", message.len());
        let name = format!("message {number}");
        Decoder { name: &name, samples: &[], form: Form::Bytes, bound }.stands_one(message, reads::<FromWorker>);
    }
}

#[test]
fn a_list_that_no_worker_gives_is_named() {
    for (message, error) in [
        (field(5, &field(3, &[]).repeat(65_537)), "evaluated.strata: 65537 is not within 0..=65536"),
        (field(5, &field(4, &[]).repeat(100)), "evaluated.refused: 100 is not within 0..=16"),
        (field(7, &field(2, &[]).repeat(8193)), "explained.nodes: 8193 is not within 0..=8192"),
        (field(9, &[]).repeat(129), "laps: 129 is not within 0..=128"),
    ] {
        assert_eq!(read::<pb::FromWorker>(&message), Err(error.to_owned()));
    }
}
