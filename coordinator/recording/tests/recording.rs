//! Recordings of real machines and shards: reading, replay, truncation, damage and anonymisation.

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::Arc,
};

use flotilla_framework::{
    class::PodInfo,
    devices::{
        claimed::{ClaimSource, PodClaim, PodDevices},
        model::{
            claim::{Controller, DeviceClaim, DeviceStatus},
            class::DeviceClass,
            request::{
                AllocationMode, Ask, ClaimConfig, ClaimSpec, Configuration as DeviceConfiguration, OpaqueConfiguration,
                Request, RequestKind,
            },
            slice::{Device, Nodes, Slice},
        },
        objects::{ClaimPatch, DeviceObject},
    },
    extender::{Extender, ExtenderTlsConfig},
    extension::objects::{ObjectKey, Patch},
    profile::{Profile, ScoringStrategyKind, WeightedPlugin},
    registry::Registry,
    replica::Replica,
    testing::{self, node, pod},
    volumes::mounts::Owner,
};
use flotilla_machine::{
    action::{Action, PreBind},
    event::{Configuration, Event, WorkerId},
    machine::Machine,
};
use flotilla_recording::{
    Anonymiser, BadRecording, Decision, Difference, End, Entry, Follower, Header, Input, Part, Placed, RecordedItem,
    Replayer, Rerun, Sent, Tape, TurnOutcome, World, begin, write_frame,
};

type Bytes = Vec<u8>;

struct Memory {
    files: Vec<Bytes>,
    is_full: bool,
}

impl Memory {
    fn write(&mut self, entry: &Entry<'_>) {
        let bytes = entry.encode(Vec::new()).expect("it can be written");
        write_frame(&bytes, self.files.last_mut().expect("a file")).expect("memory can be written to");
    }

    fn begin(&mut self, follows: bool) {
        let part = u32::try_from(self.files.len()).expect("few parts");
        self.files.push(Vec::new());
        begin(self.files.last_mut().expect("a file")).expect("memory can be written to");
        let plugins = Header::plugins_of(Registry::built_in());
        let version = "1.2.3".to_owned();
        self.write(&Entry::Header(Header { run: 1, part, follows, version, plugins, anonymised: false }));
    }
}

impl Sent for &mut Memory {
    fn entry(&mut self, bytes: Bytes) -> bool {
        if !self.is_full {
            write_frame(&bytes, self.files.last_mut().expect("a file")).expect("memory can be written to");
        }
        !self.is_full
    }

    fn has_room(&self) -> bool {
        !self.is_full
    }

    fn part(&mut self, known: World, dropped: u64) {
        self.begin(dropped == 0);
        known.events().for_each(|event| self.write(&Entry::Known(Input::of(&event))));
        self.write(&Entry::Resumed { dropped });
    }
}

/// A recorded machine with workers and an API server that executes its writes.
struct Course<'a> {
    machine: Machine,
    tape: Tape<&'a mut Memory>,
    workers: BTreeMap<WorkerId, Replica>,
    pods: BTreeMap<Arc<str>, Arc<PodInfo>>,
    claims: BTreeMap<ObjectKey, DeviceClaim>,
    waiting: VecDeque<Event>,
    now_ms: u64,
}

