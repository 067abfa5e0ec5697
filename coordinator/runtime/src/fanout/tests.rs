//! Streams to real workers on loopback.

use std::{collections::BTreeMap, time::Duration};

use flotilla_framework::shard::{Command, Reply};
use flotilla_machine::event::Event;
use flotilla_transport::{Authority, Identity, Mutual, Role, now_s};
use tokio::{net::TcpListener, sync::mpsc::UnboundedReceiver};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::driver::testing::listener;

mod skew;

async fn worker() -> (String, CancellationToken) {
    worker_over(Transport::InsecurePlaintext).await
}

async fn worker_over(transport: Transport) -> (String, CancellationToken) {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = socket.local_addr().expect("bound").to_string();
    let stop = CancellationToken::new();
    tokio::spawn(flotilla_worker_service::serve(
        socket,
        flotilla_worker_service::ServeOptions::new(transport, Registry::built_in()),
        stop.clone(),
    ));
    (address, stop)
}

/// A role with a certificate of `authority`, and trust in no other.
fn end(role: Role, authority: &Authority) -> Mutual {
    let mutual = Mutual::new(role);
    set(&mutual, authority);
    mutual
}

fn set(mutual: &Mutual, authority: &Authority) {
    let role = mutual.credentials.role();
    let pem = authority.issue(role, now_s()).expect("issued");
    mutual.credentials.set(Identity::from_pem(role, &pem).expect("sound"));
}

async fn next(heard: &mut UnboundedReceiver<Event>) -> Event {
    let event = tokio::time::timeout(Duration::from_secs(30), heard.recv()).await;
    event.expect("something happens").expect("the machine lives")
}

async fn joined(heard: &mut UnboundedReceiver<Event>) -> (WorkerId, Arc<str>) {
    let event = next(heard).await;
    let Event::WorkerJoined { worker, name } = event else { panic!("{event:?}") };
    let event = next(heard).await;
    let Event::FromWorker { worker: from, word } = event else { panic!("{event:?}") };
    assert!(from == worker && matches!(word.reply, Reply::Hello { .. }), "{word:?}");
    (worker, name)
}

