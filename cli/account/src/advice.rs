//! Advice: the smallest changes that make a pod fit. If a change may alter the counts of other nodes, the pod is evaluated with it.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    class::{Class, PodInfo, Requirement, Toleration},
    devices::allocate::lacking::DeviceLack,
    explain::{
        Explanation, NodeExplanation,
        lack::{Lack, Shortfall},
    },
    extender::Extended,
    node::{NodeId, NodeInfo},
    prepared::Prepared,
    profile::Profile,
};

use super::{
    account::Account,
    in_the_way::{self, Obstacle},
    missing::Distance,
    words,
    world::name,
    world::{Lifted, Subject, World},
};

/// Suggestions in one piece of advice.
const WAYS: usize = 3;
/// Evaluations for one piece of advice.
const MOST_CHECKS: usize = 24;
/// Pods that a suggestion removes.
const MOST_GONE: usize = 3;
/// Values of a label that are tried.
const MOST_VALUES: usize = 8;
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A change that makes one node feasible.
#[derive(Debug, Clone)]
pub struct Way {
    node: String,
    distance: Distance,
    words: Vec<String>,
    kinds: Vec<String>,
    /// The pods that must go, as `namespace/name`.
    without: Vec<String>,
}

/// A way before it is verified.
struct Draft<'a> {
    id: NodeId,
    way: Way,
    lacks: Vec<&'a Lack>,
    /// The change may alter the result of a filter that counts pods per domain.
    is_open: bool,
}

/// One sentence with the smallest changes that would make an infeasible pod fit.
pub fn advice(account: &Account) -> Option<String> {
    let has_taken = account.extended.as_ref().is_some_and(Extended::took_any);
    // Extenders were not called for nodes that plugins reject, so their answers are unknown.
    if account.explanation.feasible() > 0 || has_taken {
        return None;
    }
    let preempts = account.preempted.as_ref().is_some_and(|preempted| preempted.node.is_some());
    let ways = account.ways.iter().filter(|way| !preempts || way.without.is_empty());
    let ways: Vec<String> = ways.map(Way::text).collect();
    (!ways.is_empty()).then(|| format!("It would fit {}.", ways.join(", or ")))
}

impl Way {
    fn text(&self) -> String {
        let with = (!self.words.is_empty()).then(|| format!(" with {}", words::list(&self.words)));
        let without = (!self.without.is_empty()).then(|| format!(" without {}", words::list(&self.without)));
        let and = if with.is_some() && without.is_some() { " and" } else { "" };
        format!("on {}{}{and}{}", self.node, with.unwrap_or_default(), without.unwrap_or_default())
    }
}

/// The nearest ways to make an infeasible pod fit, each of another kind.
pub(crate) fn ways(account: &Account, profile: &Profile, subject: &Subject, world: &mut World) -> Vec<Way> {
    if account.explanation.feasible() > 0 || account.explanation.error.is_some() {
        return Vec::new();
    }
    let missing = account.missing.iter();
    let mut drafts: Vec<Draft<'_>> =
        missing.filter_map(|(id, found)| draft(account, subject, world, *id, found)).collect();
    drafts.sort_by(|left, right| (left.way.distance, &left.way.node).cmp(&(right.way.distance, &right.way.node)));
    let mut found: Vec<Way> = Vec::new();
    let mut checks = 0;
    for draft in drafts {
        let nearest = found.first().map(|way| way.distance);
        // Another amount of the same resource is not a new suggestion, and a larger one is not better.
        if nearest.is_some_and(|nearest| !draft.way.distance.is_as_near(nearest))
            || found.len() >= WAYS
            || checks >= MOST_CHECKS
        {
            break;
        }
        if found.iter().any(|known| known.kinds == draft.way.kinds) {
            continue;
        }
        if !draft.is_open {
            found.push(draft.way);
            continue;
        }
        checks += 1;
        if let Some(gone) = gone(&draft, &account.pod, subject, world) {
            found.extend(verified(draft, &gone, &account.pod, profile, subject, world));
        }
    }
    found
}

