//! Invalid messages are rejected with the path of the field.

#![allow(missing_docs)]

use flotilla_framework::{
    shard::{FromWorker, ToWorker},
    testing::{node, pod, profile},
};
use flotilla_proto::{FILE_DESCRIPTOR_SET, PROTOCOL_VERSION, SERVICE_NAME, Wire as _, pb};

fn to_worker(command: pb::to_worker::Command) -> String {
    let message = pb::ToWorker { epoch: 1, revision: 1, command: Some(command), timed: false };
    ToWorker::decode(message).expect_err("a broken message").to_string()
}

fn from_worker(reply: pb::from_worker::Reply) -> String {
    let message = pb::FromWorker { epoch: 1, revision: 1, reply: Some(reply), laps: Vec::new(), words: Vec::new() };
    FromWorker::decode(message).expect_err("a broken message").to_string()
}

fn delta(node: pb::Node) -> pb::to_worker::Command {
    let change = pb::change::Change::UpsertNode(pb::UpsertNode { id: 1, node: Some(node) });
    pb::to_worker::Command::Delta(pb::Delta { changes: vec![pb::Change { change: Some(change) }] })
}

#[test]
fn an_envelope_without_content_names_the_content() {
    assert_eq!(ToWorker::decode(pb::ToWorker::default()).unwrap_err().to_string(), "command: is missing");
    assert_eq!(FromWorker::decode(pb::FromWorker::default()).unwrap_err().to_string(), "reply: is missing");
}

#[test]
fn a_missing_part_is_named_by_its_path() {
    let node = pb::Node { allocatable: None, ..node("n").build().encode() };
    assert_eq!(to_worker(delta(node)), "delta.changes[0].upsert_node.node.allocatable: is missing");
}

#[test]
fn unsorted_labels_are_refused() {
    let mut node = node("n").label("a", "1").build().encode();
    node.labels.reverse();
    assert_eq!(to_worker(delta(node)), "delta.changes[0].upsert_node.node.labels: is not sorted, each key once");
}

#[test]
fn arguments_that_are_not_json_are_refused() {
    let profile = pb::Profile { args_json: b"{".to_vec(), ..profile().encode() };
    let configure = pb::Configure { generation: 1, tie_break_seed: 1, profiles: vec![profile] };
    let error = to_worker(pb::to_worker::Command::Configure(configure));
    assert!(error.starts_with("configure.profiles[0].args_json: EOF while parsing"), "{error}");
}

#[test]
fn a_wish_about_other_pods_that_cannot_be_is_named_by_its_path() {
    let broken = |change: fn(&mut pb::Class)| {
        let wishing = pod("p").spread(1, "zone", ("app", "web")).far("zone", ("app", "web"));
        let mut class = wishing.build().class.encode();
        change(&mut class);
        let register = pb::RegisterClass { id: 1, class: Some(class) };
        to_worker(pb::to_worker::Command::RegisterClass(register))
    };
    let error = broken(|class| class.spread[0].selected = None);
    assert_eq!(error, "register_class.class.spread[0].selected: is missing");
    let error = broken(|class| {
        let term = &mut class.pod_affinity.as_mut().expect("an affinity").required_anti[0];
        term.selector.as_mut().expect("a selector").requirements[0].operator = "Like".to_owned();
    });
    let place = "register_class.class.pod_affinity.required_anti[0].selector.requirements[0].operator";
    assert_eq!(error, format!("{place}: \"Like\" is not an operator of label selectors"));
    let error = broken(|class| class.owner = Some(pb::Owner { kind: 0, name: "o".to_owned() }));
    assert_eq!(error, "register_class.class.owner.kind: is missing");
}

#[test]
fn a_worker_of_another_protocol_is_refused() {
    let other = PROTOCOL_VERSION + 1;
    let hello = pb::Hello { version: "9".to_owned(), nonce: 1, protocol: other, plugins: Vec::new() };
    assert_eq!(
        from_worker(pb::from_worker::Reply::Hello(hello)),
        format!(
            "hello.protocol: is version {other} of the protocol, and here it is version {PROTOCOL_VERSION}; run coordinator and workers of \
             one release"
        )
    );
}

#[test]
fn a_module_that_cannot_be_is_refused() {
    let module = |digest: usize, size: u32, part: usize| {
        let module = pb::Module { digest: vec![1; digest], size, part: vec![0; part] };
        to_worker(pb::to_worker::Command::Module(module))
    };
    assert_eq!(module(31, 1, 1), "module.digest: is not of 32 bytes");
    assert_eq!(module(32, 1, 2), "module.size: 1 is not within 2..=33554432");
    assert_eq!(module(32, 33_554_433, 1), "module.size: 33554433 is not within 1..=33554432");
}

#[test]
fn a_reason_that_is_not_given_is_refused() {
    let unable = pb::Unable { request: 1, reason: 0 };
    assert_eq!(from_worker(pb::from_worker::Reply::Unable(unable)), "unable.reason: is missing");
}

