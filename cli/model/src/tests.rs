//! Small clusters with a toy scheduler, which binds each pod to the first node with a free slot.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_cluster::{Cluster, Edit, Gatherer, Loader, Problems, Sources};
use flotilla_framework::{class::PodInfo, node::NodeInfo, plugins::node_affinity};
use flotilla_machine::action::{PodName, Preemption, PreemptorKind, Victim};
use serde_json::{Map, Value};

use super::*;

/// Marks all pods of the label `template: old` as outdated by the workload of their label `app`.
#[derive(Default)]
struct Outdated(BTreeMap<String, String>);

impl Edit for Outdated {
    fn edit(&mut self, kind: &str, object: &mut Map<String, Value>, _: bool) -> bool {
        let text = |pointer: &str| {
            let (first, rest) = pointer.split_once('/')?;
            Some(rest.split('/').try_fold(object.get(first)?, |value, key| value.get(key))?.as_str()?.to_owned())
        };
        if kind == "Pod" && text("metadata/labels/template").as_deref() == Some("old") {
            let name = text("metadata/name").expect("a name");
            self.0.insert(format!("default/{name}"), text("metadata/labels/app").expect("a label"));
        }
        true
    }

    fn added(&mut self) -> Vec<Value> {
        Vec::new()
    }

    fn outdated(&mut self) -> BTreeMap<String, String> {
        self.0.clone()
    }
}

fn gather(text: &str) -> Cluster {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let mut first = Gatherer::default();
    Loader::new(&mut sources, &mut first, &mut problems, &|| ()).text("input".to_owned(), text.to_owned());
    let mut gatherer = Gatherer::default();
    let mut edit = Outdated::default();
    let all = 0..sources.count();
    let end = all.end;
    Loader::new(&mut sources, &mut gatherer, &mut problems, &|| ()).with_edit(Some(&mut edit)).again(all, end);
    let cluster = gatherer.finish(&["default-scheduler"], &mut problems);
    assert_eq!(problems.error_count(), 0, "{:?}", problems.render(&sources));
    cluster
}

/// The state of the toy scheduler.
struct Toy {
    nodes: Vec<Arc<NodeInfo>>,
    pods: Vec<Arc<PodInfo>>,
    waiting: Vec<Arc<PodInfo>>,
}

impl Toy {
    fn new(cluster: &Cluster) -> Self {
        Self { nodes: cluster.nodes.clone(), pods: cluster.bound.clone(), waiting: cluster.pending.clone() }
    }

    fn place(&mut self, controllers: &mut Controllers) {
        for pod in std::mem::take(&mut self.waiting) {
            let slots = |node: &NodeInfo| node.label("slots").and_then(|slots| slots.parse().ok()).unwrap_or(100);
            let used =
                |node: &NodeInfo| self.pods.iter().filter(|pod| pod.node_name.as_ref() == Some(&node.name)).count();
            let is_feasible = |node: &&Arc<NodeInfo>| {
                !node.unschedulable && node_affinity::is_met(&pod.class, node) && used(node) < slots(node)
            };
            match self.nodes.iter().find(is_feasible) {
                Some(node) => {
                    let bound = PodInfo { node_name: Some(Arc::clone(&node.name)), ..PodInfo::clone(&pod) };
                    let bound = Arc::new(bound);
                    controllers.bind(&bound);
                    self.pods.push(bound);
                }
                None => self.waiting.push(pod),
            }
        }
    }

    /// Applies changes and returns them as text: deleted pods, new pods with the name of a former one, and the number of other new pods.
    fn apply(&mut self, changes: Vec<Change>, known: &[String]) -> String {
        let (mut words, mut others) = (Vec::new(), 0);
        for change in changes {
            match change {
                Change::Create(pod) => {
                    let name = pod.name.to_string();
                    if known.contains(&name) {
                        words.push(format!("+{name}"))
                    } else {
                        others += 1
                    }
                    self.waiting.push(pod);
                }
                Change::Delete { pod, by } => {
                    let is_other = |known: &Arc<PodInfo>| known.uid != pod.uid;
                    self.pods.retain(is_other);
                    self.waiting.retain(is_other);
                    let by = if by == Deletion::Evicted { "!" } else { "" };
                    words.push(format!("-{}{by}", pod.name));
                }
                Change::Claim(claim) => words.push(format!("+{}", claim.name)),
                Change::Budget(budget) => words.push(format!("{}={}", budget.name, budget.disruptions_allowed)),
            }
        }
        words.extend((others > 0).then(|| format!("+{others}")));
        words.join(" ")
    }
}

