//! The pods because of which nodes are infeasible: their names, and the terms of the affinity.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{AffinityTerm, Class, ClassId, PodInfo},
    explain::{NodeExplanation, lack::Lack},
    labels::{LabelOperator, LabelRequirement, LabelSelector},
    map::Map,
    node::NodeId,
    plugins::inter_pod_affinity::{means, own_term_means},
};

use super::{
    account::Account,
    amount::Amount,
    words,
    world::name,
    world::{Subject, World},
};

const MOST_SENTENCES: usize = 5;
const MOST_NODES: usize = 3;

/// A pod on a node, or one that is nominated to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Obstacle {
    /// `namespace/name`.
    pub(crate) key: String,
    pub(crate) node: NodeId,
    pub(crate) uid: Arc<str>,
    /// It is only nominated.
    pub(crate) is_nominated: bool,
    class: ClassId,
}

/// The kind of an inter-pod lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Away,
    Welcome,
    Near,
}

/// Sentences about the pods in the way, and about room that is reserved.
pub fn sentences(account: &Account, subject: &Subject, world: &World) -> Vec<String> {
    let mut refused: BTreeMap<(Kind, Arc<str>), Vec<NodeId>> = BTreeMap::new();
    for (id, outcome) in &account.explanation.nodes {
        let NodeExplanation::Refused { domain: Some(shortfall), .. } = outcome else { continue };
        for (kind, key) in shortfall.lacks.iter().filter_map(kind) {
            refused.entry((kind, Arc::clone(key))).or_default().push(*id);
        }
    }
    let mut sentences = Vec::new();
    for ((kind, key), nodes) in &refused {
        let domains = Domains { key, values: values(world, key, nodes) };
        match kind {
            Kind::Away => avoided(&account.pod, subject, &domains, world, &mut sentences),
            Kind::Welcome => sentences.extend(excluding(&account.pod, subject, &domains, world)),
            Kind::Near => missed(&account.pod, subject, &domains, nodes, world, &mut sentences),
        }
    }
    sentences.extend(reserved(account, world));
    let more = sentences.len().saturating_sub(MOST_SENTENCES);
    sentences.truncate(MOST_SENTENCES);
    if more > 0 {
        sentences.push(format!("{more} more terms refuse nodes."));
    }
    sentences
}

/// The pods that must go, so that no term refuses a node; `None` for a lack that other pods do not cause.
pub(crate) fn obstacles(
    pod: &PodInfo,
    subject: &Subject,
    node: NodeId,
    lack: &Lack,
    world: &World,
) -> Option<Vec<Obstacle>> {
    let (kind, key) = kind(lack)?;
    let domains = Domains { key, values: values(world, key, &[node]) };
    match kind {
        Kind::Away => {
            let terms = terms(subject).filter(|(is_anti, term, _)| *is_anti && term.topology_key == *key);
            let terms: Vec<_> = terms.collect();
            let is_one = |class: &Class| terms.iter().any(|(_, term, selected)| own_term_means(term, selected, class));
            Some(domains.pods(world, pod, is_one))
        }
        Kind::Welcome => Some(domains.pods(world, pod, |class| excludes(class, key, subject).is_some())),
        Kind::Near => None,
    }
}

fn kind(lack: &Lack) -> Option<(Kind, &Arc<str>)> {
    match lack {
        Lack::Away(key) => Some((Kind::Away, key)),
        Lack::Welcome(key) => Some((Kind::Welcome, key)),
        Lack::Near(key) => Some((Kind::Near, key)),
        _ => None,
    }
}

/// Domains of a topology key.
struct Domains<'a> {
    key: &'a str,
    values: BTreeSet<Arc<str>>,
}

fn values(world: &World, key: &str, nodes: &[NodeId]) -> BTreeSet<Arc<str>> {
    nodes.iter().filter_map(|&id| world.node(id)?.label(key).map(Arc::from)).collect()
}

impl Domains<'_> {
    /// The pods in the domains with a class that fits, by name.
    fn pods(&self, world: &World, pod: &PodInfo, is_one: impl Fn(&Class) -> bool) -> Vec<Obstacle> {
        let mut found = matching(world, pod, is_one);
        found.retain(|one| self.has(world, one.node));
        found
    }

    fn has(&self, world: &World, node: NodeId) -> bool {
        world.node(node).and_then(|node| node.label(self.key)).is_some_and(|value| self.values.contains(value))
    }
}

