//! The largest messages stay within their limits.

#![allow(missing_docs)]

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    evaluation::{Evaluation, MAX_OFFERS, Offer, Stratum},
    explain::shard::{Local, MAX_PAGE_NODES, NodeAccount, Page},
    node::NodeId,
    shard::{Change, Command, FromWorker, Reply, ToWorker},
    testing::node,
};
use flotilla_proto::{
    Wire as _,
    bounds::{CHUNK_BYTES, MAX_MESSAGE_BYTES, MAX_PODS_PER_CHANGE, chunk_changes, encoded_bytes, fits},
    pb,
};
use prost::Message as _;

fn answer(strata: Vec<Stratum>) -> pb::FromWorker {
    let covered = strata.iter().map(|stratum| stratum.size).sum();
    let evaluation = Evaluation { covered, strata, ..Evaluation::default() };
    FromWorker { epoch: 1, revision: 1, reply: Reply::Evaluated { request: 1, evaluation } }.encode()
}

/// Offers with numbers of maximum encoded size.
fn offers(count: usize) -> Vec<Offer> {
    vec![Offer { node: NodeId(u32::MAX), base: i64::MIN, rank: u64::MAX }; count]
}

#[test]
fn the_most_offers_take_less_than_a_mebibyte_and_a_half() {
    let stratum = Stratum { raws: vec![i64::MIN; 4], domains: Vec::new(), size: u32::MAX, offers: offers(MAX_OFFERS) };
    let bytes = answer(vec![stratum]).encoded_len();
    assert!(bytes < 3 << 19, "{bytes} bytes");
}

#[test]
fn the_most_offers_in_as_many_strata_and_domains_fit_in_a_message() {
    let strata = (0..MAX_OFFERS).map(|number| Stratum {
        raws: vec![number as i64],
        domains: vec![Some(["zone-a", "zone-b", "zone-c"][number % 3].into())],
        size: 1,
        offers: offers(1),
    });
    let message = answer(strata.collect());
    assert!(fits(&message), "{} bytes", message.encoded_len());
    assert!(FromWorker::decode(message).is_ok());
}

#[test]
fn one_offer_more_than_the_most_is_refused() {
    let stratum = Stratum { size: u32::MAX, offers: offers(MAX_OFFERS + 1), ..Stratum::default() };
    let error = FromWorker::decode(answer(vec![stratum])).expect_err("too many");
    assert_eq!(error.to_string(), "evaluated.strata.nodes: 65537 is not within 0..=65536");
}

#[test]
fn a_long_domain_is_written_once_for_all_strata() {
    let zone: Arc<str> = "z".repeat(253).into();
    let strata = (0..1000).map(|raw| Stratum {
        raws: vec![raw],
        domains: vec![Some(Arc::clone(&zone))],
        size: 1,
        offers: offers(1),
    });
    let bytes = answer(strata.collect()).encoded_len();
    assert!(bytes < 50_000, "{bytes} bytes");
}

/// A page with numbers of maximum encoded size and two unique domains per node.
fn page(count: usize) -> pb::FromWorker {
    let domain = |key: &str, place: usize| Some(format!("{key}{place:062}").into());
    let account = |place: usize| NodeAccount {
        node: NodeId(u32::MAX - (MAX_PAGE_NODES + 1 - place) as u32),
        domains: vec![domain("a", place), domain("b", place)],
        local: Local::Feasible(vec![i64::MIN; 9]),
    };
    let page = Page { nodes: (0..count).map(account).collect(), tallies: Vec::new(), more: true };
    FromWorker { epoch: u64::MAX, revision: u64::MAX, reply: Reply::Explained { request: u64::MAX, page } }.encode()
}