impl<'a> Course<'a> {
    fn new(memory: &'a mut Memory, part_bytes: u64) -> Self {
        memory.begin(false);
        Self {
            machine: Machine::new(0, Registry::built_in()),
            tape: Tape::new(memory, part_bytes, Registry::built_in()),
            workers: BTreeMap::new(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            waiting: VecDeque::new(),
            now_ms: 0,
        }
    }

    fn tell(&mut self, event: Event) {
        self.waiting.push_back(event);
        while let Some(event) = self.waiting.pop_front() {
            self.now_ms += 1;
            self.tape.event(self.now_ms, &event);
            self.machine.handle_event(self.now_ms, event);
            let actions = self.machine.poll_actions_as_of(self.now_ms, self.now_ms - 1);
            self.tape.actions(self.now_ms - 1, &actions);
            if self.now_ms.is_multiple_of(16) {
                self.machine.asked_at(self.now_ms, self.now_ms + 1);
                self.tape.asked_at(self.now_ms, self.now_ms + 1);
            }
            actions.into_iter().for_each(|action| self.perform(action));
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Send { worker, word } => {
                let said = self.workers.get_mut(&worker).and_then(|replica| replica.apply(word));
                self.waiting.extend(said.map(|word| Event::FromWorker { worker, word }));
            }
            Action::Bind(binding) => {
                self.waiting.push_back(Event::Bound { uid: Arc::clone(&binding.uid) });
                let pod = PodInfo { node_name: Some(binding.node), ..PodInfo::clone(&self.pods[&binding.uid]) };
                self.pods.insert(binding.uid, Arc::new(pod.clone()));
                self.waiting.push_back(Event::PodApplied(Arc::new(pod)));
            }
            Action::Preempt(preemption) => {
                for victim in &preemption.victims {
                    self.waiting.push_back(Event::PodDeleted { uid: Arc::clone(&victim.pod.uid) });
                }
                let (uid, id) = (preemption.preemptor.uid, preemption.id);
                self.waiting.push_back(Event::Preempted { uid, id, failure: None });
            }
            Action::PreBind(ahead) => self.write(&ahead),
            _ => {}
        }
    }

    /// Writes claims; a driver then reports the status of each allocated device.
    fn write(&mut self, ahead: &PreBind) {
        let mut versions = Vec::new();
        for write in &ahead.writes {
            let Patch::Claim(patch) = &write.patch else { panic!("{write:?} is not for a claim") };
            let claim = self.claims.get_mut(&write.object).expect("the claim is there");
            match patch {
                ClaimPatch::SetFinalizers(finalizers) => claim.finalizers.clone_from(finalizers),
                ClaimPatch::SetStatus { allocation, reserved_for, .. } => {
                    claim.allocation = allocation.clone().or_else(|| claim.allocation.take());
                    claim.reserved_for.clone_from(reserved_for);
                    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
                    let status = |device: &flotilla_framework::devices::model::DeviceName| DeviceStatus {
                        device: device.clone(),
                        data: Some(parameters("data").into()),
                        network_data: Some(parameters("network").into()),
                        ..DeviceStatus::default()
                    };
                    claim.statuses = results.map(|result| status(&result.device)).collect();
                }
                other => panic!("{other:?} is not for PreBind"),
            }
            claim.resource_version = (10_000 + self.now_ms + versions.len() as u64).to_string().into();
            versions.push(Arc::clone(&claim.resource_version));
            self.waiting.push_back(Event::ObjectApplied(DeviceObject::from(claim.clone()).into()));
        }
        let uid = Arc::clone(&ahead.uid);
        self.waiting.push_back(Event::Written { uid, id: ahead.id, versions, failure: None });
    }

    fn claim(&mut self, claim: DeviceClaim) {
        let object = DeviceObject::from(claim.clone());
        self.claims.insert(object.key().into(), claim);
        self.tell(Event::ObjectApplied(object.into()));
    }

    fn pod(&mut self, pod: PodInfo) {
        let pod = Arc::new(pod);
        self.pods.insert(Arc::clone(&pod.uid), Arc::clone(&pod));
        self.tell(Event::PodApplied(pod));
    }

    fn advance(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        while self.now_ms < until {
            self.now_ms = self.machine.next_wakeup().unwrap_or(until).clamp(self.now_ms + 1, until);
            self.tell(Event::Tick);
        }
    }
}

fn preempting() -> Profile {
    let mut profile = testing::profile();
    profile.plugins.post_filter = vec!["DefaultPreemption".to_owned()];
    profile.plugins.pre_enqueue.push("DefaultPreemption".to_owned());
    profile
}

const KEY: &str = "-----BEGIN PRIVATE KEY-----";

fn configuration() -> Configuration {
    let tls_config = Some(ExtenderTlsConfig {
        key_data: k8s_openapi_bytes(KEY),
        key_file: "/secret/tls.key".to_owned(),
        ..ExtenderTlsConfig::default()
    });
    // The extender is not interested in any pod.
    let managed = flotilla_framework::extender::ExtenderManagedResource {
        name: "example.com/x".to_owned(),
        ignored_by_scheduler: false,
    };
    let extender = Extender {
        url_prefix: "https://user:password@extender.shop.example/a".to_owned(),
        filter_verb: "filter".to_owned(),
        tls_config,
        managed_resources: vec![managed],
        ..Extender::default()
    };
    Configuration { extenders: vec![Arc::new(extender)].into(), ..Configuration::new(1, vec![preempting()]) }
}

fn k8s_openapi_bytes(text: &str) -> k8s_openapi::ByteString {
    k8s_openapi::ByteString(text.as_bytes().to_vec())
}

/// A pod with a UID in the API server's format.
fn numbered(name: &str, number: usize) -> testing::PodBuilder {
    pod(&format!("{name}-{number}")).uid(&format!("1a9c1f0e-6d52-4b0e-9d4c-{number:012}"))
}

fn fill(course: &mut Course<'_>, full: impl Fn(usize, &mut Course<'_>)) {
    course.tell(Event::Configured(Arc::new(configuration())));
    for index in 0..12_u32 {
        let zone = ["eu-secret-1", "eu-secret-2"][index as usize % 2];
        let built = node(&format!("secret-node-{index}")).label("topology.kubernetes.io/zone", zone);
        let built = built.label("acme.example/team", ["red", "blue", "green"][index as usize % 3]).capacity("cpu", "4");
        let uid = format!("0b9c1f0e-6d52-4b0e-9d4c-{index:012}").into();
        course.tell(Event::NodeApplied(Arc::new(flotilla_framework::node::NodeInfo { uid, ..built.build() })));
    }
    course.tell(Event::Synced);
    course.tell(Event::Leading { epoch: 1 });
    for worker in 1..=3 {
        let id = WorkerId(worker);
        course.workers.insert(id, Replica::new(Registry::built_in()));
        course.tell(Event::WorkerJoined { worker: id, name: format!("10.0.0.{worker}:7443").into() });
    }
    for index in 0..60 {
        full(index, course);
        let cpu = if index % 20 == 19 { "100" } else { ["100m", "500m", "1"][index % 3] };
        let built = numbered("secret-pod", index).label("app", ["secret-shop", "secret-bank"][index % 2]);
        course.pod(built.request("cpu", cpu).build());
        course.advance(50);
    }
    for index in 0..4 {
        let built = numbered("secret-vip", 100 + index).priority(100).request("cpu", "3");
        course.pod(built.build());
        course.advance(2_000);
    }
    course.tell(Event::WorkerLost { worker: WorkerId(2) });
    course.pod(numbered("secret-last", 200).request("cpu", "100m").build());
    course.advance(20_000);
}