fn evaluated(change: impl FnOnce(&mut pb::Evaluated)) -> String {
    let stratum = pb::Stratum { size: 1, nodes: vec![1], bases: vec![1], ranks: vec![1], ..pb::Stratum::default() };
    let refused = pb::Refused { code: pb::Code::Unschedulable.into(), count: 1, ..pb::Refused::default() };
    let tally = pb::Tally { terms: vec![0], domains: vec![1], counts: vec![1] };
    let mut evaluated = pb::Evaluated {
        request: 1,
        covered: 2,
        strata: vec![stratum],
        refused: vec![refused],
        tallies: vec![tally],
        domains: vec!["zone-a".to_owned()],
    };
    change(&mut evaluated);
    from_worker(pb::from_worker::Reply::Evaluated(evaluated))
}

fn explained(change: impl FnOnce(&mut pb::Explained)) -> String {
    let refusal = pb::Refusal { order: 1, code: pb::Code::Unschedulable.into(), detail: 1 };
    let refused = || pb::node_account::Verdict::Refusal(refusal);
    let account = |node| pb::NodeAccount { node, domains: vec![0], verdict: Some(refused()) };
    let mut explained = pb::Explained { request: 1, nodes: vec![account(3), account(4)], ..pb::Explained::default() };
    change(&mut explained);
    from_worker(pb::from_worker::Reply::Explained(explained))
}

#[test]
fn an_outcome_of_a_trial_that_means_nothing_is_refused() {
    let dry_run_results = |outcome| {
        let outcomes = vec![pb::TrialOutcome { outcome }];
        from_worker(pb::from_worker::Reply::DryRunResults(pb::DryRunResults { request: 1, outcomes }))
    };
    let victims = |indexes| {
        dry_run_results(Some(pb::trial_outcome::Outcome::Victims(pb::TrialVictims { indexes, violations: 0 })))
    };
    assert_eq!(victims(vec![]), "dry_run_results.outcomes[0].victims.indexes: is missing");
    assert_eq!(victims(vec![1, 1]), "dry_run_results.outcomes[0].victims.indexes: is not sorted, each key once");
    assert_eq!(dry_run_results(None), "dry_run_results.outcomes[0].outcome: is missing");
    let miss = |miss| dry_run_results(Some(pb::trial_outcome::Outcome::Miss(miss)));
    assert_eq!(miss(0), "dry_run_results.outcomes[0].miss: is missing");
    assert_eq!(miss(4), "dry_run_results.outcomes[0].miss: 4 is not within 0..=3");
}

#[test]
fn an_account_that_leads_nowhere_is_refused() {
    let error = explained(|explained| explained.nodes[1].node = 3);
    assert_eq!(error, "explained.nodes: is not sorted, each key once");
    let error = explained(|explained| (explained.more, explained.nodes) = (true, Vec::new()));
    assert_eq!(error, "explained.nodes: is missing");
    let error = explained(|explained| explained.nodes[1].verdict = None);
    assert_eq!(error, "explained.nodes[1].verdict: is missing");
    let error = explained(|explained| explained.nodes[0].domains[0] = 1);
    assert_eq!(error, "explained.nodes[0].domains: 1 is not within 1..=0");
    let refusal = pb::Refusal { order: 1, code: 0, detail: 1 };
    let refused = pb::node_account::Verdict::Refusal(refusal);
    let error = explained(|explained| explained.nodes[0].verdict = Some(refused));
    assert_eq!(error, "explained.nodes[0].refusal.code: is missing");
}

#[test]
fn columns_of_unequal_length_are_refused() {
    let error = evaluated(|evaluated| evaluated.strata[0].ranks.clear());
    assert_eq!(error, "evaluated.strata[0].ranks: 0 is not within 1..=1");
}

#[test]
fn a_domain_that_is_not_in_the_table_is_refused() {
    let error = evaluated(|evaluated| evaluated.strata[0].domains.push(2));
    assert_eq!(error, "evaluated.strata[0].domains: 2 is not within 1..=1");
}

#[test]
fn counts_of_nodes_that_were_not_covered_are_refused() {
    let error = evaluated(|evaluated| evaluated.refused[0].count = u32::MAX);
    assert_eq!(error, "evaluated.covered: 2 is not within 4294967296..=4294967295");
}

#[test]
fn more_offers_than_nodes_are_refused() {
    let error = evaluated(|evaluated| evaluated.strata[0].size = 0);
    assert_eq!(error, "evaluated.strata[0].nodes: 1 is not within 0..=0");
}

#[test]
fn a_filter_beyond_the_orders_there_can_be_is_refused() {
    let error = evaluated(|evaluated| evaluated.refused[0].order = 65_536);
    assert_eq!(error, "evaluated.refused[0].order: 65536 is not within 0..=65535");
}

#[test]
fn a_sum_that_is_given_twice_is_refused() {
    let error = evaluated(|evaluated| {
        evaluated.tallies[0] = pb::Tally { terms: vec![0, 0], domains: vec![1, 1], counts: vec![1, 2] };
    });
    assert_eq!(error, "evaluated.tallies[0].domains: names the same thing twice");
}

#[test]
fn the_descriptor_that_reflection_serves_names_the_service() {
    let name = SERVICE_NAME.rsplit('.').next().expect("a name");
    assert!(FILE_DESCRIPTOR_SET.windows(name.len()).any(|window| window == name.as_bytes()));
}
