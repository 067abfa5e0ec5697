//! Encoding and decoding round-trips; random bytes are rejected.

#![allow(missing_docs)]

#[path = "support/values.rs"]
mod values;

use flotilla_framework::shard::{FromWorker, ToWorker};
use flotilla_proto::{Wire, pb};
use proptest::{collection::vec, prelude::*};
use prost::Message as _;

use values::{class, facts, from_worker, node, to_worker, volume_facts};

/// Decodes as either end does; the test only requires that nothing panics.
fn read(bytes: &[u8]) {
    if let Ok(message) = pb::ToWorker::decode(bytes) {
        let _ = ToWorker::decode(message);
    }
    if let Ok(message) = pb::FromWorker::decode(bytes) {
        let _ = FromWorker::decode(message);
    }
}

proptest! {
    #[test]
    fn the_worker_hears_what_the_leader_says(word in to_worker()) {
        let bytes = word.encode().encode_to_vec();
        let heard = ToWorker::decode(pb::ToWorker::decode(bytes.as_slice()).expect("bytes of a message"));
        prop_assert_eq!(heard, Ok(word));
    }

    #[test]
    fn the_leader_hears_what_the_worker_says(word in from_worker()) {
        let bytes = word.encode().encode_to_vec();
        let heard = FromWorker::decode(pb::FromWorker::decode(bytes.as_slice()).expect("bytes of a message"));
        prop_assert_eq!(heard, Ok(word));
    }

    #[test]
    fn what_is_said_of_volumes_takes_no_more_than_it_weighs(facts in volume_facts()) {
        prop_assert!(facts.encode().encoded_len() <= facts.weight());
    }

    #[test]
    fn a_class_and_its_facts_take_no_more_than_they_weigh(class in class(), facts in facts()) {
        prop_assert!(class.encode().encoded_len() <= class.weight());
        let volumes = facts.volumes.as_ref().map_or(0, |volumes| volumes.weight());
        prop_assert!(facts.encode().encoded_len() <= facts.weight() + volumes);
    }

    #[test]
    fn a_node_takes_no_more_than_it_weighs(node in node()) {
        prop_assert!(node.encode().encoded_len() <= node.weight());
    }

    #[test]
    fn noise_is_refused_and_never_a_panic(bytes in vec(any::<u8>(), 0..256)) {
        read(&bytes);
    }

    #[test]
    fn a_flipped_byte_is_never_a_panic(
        word in to_worker(),
        answer in from_worker(),
        at in any::<prop::sample::Index>(),
        flip in 1..=u8::MAX,
    ) {
        for mut bytes in [word.encode().encode_to_vec(), answer.encode().encode_to_vec()] {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }
            read(&bytes);
        }
    }

    #[test]
    fn a_message_cut_short_is_never_a_panic(word in to_worker(), at in any::<prop::sample::Index>()) {
        let bytes = word.encode().encode_to_vec();
        read(&bytes[..at.index(bytes.len() + 1)]);
    }
}