/// `None` if no known change makes the node feasible.
fn draft<'a>(
    account: &'a Account,
    subject: &Subject,
    world: &World,
    id: NodeId,
    found: &'a [Shortfall],
) -> Option<Draft<'a>> {
    let Some(NodeExplanation::Refused { domain, .. }) = account.explanation.nodes.get(&id) else { return None };
    let all = found.iter().chain(domain);
    if (found.is_empty() && domain.is_none()) || all.clone().any(|shortfall| shortfall.lacks.is_empty()) {
        return None;
    }
    let lacks: Vec<&Lack> = all.flat_map(|shortfall| &shortfall.lacks).collect();
    let is_fixed = |lack: &&Lack| match lack {
        Lack::Name(_) | Lack::Near(_) => true,
        // With several requests, the number of devices that suffices for all is unknown.
        Lack::Devices(DeviceLack::Request(lack)) => !lack.is_alone,
        Lack::Devices(_) => true,
        _ => false,
    };
    if lacks.iter().any(is_fixed) {
        return None;
    }
    // Another label may move the node to another domain. A tolerated taint may make the node count.
    let is_open = |lack: &&Lack| match lack {
        Lack::Label { .. } => account.counts_domains,
        Lack::Toleration(_) => account.counts_tainted,
        _ => false,
    };
    let kind = |lack: &&Lack| match lack {
        Lack::Resource { name, .. } => name.to_string(),
        Lack::Devices(DeviceLack::Request(lack)) => lack.class.to_string(),
        Lack::Label { requirement, .. } => words::lack(&Lack::Label { requirement: requirement.clone(), found: None }),
        other => words::lack(other),
    };
    let word = |lack: &&Lack| match lack {
        Lack::Away(_) | Lack::Welcome(_) => None,
        Lack::Skew { key, over } => Some(format!("maxSkew {} over {key}", max_skew(&subject.class, key)? + over)),
        lack => Some(words::lack(lack)),
    };
    let way = Way {
        node: name(world, id).to_owned(),
        distance: Distance::of(lacks.iter().copied()),
        words: lacks.iter().filter_map(word).collect(),
        kinds: lacks.iter().map(kind).collect(),
        without: Vec::new(),
    };
    let is_open = domain.is_some() || lacks.iter().any(is_open);
    Some(Draft { id, way, lacks, is_open })
}

/// The pods that must go; `None` if they are too many, or only nominated. It reads all pods of the cluster, so it runs for few nodes.
fn gone(draft: &Draft<'_>, pod: &PodInfo, subject: &Subject, world: &World) -> Option<Vec<Obstacle>> {
    let lacks = draft.lacks.iter();
    let mut gone: Vec<Obstacle> =
        lacks.filter_map(|lack| in_the_way::obstacles(pod, subject, draft.id, lack, world)).flatten().collect();
    gone.sort_unstable();
    gone.dedup();
    (gone.len() <= MOST_GONE && gone.iter().all(|one| !one.is_nominated)).then_some(gone)
}

/// The highest `maxSkew` of the required constraints over a key.
fn max_skew(class: &Class, key: &str) -> Option<i64> {
    let own = class.spread.iter().filter(|constraint| constraint.required && *constraint.topology_key == *key);
    own.map(|constraint| i64::from(constraint.max_skew)).max()
}

/// The values of a label to try; `None` is a missing label.
type Values = Vec<Option<Arc<str>>>;

/// The way, if the pod fits the node with it. A label gets the first value with which it does.
fn verified(
    Draft { id, mut way, lacks, .. }: Draft<'_>,
    gone: &[Obstacle],
    pod: &PodInfo,
    profile: &Profile,
    subject: &Subject,
    world: &mut World,
) -> Option<Way> {
    way.without = gone.iter().map(|one| one.key.clone()).collect();
    let class = Arc::new(changed_class(&subject.class, &lacks)?);
    let labels: Vec<(&Arc<str>, Values)> =
        lacks.iter().filter_map(|lack| Some((label_key(lack)?, label_values(lack, world)))).collect();
    let most = labels.iter().map(|(_, values)| values.len()).max().unwrap_or(1).min(MOST_VALUES);
    for at in 0..most {
        let mut node = changed_node(world.node(id)?, &lacks)?;
        for (key, values) in &labels {
            set_label(&mut node, key, values.get(at).or_else(|| values.last())?.clone());
        }
        let labelled = node.clone();
        if fits((id, node), &class, gone, (pod, profile), world) {
            if at > 0 || lacks.iter().any(|lack| matches!(lack, Lack::Key(_))) {
                name_values(&mut way, &lacks, &labelled);
            }
            return Some(way);
        }
    }
    None
}

/// Names the values of the labels in the words of a way.
fn name_values(way: &mut Way, lacks: &[&Lack], node: &NodeInfo) {
    let named = lacks.iter().filter(|lack| !matches!(lack, Lack::Away(_) | Lack::Welcome(_)));
    for (lack, words) in named.zip(&mut way.words) {
        if let Some((key, value)) = label_key(lack).and_then(|key| Some((key, node.label(key)?))) {
            *words = format!("label {key}={value}");
        }
    }
}

fn label_key(lack: &Lack) -> Option<&Arc<str>> {
    match lack {
        Lack::Label { requirement, .. } => Some(&requirement.key),
        Lack::Key(key) => Some(key),
        _ => None,
    }
}

