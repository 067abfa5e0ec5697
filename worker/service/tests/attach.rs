//! A worker on a real port with the generated client.

#![allow(missing_docs)]

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use flotilla_framework::{
    class::{Class, ClassId},
    domains::Sums,
    explain::shard::Page,
    extension::{Amounts, DomainFilter, Domains, Facts, Filter, Plugin, PreFilter, Preparation, Term},
    node::NodeId,
    profile::{Plugins, Profile, WeightedPlugin},
    registry::Registry,
    replica::Replica,
    shard::{Change, Command, Epoch, FromWorker, Reply, ToWorker, Unable},
    status::FilterResult,
    testing::{node, pod, profile},
};
use flotilla_proto::{SERVICE_NAME, Wire as _, bounds::MAX_MESSAGE_BYTES, pb};
use flotilla_worker_service::{Counters, ServeError, ServeOptions, Transport, serve};
use pb::worker_client::WorkerClient;
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_health::{ServingStatus, pb::HealthCheckRequest, pb::health_client::HealthClient};

#[path = "attach/raw.rs"]
mod raw;

/// Far above any real duration, so that a hanging test reports its place.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it happens within half a minute")
}

struct Worker {
    address: SocketAddr,
    shutdown: CancellationToken,
    counters: Arc<Counters>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Worker {
    async fn start() -> Self {
        Self::start_with(ServeOptions::new(Transport::InsecurePlaintext, Registry::built_in())).await
    }

    async fn start_with(options: ServeOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shutdown = CancellationToken::new();
        let counters = Arc::clone(&options.counters);
        let served = tokio::spawn(serve(listener, options, shutdown.clone()));
        Self { address, shutdown, counters, served }
    }

    async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).expect("an address");
        soon(endpoint.connect()).await.expect("a connection")
    }

    /// Opens a stream on a new connection and reads `Hello`.
    async fn attach(&self) -> Leader {
        let mut client = WorkerClient::new(self.channel().await);
        let (words, outbound) = mpsc::channel(1024);
        let response = soon(client.attach(ReceiverStream::new(outbound))).await.expect("a stream");
        let mut leader = Leader { words, inbound: response.into_inner() };
        let hello = leader.hear().await;
        assert!(matches!(hello.reply, Reply::Hello { .. }), "{hello:?}");
        leader
    }
}

struct Leader {
    words: mpsc::Sender<pb::ToWorker>,
    inbound: Streaming<pb::FromWorker>,
}

impl Leader {
    async fn say(&self, word: &ToWorker) {
        self.words.send(word.encode()).await.expect("the stream is open");
    }

    async fn hear(&mut self) -> FromWorker {
        let message = soon(self.inbound.message()).await.expect("no error").expect("a message");
        FromWorker::decode(message).expect("a message that makes sense")
    }