fn recorded(part_bytes: u64) -> Vec<Bytes> {
    let mut memory = Memory { files: Vec::new(), is_full: false };
    fill(&mut Course::new(&mut memory, part_bytes), |_, _| {});
    memory.files
}

fn one() -> Bytes {
    recorded(u64::MAX).remove(0)
}

type Entries = Vec<(Entry<'static>, Option<TurnOutcome>)>;

fn read(bytes: &[u8]) -> Result<(Entries, End), BadRecording> {
    let mut part = Part::read(Path::new("run.flr"), bytes)?;
    let mut entries = Vec::new();
    loop {
        match part.next()? {
            RecordedItem::Entry(entry, outcome) => entries.push((entry, outcome)),
            RecordedItem::End(end) => return Ok((entries, end)),
        }
    }
}

fn entries(bytes: &[u8]) -> Entries {
    let (entries, end) = read(bytes).expect("it is a recording");
    assert_eq!(end, End::Whole);
    entries
}

fn replay(entries: Entries) -> (u64, Option<Difference>) {
    let mut replayer = Replayer::new(Registry::built_in());
    let difference = entries
        .into_iter()
        .find_map(|(entry, outcome)| replayer.replay(entry, outcome.as_ref()).expect("it can be read"));
    (replayer.decisions, difference)
}

fn decisions(entries: &Entries) -> impl Iterator<Item = &Decision> {
    entries.iter().filter_map(|(_, outcome)| outcome.as_ref()).flat_map(|outcome| &outcome.decisions)
}

#[test]
fn a_machine_that_is_told_its_recording_decides_the_same() {
    let entries = entries(&one());
    let count = |is: fn(&Decision) -> bool| decisions(&entries).filter(|decision| is(decision)).count();
    assert!(count(|decision| matches!(decision, Decision::Bind { .. })) >= 60);
    assert!(count(|decision| matches!(decision, Decision::Preempt { .. })) > 0);
    assert!(count(|decision| matches!(decision, Decision::Refuse { is_unschedulable: true, .. })) > 0);
    assert!(entries.iter().any(|(entry, _)| matches!(entry, Entry::AskedAt { .. })));
    let all = decisions(&entries).count() as u64;
    assert_eq!(replay(entries), (all, None));
}

#[test]
fn an_input_that_is_left_out_is_told_with_the_decision_that_differs() {
    let mut entries = entries(&one());
    let is_node = |entry: &Entry<'_>| matches!(entry, Entry::Turn { input: Input::Event(event), .. } if matches!(**event, Event::NodeApplied(_)));
    let first = entries.iter().position(|(entry, _)| is_node(entry)).expect("there are nodes");
    entries.remove(first);
    let (_, difference) = replay(entries);
    assert!(difference.is_some_and(|difference| difference.recorded != difference.replayed || difference.is_beside));
}

#[test]
fn parts_that_follow_each_other_are_one_recording() {
    let files = recorded(5_000);
    assert!(files.len() > 3, "only {}", files.len());
    let mut all = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let part = Part::read(Path::new("run.flr"), &file[..]).expect("it is a recording");
        assert_eq!((part.header.part as usize, part.header.follows), (index, index > 0));
        all.extend(entries(file));
    }
    let expected = decisions(&all).count() as u64;
    assert_eq!(replay(all), (expected, None));
}