/// The changes of each round, then the report.
fn run(text: &str, drained: &[&str]) -> (Vec<String>, Report) {
    let cluster = gather(text);
    let ordered = cluster.lifecycle.sequences.iter().flat_map(|sequence| &sequence.pods).map(|(_, name)| name);
    let known: Vec<String> =
        cluster.bound.iter().map(|pod| &pod.name).chain(ordered).map(ToString::to_string).collect();
    let drained: Vec<Arc<str>> = drained.iter().map(|node| (*node).into()).collect();
    let start = Start::of(&cluster);
    let mut toy = Toy::new(&start.cluster);
    let mut controllers = Controllers::new(start, &drained, false);
    let mut rounds: Vec<String> = Vec::new();
    let initial = controllers.initial();
    rounds.extend((!initial.is_empty()).then(|| toy.apply(initial, &known)));
    loop {
        toy.place(&mut controllers);
        let changes = controllers.step();
        if changes.is_empty() {
            break;
        }
        rounds.push(toy.apply(changes, &known));
        assert!(rounds.len() < 100, "{rounds:?}");
    }
    (rounds, controllers.report())
}

fn end(report: &Report) -> Vec<String> {
    let rollouts = report.rollouts.iter().map(|one| {
        let end = match &one.end {
            RolloutEnd::Complete => "complete".to_owned(),
            RolloutEnd::Stuck(pods) => {
                let refusal = pods.iter().find_map(|pod| pod.refusal.as_ref());
                let refusal = refusal.map(|refusal| format!(": {refusal}")).unwrap_or_default();
                format!("waits for {}{refusal}", pods.len())
            }
            RolloutEnd::Paused => "paused".to_owned(),
            RolloutEnd::OnDelete(count) => format!("{count} on delete"),
        };
        format!("{} {}/{} {end}", one.title, one.done, one.of)
    });
    let drains = report.drains.iter().map(|one| {
        let blocked = one.blocked.iter().map(|blocked| match &blocked.by {
            Obstacle::Budget { cause, .. } => format!("; {}: {cause}", blocked.pod.key),
            Obstacle::SeveralBudgets(names) => format!("; {}: {}", blocked.pod.key, names.join(", ")),
        });
        format!("{} {}/{}{}", one.node, one.done, one.of, blocked.collect::<String>())
    });
    let not_created = report.not_created.iter().map(NotCreated::text);
    rollouts.chain(drains).chain(not_created).collect()
}

fn nodes(slots: &[usize]) -> String {
    let node = |(at, slots): (usize, &usize)| {
        format!(
            "- {{kind: Node, metadata: {{name: n{}, labels: {{slots: \"{slots}\"}}}}, status: {{allocatable: {{cpu: 8}}}}}}\n",
            at + 1
        )
    };
    let nodes: String = slots.iter().enumerate().map(node).collect();
    format!("kind: List\napiVersion: v1\nitems:\n{nodes}")
}

/// A pod on a node; `owner`: kind and name. `more`: fields of the object.
fn pod(name: &str, node: &str, app: &str, owner: Option<(&str, &str)>, more: &str) -> String {
    let owner = owner.map(|(kind, name)| {
        format!(
            ", ownerReferences: [{{kind: {kind}, name: {name}, uid: {name}, apiVersion: apps/v1, controller: true}}]"
        )
    });
    let template = if more.contains("is new") { "new" } else { "old" };
    let more = more.replace("is new", "");
    format!(
        "- {{kind: Pod, metadata: {{name: {name}, labels: {{app: {app}, pod-template-hash: old, template: {template}}}{}}}, \
         spec: {{nodeName: {node}, containers: [{{name: c}}]}}{more}}}\n",
        owner.unwrap_or_default()
    )
}

