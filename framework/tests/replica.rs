//! Commands and replies of a replica.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId},
    evaluation::Evaluation,
    explain::shard::Local,
    extension::Facts,
    node::NodeId,
    registry::Registry,
    replica::{Replica, Stats},
    shard::{Change, Command, FromWorker, Reply, ToWorker, Unable},
    snapshot::hash,
    testing::{NodeBuilder, PodBuilder, node, pod, profile},
};

const WEB: ClassId = ClassId(1);
const BIG: ClassId = ClassId(2);

fn class(pod: PodBuilder) -> Arc<Class> {
    pod.build().class
}

fn configure(generation: u64) -> Command {
    Command::Configure { generation, tie_break_seed: 5, profiles: Arc::new([profile()]) }
}

fn register(id: ClassId, pod: PodBuilder) -> Command {
    Command::RegisterClass { id, class: class(pod) }
}

fn upsert(id: u32, node: NodeBuilder) -> Change {
    Change::UpsertNode { id: NodeId(id), node: Arc::new(node.build()) }
}

fn snapshot(changes: Vec<Change>) -> Command {
    Command::Snapshot { first: true, last: true, changes }
}

fn ask(class: ClassId) -> Command {
    let (facts, trace) = (Facts { image_contributions: vec![0], ..Facts::default() }.into(), Arc::default());
    Command::Evaluate { request: 77, generation: 1, profile: "default-scheduler".into(), class, facts, k: 10, trace }
}

fn say(replica: &mut Replica, epoch: u64, command: Command) -> Option<FromWorker> {
    replica.apply(ToWorker { epoch, revision: 9, command })
}

fn tell(replica: &mut Replica, command: Command) -> Option<Reply> {
    say(replica, 1, command).map(|word| word.reply)
}

fn ready() -> Replica {
    let mut replica = Replica::new(Registry::built_in());
    tell(&mut replica, configure(1));
    tell(&mut replica, register(WEB, pod("web").request("cpu", "1")));
    tell(&mut replica, register(BIG, pod("big").request("cpu", "3")));
    tell(&mut replica, snapshot(vec![upsert(1, node("n1")), upsert(2, node("n2"))]));
    replica
}

fn answer(replica: &mut Replica, class: ClassId) -> Evaluation {
    match tell(replica, ask(class)) {
        Some(Reply::Evaluated { request: 77, evaluation }) => evaluation,
        other => panic!("an answer, not {other:?}"),
    }
}

fn offered(evaluation: &Evaluation) -> Vec<u32> {
    let offers = evaluation.strata.iter().flat_map(|stratum| &stratum.offers);
    let mut nodes: Vec<u32> = offers.map(|offer| offer.node.0).collect();
    nodes.sort_unstable();
    nodes
}

fn unable(replica: &mut Replica, command: Command) -> Unable {
    match tell(replica, command) {
        Some(Reply::Unable { request: 77, why }) => why,
        other => panic!("no answer, not {other:?}"),
    }
}

#[test]
fn configurations_and_whole_shards_are_acknowledged_and_nothing_else_is() {
    let mut replica = Replica::new(Registry::built_in());
    assert_eq!(tell(&mut replica, configure(4)), Some(Reply::Applied { generation: 4, nodes: 0 }));
    assert_eq!(tell(&mut replica, register(WEB, pod("web"))), None);
    let word = say(&mut replica, 1, snapshot(vec![upsert(1, node("n1"))])).expect("an acknowledgement");
    assert_eq!((word.epoch, word.revision, word.reply), (1, 9, Reply::Applied { generation: 4, nodes: 1 }));
    assert_eq!(tell(&mut replica, Command::Delta { changes: vec![upsert(2, node("n2"))] }), None);
    assert_eq!(tell(&mut replica, Command::ForgetClass { id: WEB }), None);
    assert_eq!((replica.epoch(), replica.node_count()), (1, 2));
}

#[test]
fn a_shard_in_parts_is_acknowledged_with_the_last() {
    let mut replica = ready();
    let part = |first, last, id, name| Command::Snapshot { first, last, changes: vec![upsert(id, node(name))] };
    assert_eq!(tell(&mut replica, part(true, false, 7, "n7")), None);
    assert_eq!(tell(&mut replica, part(false, false, 8, "n8")), None);
    assert_eq!(tell(&mut replica, part(false, true, 9, "n9")), Some(Reply::Applied { generation: 1, nodes: 3 }));
    assert_eq!(offered(&answer(&mut replica, WEB)), [7, 8, 9]);
}

#[test]
fn an_evaluation_covers_every_node_and_orders_ties_by_rank() {
    let mut replica = ready();
    let evaluation = answer(&mut replica, WEB);
    assert_eq!((evaluation.covered, evaluation.strata.len(), evaluation.refused.len()), (2, 1, 0));
    let offers = &evaluation.strata[0].offers;
    assert!(offers[0].base == offers[1].base && offers[0].rank < offers[1].rank);
    let mut ranks = ["uid-n1", "uid-n2"].map(|uid| hash(uid, 5) >> 24);
    ranks.sort_unstable();
    assert_eq!([offers[0].rank, offers[1].rank], ranks);
}