fn judged(entries: Entries, configuration: Option<Configuration>) -> BTreeMap<String, u64> {
    use flotilla_machine::comparison::DecisionDifference;
    let mut follower = Follower::new(Registry::built_in(), configuration.map(Arc::new));
    let mut verdicts = BTreeMap::new();
    for (entry, outcome) in entries {
        let judged = follower.replay(entry, outcome.as_ref()).expect("it can be read");
        for compared in judged.compared {
            let name = match compared.verdict {
                DecisionDifference::SameNode => "same node",
                DecisionDifference::Neither { same_words: true, .. } => "same words",
                DecisionDifference::Lower { .. } => "lower",
                DecisionDifference::EqualTotal { .. } => "equal",
                other => panic!("{other:?} of {}", compared.pod.name),
            };
            *verdicts.entry(name.to_owned()).or_default() += 1;
        }
        assert_eq!(judged.unjudged, 0);
    }
    verdicts
}

#[test]
fn a_part_by_itself_is_judged_decision_by_decision() {
    let files = recorded(5_000);
    let later = files.get(1).expect("more than one part");
    let entries = entries(later);
    assert!(entries.iter().any(|(entry, _)| matches!(entry, Entry::Resumed { dropped: 0 })));
    let placed = decisions(&entries).filter(|decision| matches!(decision, Decision::Bind { .. })).count() as u64;
    let verdicts = judged(entries, None);
    assert!(placed > 0 && verdicts.keys().all(|verdict| verdict.starts_with("same")), "{placed} {verdicts:?}");
    assert_eq!(verdicts["same node"], placed, "{verdicts:?}");
}