#[test]
fn a_page_of_the_most_nodes_takes_less_than_half_a_message() {
    let bytes = page(MAX_PAGE_NODES).encoded_len();
    assert!(bytes < MAX_MESSAGE_BYTES / 2, "{bytes} bytes");
    let error = FromWorker::decode(page(MAX_PAGE_NODES + 1)).expect_err("too many");
    assert_eq!(error.to_string(), "explained.nodes: 8193 is not within 0..=8192");
}

/// Realistic nodes: 20 labels and 50 images with two names each.
fn upserts(count: u32) -> Vec<Change> {
    let changes = (0..count).map(|id| {
        let mut node = node(&format!("node-{id}"));
        for number in 0..20 {
            node = node.label(&format!("example.com/label-number-{number}"), "some value");
        }
        for number in 0..50 {
            node = node.image(&format!("registry.example.com/team/image-{number}:v1.{id}"), 1 << 30);
        }
        Change::UpsertNode { id: NodeId(id), node: Arc::new(node.build()) }
    });
    changes.collect()
}

fn snapshot(changes: Vec<Change>) -> ToWorker {
    let command = Command::Snapshot { first: false, last: false, changes };
    ToWorker { epoch: u64::MAX, revision: u64::MAX, command }
}

#[test]
fn chunks_hold_all_changes_in_order_and_stay_below_their_bound() {
    let changes = upserts(1000);
    let chunks = chunk_changes(changes.clone());
    assert!(chunks.len() > 1, "a thousand such nodes are more than a chunk");
    for chunk in &chunks {
        let bytes = encoded_bytes(&snapshot(chunk.clone()));
        assert!(bytes <= CHUNK_BYTES + 64, "{bytes} bytes with the envelope");
    }
    let fill = encoded_bytes(&snapshot(chunks[0].clone()));
    assert!(fill > CHUNK_BYTES / 2, "{fill} bytes: the estimate is close enough to fill chunks");
    assert_eq!(chunks.concat(), changes);
}

#[test]
fn small_changes_fill_chunks_too() {
    let change = |id| Change::AddPods { node: NodeId(u32::MAX - id), class: ClassId(u64::MAX), count: 1 };
    let changes: Vec<Change> = (0..100_000).map(change).collect();
    let chunks = chunk_changes(changes.clone());
    assert!(chunks.iter().all(|chunk| encoded_bytes(&snapshot(chunk.clone())) <= CHUNK_BYTES + 64));
    assert_eq!(chunks.concat(), changes);
}

#[test]
fn a_change_larger_than_a_chunk_goes_alone() {
    let huge = node("huge").label("example.com/huge", &"x".repeat(CHUNK_BYTES)).build();
    let huge = Change::UpsertNode { id: NodeId(1), node: Arc::new(huge) };
    let small = Change::RemoveNode { id: NodeId(2) };
    let chunks = chunk_changes(vec![small.clone(), huge.clone(), small.clone()]);
    assert_eq!(chunks, [vec![small.clone()], vec![huge.clone()], vec![small]]);
    assert!(encoded_bytes(&snapshot(vec![huge])) <= MAX_MESSAGE_BYTES);
}

#[test]
fn no_changes_are_no_chunks() {
    assert!(chunk_changes(Vec::new()).is_empty());
}

#[test]
fn an_absurd_number_of_pods_is_sent_in_pieces() {
    let add = |count| Change::AddPods { node: NodeId(1), class: ClassId(1), count };
    let chunks = chunk_changes(vec![add(MAX_PODS_PER_CHANGE * 2 + 1)]);
    assert_eq!(chunks, [vec![add(MAX_PODS_PER_CHANGE), add(MAX_PODS_PER_CHANGE), add(1)]]);
}

#[test]
fn an_absurd_number_of_pods_in_one_change_is_refused() {
    let change = Change::AddPods { node: NodeId(1), class: ClassId(1), count: u32::MAX };
    let error = ToWorker::decode(snapshot(vec![change]).encode()).expect_err("too many");
    assert_eq!(error.field, "snapshot.changes[0].add_pods.count");
}