#[test]
fn changes_after_the_shard_change_the_answer() {
    let mut replica = ready();
    assert_eq!(offered(&answer(&mut replica, BIG)), [1, 2]);
    let add = Change::AddPods { node: NodeId(1), class: WEB, count: 2 };
    tell(&mut replica, Command::Delta { changes: vec![add, upsert(3, node("n3"))] });
    assert_eq!(offered(&answer(&mut replica, BIG)), [2, 3], "two pods leave no room for the big one");
    let remove = Change::RemovePods { node: NodeId(1), class: WEB, count: 1 };
    tell(&mut replica, Command::Delta { changes: vec![remove, Change::RemoveNode { id: NodeId(2) }] });
    let evaluation = answer(&mut replica, BIG);
    assert_eq!((offered(&evaluation), evaluation.covered), (vec![1, 3], 2));
    tell(&mut replica, Command::Delta { changes: vec![upsert(1, node("n1").cordon())] });
    let evaluation = answer(&mut replica, BIG);
    assert_eq!((offered(&evaluation), evaluation.refused.len()), (vec![3], 1));
}

#[test]
fn what_is_not_known_is_said_to_be_unknown() {
    let mut replica = ready();
    assert_eq!(unable(&mut replica, ask(ClassId(9))), Unable::Class);
    let evaluate = |generation, profile: &str| {
        let (facts, trace) = (Arc::default(), Arc::default());
        Command::Evaluate { request: 77, generation, profile: profile.into(), class: WEB, facts, k: 1, trace }
    };
    assert_eq!(unable(&mut replica, evaluate(2, "default-scheduler")), Unable::Generation);
    assert_eq!(unable(&mut replica, evaluate(0, "default-scheduler")), Unable::Generation);
    assert_eq!(unable(&mut replica, evaluate(1, "other")), Unable::Profile);
    assert_eq!(replica.stats().evaluations, 0);
    tell(&mut replica, Command::ForgetClass { id: WEB });
    assert_eq!(unable(&mut replica, ask(WEB)), Unable::Class);
}

#[test]
fn a_class_that_was_asked_for_is_forgotten_all_the_same() {
    let mut replica = ready();
    answer(&mut replica, WEB);
    tell(&mut replica, Command::ForgetClass { id: WEB });
    assert_eq!(unable(&mut replica, ask(WEB)), Unable::Class);
}

#[test]
fn changes_that_name_nothing_known_are_counted() {
    let mut replica = ready();
    let add = |node, class| Change::AddPods { node: NodeId(node), class, count: 1 };
    let remove = Change::RemovePods { node: NodeId(1), class: WEB, count: 1 };
    let changes = vec![add(9, WEB), add(1, ClassId(9)), remove, Change::RemoveNode { id: NodeId(9) }, add(1, WEB)];
    tell(&mut replica, Command::Delta { changes });
    assert_eq!(replica.stats().unknown, 3, "a node that is gone already is no mistake");
}

#[test]
fn an_older_leader_is_not_heard() {
    let mut replica = ready();
    say(&mut replica, 3, configure(1));
    assert_eq!(say(&mut replica, 2, configure(8)), None);
    assert_eq!(say(&mut replica, 1, snapshot(Vec::new())), None);
    assert_eq!((replica.epoch(), replica.stats().stale), (3, 2));
    let word = say(&mut replica, 3, snapshot(Vec::new())).expect("an acknowledgement");
    assert_eq!(word.reply, Reply::Applied { generation: 1, nodes: 0 }, "the stale configuration was not taken over");
}

#[test]
fn nothing_of_an_older_leader_is_left_under_a_new_one() {
    let mut replica = ready();
    answer(&mut replica, WEB);
    let before = replica.stats();
    let word = say(&mut replica, 2, ask(WEB)).expect("a reply");
    assert_eq!((word.epoch, word.reply), (2, Reply::Unable { request: 77, why: Unable::Generation }));
    assert_eq!((replica.node_count(), replica.stats()), (0, before));
    say(&mut replica, 2, configure(1));
    let word = say(&mut replica, 2, ask(WEB)).expect("a reply");
    assert_eq!(word.reply, Reply::Unable { request: 77, why: Unable::Class }, "numbers of classes begin anew");
}

#[test]
fn a_number_that_comes_to_mean_another_class_is_evaluated_again() {
    let mut replica = ready();
    assert_eq!(offered(&answer(&mut replica, WEB)), [1, 2]);
    tell(&mut replica, register(WEB, pod("huge").request("cpu", "99")));
    assert_eq!(offered(&answer(&mut replica, WEB)), [0_u32; 0]);
}