fn workload(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "- {{kind: {kind}, metadata: {{name: {name}}}, spec: {{selector: {{matchLabels: {{app: {name}}}}}, {spec}, \
         template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{{name: c, image: new}}]}}}}}}}}\n"
    )
}

/// Old pods `web-1`, `web-2` and so on of a Deployment `web`, each on the node of its number.
fn web(count: usize) -> String {
    (1..=count)
        .map(|at| pod(&format!("web-{at}"), &format!("n{at}"), "web", Some(("ReplicaSet", "web-old")), ""))
        .collect()
}

const UNREADY: &str = ", status: {conditions: [{type: Ready, status: \"False\"}]}";

#[test]
fn deployments_roll_within_surge_and_unavailability() {
    let cases = [
        (
            "one surge pod at a time, and no old one goes before a new one is ready",
            "replicas: 3",
            vec![2, 2, 2],
            vec!["+1", "-web-1 +1", "-web-2 +1", "-web-3"],
            "Deployment default/web 3/3 complete",
        ),
        (
            "a surge pod that fits nowhere stops the rollout",
            "replicas: 3",
            vec![1, 1, 1],
            vec!["+1"],
            "Deployment default/web 0/3 waits for 1",
        ),
        (
            "a surge pod that fits nowhere after one that fits",
            "replicas: 3, strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}",
            vec![1, 1, 2],
            vec!["+2", "-web-3 +1", "-web-1", "-web-2"],
            "Deployment default/web 3/3 complete",
        ),
        (
            "without surge, an old pod makes room",
            "replicas: 3, strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}",
            vec![1, 1, 1],
            vec!["-web-1 +1", "-web-2 +1", "-web-3 +1"],
            "Deployment default/web 3/3 complete",
        ),
        (
            "percentages of surge are rounded up, and those of unavailability down",
            "replicas: 3, strategy: {rollingUpdate: {maxSurge: 50%, maxUnavailable: 50%}}",
            vec![2, 2, 2],
            vec!["-web-1 +3", "-web-2 -web-3"],
            "Deployment default/web 3/3 complete",
        ),
        (
            "none of both means one unavailable",
            "replicas: 3, strategy: {rollingUpdate: {maxSurge: 0%, maxUnavailable: 1%}}",
            vec![1, 1, 1],
            vec!["-web-1 +1", "-web-2 +1", "-web-3 +1"],
            "Deployment default/web 3/3 complete",
        ),
        (
            "all old pods go before the new ones come",
            "replicas: 3, strategy: {type: Recreate}",
            vec![1, 1, 1],
            vec!["-web-1 -web-2 -web-3 +3"],
            "Deployment default/web 3/3 complete",
        ),
        (
            "a paused one does not roll",
            "replicas: 3, paused: true",
            vec![2, 2, 2],
            vec![],
            "Deployment default/web 0/0 paused",
        ),
    ];
    for (what, spec, slots, rounds, expected) in cases {
        let text = nodes(&slots) + &workload("Deployment", "web", spec) + &web(3);
        let (found, report) = run(&text, &[]);
        assert_eq!(
            (found, end(&report)),
            (rounds.iter().map(ToString::to_string).collect(), vec![expected.to_owned()]),
            "{what}"
        );
    }
}

#[test]
fn unready_old_pods_go_first_and_do_not_count_as_available() {
    let pods = web(2) + &pod("web-3", "n3", "web", Some(("ReplicaSet", "web-old")), UNREADY);
    let spec = "replicas: 3, strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}";
    let text = nodes(&[1, 1, 1]) + &workload("Deployment", "web", spec) + &pods;
    let (rounds, report) = run(&text, &[]);
    assert_eq!(rounds, ["-web-3 +1", "-web-1 +1", "-web-2 +1"]);
    assert_eq!(end(&report), ["Deployment default/web 3/3 complete"]);
}

/// A name, the spec, the pods, the free slots of the nodes, the rounds, and the end.
type SetCase = (&'static str, &'static str, String, Vec<usize>, Vec<&'static str>, &'static str);

