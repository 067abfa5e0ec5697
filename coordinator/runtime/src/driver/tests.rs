//! Order, time and termination of the driver.

use std::sync::{Mutex, mpsc as std_mpsc};

use flotilla_framework::registry::Registry;
use flotilla_machine::{action::Action, event::WorkerId, tally::Ended};

use super::*;

type Log = Arc<Mutex<Vec<(TimeMs, Event)>>>;

/// The times of each event: now, the time up to which all answers were received, and the time its requests left.
type Times = Arc<Mutex<Vec<(TimeMs, TimeMs, Option<TimeMs>)>>>;

struct Puppet {
    status: Status,
    wakeups: Vec<TimeMs>,
    log: Log,
    times: Times,
    actions: Vec<Action>,
    machine: Machine,
}

impl Puppet {
    fn new(wakeups: Vec<TimeMs>) -> (Self, Log) {
        let log = Log::default();
        let (status, actions, machine) = (Status::default(), Vec::new(), Machine::new(0, Registry::built_in()));
        (Self { status, wakeups, log: Arc::clone(&log), times: Times::default(), actions, machine }, log)
    }
}

impl Course for Puppet {
    fn handle_event(&mut self, now_ms: TimeMs, event: Event) -> Option<&'static str> {
        self.log.lock().expect("unpoisoned").push((now_ms, event.clone()));
        self.status.decisions += 1;
        self.actions = match event {
            Event::Following => panic!("as asked"),
            Event::Synced => {
                std::thread::sleep(LONG);
                Vec::new()
            }
            Event::Tick => {
                self.wakeups.pop();
                vec![Action::Alone(true)]
            }
            Event::WorkerLost { worker } => {
                let action = |reason: &str| Action::DropWorker { worker, reason: reason.to_owned(), pause_ms: 0 };
                vec![action("first"), action("second")]
            }
            _ => Vec::new(),
        };
        None
    }

    fn poll_actions(&mut self, now_ms: TimeMs, heard_ms: TimeMs) -> Vec<Action> {
        self.times.lock().expect("unpoisoned").push((now_ms, heard_ms, None));
        std::mem::take(&mut self.actions)
    }

    fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        let mut times = self.times.lock().expect("unpoisoned");
        let last = times.last_mut().expect("an event went before");
        assert_eq!(last.0, began_ms);
        last.2 = Some(now_ms);
    }

    fn ended(&self) -> Ended<'_> {
        Ended::default()
    }

    fn next_wakeup(&self) -> Option<TimeMs> {
        self.wakeups.last().copied()
    }

    fn status(&self) -> Status {
        self.status
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

const LONG: Duration = Duration::from_millis(300);

fn news(number: u64) -> Event {
    Event::NodeDeleted { name: number.to_string().into() }
}

fn lost(number: u64) -> Event {
    Event::WorkerLost { worker: WorkerId(number) }
}

#[test]
fn events_are_applied_in_the_order_they_are_told_and_actions_performed_in_the_order_they_are_given() {
    let (puppet, log) = Puppet::new(Vec::new());
    let (actions, performed) = std_mpsc::channel();
    let (handle, thread) = spawn_course(puppet, move |action| actions.send(action).expect("the test listens"));
    let numbers = 0..2_000;
    numbers.clone().for_each(|number| handle.send_event_blocking(lost(number)));
    let given: Vec<_> = performed.iter().take(4_000).collect();
    for (number, pair) in numbers.zip(given.chunks(2)) {
        let action =
            |reason: &str| Action::DropWorker { worker: WorkerId(number), reason: reason.to_owned(), pause_ms: 0 };
        assert_eq!(pair, [action("first"), action("second")]);
    }
    handle.stop();
    thread.join().expect("an orderly end");
    let log = log.lock().expect("unpoisoned");
    assert!(log.is_sorted_by_key(|(now_ms, _)| *now_ms), "time never goes back");
    assert_eq!(handle.applied(), 2_000);
}

#[tokio::test]
async fn a_question_is_answered_while_the_machine_rests_and_is_no_event() {
    let (puppet, log) = Puppet::new(Vec::new());
    let (handle, thread) = spawn_course(puppet, |_| {});
    let first = handle.ask(|machine, now_ms| (machine.status().decisions, now_ms)).await.expect("it lives");
    assert_eq!(first.0, 0);
    handle.send_event(lost(1)).await.expect("it lives");
    tokio::time::sleep(Duration::from_millis(2)).await;
    let later = handle.ask(|_, now_ms| now_ms).await.expect("it lives");
    assert!(later > first.1, "it is told the time");
    while log.lock().expect("unpoisoned").is_empty() {
        handle.ask(|_, _| ()).await.expect("it lives");
    }
    handle.stop();
    thread.join().expect("an orderly end");
    assert_eq!(handle.ask(|_, now_ms| now_ms).await, Err(Stopped));
    assert_eq!(log.lock().expect("unpoisoned").len(), 1, "only what was told is an event");
}

#[tokio::test]
async fn events_that_are_sent_together_are_all_handled_before_the_next_decision() {
    let (puppet, log) = Puppet::new(Vec::new());
    let times = Arc::clone(&puppet.times);
    let (handle, thread) = spawn_course(puppet, |_| {});
    handle.send_together(vec![lost(1), news(2), lost(3)]).await.expect("it lives");
    let handled: Vec<Event> = log.lock().expect("unpoisoned").iter().map(|(_, event)| event.clone()).collect();
    assert_eq!(handled, [lost(1), news(2), lost(3)]);
    assert_eq!(times.lock().expect("unpoisoned").len(), 1, "one decision for all");
    handle.stop();
    thread.join().expect("an orderly end");
    assert_eq!(handle.send_together(vec![lost(4)]).await, Err(Stopped));
}

#[test]
fn a_wake_up_comes_as_a_tick_and_not_before_its_time() {
    let (puppet, log) = Puppet::new(vec![20, 5, 5]);
    let (actions, performed) = std_mpsc::channel();
    let (handle, thread) = spawn_course(puppet, move |action| actions.send(action).expect("the test listens"));
    assert_eq!(performed.iter().take(3).collect::<Vec<_>>(), vec![Action::Alone(true); 3]);
    handle.stop();
    thread.join().expect("an orderly end");
    let log = log.lock().expect("unpoisoned");
    let times: Vec<_> = log.iter().map(|(now_ms, event)| (*now_ms, event.clone())).collect();
    assert!(times.iter().all(|(_, event)| *event == Event::Tick));
    assert!(times[0].0 >= 5 && times[1].0 >= 5 && times[2].0 >= 20, "{times:?}");
}

#[tokio::test]
async fn after_a_panic_every_handle_reports_that_the_machine_has_stopped() {
    let (puppet, _) = Puppet::new(Vec::new());
    let (handle, thread) = spawn_course(puppet, |_| {});
    assert_eq!(handle.progress(Duration::from_secs(1)), Ok(()));
    handle.send_event(Event::Following).await.expect("it lives");
    handle.stopped().await;
    assert_eq!(handle.send_event(Event::Synced).await, Err(Stopped));
    handle.send_event_blocking(Event::Synced);
    assert!(handle.progress(Duration::from_secs(1)).is_err());
    thread.join().expect_err("the panic is handed on");
}

#[tokio::test]
async fn the_status_is_published_when_the_machine_comes_to_rest() {
    let (puppet, _) = Puppet::new(Vec::new());
    let (handle, _thread) = spawn_course(puppet, |_| {});
    for number in 0..100 {
        handle.send_event(lost(number)).await.expect("it lives");
    }
    let mut status = handle.watch_status();
    status.wait_for(|status| status.decisions == 100).await.expect("it lives");
    handle.stop();
    handle.stopped().await;
}

#[tokio::test]
async fn an_event_that_finds_no_room_waits_is_counted_and_is_not_lost() {
    let (release, gate) = std_mpsc::channel::<()>();
    let (puppet, log) = Puppet::new(Vec::new());
    let mut gate = Some(gate);
    let (handle, _thread) = spawn_course(puppet, move |_| {
        if let Some(gate) = gate.take() {
            gate.recv().expect("the test opens it");
        }
    });
    handle.send_event(lost(0)).await.expect("it lives");
    let more = NEWS as u64 + 2 * BATCH as u64;
    let teller = tokio::spawn({
        let handle = handle.clone();
        async move {
            for number in 0..more {
                handle.send_event(news(number)).await.expect("it lives");
            }
        }
    });
    while handle.held_back() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(handle.waiting(), NEWS);
    release.send(()).expect("the gate is there");
    teller.await.expect("all told");
    handle.watch_status().wait_for(|status| status.decisions == more + 1).await.expect("it lives");
    assert_eq!(log.lock().expect("unpoisoned").len() as u64, more + 1);
}

#[tokio::test]
async fn an_answer_does_not_wait_behind_what_the_watches_tell() {
    let (puppet, log) = Puppet::new(Vec::new());
    let (handle, _thread) = spawn_course(puppet, |_| {});
    handle.send_event(Event::Synced).await.expect("it lives");
    for number in 0..1_000 {
        handle.send_event(news(number)).await.expect("it lives");
    }
    handle.send_event_applied(lost(1)).await.expect("it lives");
    let log = log.lock().expect("unpoisoned");
    let place = log.iter().position(|(_, event)| *event == lost(1)).expect("applied");
    // The event in hand, and at most one after it.
    assert!(place <= 2, "{place} events went before");
}

#[tokio::test]
async fn an_answer_that_arrived_in_time_is_not_late_because_the_machine_was_long_at_one_event() {
    let (puppet, log) = Puppet::new(Vec::new());
    let times = Arc::clone(&puppet.times);
    let (handle, _thread) = spawn_course(puppet, |_| {});
    handle.send_event(Event::Synced).await.expect("it lives");
    while log.lock().map_or(true, |log| log.is_empty()) {
        tokio::task::yield_now().await;
    }
    handle.send_event(news(1)).await.expect("it lives");
    handle.send_event(lost(1)).await.expect("it lives");
    tokio::time::sleep(LONG / 6).await;
    handle.send_event_applied(lost(2)).await.expect("it lives");
    handle.send_event_applied(news(2)).await.expect("it lives");
    let (log, times) = (log.lock().expect("unpoisoned"), times.lock().expect("unpoisoned"));
    let of = |event: &Event| times[log.iter().position(|(_, applied)| applied == event).expect("applied")];
    let (long, half) = (of(&Event::Synced), LONG.as_millis() as TimeMs / 2);
    assert!(long.2.is_some_and(|left| left >= long.0 + 2 * half), "what it asked for left at its end: {long:?}");
    for answer in [lost(1), lost(2)] {
        let (now_ms, heard_ms, _) = of(&answer);
        assert!(now_ms >= long.0 + 2 * half && heard_ms <= long.0 + half, "{answer:?}: {now_ms} {heard_ms}");
    }
    let (now_ms, heard_ms, _) = of(&news(2));
    assert_eq!(now_ms, heard_ms, "no answer waits");
}
