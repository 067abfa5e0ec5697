//! Tests of the queue alone: order, backoff, and groups that wake and park.

use super::{incoming::*, *};
use flotilla_framework::class::ClassId;

const FIT: &str = "NodeResourcesFit";
const TAINT: &str = "TaintToleration";

fn subject(class: u64) -> Subject {
    (0, ClassId(class))
}

fn uid(name: &str) -> Uid {
    name.into()
}

fn by(plugins: &[&'static str]) -> Rejectors {
    Rejectors { plugins: plugins.into(), pending: Plugins::default() }
}

#[derive(Default)]
struct QueueFixture {
    queue: Queue,
    now_ms: TimeMs,
}

impl QueueFixture {
    fn entity_info(&mut self, class: u64, priority: i32, count: u32) -> QueuedEntityInfo {
        let (queued_ms, sequence) = self.queue.stamp(self.now_ms);
        let until_ms = self.queue.pace().expiry(queued_ms, count, 1);
        QueuedEntityInfo {
            subject: subject(class),
            place: QueuePosition { priority, queued_ms, sequence },
            until_ms,
            refusals: count,
        }
    }

    fn add(&mut self, name: &str, class: u64, priority: i32) {
        let entity_info = self.entity_info(class, priority, 0);
        self.queue.activate(&uid(name), entity_info, UNSCHEDULED_POD_ADD);
    }

    /// Refuses the pod for the `count`th time.
    fn park(&mut self, name: &str, class: u64, plugins: &[&'static str], count: u32) {
        let entity_info = self.entity_info(class, 0, count);
        self.queue.park(&uid(name), entity_info, by(plugins), false, SCHEDULE_ATTEMPT_FAILURE);
        self.check();
    }

    fn wake(&mut self, plugin: &str) {
        let groups: Vec<GroupId> = self.queue.listening(plugin).map(|(_, id, _, _)| id).collect();
        groups.into_iter().for_each(|id| self.queue.wake(id, false, self.now_ms, "NodeAdd"));
        self.check();
    }

    fn answer(&mut self, class: u64, priority: i32, plugins: &[&'static str]) {
        self.queue.answer_for_all(subject(class), priority, by(plugins), self.now_ms);
        self.check();
    }

    fn pass(&mut self, ms: TimeMs) {
        self.now_ms += ms;
        self.queue.bring_back(self.now_ms);
        self.check();
    }

    fn pop(&mut self) -> bool {
        let first = self.queue.early().next().map(|early| Arc::clone(early.uid));
        first.iter().for_each(|uid| self.queue.pop_from_backoff(uid));
        self.check();
        first.is_some()
    }

    fn early(&self) -> Vec<String> {
        self.queue.early().map(|early| early.uid.to_string()).collect()
    }

    fn head(&self) -> Option<String> {
        self.queue.head().map(|(uid, _)| uid.to_string())
    }

    fn drain(&mut self) -> Vec<String> {
        let mut order = Vec::new();
        while let Some(name) = self.head() {
            self.queue.remove(&uid(&name));
            self.check();
            order.push(name);
        }
        order
    }

    fn check(&self) {
        let (entries, entities) = self.queue.recount();
        assert_eq!(entries, entities);
        assert_eq!(self.queue.lengths().iter().sum::<usize>(), entries);
        let refused: usize = self.queue.refused_by_plugin().values().sum();
        assert!(refused >= self.queue.lengths()[2], "every parked pod counts for a plugin at least");
    }
}

#[test]
fn backoff_ends_with_the_second_that_it_expires_in_and_takes_the_count_of_what_happened_last() {
    let pace = Pace::default();
    let expiries: Vec<TimeMs> = (0..=6).map(|count| pace.expiry(300, count, 1)).collect();
    assert_eq!(expiries, [0, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    assert!(pace.is_going_on(1_000, 1_999), "the second of the expiry counts in full");
    assert!(!pace.is_going_on(1_000, 2_000));
    assert_eq!(Pace::due(1_000), 2_000);
    assert_eq!(pace.expiry(0, 200, 1), 10_000, "no shift is too far");
}

#[test]
fn a_longest_backoff_of_zero_is_none_at_all_and_many_pods_of_an_entity_may_wait_longer() {
    assert_eq!(Pace { max_ms: 0, ..Pace::default() }.expiry(5_000, 3, 1), 0);
    assert_eq!(Pace::default().expiry(0, 9, 4), 20_000, "twice as long for four pods");
    assert_eq!(Pace::default().expiry(0, 1, 4), 1_000, "and not at first");
}

#[test]
fn without_the_gate_backoff_is_exact_and_no_pod_is_popped_before_its_end() {
    let pace = Pace { pops: false, ..Pace::default() };
    assert_eq!(pace.expiry(300, 1, 1), 1_300);
    let mut room = QueueFixture::default();
    room.queue.set_pace(pace);
    room.park("a", 1, &[FIT], 1);
    room.wake(FIT);
    assert!(!room.pop());
    room.pass(2_000);
    assert_eq!(room.head().as_deref(), Some("a"));
}

#[test]
fn a_pod_that_was_tried_keeps_the_time_of_its_attempt_as_its_place() {
    let mut room = QueueFixture::default();
    room.park("tried", 1, &[FIT], 1);
    room.pass(5_000);
    room.add("new", 2, 0);
    room.pass(5_000);
    room.wake(FIT);
    assert_eq!(room.drain(), ["tried", "new"], "by Timestamp, not by when it woke");
}

#[test]
fn an_empty_active_queue_takes_who_was_refused_and_never_who_came_back_with_an_error() {
    let mut room = QueueFixture::default();
    let failed = room.entity_info(1, 100, 1);
    room.queue.err(&uid("failed"), failed, 0, SCHEDULE_ATTEMPT_FAILURE);
    room.park("refused", 2, &[FIT], 4);
    room.wake(FIT);
    assert_eq!(room.queue.lengths(), [0, 2, 0]);
    assert!(room.pop());
    assert_eq!(room.head().as_deref(), Some("refused"));
    room.drain();
    assert!(!room.pop(), "only time brings the other back");
    room.pass(1_999);
    assert_eq!(room.head(), None);
    room.pass(1);
    assert_eq!(room.head().as_deref(), Some("failed"));
}

#[test]
fn pods_are_taken_before_their_time_in_the_order_of_the_active_queue_whenever_their_backoff_ends() {
    let mut room = QueueFixture::default();
    // Pods of one kind form a group at the place of its first pod; the pod of priority 20 has more attempts.
    for (name, class, priority, count) in [("b", 1, 5, 1), ("a", 1, 5, 4), ("high", 2, 20, 5), ("low", 3, 0, 1)] {
        let entity_info = room.entity_info(class, priority, count);
        room.queue.park(&uid(name), entity_info, by(&[FIT]), false, SCHEDULE_ATTEMPT_FAILURE);
        room.now_ms += 400;
    }
    let single = room.entity_info(4, 10, 3);
    room.queue.back_off(&uid("single"), single, SCHEDULE_ATTEMPT_FAILURE);
    room.wake(FIT);
    assert_eq!(room.early(), ["high", "single", "b", "low"]);
    assert_eq!(room.queue.early().map(|early| early.until_ms).collect::<Vec<_>>(), [10_000, 5_000, 1_000, 2_000]);
    let order: Vec<String> =
        std::iter::from_fn(|| room.pop().then(|| room.drain()).and_then(|drained| drained.into_iter().next()))
            .collect();
    assert_eq!(order, ["high", "single", "b", "a", "low"]);
}

#[test]
fn the_queue_of_pods_that_may_be_early_is_that_of_those_that_back_off() {
    let mut room = QueueFixture::default();
    for index in 0..60_u64 {
        room.park(
            &format!("p{index}"),
            index % 7,
            if index % 2 == 0 { &[FIT] } else { &[TAINT] },
            1 + index as u32 % 4,
        );
        if index % 5 == 0 {
            room.wake(if index % 10 == 0 { FIT } else { TAINT });
        }
        if index % 9 == 0 {
            room.pass(700);
        }
        if index % 11 == 0 {
            room.answer(index % 7, 0, &[FIT, TAINT]);
        }
    }
    room.wake(FIT);
    assert!(room.queue.lengths()[1] > 0);
    while room.pop() {
        let head = room.head().expect("it was taken");
        room.queue.remove(&uid(&head));
        room.check();
    }
    assert_eq!(room.queue.lengths()[1], 0, "each has been taken");
}

#[test]
fn a_group_that_is_refused_by_an_attempt_before_its_time_is_not_held_for_longer() {
    let mut room = QueueFixture::default();
    for name in ["a", "b"] {
        room.park(name, 1, &[FIT], 3);
    }
    room.wake(FIT);
    for _ in 0..4 {
        assert!(room.pop());
        let entity_info = QueuedEntityInfo { until_ms: 4_000, ..room.entity_info(1, 0, 3) };
        let head = room.head().expect("it was taken");
        room.queue.park(&uid(&head), entity_info, by(&[FIT]), false, SCHEDULE_ATTEMPT_FAILURE);
        room.answer(1, 0, &[FIT]);
        room.wake(FIT);
        assert_eq!(room.queue.next_backoff(), Some(5_000));
    }
    room.pass(5_000);
    assert_eq!(room.queue.lengths(), [2, 0, 0]);
}

#[test]
fn an_error_without_any_backoff_is_not_tried_twice_at_one_time() {
    let mut room = QueueFixture::default();
    room.queue.set_pace(Pace { max_ms: 0, ..Pace::default() });
    room.now_ms = 4_321;
    let entity_info = room.entity_info(1, 0, 3);
    room.queue.err(&uid("a"), entity_info, room.now_ms, SCHEDULE_ATTEMPT_FAILURE);
    room.pass(0);
    assert_eq!(room.head(), None);
    room.pass(1_000);
    assert_eq!(room.head().as_deref(), Some("a"));
}

#[test]
fn a_group_wakes_as_one_and_its_first_pod_is_at_the_head() {
    let mut room = QueueFixture::default();
    for name in ["a", "b", "c"] {
        room.park(name, 1, &[FIT], 1);
        room.now_ms += 1;
    }
    room.pass(5_000);
    room.wake(TAINT);
    assert_eq!(room.queue.lengths(), [0, 0, 3], "no pod waits for that");
    room.wake(FIT);
    assert_eq!(room.queue.lengths(), [3, 0, 0]);
    assert_eq!(room.queue.waiting(subject(1)), 3);
    assert!(room.queue.head_woke_with_others());
    assert_eq!(room.queue.upcoming(10).count(), 1, "they are asked about once");
    assert_eq!(room.drain(), ["a", "b", "c"]);
}

#[test]
fn what_no_node_has_for_one_no_node_has_for_the_others_and_they_are_parked_again_at_once() {
    let mut room = QueueFixture::default();
    for index in 0..100 {
        room.park(&format!("p{index:02}"), 1, &[FIT], 1);
    }
    room.pass(5_000);
    room.wake(FIT);
    room.park("p00", 1, &[TAINT], 2);
    room.answer(1, 0, &[TAINT]);
    assert_eq!(room.queue.lengths(), [0, 0, 100]);
    room.wake(FIT);
    assert_eq!(room.queue.lengths(), [0, 0, 100], "it is another plugin that they wait for now");
    room.wake(TAINT);
    assert_eq!(room.queue.lengths(), [0, 100, 0], "they back off as if each had been tried");
    room.pass(3_000);
    assert_eq!(room.head().as_deref(), Some("p01"), "who was tried last is the last to be tried again");
    assert_eq!(room.queue.refused_by_plugin().get(&(0, TAINT)), Some(&100));
}

#[test]
fn a_group_that_is_refused_backs_off_like_a_pod_and_a_new_pod_in_it_resets_that() {
    let mut room = QueueFixture::default();
    for name in ["a", "b"] {
        room.park(name, 1, &[FIT], 1);
    }
    let mut waits = Vec::new();
    for round in 0..6 {
        room.now_ms = (room.now_ms / 100_000 + 1) * 100_000;
        if round == 5 {
            room.park("new", 1, &[FIT], 1);
        }
        room.wake(FIT);
        room.answer(1, 0, &[FIT]);
        room.wake(FIT);
        waits.push(room.queue.next_backoff().map_or(0, |due| due - room.now_ms));
    }
    assert_eq!(waits, [3_000, 5_000, 9_000, 11_000, 11_000, 3_000]);
}

#[test]
fn pods_of_a_higher_priority_and_pods_that_are_alone_answer_for_themselves() {
    let mut room = QueueFixture::default();
    for (name, priority, alone) in [("low", 0, false), ("high", 5, false), ("nominated", 0, true)] {
        let entity_info = room.entity_info(1, priority, 1);
        room.queue.park(&uid(name), entity_info, by(&[FIT]), alone, SCHEDULE_ATTEMPT_FAILURE);
    }
    room.pass(5_000);
    room.wake(FIT);
    room.answer(1, 3, &[FIT]);
    assert_eq!(room.drain(), ["high", "nominated"]);
}

#[test]
fn a_pod_that_is_nominated_leaves_its_group_and_comes_back_to_it() {
    let mut room = QueueFixture::default();
    for name in ["a", "b"] {
        room.park(name, 1, &[FIT], 1);
    }
    room.queue.set_alone(&uid("a"), true);
    room.pass(5_000);
    room.wake(FIT);
    room.answer(1, 0, &[FIT]);
    assert_eq!(room.head().as_deref(), Some("a"));
    room.queue.set_alone(&uid("a"), false);
    assert_eq!(room.head().as_deref(), Some("a"), "it is awake, nominated or not");
    room.check();
}

#[test]
fn pods_parked_while_their_group_is_awake_wait_for_the_next_event() {
    let mut room = QueueFixture::default();
    room.park("a", 1, &[FIT], 1);
    room.pass(5_000);
    room.wake(FIT);
    room.park("b", 1, &[FIT], 1);
    assert_eq!(room.queue.lengths(), [1, 0, 1]);
    room.pass(5_000);
    room.wake(FIT);
    assert_eq!(room.queue.lengths(), [2, 0, 0]);
    assert_eq!(room.drain(), ["a", "b"]);
}

#[test]
fn groups_that_are_merged_lose_no_pod_in_either_order() {
    for (many, few) in [(30, 3), (3, 30)] {
        let mut room = QueueFixture::default();
        for index in 0..many {
            room.park(&format!("fit{index}"), 1, &[FIT], 1);
        }
        for index in 0..few {
            room.park(&format!("taint{index}"), 1, &[TAINT], 1);
        }
        room.pass(5_000);
        room.wake(FIT);
        room.answer(1, 0, &[TAINT]);
        assert_eq!(room.queue.lengths(), [0, 0, 33]);
        room.pass(5_000);
        room.wake(TAINT);
        assert_eq!(room.queue.lengths(), [33, 0, 0]);
        assert_eq!(room.drain().len(), 33);
        assert_eq!(room.queue.refused_by_plugin().len(), 0);
    }
}

#[test]
fn a_plugin_that_waits_by_itself_has_its_pods_tried_without_backoff() {
    let mut room = QueueFixture::default();
    let entity_info = room.entity_info(1, 0, 5);
    let rejectors = Rejectors { plugins: [FIT].into(), pending: ["DynamicResources"].into() };
    room.queue.park(&uid("a"), entity_info, rejectors, false, SCHEDULE_ATTEMPT_FAILURE);
    let found: Vec<(GroupId, bool)> =
        room.queue.listening("DynamicResources").map(|(_, id, _, is_pending)| (id, is_pending)).collect();
    let [(id, true)] = found[..] else { panic!("{found:?}") };
    assert!(room.queue.listening(FIT).all(|(_, _, _, is_pending)| !is_pending));
    room.queue.wake(id, true, 0, "NodeAdd");
    assert_eq!(room.head().as_deref(), Some("a"));
}

#[test]
fn the_flush_takes_a_group_that_was_not_tried_for_too_long() {
    let mut room = QueueFixture::default();
    room.park("a", 1, &[FIT], 1);
    room.pass(200_000);
    assert_eq!(room.queue.flush(300_000, room.now_ms), 0);
    room.wake(FIT);
    room.answer(1, 0, &[FIT]);
    room.pass(200_000);
    assert_eq!(room.queue.flush(300_000, room.now_ms), 0, "it was looked at since");
    room.pass(100_001);
    assert_eq!(room.queue.flush(300_000, room.now_ms), 1);
    assert_eq!(room.head().as_deref(), Some("a"));
    assert_eq!(room.queue.incoming().get("active", UNSCHEDULABLE_TIMEOUT), 1);
}

#[test]
fn a_pod_whose_class_changes_keeps_its_place() {
    let mut room = QueueFixture::default();
    room.add("active", 1, 0);
    room.park("parked", 1, &[FIT], 1);
    room.park("woken", 2, &[TAINT], 9);
    room.wake(TAINT);
    for name in ["active", "parked", "woken"] {
        let entity_info = room.queue.entries[&uid(name)].entity_info;
        room.queue.update_entity(&uid(name), QueuedEntityInfo { subject: subject(7), ..entity_info });
        room.check();
    }
    assert_eq!(room.queue.lengths(), [1, 1, 1]);
    assert_eq!((room.queue.waiting(subject(1)), room.queue.waiting(subject(7))), (0, 1));
    assert_eq!(room.queue.listening(FIT).map(|(subject, ..)| subject).collect::<Vec<_>>(), [subject(7)]);
}

#[test]
fn every_way_into_a_queue_is_counted_under_its_event() {
    let mut room = QueueFixture::default();
    room.add("a", 1, 0);
    room.park("a", 1, &[FIT], 1);
    room.wake(FIT);
    room.pass(2_000);
    let entity_info = room.entity_info(1, 0, 1);
    room.queue.err(&uid("a"), entity_info, room.now_ms, SCHEDULE_ATTEMPT_FAILURE);
    room.pass(2_000);
    let counted: Vec<_> = room.queue.incoming().iter().collect();
    let expected = [
        ("active", BACKOFF_COMPLETE, 2),
        ("active", UNSCHEDULED_POD_ADD, 1),
        ("backoff", "NodeAdd", 1),
        ("backoff", SCHEDULE_ATTEMPT_FAILURE, 1),
        ("unschedulable", SCHEDULE_ATTEMPT_FAILURE, 1),
    ];
    assert_eq!(counted, expected);
}

#[test]
fn an_emptied_queue_keeps_nothing_of_its_pods() {
    let mut room = QueueFixture::default();
    for index in 0..50_u64 {
        room.park(&format!("p{index}"), index % 7, if index % 2 == 0 { &[FIT] } else { &[TAINT] }, 1);
    }
    room.pass(3_000);
    room.wake(FIT);
    (0..7).for_each(|class| room.answer(class, 0, &[FIT, TAINT]));
    for index in 0..50 {
        room.queue.remove(&uid(&format!("p{index}")));
        room.check();
    }
    assert_eq!(room.queue.lengths(), [0, 0, 0]);
    assert_eq!(room.queue.groups.ids(), []);
    assert_eq!((room.queue.listeners().len(), room.queue.next_backoff()), (0, None));
    assert_eq!(room.queue.groups.sets_len(), 3, "the sets of plugins alone are kept, for there are few");
}