fn stateful_set_cases() -> Vec<SetCase> {
    let set = |at: usize, more: &str| {
        pod(&format!("db-{at}"), &format!("n{}", at + 1), "db", Some(("StatefulSet", "db")), more)
    };
    let all = |more: &str| set(0, more) + &set(1, "") + &set(2, "");
    vec![
        (
            "one after the other",
            "replicas: 3",
            all(""),
            vec![1, 1, 1],
            vec!["-db-2 +db-2", "-db-1 +db-1", "-db-0 +db-0"],
            "StatefulSet default/db 3/3 complete",
        ),
        (
            "down to the partition",
            "replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}",
            all(""),
            vec![1, 1, 1],
            vec!["-db-2 +db-2"],
            "StatefulSet default/db 1/1 complete",
        ),
        (
            "two at a time",
            "replicas: 3, podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {maxUnavailable: 2}}",
            all(""),
            vec![1, 1, 1],
            vec!["-db-2 -db-1 +db-1 +db-2", "-db-0 +db-0"],
            "StatefulSet default/db 3/3 complete",
        ),
        (
            "an unready pod stops an ordered one",
            "replicas: 3",
            all(UNREADY),
            vec![1, 1, 1],
            vec![],
            "StatefulSet default/db 0/3 waits for 1",
        ),
        (
            "an unready pod goes first in a parallel one",
            "replicas: 3, podManagementPolicy: Parallel",
            all(UNREADY),
            vec![1, 1, 1],
            vec!["-db-0 +db-0", "-db-2 +db-2", "-db-1 +db-1"],
            "StatefulSet default/db 3/3 complete",
        ),
        (
            "a pod that fits no more stops it",
            "replicas: 3",
            all(""),
            vec![1, 1, 0],
            vec!["-db-2 +db-2"],
            "StatefulSet default/db 0/3 waits for 1",
        ),
        (
            "nothing happens on delete",
            "replicas: 3, updateStrategy: {type: OnDelete}",
            all(""),
            vec![1, 1, 1],
            vec![],
            "StatefulSet default/db 0/3 3 on delete",
        ),
    ]
}

#[test]
fn stateful_sets_roll_from_the_highest_ordinal_down() {
    for (what, spec, pods, slots, rounds, expected) in stateful_set_cases() {
        let text = nodes(&slots) + &workload("StatefulSet", "db", spec) + &pods;
        let (found, report) = run(&text, &[]);
        assert_eq!(
            (found, end(&report)),
            (rounds.iter().map(ToString::to_string).collect(), vec![expected.to_owned()]),
            "{what}"
        );
    }
}