#[test]
fn another_configuration_is_seen_to_decide_otherwise() {
    let mut profile = preempting();
    profile.args.node_resources_fit.scoring_strategy.kind = ScoringStrategyKind::MostAllocated;
    let packing = Configuration::new(1, vec![profile]);
    let all = entries(&one());
    assert!(judged(all.clone(), None).keys().all(|verdict| verdict.starts_with("same")));
    let verdicts = judged(all, Some(packing));
    assert!(verdicts.get("lower").is_some_and(|count| *count > 20), "{verdicts:?}");
}

#[test]
fn other_workers_place_pods_on_the_same_nodes() {
    let all = entries(&one());
    for workers in [1, 5] {
        let mut rerun = Rerun::new(Registry::built_in(), workers);
        all.iter().cloned().for_each(|(entry, outcome)| rerun.replay(entry, outcome.as_ref()).expect("it can be read"));
        let Placed { same, other, only_recorded, only_replayed, .. } = rerun.placed();
        assert_eq!((other, only_recorded, only_replayed), (0, 0, 0), "{workers} workers: {:?}", rerun.placed());
        assert!(same >= 60, "{workers} workers: {:?}", rerun.placed());
    }
}

#[test]
fn turns_that_found_no_room_are_counted_and_a_part_begins_with_the_cluster() {
    use std::cell::Cell;
    let mut memory = Memory { files: Vec::new(), is_full: false };
    // A cell, because a pod's turn changes the memory that the tape owns.
    let lost = Cell::new(0_u64);
    {
        let mut course = Course::new(&mut memory, u64::MAX);
        fill(&mut course, |index, course| {
            course.tape.sent_mut().is_full = (20..30).contains(&index);
            lost.set(lost.get() + u64::from((20..30).contains(&index)));
        });
    }
    assert_eq!((lost.get(), memory.files.len()), (10, 2));
    let later = entries(&memory.files[1]);
    let Some((Entry::Resumed { dropped }, _)) = later.iter().find(|(entry, _)| matches!(entry, Entry::Resumed { .. }))
    else {
        panic!("the part tells where it resumes")
    };
    assert!(*dropped > 10, "{dropped}");
    let header = Part::read(Path::new("run.flr"), &memory.files[1][..]).expect("it is a recording").header;
    assert!(!header.follows);
    let verdicts = judged(later, None);
    assert!(verdicts.keys().all(|verdict| verdict.starts_with("same")), "{verdicts:?}");
}

#[test]
fn nothing_secret_is_recorded() {
    let bytes = one();
    let text = String::from_utf8_lossy(&bytes);
    for secret in [KEY, "PRIVATE", "tls.key", "password", "user:"] {
        assert!(!text.contains(secret), "{secret}");
    }
    assert!(text.contains("extender.shop.example"));
}

/// Driver parameters, plain and in base64.
const PARAMETERS: [&str; 2] = ["hunter2-parameters", "aHVudGVyMi1wYXJhbWV0ZXJz"];