#[test]
fn only_nodes_that_changed_are_judged_again() {
    let mut replica = ready();
    let judged = |replica: &Replica| replica.stats().nodes_judged;
    answer(&mut replica, WEB);
    assert_eq!(judged(&replica), 2);
    answer(&mut replica, WEB);
    assert_eq!(judged(&replica), 2, "nothing changed");
    let add = Change::AddPods { node: NodeId(2), class: WEB, count: 3 };
    tell(&mut replica, Command::Delta { changes: vec![add] });
    answer(&mut replica, WEB);
    assert_eq!(judged(&replica), 3, "one node changed");
    tell(&mut replica, configure(1));
    answer(&mut replica, WEB);
    assert_eq!(judged(&replica), 5, "a configuration makes everything news");
}

#[test]
fn other_facts_about_the_cluster_make_everything_news() {
    let mut replica = ready();
    answer(&mut replica, WEB);
    let facts = Facts { image_contributions: vec![500 << 20], ..Facts::default() }.into();
    let (profile, trace) = ("default-scheduler".into(), Arc::default());
    let asked = Command::Evaluate { request: 77, generation: 1, profile, class: WEB, facts, k: 1, trace };
    assert!(matches!(tell(&mut replica, asked), Some(Reply::Evaluated { .. })));
    assert_eq!((replica.stats().nodes_judged, replica.stats().evicted), (4, 0));
}

#[test]
fn the_class_that_was_not_asked_for_longest_makes_room() {
    let positions = 2;
    let mut replica = Replica::new(Registry::built_in()).with_room(2 * 16 * positions);
    tell(&mut replica, configure(1));
    for id in 1..=3 {
        tell(&mut replica, register(ClassId(id), pod("p").request("cpu", "1").label("id", &id.to_string())));
    }
    tell(&mut replica, snapshot(vec![upsert(1, node("n1")), upsert(2, node("n2"))]));
    let mut judged = |class: u64| {
        let before = replica.stats().nodes_judged;
        let evaluation = answer(&mut replica, ClassId(class));
        assert_eq!(offered(&evaluation), [1, 2], "an answer is the same, warm or not");
        (replica.stats().nodes_judged - before, replica.stats().evicted)
    };
    assert_eq!([judged(1), judged(2)], [(2, 0), (2, 0)], "both have room");
    assert_eq!(judged(1), (0, 0), "the first is warm");
    assert_eq!(judged(3), (2, 1), "the second makes room for the third");
    assert_eq!(judged(1), (0, 1), "the first is still warm");
    assert_eq!(judged(2), (2, 2), "the second is not, and the third makes room for it");
}

fn account(class: ClassId, generation: u64, after: Option<u32>, limit: u32) -> Command {
    let (facts, profile) =
        (Facts { image_contributions: vec![0], ..Facts::default() }.into(), "default-scheduler".into());
    let (after, trace) = (after.map(NodeId), Arc::default());
    Command::Explain { request: 77, generation, profile, class, facts, after, limit, trace }
}

#[test]
fn an_account_is_given_page_by_page_in_the_order_of_the_nodes_numbers() {
    let mut replica = ready();
    tell(&mut replica, Command::Delta { changes: vec![upsert(0, node("n0").capacity("cpu", "1"))] });
    let mut page = |after, limit| match tell(&mut replica, account(BIG, 1, after, limit)) {
        Some(Reply::Explained { request: 77, page }) => {
            let is_feasible = |local: &Local| matches!(local, Local::Feasible(_));
            let nodes: Vec<(u32, bool)> = page.nodes.iter().map(|it| (it.node.0, is_feasible(&it.local))).collect();
            (nodes, page.more)
        }
        other => panic!("an account, not {other:?}"),
    };
    assert_eq!(page(None, 2), (vec![(0, false), (1, true)], true));
    assert_eq!(page(Some(1), 2), (vec![(2, true)], false));
    assert_eq!(page(Some(2), 2), (vec![], false));
    assert_eq!(page(None, 0), (vec![(0, false)], true), "no less than one");
    assert_eq!(page(None, u32::MAX), (vec![(0, false), (1, true), (2, true)], false));
}

#[test]
fn an_account_that_cannot_be_given_says_why_as_an_evaluation_does() {
    let mut replica = ready();
    assert_eq!(unable(&mut replica, account(WEB, 2, None, 1)), Unable::Generation);
    assert_eq!(unable(&mut replica, account(ClassId(9), 1, None, 1)), Unable::Class);
    answer(&mut replica, WEB);
    tell(&mut replica, account(WEB, 1, None, 1));
    assert_eq!(replica.stats().nodes_judged, 2, "an account leaves the columns of evaluations alone");
    answer(&mut replica, WEB);
    assert_eq!(replica.stats().nodes_judged, 2);
}

#[test]
fn a_fresh_replica_knows_nothing() {
    let mut replica = Replica::new(Registry::built_in());
    assert_eq!((replica.epoch(), replica.node_count(), replica.stats()), (0, 0, Stats::default()));
    assert_eq!(unable(&mut replica, ask(WEB)), Unable::Generation);
    tell(&mut replica, configure(1));
    assert_eq!(unable(&mut replica, ask(WEB)), Unable::Class);
}