/// All pods with a class that fits, by name.
fn matching(world: &World, pod: &PodInfo, is_one: impl Fn(&Class) -> bool) -> Vec<Obstacle> {
    let mut known: Map<ClassId, bool> = Map::default();
    let mut fits = |id: ClassId| {
        let new = || world.class(id).is_some_and(|class| is_one(&class));
        *known.entry(id).or_insert_with(new)
    };
    let mut found = Vec::new();
    for (node, _) in world.nodes() {
        for placed in world.pods(node).iter().filter(|placed| fits(placed.class)) {
            let (key, uid, class) = (world.key(placed), Arc::clone(&placed.uid), placed.class);
            found.push(Obstacle { key, node, uid, is_nominated: false, class });
        }
    }
    for (other, node, class) in world.reserving(pod).filter(|(.., class)| fits(*class)) {
        found.push(Obstacle { key: other.key(), node, uid: Arc::clone(&other.uid), is_nominated: true, class });
    }
    found.sort_unstable();
    found
}

/// Required terms of the pod: whether it is anti-affinity, the term, and the namespaces that its selector matches.
fn terms(subject: &Subject) -> impl Iterator<Item = (bool, &AffinityTerm, &[Arc<str>])> {
    let affinity = &subject.class.pod_affinity;
    let plain = affinity.required.iter().map(|term| (false, term));
    let all = plain.chain(affinity.required_anti.iter().map(|term| (true, term)));
    all.enumerate().map(|(at, (is_anti, term))| {
        let selected = subject.facts.term_namespaces.get(at).map_or(&[][..], |names| names);
        (is_anti, term, selected)
    })
}

/// The required anti-affinity of a class that matches the pod.
fn excludes<'a>(class: &'a Class, key: &str, subject: &Subject) -> Option<&'a AffinityTerm> {
    let mut terms = class.pod_affinity.required_anti.iter().filter(|term| *term.topology_key == *key);
    terms.find(|term| means(term, &subject.class, &subject.facts.namespace_labels))
}

fn avoided(pod: &PodInfo, subject: &Subject, domains: &Domains<'_>, world: &World, sentences: &mut Vec<String>) {
    let own = terms(subject).filter(|(is_anti, term, _)| *is_anti && *term.topology_key == *domains.key);
    for (_, term, selected) in own {
        let found = domains.pods(world, pod, |class| own_term_means(term, selected, class));
        let Some((first, others)) = found.split_first() else { continue };
        let more = more(others.len());
        sentences.push(format!("Its anti-affinity {} avoids {}{more}.", of(term, &subject.class), title(first, world)));
    }
}

fn excluding(pod: &PodInfo, subject: &Subject, domains: &Domains<'_>, world: &World) -> Option<String> {
    let found = domains.pods(world, pod, |class| excludes(class, domains.key, subject).is_some());
    let (first, others) = found.split_first()?;
    let class = world.class(first.class)?;
    let term = of(excludes(&class, domains.key, subject)?, &class);
    let so = match others.len() {
        0 => String::new(),
        1 => ", and so does that of 1 more pod".to_owned(),
        count => format!(", and so does that of {count} more pods"),
    };
    Some(format!("The anti-affinity {term} of {} excludes this pod{so}.", title(first, world)))
}

fn missed(
    pod: &PodInfo,
    subject: &Subject,
    domains: &Domains<'_>,
    nodes: &[NodeId],
    world: &World,
    sentences: &mut Vec<String>,
) {
    let own = terms(subject).filter(|(is_anti, term, _)| !is_anti && *term.topology_key == *domains.key);
    for (_, term, selected) in own {
        let found = matching(world, pod, |class| own_term_means(term, selected, class));
        let affinity = format!("Its affinity {}", of(term, &subject.class));
        let (here, elsewhere): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| domains.has(world, one.node));
        let sentence = match (here.first(), elsewhere.first()) {
            (None, None) => format!("{affinity} matches no pod of the cluster."),
            (None, Some(first)) => {
                let domain = match world.node(first.node).and_then(|node| node.label(domains.key)) {
                    Some(value) => format!("{}={value}", domains.key),
                    None => format!("which has no label {}", domains.key),
                };
                let (pod, more) = (title(first, world), more(elsewhere.len() - 1));
                let domains = if nodes.len() == 1 { "domain" } else { "domains" };
                let nodes = shown(world, nodes);
                format!("{affinity} matches {pod} ({domain}){more}, but no pod in the {domains} of {nodes}.")
            }
            (Some(first), _) => {
                let pod = title(first, world);
                format!("{affinity} matches {pod}, but no pod there matches all terms of its affinity.")
            }
        };
        sentences.push(sentence);
    }
}