/// The values with which a label suffices; `None` is a missing label.
fn label_values(lack: &Lack, world: &World) -> Values {
    let number = |values: &[Arc<str>], by: i64| {
        let bound: Option<i64> = values.first().and_then(|value| value.parse().ok());
        bound.map(|bound| Arc::from(bound.saturating_add(by).to_string()))
    };
    match lack {
        Lack::Label { requirement: Requirement { operator, values, .. }, .. } => match &**operator {
            "In" => values.iter().map(|value| Some(Arc::clone(value))).collect(),
            "Exists" => vec![Some("true".into())],
            "Gt" => vec![number(values, 1)],
            "Lt" => vec![number(values, -1)],
            _ => vec![None],
        },
        Lack::Key(key) => {
            let known: BTreeSet<&str> = world.nodes().filter_map(|(_, node)| node.label(key)).collect();
            known.into_iter().map(|value| Some(value.into())).collect()
        }
        _ => Vec::new(),
    }
}

fn set_label(node: &mut NodeInfo, key: &Arc<str>, value: Option<Arc<str>>) {
    node.labels.retain(|(known, _)| known != key);
    if let Some(value) = value {
        node.labels.push((Arc::clone(key), value));
        node.labels.sort_unstable();
    }
}

/// The class after the changes of the pod.
fn changed_class(class: &Class, lacks: &[&Lack]) -> Option<Class> {
    let mut class = class.clone();
    for lack in lacks {
        match lack {
            Lack::Toleration(taint) => class.tolerations.push(Toleration {
                key: Arc::clone(&taint.key),
                operator: "Equal".into(),
                value: Arc::clone(&taint.value),
                effect: Arc::clone(&taint.effect),
            }),
            Lack::Skew { key, over } => {
                let max = i32::try_from(max_skew(&class, key)?.saturating_add(*over)).ok()?;
                let own = class.spread.iter_mut().filter(|one| one.required && one.topology_key == *key);
                own.for_each(|constraint| constraint.max_skew = max);
            }
            _ => {}
        }
    }
    Some(class)
}

/// The node after the changes, without labels; `None` if a change cannot be evaluated.
fn changed_node(node: &NodeInfo, lacks: &[&Lack]) -> Option<NodeInfo> {
    let mut node = node.clone();
    for lack in lacks {
        match lack {
            Lack::Resource { name, short, .. } => add(&mut node, name, *short),
            Lack::Cordoned => {
                node.unschedulable = false;
                node.taints.retain(|taint| &*taint.key != UNSCHEDULABLE);
            }
            Lack::Feature(_)
            | Lack::Name(_)
            | Lack::Port(_)
            | Lack::Volumes { .. }
            | Lack::Driver(_)
            | Lack::Near(_)
            | Lack::Devices(_) => return None,
            Lack::Toleration(_)
            | Lack::Label { .. }
            | Lack::Key(_)
            | Lack::Skew { .. }
            | Lack::Away(_)
            | Lack::Welcome(_) => {}
        }
    }
    Some(node)
}

fn add(node: &mut NodeInfo, resource: &str, short: i64) {
    let amount = match resource {
        "pods" => Some(&mut node.allowed_pods),
        "cpu" => Some(&mut node.allocatable.milli_cpu),
        "memory" => Some(&mut node.allocatable.memory),
        "ephemeral-storage" => Some(&mut node.allocatable.ephemeral_storage),
        _ => None,
    };
    let scalars = &mut node.allocatable.scalars;
    match amount {
        Some(amount) => *amount = amount.saturating_add(short),
        None => match scalars.iter_mut().find(|(known, _)| **known == *resource) {
            Some((_, amount)) => *amount = amount.saturating_add(short),
            None => {
                scalars.push((resource.into(), short));
                scalars.sort_unstable();
            }
        },
    }
}

/// Evaluates the pod with a changed node and class, and without some pods.
fn fits(
    (id, node): (NodeId, NodeInfo),
    class: &Arc<Class>,
    gone: &[Obstacle],
    (pod, profile): (&PodInfo, &Profile),
    world: &mut World,
) -> bool {
    let Some(before) = world.replace_node(id, Arc::new(node)) else { return false };
    let mut lifted: Vec<Lifted> = gone.iter().filter_map(|one| world.lift_placed(one.node, &one.uid)).collect();
    let Subject { class, facts, .. } = world.subject(class);
    let prepared = Prepared::new(world.registry(), profile, &class, &facts, world.snapshot_mut());
    let pages = world.pages(&prepared);
    let nominations = world.nominations(pod);
    let explanation = Explanation::beside(&prepared, profile, &pages, world.snapshot_mut(), &nominations);
    // In reverse order, so that each pod gets its place back.
    while let Some(one) = lifted.pop() {
        world.put_placed(one);
    }
    world.replace_node(id, before);
    explanation.nodes.get(&id).is_some_and(NodeExplanation::is_feasible)
}