/// A name, the spec, the pods, the free slots of the nodes, the pods at the start, the rounds, and the end.
type OrderCase =
    (&'static str, &'static str, String, Vec<usize>, Vec<&'static str>, Vec<&'static str>, Vec<&'static str>);

fn order_cases() -> Vec<OrderCase> {
    let set = |at: usize, more: &str| pod(&format!("db-{at}"), "n1", "db", Some(("StatefulSet", "db")), more);
    vec![
        (
            "each pod after the one before it",
            "replicas: 3",
            String::new(),
            vec![9],
            vec!["db-0"],
            vec!["+db-1", "+db-2"],
            vec![],
        ),
        (
            "all at once",
            "replicas: 3, podManagementPolicy: Parallel",
            String::new(),
            vec![1],
            vec!["db-0", "db-1", "db-2"],
            vec![],
            vec![],
        ),
        (
            "a pending pod stops the next ones",
            "replicas: 4",
            String::new(),
            vec![1],
            vec!["db-0"],
            vec!["+db-1"],
            vec!["StatefulSet default/db: 2 pods are not created: it is OrderedReady, and default/db-1 is not ready"],
        ),
        (
            "an unready pod of the input stops the next one",
            "replicas: 2",
            set(0, &format!("{UNREADY}is new")),
            vec![9],
            vec![],
            vec![],
            vec!["StatefulSet default/db: 1 pod is not created: it is OrderedReady, and default/db-0 is not ready"],
        ),
        (
            "a missing pod between others",
            "replicas: 4",
            set(0, "is new") + &set(2, "is new"),
            vec![9],
            vec!["db-1"],
            vec!["+db-3"],
            vec![],
        ),
        (
            "a claim comes with its pod",
            "replicas: 2, volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast}}]",
            String::new(),
            vec![9],
            vec!["db-0"],
            vec!["+data-db-1 +db-1"],
            vec![],
        ),
    ]
}

fn order_cases_with_updates() -> Vec<OrderCase> {
    let old = pod("db-0", "n1", "db", Some(("StatefulSet", "db")), "");
    vec![
        (
            "old pods are replaced after the missing ones are ready",
            "replicas: 3",
            old.clone(),
            vec![9],
            vec!["db-1"],
            vec!["+db-2", "-db-0 +db-0"],
            vec!["StatefulSet default/db 1/1 complete"],
        ),
        (
            "missing pods are also created if old ones are kept",
            "replicas: 3, updateStrategy: {type: OnDelete}",
            old,
            vec![9],
            vec!["db-1"],
            vec!["+db-2"],
            vec!["StatefulSet default/db 0/1 1 on delete"],
        ),
    ]
}

#[test]
fn stateful_sets_create_pods_in_order() {
    for (what, spec, pods, slots, first, rounds, expected) in
        order_cases().into_iter().chain(order_cases_with_updates())
    {
        let text = nodes(&slots) + &workload("StatefulSet", "db", spec) + &pods;
        let cluster = gather(&text);
        let start = Start::of(&cluster);
        let pending: Vec<&str> = start.cluster.pending.iter().map(|pod| &*pod.name).collect();
        assert_eq!(pending, first, "{what}");
        let (found, report) = run(&text, &[]);
        assert_eq!((found, end(&report)), (owned(&rounds), owned(&expected)), "{what}");
    }
}

#[test]
fn evicted_pods_of_a_stateful_set_come_back_in_order() {
    let set = |at: usize| pod(&format!("db-{at}"), "n1", "db", Some(("StatefulSet", "db")), "is new");
    let cases = [
        (vec![9, 2], vec!["-db-0! -db-1! +db-0", "+db-1"], vec!["n1 2/2"]),
        (
            vec![9, 0],
            vec!["-db-0! -db-1! +db-0"],
            vec![
                "n1 2/2",
                "StatefulSet default/db: 1 pod is not created: it is OrderedReady, and default/db-0 is not ready",
            ],
        ),
    ];
    for (slots, rounds, expected) in cases {
        let text = cordoned(&nodes(&slots), "n1") + &workload("StatefulSet", "db", "replicas: 2") + &set(0) + &set(1);
        let (found, report) = run(&text, &["n1"]);
        assert_eq!((found, end(&report)), (owned(&rounds), owned(&expected)), "{slots:?}");
    }
}

#[test]
fn last_pods_are_created_when_nothing_else_happens() {
    let other = "- {kind: Pod, metadata: {name: copy}, spec: {containers: [{name: c}]}}\n";
    let mut cluster = gather(&(nodes(&[9]) + other + &workload("StatefulSet", "db", "replicas: 2")));
    cluster.lifecycle.last = [("default".into(), "copy".into())].into();
    let start = Start::of(&cluster);
    let mut toy = Toy::new(&start.cluster);
    let mut controllers = Controllers::new(start, &[], false);
    let known = owned(&["db-0", "db-1", "copy"]);
    for expected in ["+db-1", "+copy", ""] {
        toy.place(&mut controllers);
        assert_eq!(toy.apply(controllers.step(), &known), expected);
    }
}

/// A Deployment's spec, the quota, the rounds, and the end.
type QuotaCase = (&'static str, &'static str, &'static str, Vec<&'static str>, Vec<&'static str>);

#[test]
fn rollouts_stay_within_quotas() {
    let cases: [QuotaCase; 4] = [
        (
            "a surge pod over quota stops the rollout",
            "replicas: 3",
            "pods: 3",
            vec![],
            vec![
                "Deployment default/web 0/3 waits for 1: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3",
            ],
        ),
        (
            "room for one surge pod",
            "replicas: 3",
            "pods: 4",
            vec!["+1", "-web-1 +1", "-web-2 +1", "-web-3"],
            vec!["Deployment default/web 3/3 complete"],
        ),
        (
            "a deleted pod makes room",
            "replicas: 3, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}",
            "pods: 3",
            vec!["-web-1 +1", "-web-2 +1", "-web-3 +1"],
            vec!["Deployment default/web 3/3 complete"],
        ),
        (
            "all old pods make room",
            "replicas: 3, strategy: {type: Recreate}",
            "pods: 3",
            vec!["-web-1 -web-2 -web-3 +3"],
            vec!["Deployment default/web 3/3 complete"],
        ),
    ];
    for (what, spec, hard, rounds, expected) in cases {
        let quota = format!("- {{kind: ResourceQuota, metadata: {{name: q}}, spec: {{hard: {{{hard}}}}}}}\n");
        let text = nodes(&[9, 9, 9]) + &quota + &workload("Deployment", "web", spec) + &web(3);
        let (found, report) = run(&text, &[]);
        assert_eq!((found, end(&report)), (owned(&rounds), owned(&expected)), "{what}");
    }
}

#[test]
fn evicted_pods_are_charged_to_quotas_again() {
    let quota = "- {kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 2}}}\n";
    let text = cordoned(&nodes(&[9, 9]), "n1")
        + quota
        + &workload("ReplicaSet", "web", "replicas: 2")
        + &replica(1, "n1", "")
        + &replica(2, "n1", "");
    let (rounds, report) = run(&text, &["n1"]);
    assert_eq!((rounds, end(&report)), (owned(&["-web-1! +web-1 -web-2! +web-2"]), owned(&["n1 2/2"])));
}

#[test]
fn a_pod_of_a_stateful_set_over_quota_stops_the_next_ones() {
    let quota = "- {kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 2}}}\n";
    let old = |at: usize| pod(&format!("db-{at}"), "n1", "db", Some(("StatefulSet", "db")), "is new");
    let bare = pod("bare", "n1", "bare", None, "is new");
    let text = nodes(&[9]) + quota + &workload("StatefulSet", "db", "replicas: 3") + &old(0) + &bare;
    let cluster = gather(&text);
    assert!(cluster.pending.is_empty(), "{:?}", cluster.pending);
    assert_eq!(cluster.made.refused.len(), 1, "{:?}", cluster.made.refused);
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn daemon_sets_roll_node_by_node() {
    let on = |at: usize| pod(&format!("log-{at}"), &format!("n{at}"), "log", Some(("DaemonSet", "log")), "");
    let cases = [
        ("", vec![1, 1, 1], vec!["-log-1 +1", "-log-2 +1", "-log-3 +1"], "DaemonSet default/log 3/3 complete"),
        (
            "updateStrategy: {rollingUpdate: {maxUnavailable: 50%}}, ",
            vec![1, 1, 1],
            vec!["-log-1 -log-2 +2", "-log-3 +1"],
            "DaemonSet default/log 3/3 complete",
        ),
        (
            "updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}, ",
            vec![2, 2, 2],
            vec!["+1", "-log-1 +1", "-log-2 +1", "-log-3"],
            "DaemonSet default/log 3/3 complete",
        ),
        (
            "updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}, ",
            vec![1, 2, 2],
            vec!["+1"],
            "DaemonSet default/log 0/3 waits for 1",
        ),
        ("updateStrategy: {type: OnDelete}, ", vec![1, 1, 1], vec![], "DaemonSet default/log 0/3 3 on delete"),
    ];
    for (spec, slots, rounds, expected) in cases {
        let text = nodes(&slots)
            + &workload("DaemonSet", "log", &format!("{spec}minReadySeconds: 0"))
            + &on(1)
            + &on(2)
            + &on(3);
        let (found, report) = run(&text, &[]);
        assert_eq!(
            (found, end(&report)),
            (rounds.iter().map(ToString::to_string).collect(), vec![expected.to_owned()]),
            "{spec}"
        );
    }
}

fn cordoned(text: &str, node: &str) -> String {
    text.replace(
        &format!("metadata: {{name: {node}, "),
        &format!("spec: {{unschedulable: true}}, metadata: {{name: {node}, "),
    )
}

fn budget(name: &str, app: &str, spec: &str, status: &str) -> String {
    format!(
        "- {{kind: PodDisruptionBudget, metadata: {{name: {name}}}, spec: {{{spec}, selector: {{matchLabels: {{app: {app}}}}}}}{status}}}\n"
    )
}

/// A name, the pods, the free slots of the nodes, the rounds, and the end.
type DrainCase = (&'static str, String, Vec<usize>, Vec<&'static str>, &'static str);

fn replica(at: usize, node: &str, more: &str) -> String {
    pod(&format!("web-{at}"), node, "web", Some(("ReplicaSet", "web")), &format!("{more}is new"))
}

fn drain_cases() -> Vec<DrainCase> {
    let three = replica(1, "n1", "") + &replica(2, "n1", "") + &replica(3, "n2", "");
    let status = ", status: {disruptionsAllowed: 0, currentHealthy: 3, desiredHealthy: 3, expectedPods: 3}";
    vec![
        ("without a budget all at once", three.clone(), vec![9, 9], vec!["-web-1! +web-1 -web-2! +web-2"], "n1 2/2"),
        (
            "one after the other, because each replacement frees the budget",
            three.clone() + &budget("web", "web", "minAvailable: 2", ""),
            vec![9, 9],
            vec!["web=1", "-web-1! +web-1 web=0", "web=1 -web-2! +web-2 web=0", "web=1"],
            "n1 2/2",
        ),
        (
            "a replacement that fits nowhere blocks the rest",
            three.clone() + &budget("web", "web", "maxUnavailable: 1", ""),
            vec![9, 1],
            vec!["web=1", "-web-1! +web-1 web=0"],
            "n1 1/2; default/web-2: The disruption budget web needs 2 healthy pods and has 2 currently",
        ),
        (
            "a budget that allows none blocks all",
            three.clone() + &budget("web", "web", "minAvailable: 100%", ""),
            vec![9, 9],
            vec![],
            "n1 0/2; default/web-1: The disruption budget web needs 3 healthy pods and has 3 currently; default/web-2: The \
             disruption budget web needs 3 healthy pods and has 3 currently",
        ),
        (
            "the status of the input counts until a pod changes",
            three + &budget("web", "web", "minAvailable: 1", status),
            vec![9, 9],
            vec![],
            "n1 0/2; default/web-1: The disruption budget web needs 3 healthy pods and has 3 currently; default/web-2: The \
             disruption budget web needs 3 healthy pods and has 3 currently",
        ),
    ]
}

fn unhealthy_cases() -> Vec<DrainCase> {
    vec![
        (
            "two budgets are an error",
            replica(1, "n1", "")
                + &budget("a", "web", "minAvailable: 0", "")
                + &budget("b", "web", "minAvailable: 0", ""),
            vec![9, 9],
            vec!["a=1 b=1", "a=3 b=3"],
            "n1 0/1; default/web-1: default/a, default/b",
        ),
        (
            "an unready pod goes if enough others are healthy",
            replica(1, "n1", UNREADY)
                + &replica(2, "n2", "")
                + &replica(3, "n2", "")
                + &budget("web", "web", "minAvailable: 2", ""),
            vec![9, 9],
            vec!["-web-1! +web-1", "web=1"],
            "n1 1/1",
        ),
        (
            "an unready pod is kept if the budget is not met",
            replica(1, "n1", UNREADY)
                + &replica(2, "n2", "")
                + &replica(3, "n2", "")
                + &budget("web", "web", "minAvailable: 3", ""),
            vec![9, 9],
            vec![],
            "n1 0/1; default/web-1: The disruption budget web needs 3 healthy pods and has 2 currently",
        ),
        (
            "unless its budget allows that",
            replica(1, "n1", UNREADY)
                + &replica(2, "n2", "")
                + &replica(3, "n2", "")
                + &budget("web", "web", "minAvailable: 3, unhealthyPodEvictionPolicy: AlwaysAllow", ""),
            vec![9, 9],
            vec!["-web-1! +web-1"],
            "n1 1/1",
        ),
    ]
}

#[test]
fn drains_evict_within_budgets_and_over_time() {
    let set = workload("ReplicaSet", "web", "replicas: 3");
    for (what, pods, slots, rounds, expected) in drain_cases().into_iter().chain(unhealthy_cases()) {
        let text = cordoned(&nodes(&slots), "n1") + &set + &pods;
        let (found, report) = run(&text, &["n1"]);
        assert_eq!(
            (found, end(&report)),
            (rounds.iter().map(ToString::to_string).collect(), vec![expected.to_owned()]),
            "{what}"
        );
    }
}

#[test]
fn drains_report_what_kubectl_needs_flags_for() {
    let bare = pod("bare", "n1", "bare", None, "is new");
    let log = pod("log", "n1", "log", Some(("DaemonSet", "log")), "is new");
    let scratch = pod("scratch", "n1", "scratch", Some(("ReplicaSet", "s")), "is new")
        .replace("containers: [{name: c}]", "containers: [{name: c}], volumes: [{name: v, emptyDir: {}}]");
    let mirror = pod("mirror", "n1", "mirror", Some(("Node", "n1")), "is new")
        .replace("labels: {app: mirror", "annotations: {kubernetes.io/config.mirror: x}, labels: {app: mirror");
    let text = cordoned(&nodes(&[9, 9]), "n1") + &bare + &log + &scratch + &mirror;
    let (rounds, report) = run(&text, &["n1"]);
    assert_eq!(rounds, ["-bare! -scratch! +scratch"]);
    let drain = &report.drains[0];
    assert_eq!((drain.done, drain.of), (2, 2));
    assert_eq!(drain.unmanaged, ["default/bare"]);
    assert_eq!(drain.with_empty_dir, ["default/scratch"]);
    assert_eq!(drain.of_daemon_sets, ["default/log"]);
}

#[test]
fn budgets_of_pods_without_a_scale_allow_none_unless_a_number_must_be_available() {
    let job = |more: &str| pod("sum", "n1", "sum", Some(("Job", "sum")), "is new") + &budget("sum", "sum", more, "");
    let cases = [("maxUnavailable: 1", vec![]), ("minAvailable: 50%", vec![]), ("minAvailable: 0", vec!["sum=1"])];
    for (spec, rounds) in cases {
        let (found, _) = run(&(nodes(&[9]) + &job(spec)), &[]);
        assert_eq!(found, rounds, "{spec}");
    }
}

#[test]
fn an_old_pod_of_a_set_that_is_preempted_comes_back_with_the_new_template() {
    let old = pod("db-0", "n1", "db", Some(("StatefulSet", "db")), "");
    let cluster =
        gather(&(nodes(&[1]) + &workload("StatefulSet", "db", "replicas: 1, updateStrategy: {type: OnDelete}") + &old));
    let mut controllers = Controllers::new(Start::of(&cluster), &[], false);
    let name =
        |name: &str, uid: &Arc<str>| PodName { uid: Arc::clone(uid), namespace: "default".into(), name: name.into() };
    let preemption = |victim: PodName| Preemption {
        id: Default::default(),
        preemptor: name("vip", &"vip".into()),
        kind: PreemptorKind::Pod,
        pods: vec!["vip".into()],
        scheduler_name: "default-scheduler".into(),
        node: Some("n1".into()),
        victims: vec![Victim { pod: victim, generation: 0 }],
        in_memory: Vec::new(),
    };
    let changes = controllers.preempt(&preemption(name("db-0", &cluster.bound[0].uid)));
    let [Change::Delete { by: Deletion::Preempted, .. }, Change::Create(pod)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    let new = cluster.lifecycle.rollouts[0].new[0].as_ref().expect("a new pod");
    assert_eq!(pod, new);
    let stale = controllers.preempt(&preemption(name("db-0", &cluster.bound[0].uid)));
    assert_eq!(stale, [], "a deletion names the UID");
}