/// Room that nominated pods take from the pod, for each node with too few resources.
fn reserved(account: &Account, world: &World) -> Vec<String> {
    let mut sentences: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    for (id, found) in &account.missing {
        let lacks = found.iter().flat_map(|shortfall| &shortfall.lacks);
        let resources = lacks.filter_map(|lack| if let Lack::Resource { name, .. } = lack { Some(name) } else { None });
        for resource in resources {
            let mut holders: Vec<(String, i64)> = Vec::new();
            for (other, _, class) in world.reserving(&account.pod).filter(|(_, node, _)| node == id) {
                let amount = world.class(class).map_or(0, |class| requested(&class, resource));
                if amount > 0 {
                    holders.push((other.key(), amount));
                }
            }
            holders.sort_unstable();
            let Some(((first, _), others)) = holders.split_first() else { continue };
            let sum = holders.iter().fold(0_i64, |sum, (_, amount)| sum.saturating_add(*amount));
            let pods = match others.len() {
                0 => format!("the nominated pod {first}"),
                count => format!("the nominated pod {first} and {count} more"),
            };
            let verb = if sum == unit(resource) { "is" } else { "are" };
            sentences.entry(format!("{} {verb} reserved for {pods}.", amount(resource, sum))).or_default().push(*id);
        }
    }
    sentences.into_iter().map(|(text, nodes)| format!("On {}, {text}", shown(world, &nodes))).collect()
}

fn requested(class: &Class, resource: &str) -> i64 {
    match resource {
        "cpu" => class.requests.milli_cpu,
        "memory" => class.requests.memory,
        "ephemeral-storage" => class.requests.ephemeral_storage,
        "pods" => 1,
        _ => class.requests.scalars.iter().find(|(name, _)| **name == *resource).map_or(0, |(_, amount)| *amount),
    }
}

const fn unit(resource: &str) -> i64 {
    if matches!(resource.as_bytes(), b"cpu") { 1_000 } else { 1 }
}

/// `3 CPUs`, `500m CPU`, `2Gi memory`, `room for 1 pod`.
fn amount(resource: &str, value: i64) -> String {
    let quantity = Amount::of(resource, value.into()).quantity();
    match resource {
        "cpu" if value % 1_000 == 0 && value != 1_000 => format!("{quantity} CPUs"),
        "cpu" => format!("{quantity} CPU"),
        "pods" => format!("{quantity} of the pods that the node allows"),
        _ => format!("{quantity} {resource}"),
    }
}

fn more(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " and 1 more pod".to_owned(),
        count => format!(" and {count} more pods"),
    }
}

fn shown(world: &World, nodes: &[NodeId]) -> String {
    let mut names: Vec<String> = nodes.iter().map(|&id| name(world, id).to_owned()).collect();
    names.sort_unstable();
    if names.len() > MOST_NODES {
        let more = names.len() - MOST_NODES + 1;
        names.truncate(MOST_NODES - 1);
        names.push(format!("{more} more nodes"));
    }
    words::list(&names)
}

fn title(one: &Obstacle, world: &World) -> String {
    let nominated = if one.is_nominated { ", which is nominated to" } else { " on" };
    format!("{}{nominated} {}", one.key, name(world, one.node))
}

/// `to app=db over kubernetes.io/hostname`; `class` has the term.
fn of(term: &AffinityTerm, class: &Class) -> String {
    let namespaces = match (&term.namespace_selector, term.namespaces.as_slice()) {
        (selector, _) if selector.is_everything() => " in all namespaces".to_owned(),
        (LabelSelector::Nothing, [one]) if *one == class.namespace => String::new(),
        (LabelSelector::Nothing, [one]) => format!(" in namespace {one}"),
        (LabelSelector::Nothing, several) => format!(" in namespaces {}", several.join(", ")),
        (LabelSelector::Matching(_), _) => format!(" in namespaces with {}", selector(&term.namespace_selector)),
    };
    format!("to {}{namespaces} over {}", selector(&term.selector), term.topology_key)
}

/// A selector as kubectl writes it.
fn selector(selector: &LabelSelector) -> String {
    let LabelSelector::Matching(requirements) = selector else { return "no pod".to_owned() };
    if requirements.is_empty() {
        return "every pod".to_owned();
    }
    let one = |LabelRequirement { key, operator, values }: &LabelRequirement| match (operator, values.as_slice()) {
        (LabelOperator::In, [value]) => format!("{key}={value}"),
        (LabelOperator::In, _) => format!("{key} in ({})", values.join(",")),
        (LabelOperator::NotIn, [value]) => format!("{key}!={value}"),
        (LabelOperator::NotIn, _) => format!("{key} notin ({})", values.join(",")),
        (LabelOperator::Exists, _) => key.to_string(),
        (LabelOperator::DoesNotExist, _) => format!("!{key}"),
    };
    requirements.iter().map(one).collect::<Vec<_>>().join(",")
}