    /// Drops all messages and returns the status of the stream.
    async fn end(&mut self) -> Status {
        loop {
            match soon(self.inbound.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

fn word(epoch: Epoch, command: Command) -> ToWorker {
    ToWorker { epoch, revision: 7, command }
}

fn configure(epoch: Epoch, profiles: Vec<Profile>) -> ToWorker {
    word(epoch, Command::Configure { generation: 1, tie_break_seed: 42, profiles: profiles.into() })
}

fn snapshot(epoch: Epoch) -> ToWorker {
    let nodes = (0..20).map(|id| {
        let node = node(&format!("node-{id}")).capacity("cpu", &(id % 5).to_string());
        Change::UpsertNode { id: NodeId(id), node: Arc::new(node.build()) }
    });
    word(epoch, Command::Snapshot { first: true, last: true, changes: nodes.collect() })
}

fn register(epoch: Epoch) -> ToWorker {
    let class = pod("p").request("cpu", "2").prefer(5, "kubernetes.io/hostname", "In", &["node-4"]).build().class;
    word(epoch, Command::RegisterClass { id: ClassId(1), class })
}

fn evaluate(epoch: Epoch, request: u64, class: u64) -> ToWorker {
    let command = Command::Evaluate {
        request,
        generation: 1,
        profile: "default-scheduler".into(),
        class: ClassId(class),
        facts: Facts { image_contributions: vec![0], ..Facts::default() }.into(),
        k: 4,
        trace: "".into(),
    };
    word(epoch, command)
}

fn explain(request: u64, after: Option<u32>, limit: u32) -> ToWorker {
    let command = Command::Explain {
        request,
        generation: 1,
        profile: "default-scheduler".into(),
        class: ClassId(1),
        facts: Facts { image_contributions: vec![0], ..Facts::default() }.into(),
        after: after.map(NodeId),
        limit,
        trace: "".into(),
    };
    word(1, command)
}

fn aborted(status: &Status) -> (Code, &str) {
    (status.code(), status.message())
}

#[tokio::test]
async fn the_worker_speaks_first() {
    let worker = Worker::start().await;
    let mut client = WorkerClient::new(worker.channel().await);
    let (_words, outbound) = mpsc::channel::<pb::ToWorker>(1);
    let mut inbound = soon(client.attach(ReceiverStream::new(outbound))).await.expect("a stream").into_inner();
    let first = soon(inbound.message()).await.expect("no error").expect("a message");
    let first = FromWorker::decode(first).expect("a message that makes sense");
    assert_eq!((first.epoch, first.revision), (0, 0));
    let Reply::Hello { version, .. } = first.reply else { panic!("not a hello: {first:?}") };
    assert_eq!(version.as_ref(), env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn each_worker_has_a_nonce_of_its_own_and_keeps_it() {
    let mut nonces = Vec::new();
    for worker in [&Worker::start().await, &Worker::start().await] {
        for _ in 0..2 {
            let mut client = WorkerClient::new(worker.channel().await);
            let inbound = soon(client.attach(tokio_stream::pending())).await.expect("a stream");
            let first = soon(inbound.into_inner().message()).await.expect("no error").expect("a message");
            let Some(pb::from_worker::Reply::Hello(hello)) = first.reply else { panic!("not a hello: {first:?}") };
            nonces.push(hello.nonce);
        }
    }
    assert_eq!((nonces[0], nonces[2]), (nonces[1], nonces[3]));
    assert_ne!(nonces[0], nonces[2]);
}

#[tokio::test]
async fn a_configuration_and_a_whole_shard_are_acknowledged() {
    let worker = Worker::start().await;
    let mut leader = worker.attach().await;
    leader.say(&configure(3, vec![profile()])).await;
    let applied = Reply::Applied { generation: 1, nodes: 0 };
    assert_eq!(leader.hear().await, FromWorker { epoch: 3, revision: 7, reply: applied });
    leader.say(&snapshot(3)).await;
    let applied = Reply::Applied { generation: 1, nodes: 20 };
    assert_eq!(leader.hear().await, FromWorker { epoch: 3, revision: 7, reply: applied });
}

#[tokio::test]
async fn the_answers_are_those_of_the_replica_in_order() {
    let worker = Worker::start().await;
    let mut leader = worker.attach().await;
    let mut words = vec![configure(3, vec![profile()]), snapshot(3), register(3)];
    for request in 0..300 {
        words.push(evaluate(3, request, 1));
        let change = Change::AddPods { node: NodeId(4), class: ClassId(1), count: 1 };
        words.push(word(3, Command::Delta { changes: vec![change] }));
    }
    for word in &words {
        leader.say(word).await;
    }
    let mut replica = Replica::new(Registry::built_in());
    for expected in words.into_iter().filter_map(|word| replica.apply(word)) {
        assert_eq!(leader.hear().await, expected);
    }
    drop(leader.words);
    assert!(soon(leader.inbound.message()).await.expect("no error").is_none());
}

#[tokio::test]
async fn an_account_comes_page_by_page() {
    let worker = Worker::start().await;
    let mut leader = worker.attach().await;
    let words =
        [configure(1, vec![profile()]), snapshot(1), register(1), explain(1, None, 12), explain(2, Some(11), 12)];
    let mut replica = Replica::new(Registry::built_in());
    for word in words {
        leader.say(&word).await;
        if let Some(expected) = replica.apply(word) {
            assert_eq!(leader.hear().await, expected);
        }
    }
    leader.say(&explain(3, Some(19), 12)).await;
    assert_eq!(leader.hear().await.reply, Reply::Explained { request: 3, page: Page::default() });
}

/// Accepts all nodes and requires a label longer than Kubernetes allows.
struct Wordy;

struct Everywhere([Term; 1]);

impl Domains for Everywhere {
    fn terms(&self) -> &[Term] {
        &self.0
    }

    fn amounts(&self, _: &Class) -> Amounts {
        Amounts::new()
    }
}

impl DomainFilter for Everywhere {
    fn judge(&self, _: Sums<'_>) -> FilterResult {
        Ok(())
    }

    fn reasons(&self, _: u64) -> Vec<String> {
        Vec::new()
    }
}

impl Plugin for Wordy {
    fn name(&self) -> &'static str {
        "Wordy"
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        Some(Filter::Domain(Box::new(Everywhere([Term::over(preparation.symbols.number("words"))]))))
    }
}

#[tokio::test]
async fn a_page_that_is_too_large_is_refused_and_a_smaller_one_is_not() {
    let worker = Worker::start_with(ServeOptions::new(Transport::InsecurePlaintext, Registry::of(&[&Wordy]))).await;
    let plugins = Plugins { filter: vec!["Wordy".to_owned()], ..Plugins::default() };
    let mut leader = worker.attach().await;
    leader.say(&configure(1, vec![Profile { plugins, ..profile() }])).await;
    leader.say(&register(1)).await;
    for id in 0..6 {
        let node = node(&format!("node-{id}")).label("words", &id.to_string().repeat(1 << 20)).build();
        let changes = vec![Change::UpsertNode { id: NodeId(id), node: Arc::new(node) }];
        leader.say(&word(1, Command::Delta { changes })).await;
    }
    leader.say(&explain(1, None, 6)).await;
    leader.say(&explain(2, None, 3)).await;
    leader.hear().await;
    assert_eq!(leader.hear().await.reply, Reply::Unable { request: 1, why: Unable::TooLarge });
    let Reply::Explained { request: 2, page } = leader.hear().await.reply else { panic!("no page") };
    assert_eq!((page.nodes.len(), page.more), (3, true));
}

#[tokio::test]
async fn an_unknown_class_is_no_reason_to_end_the_stream() {
    let worker = Worker::start().await;
    let mut leader = worker.attach().await;
    for word in [configure(3, vec![profile()]), snapshot(3), evaluate(3, 9, 404), register(3), evaluate(3, 10, 1)] {
        leader.say(&word).await;
    }
    leader.hear().await;
    leader.hear().await;
    assert_eq!(leader.hear().await.reply, Reply::Unable { request: 9, why: Unable::Class });
    assert!(matches!(leader.hear().await.reply, Reply::Evaluated { request: 10, .. }));
}

#[tokio::test]
async fn a_newer_leader_takes_over_an_empty_worker() {
    let worker = Worker::start().await;
    let mut old = worker.attach().await;
    old.say(&configure(3, vec![profile()])).await;
    old.hear().await;
    let mut new = worker.attach().await;
    new.say(&evaluate(4, 1, 1)).await;
    assert_eq!(new.hear().await.reply, Reply::Unable { request: 1, why: Unable::Generation });
    assert_eq!(aborted(&old.end().await), (Code::Aborted, "a newer leader took over"));
    new.say(&configure(4, vec![profile()])).await;
    assert_eq!(new.hear().await.epoch, 4);
}

#[tokio::test]
async fn the_same_leader_on_a_new_stream_finds_the_worker_empty() {
    let worker = Worker::start().await;
    let mut first = worker.attach().await;
    for word in [configure(3, vec![profile()]), snapshot(3)] {
        first.say(&word).await;
        first.hear().await;
    }
    let mut second = worker.attach().await;
    second.say(&configure(3, vec![profile()])).await;
    assert_eq!(second.hear().await.reply, Reply::Applied { generation: 1, nodes: 0 });
    assert_eq!(aborted(&first.end().await), (Code::Aborted, "the leader attached again"));
}

#[tokio::test]
async fn an_older_leader_is_refused_and_the_newer_one_not_disturbed() {
    let worker = Worker::start().await;
    let mut new = worker.attach().await;
    new.say(&configure(4, vec![profile()])).await;
    new.hear().await;
    let mut old = worker.attach().await;
    old.say(&configure(3, vec![profile()])).await;
    let status = old.end().await;
    assert_eq!(aborted(&status), (Code::FailedPrecondition, "epoch 3 is over: this worker obeys epoch 4"));
    new.say(&snapshot(4)).await;
    assert_eq!(new.hear().await.reply, Reply::Applied { generation: 1, nodes: 20 });
    assert_eq!(worker.counters.read().refused, 1);
}

#[tokio::test]
async fn a_profile_with_a_plugin_that_the_worker_lacks_is_refused_by_name() {
    let worker = Worker::start().await;
    let mut leader = worker.attach().await;
    let mut own = profile();
    own.plugins.score.push(WeightedPlugin { name: "Own".to_owned(), weight: 1 });
    leader.say(&configure(3, vec![profile(), own])).await;
    let status = leader.end().await;
    let message = "profile \"default-scheduler\" runs plugin \"Own\", which this worker does not have; run coordinator and \
                   workers of one build";
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, message));
}

#[tokio::test]
async fn a_stream_speaks_for_one_leader() {
    let worker = Worker::start().await;
    let mut leader = worker.attach().await;
    leader.say(&configure(3, vec![profile()])).await;
    leader.say(&snapshot(4)).await;
    assert!(matches!(leader.hear().await.reply, Reply::Applied { .. }));
    assert_eq!(leader.end().await.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_message_that_makes_no_sense_ends_the_stream_after_the_answers_before_it() {
    let worker = Worker::start().await;
    let mut leader = worker.attach().await;
    leader.say(&configure(3, vec![profile()])).await;
    leader
        .words
        .send(pb::ToWorker { epoch: 3, revision: 8, command: None, timed: false })
        .await
        .expect("the stream is open");
    assert!(matches!(leader.hear().await.reply, Reply::Applied { .. }));
    assert_eq!(aborted(&leader.end().await), (Code::InvalidArgument, "command: is missing"));
    let mut next = worker.attach().await;
    next.say(&configure(3, vec![profile()])).await;
    next.hear().await;
}

#[tokio::test]
async fn bytes_that_are_no_message_are_the_fault_of_the_sender() {
    let worker = Worker::start().await;
    // Field 1, the epoch, as a length-delimited field instead of a number.
    let status = soon(raw::attach(worker.channel().await, vec![0x0a, 0x01, 0x00])).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("ToWorker.epoch"), "{status:?}");
    assert_eq!(worker.counters.read().unreadable, 1);
}

#[tokio::test]
async fn a_message_beyond_the_bound_is_not_read() {
    let worker = Worker::start().await;
    let status = soon(raw::attach(worker.channel().await, vec![0; MAX_MESSAGE_BYTES + 1])).await;
    assert_eq!(status.code(), Code::OutOfRange);
}

struct Broken;

impl Plugin for Broken {
    fn name(&self) -> &'static str {
        "Broken"
    }

    fn pre_filter(&self, _: &mut Preparation<'_>) -> PreFilter {
        panic!("a bug")
    }
}

#[tokio::test]
async fn after_a_panic_of_a_plugin_the_worker_says_so_and_answers_on() {
    let registry = Registry::built_in().with([Box::new(Broken) as Box<dyn Plugin>]).expect("a name of its own");
    let worker = Worker::start_with(ServeOptions::new(Transport::InsecurePlaintext, registry)).await;
    let names = vec!["Broken".to_owned()];
    let plugins = Plugins { pre_filter: names.clone(), filter: names, ..Plugins::default() };
    let broken = Profile { plugins, scheduler_name: "broken".into(), ..profile() };
    let mut leader = worker.attach().await;
    for word in [configure(3, vec![profile(), broken]), snapshot(3), register(3)] {
        leader.say(&word).await;
    }
    for _ in 0..2 {
        assert!(matches!(leader.hear().await.reply, Reply::Applied { .. }));
    }
    let mut asked = evaluate(3, 7, 1);
    if let Command::Evaluate { profile, .. } = &mut asked.command {
        *profile = "broken".into();
    }
    leader.say(&asked).await;
    assert_eq!(leader.hear().await.reply, Reply::Unable { request: 7, why: Unable::Panicked });
    assert_eq!(worker.counters.read().panicked, 1);
    leader.say(&evaluate(3, 8, 1)).await;
    assert!(matches!(leader.hear().await.reply, Reply::Evaluated { request: 8, .. }));
}

#[tokio::test]
async fn there_is_an_end_to_the_streams_that_are_let_in() {
    let worker = Worker::start().await;
    let mut open = Vec::new();
    for _ in 0..16 {
        open.push(worker.attach().await);
    }
    let mut client = WorkerClient::new(worker.channel().await);
    let refused = soon(client.attach(tokio_stream::pending())).await.expect_err("one too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn the_worker_is_healthy_under_both_names() {
    let worker = Worker::start().await;
    let mut client = HealthClient::new(worker.channel().await);
    for service in ["", SERVICE_NAME] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let health = soon(client.check(request)).await.expect("an answer").into_inner();
        assert_eq!(health.status, ServingStatus::Serving as i32, "{service:?}");
    }
}

#[tokio::test]
async fn a_worker_that_stops_says_so() {
    let worker = Worker::start().await;
    let mut client = HealthClient::new(worker.channel().await);
    let mut watch = soon(client.watch(HealthCheckRequest::default())).await.expect("a stream").into_inner();
    let health = soon(watch.message()).await.expect("no error").expect("a message");
    assert_eq!(health.status, ServingStatus::Serving as i32);
    let mut leader = worker.attach().await;
    leader.say(&configure(3, vec![profile()])).await;
    leader.hear().await;
    worker.shutdown.cancel();
    let health = soon(watch.message()).await.expect("no error").expect("a message");
    assert_eq!(health.status, ServingStatus::NotServing as i32);
    assert_eq!(aborted(&leader.end().await), (Code::Unavailable, "the worker is stopping"));
    drop((watch, client, leader));
    soon(worker.served).await.expect("no panic").expect("no error");
}

#[tokio::test]
async fn a_client_that_lingers_cannot_keep_a_worker_from_stopping() {
    let options =
        ServeOptions { grace: Duration::ZERO, ..ServeOptions::new(Transport::InsecurePlaintext, Registry::built_in()) };
    let worker = Worker::start_with(options).await;
    let mut client = HealthClient::new(worker.channel().await);
    let _watch = soon(client.watch(HealthCheckRequest::default())).await.expect("a stream");
    worker.shutdown.cancel();
    soon(worker.served).await.expect("no panic").expect("no error");
}

#[tokio::test]
async fn reflection_lists_the_services() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let worker = Worker::start().await;
    let mut client = ServerReflectionClient::new(worker.channel().await);
    let question = MessageRequest::ListServices(String::new());
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let answers = soon(client.server_reflection_info(tokio_stream::once(request))).await.expect("a stream");
    let answer = soon(answers.into_inner().next()).await.expect("an answer").expect("no error");
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("not a list: {answer:?}")
    };
    let mut names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    names.sort_unstable();
    assert_eq!(names, [SERVICE_NAME, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"]);
}