fn parameters(of: &str) -> String {
    format!(r#"{{"of":"{of}","token":"{}","data":"{}"}}"#, PARAMETERS[0], PARAMETERS[1])
}

fn opaque(of: &str) -> DeviceConfiguration {
    let opaque = OpaqueConfiguration { driver: "gpu.example.com".into(), parameters: parameters(of).into() };
    DeviceConfiguration { opaque: Some(opaque) }
}

fn with_devices() -> Profile {
    let name = "DynamicResources";
    let mut profile = preempting();
    let plugins = &mut profile.plugins;
    let points = [
        &mut plugins.pre_enqueue,
        &mut plugins.pre_filter,
        &mut plugins.filter,
        &mut plugins.post_filter,
        &mut plugins.reserve,
        &mut plugins.pre_bind,
    ];
    points
        .into_iter()
        .filter(|point| !point.iter().any(|known| known == name))
        .for_each(|point| point.push(name.to_owned()));
    if !plugins.score.iter().any(|known| known.name == name) {
        plugins.score.push(WeightedPlugin { name: name.to_owned(), weight: 2 });
    }
    profile
}

fn claim_of(pod: &PodInfo, number: usize, of: &str) -> DeviceClaim {
    let ask = Ask { class: "gpu".into(), mode: AllocationMode::Count(1), ..Ask::default() };
    let requests = vec![Request { name: "gpus".into(), kind: RequestKind::Exactly(ask) }];
    let config = vec![ClaimConfig { requests: Vec::new(), configuration: opaque(of) }];
    DeviceClaim {
        namespace: "default".into(),
        name: Arc::clone(&pod.name),
        uid: format!("2b9c1f0e-6d52-4b0e-9d4c-{number:012}").into(),
        resource_version: (1_000 + number).to_string().into(),
        controller: Some(Controller {
            kind: "Pod".into(),
            name: Arc::clone(&pod.name),
            uid: Arc::clone(&pod.uid),
            ..Controller::default()
        }),
        spec: Arc::new(ClaimSpec { requests, config, ..ClaimSpec::default() }),
        ..DeviceClaim::default()
    }
}

/// Pods claim devices with parameters until none are left; then only the parameters of a class change.
fn claim_devices(course: &mut Course<'_>) {
    course.tell(Event::Configured(Arc::new(Configuration::new(1, vec![with_devices()]))));
    let class = |of: &str| DeviceClass { name: "gpu".into(), config: vec![opaque(of)], ..DeviceClass::default() };
    course.tell(Event::ObjectApplied(DeviceObject::from(class("class")).into()));
    for index in 0..3 {
        let name = format!("secret-node-{index}");
        let nodes = Nodes { name: Some(name.as_str().into()), ..Nodes::default() };
        let device = |at: usize| Device { name: format!("gpu-{at}").into(), ..Device::default() };
        let slice = Slice {
            name: format!("secret-slice-{index}").into(),
            driver: "gpu.example.com".into(),
            pool: name.as_str().into(),
            slice_count: 1,
            nodes,
            devices: (0..4).map(device).collect(),
            ..Slice::default()
        };
        course.tell(Event::ObjectApplied(DeviceObject::from(slice).into()));
        let uid = format!("0b9c1f0e-6d52-4b0e-9d4c-{index:012}").into();
        let built = node(&name).capacity("cpu", "16").build();
        course.tell(Event::NodeApplied(Arc::new(flotilla_framework::node::NodeInfo { uid, ..built })));
    }
    course.tell(Event::Synced);
    course.tell(Event::Leading { epoch: 1 });
    for index in 0..14 {
        // Pods with equal claims, including parameters, share a class.
        let built = numbered("secret-pod", index).request("cpu", "1").build();
        let owner = Owner { name: Arc::clone(&built.name), uid: Arc::clone(&built.uid) };
        let claims = vec![PodClaim {
            entry: "gpus".into(),
            source: ClaimSource::Generated(Arc::clone(&built.name)),
            ..PodClaim::default()
        }];
        let devices = PodDevices { owner, claims, ..PodDevices::default() };
        let built =
            numbered("secret-pod", index).request("cpu", "1").class(|class| class.devices = Some(Arc::new(devices)));
        let built = built.build();
        course.claim(claim_of(&built, index, ["red", "blue"][index % 2]));
        course.pod(built);
        course.advance(50);
    }
    course.advance(12_000);
    course.tell(Event::ObjectApplied(DeviceObject::from(class("another")).into()));
    course.advance(12_000);
}

#[test]
fn what_only_drivers_read_is_not_recorded_and_the_same_is_decided() {
    for part_bytes in [u64::MAX, 5_000] {
        let mut memory = Memory { files: Vec::new(), is_full: false };
        claim_devices(&mut Course::new(&mut memory, part_bytes));
        let all: Entries = memory.files.iter().flat_map(|file| entries(file)).collect();
        let count = |is: fn(&Decision) -> bool| decisions(&all).filter(|decision| is(decision)).count();
        assert_eq!(count(|decision| matches!(decision, Decision::Reserve { .. })), 12);
        assert!(count(|decision| matches!(decision, Decision::Refuse { is_unschedulable: true, .. })) > 2);
        let bytes = memory.files.concat();
        let text = String::from_utf8_lossy(&bytes);
        for secret in PARAMETERS.into_iter().chain(["token"]) {
            assert!(!text.contains(secret), "{secret}");
        }
        // The changed class, two kinds of claims, their statuses twice: all marks still differ.
        let marks: std::collections::BTreeSet<&str> =
            text.match_indices("\"left out ").map(|(at, _)| &text[at..at + 27]).collect();
        assert_eq!(marks.len(), 6, "{marks:?}");
        let expected = decisions(&all).count() as u64;
        assert_eq!(replay(all.clone()), (expected, None));
        if let Some(last) = memory.files.get(1) {
            let verdicts = judged(entries(last), None);
            assert!(verdicts.keys().all(|verdict| verdict.starts_with("same")), "{verdicts:?}");
        }
        let mut anonymiser = Anonymiser::default();
        all.iter().for_each(|(entry, outcome)| anonymiser.collect(entry, outcome.as_ref()).expect("it can be read"));
        anonymiser.settle().expect("each has another name");
        let (copy, is_same) = renamed(&anonymiser, &all);
        assert!(is_same && !format!("{copy:?}").contains("secret"));
        assert_eq!(replay(copy), (expected, None));
    }
}

#[test]
fn a_file_that_is_cut_is_read_up_to_there() {
    let bytes = one();
    let whole = entries(&bytes).len();
    let mut lengths = Vec::new();
    for cut in (0..bytes.len()).step_by(97).chain([0, 1, 8, 12, 13]) {
        match read(&bytes[..cut]) {
            Ok((entries, End::Cut { at })) => {
                assert!(at <= cut as u64);
                lengths.push(entries.len());
            }
            Ok((entries, End::Whole)) => lengths.push(entries.len()),
            Err(BadRecording::NotOne(_)) => assert_eq!(cut, 0),
            Err(BadRecording::Empty(_)) => assert!(cut < 1_000, "{cut}"),
            Err(other) => panic!("{cut}: {other}"),
        }
    }
    assert!(lengths.iter().any(|length| *length > whole / 2 && *length < whole));
    let (half, _) = read(&bytes[..bytes.len() / 2]).expect("the beginning is there");
    assert_eq!(replay(half).1, None);
}

#[test]
fn a_byte_that_changed_is_told_with_its_place() {
    let bytes = one();
    for place in (12..bytes.len()).step_by(101) {
        let mut changed = bytes.clone();
        changed[place] ^= 0x10;
        match read(&changed) {
            Err(BadRecording::Corrupt { at, .. }) => assert!(at <= place as u64, "{at} {place}"),
            // A length beyond the end of the file.
            Ok((_, End::Cut { at })) => assert!(at <= place as u64, "{at} {place}"),
            Err(BadRecording::Empty(_)) => assert!(place < 1_000),
            other => panic!("{place}: {:?}", other.map(|(entries, end)| (entries.len(), end))),
        }
    }
}

#[test]
fn what_is_no_recording_or_of_another_version_is_refused() {
    let told = |bytes: &[u8]| read(bytes).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(told(b"apiVersion: v1\nkind: Pod\n").starts_with("run.flr is no recording of a Flotilla coordinator"));
    assert!(told(b"").starts_with("run.flr is no recording"), "{}", told(b""));
    let mut other = one();
    other[8] = 99;
    assert!(told(&other).starts_with("run.flr has version 99 of the format"), "{}", told(&other));
}

/// The anonymised recording, and whether all decisions are equal.
fn anonymised(all: &Entries) -> (Entries, bool) {
    let mut anonymiser = Anonymiser::default();
    all.iter().for_each(|(entry, outcome)| anonymiser.collect(entry, outcome.as_ref()).expect("it can be read"));
    assert!(anonymiser.settle().expect("each has another name") > 80);
    renamed(&anonymiser, all)
}

fn renamed(anonymiser: &Anonymiser, all: &Entries) -> (Entries, bool) {
    let mut replayer = Replayer::new(Registry::built_in());
    let (mut copy, mut is_same) = (Vec::new(), true);
    for (entry, outcome) in all {
        let entry = anonymiser.entry(entry.clone()).expect("it can be read");
        let (Entry::Turn { now_ms, input }, Some(recorded)) = (&entry, outcome) else {
            replayer.replay(entry.clone(), None).expect("it can be read");
            copy.push((entry, None));
            continue;
        };
        let renamed = anonymiser.outcome(recorded).expect("it can be read");
        let replayed = replayer.turn(*now_ms, input.clone(), recorded.heard_ms).expect("it can be read");
        is_same &= anonymiser.learn(recorded, &renamed, &replayed);
        assert!(is_same, "{entry:?}\n{renamed:?}\n{replayed:?}");
        copy.push((entry, Some(replayed)));
    }
    (copy, is_same)
}

#[test]
fn with_other_names_the_same_is_decided() {
    let all = entries(&one());
    let (copy, is_same) = anonymised(&all);
    assert!(is_same);
    let text = format!("{copy:?}");
    for name in ["secret", "acme", "default/", "10.0.0.", "shop.example", "\"red\"", "\"blue\""] {
        assert!(!text.contains(name), "{name}");
    }
    assert!(text.contains("topology.kubernetes.io/zone") && text.contains("NodeResourcesFit"));
    let expected = decisions(&all).count() as u64;
    assert_eq!(replay(copy), (expected, None));
}

fn samples() -> Vec<Event> {
    use flotilla_framework::{
        devices::{
            model::{claim::DeviceClaim, class::DeviceClass, slice::Slice, taint::DeviceTaintRule},
            objects::DeviceObject,
        },
        evaluation::{Evaluation, Stratum},
        extension::objects::Object,
        shard::{FromWorker, Reply},
        volumes::objects::{
            Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, StorageObject, Volume, VolumeAttachment,
        },
    };
    use flotilla_machine::event::ExtensionOutcome;
    let storage = [
        StorageObject::Claim(Claim::default()),
        StorageObject::Volume(Volume::default()),
        StorageObject::StorageClass(StorageClass::default()),
        StorageObject::CsiDriver(CsiDriver::default()),
        StorageObject::StorageCapacity(StorageCapacity::default()),
        StorageObject::CsiNode(CsiNode::default()),
        StorageObject::VolumeAttachment(VolumeAttachment::default()),
    ];
    let devices = [
        DeviceObject::from(DeviceClaim::default()),
        DeviceObject::from(DeviceClass::default()),
        DeviceObject::Slice(Arc::new(Slice::default())),
        DeviceObject::TaintRule(Arc::new(DeviceTaintRule::default())),
    ];
    let objects = storage.into_iter().map(Object::from).chain(devices.into_iter().map(Object::from));
    let evaluation = Evaluation { strata: vec![Stratum::default()], ..Evaluation::default() };
    let word = FromWorker { epoch: 1, revision: 2, reply: Reply::Evaluated { request: 3, evaluation } };
    let outcome = ExtensionOutcome::Done(Box::default());
    let mut events: Vec<Event> = objects.map(Event::ObjectApplied).collect();
    events.extend([
        Event::PodApplied(Arc::new(pod("pod").build())),
        Event::NodeApplied(Arc::new(node("node").build())),
        Event::PodGroupApplied(Arc::new(testing::pod_group("group", Some(2)))),
        Event::FromWorker { worker: WorkerId(1), word },
        Event::Extended { request: 1, outcome },
        Event::Tick,
    ]);
    events
}

#[test]
fn what_is_written_of_an_input_changes_only_with_the_version_of_the_format() {
    let mut bytes = Vec::new();
    for event in samples() {
        bytes = Entry::Turn { now_ms: 1, input: Input::of(&event) }.encode(bytes).expect("it can be written");
    }
    let told = (flotilla_recording::FORMAT, bytes.len(), xxhash_rust::xxh3::xxh3_64(&bytes));
    let known = (5, 410, 10_153_916_271_196_323_462);
    assert_eq!(
        told, known,
        "files of other builds would be read wrongly: raise FORMAT, and write the new numbers here"
    );
}