fn snapshot() -> ToWorker {
    let command = Command::Snapshot { first: true, last: true, changes: Vec::new() };
    ToWorker { epoch: 7, revision: 3, command }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_joins_is_spoken_with_and_is_lost_when_it_is_not_wanted_any_more() {
    let (address, _stop) = worker().await;
    let (handle, mut heard) = listener();
    let fanout = Fanout::new(handle, Transport::InsecurePlaintext, Registry::built_in());
    fanout.connect(&address);
    fanout.connect(&address);
    let (worker, name) = joined(&mut heard).await;
    assert_eq!(*name, *address);

    fanout.send(worker, snapshot());
    let event = next(&mut heard).await;
    let Event::FromWorker { word, .. } = event else { panic!("{event:?}") };
    assert_eq!((word.epoch, word.revision), (7, 3));
    assert!(matches!(word.reply, Reply::Applied { nodes: 0, .. }), "{word:?}");

    fanout.disconnect(&address);
    assert_eq!(next(&mut heard).await, Event::WorkerLost { worker });
    fanout.send(worker, snapshot());
    let traffic = fanout.traffic();
    assert_eq!((traffic.attached, traffic.lost, traffic.words_dropped), (1, 1, 1));
    assert_eq!((traffic.messages_sent, traffic.messages_received), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_dropped_is_lost_once_and_comes_back_as_another() {
    let (address, _stop) = worker().await;
    let (handle, mut heard) = listener();
    let fanout = Fanout::new(handle, Transport::InsecurePlaintext, Registry::built_in());
    fanout.connect(&address);
    let (before, _) = joined(&mut heard).await;
    for _ in 0..2 {
        fanout.drop_worker(before, "testing", 0);
    }
    assert_eq!(next(&mut heard).await, Event::WorkerLost { worker: before });
    let (after, _) = joined(&mut heard).await;
    assert_ne!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_kept_away_is_left_alone_for_as_long() {
    let (address, _stop) = worker().await;
    let (handle, mut heard) = listener();
    let fanout = Fanout::new(handle, Transport::InsecurePlaintext, Registry::built_in());
    fanout.connect(&address);
    let (before, _) = joined(&mut heard).await;
    let dropped = std::time::Instant::now();
    fanout.drop_worker(before, "testing", 1_500);
    assert_eq!(next(&mut heard).await, Event::WorkerLost { worker: before });
    joined(&mut heard).await;
    assert!(dropped.elapsed() >= Duration::from_millis(1_500), "{:?}", dropped.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_is_lost_and_the_others_stay() {
    let ((first, stop_first), (second, _stop)) = (worker().await, worker().await);
    let (handle, mut heard) = listener();
    let fanout = Fanout::new(handle, Transport::InsecurePlaintext, Registry::built_in());
    fanout.set([first.clone(), second.clone()].into());
    let mut workers = BTreeMap::new();
    while workers.len() < 2 {
        if let Event::WorkerJoined { worker, name } = next(&mut heard).await {
            workers.insert(name.to_string(), worker);
        }
    }
    stop_first.cancel();
    let lost = loop {
        if let Event::WorkerLost { worker } = next(&mut heard).await {
            break worker;
        }
    };
    assert_eq!(lost, workers[&first]);
    fanout.set([second].into());
    assert_eq!(lock(&fanout.inner.streams).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_without_an_answer_is_tried_until_it_is_removed() {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = socket.local_addr().expect("bound").to_string();
    drop(socket);
    let (handle, _heard) = listener();
    let fanout = Fanout::new(handle, Transport::InsecurePlaintext, Registry::built_in());
    fanout.set([address, "no such address".to_owned()].into());
    while fanout.traffic().attach_failures < 4 {
        tokio::task::yield_now().await;
    }
    fanout.set(BTreeSet::new());
    while !lock(&fanout.inner.addresses).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_machine_brings_a_worker_to_work() {
    use flotilla_machine::{action::Action, event::Configuration, machine::Machine};

    let (address, _stop) = worker().await;
    let (actions, mut performed) = mpsc::unbounded_channel();
    let (handle, _thread) = driver::spawn(Machine::new(0, Registry::built_in()), move |action| {
        let _ = actions.send(action);
    });
    let fanout = Fanout::new(handle.clone(), Transport::InsecurePlaintext, Registry::built_in());
    let profiles = flotilla_configuration::Configuration::default().profiles;
    let configuration = Arc::new(Configuration::new(1, profiles));
    for event in [Event::Configured(configuration), Event::Synced, Event::Leading { epoch: 1 }] {
        handle.send_event_applied(event).await.expect("it lives");
    }
    fanout.connect(&address);
    let speaker = fanout.clone();
    tokio::spawn(async move {
        while let Some(action) = performed.recv().await {
            match action {
                Action::Send { worker, word } => speaker.send(worker, word),
                Action::DropWorker { worker, reason, pause_ms } => speaker.drop_worker(worker, &reason, pause_ms),
                _ => {}
            }
        }
    });
    let ready = async { handle.watch_status().wait_for(|status| status.workers_ready == 1).await.map(drop) };
    tokio::time::timeout(Duration::from_secs(30), ready).await.expect("in time").expect("it lives");
    handle.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_attached_with_certificates_and_again_when_the_authority_changes() {
    let authority = || Authority::make(now_s()).expect("an authority");
    let (first, second) = (authority(), authority());
    let (coordinator, other_end) = (end(Role::Coordinator, &first), end(Role::Worker, &first));
    let (address, _stop) = worker_over(Transport::Mutual(other_end.clone())).await;
    let (handle, mut heard) = listener();
    let fanout = Fanout::new(handle, Transport::Mutual(coordinator.clone()), Registry::built_in());
    fanout.connect(&address);
    let (worker, _) = joined(&mut heard).await;
    let shown = other_end.credentials.ready().await.validity().not_after_s;
    assert_eq!(fanout.workers_not_after_s(), Some(shown));

    set(&coordinator, &second);
    assert_eq!(next(&mut heard).await, Event::WorkerLost { worker });
    while coordinator.failures.total() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fanout.workers_not_after_s(), None);
    set(&other_end, &second);
    let (after, _) = joined(&mut heard).await;
    assert_ne!(after, worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_said_before_there_is_a_certificate() {
    let authority = Authority::make(now_s()).expect("an authority");
    let (address, _stop) = worker_over(Transport::Mutual(end(Role::Worker, &authority))).await;
    let (handle, mut heard) = listener();
    let coordinator = Mutual::new(Role::Coordinator);
    let fanout = Fanout::new(handle, Transport::Mutual(coordinator.clone()), Registry::built_in());
    fanout.connect(&address);
    tokio::task::yield_now().await;
    assert_eq!(fanout.traffic(), Traffic::default());
    set(&coordinator, &authority);
    joined(&mut heard).await;
}
