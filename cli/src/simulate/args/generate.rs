//! The words of `--generate`.
//!
//! Knows: which words there are and which go together. Must not know: what a made-up cluster looks like.

/// The most nodes or pods that are made up: a cluster ten times as large as any that exists.
const MOST_GENERATED: usize = 1_000_000;

const KEYS: &str = "nodes, pods, shape, classes, kind, labels, namespaces, standing, seed";

/// A made-up cluster in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generate {
    /// How many nodes.
    pub(crate) nodes: usize,
    /// How many pending pods.
    pub(crate) pods: usize,
    /// What kind of nodes and pods.
    pub(crate) shape: Shape,
    /// Into how many applications the pods fall, in a shape that has some.
    pub(crate) classes: Option<usize>,
    /// What all applications want, in a shape that has some; otherwise they take turns.
    pub(crate) kind: Option<Kind>,
    /// Whether each pod has a label of its own.
    pub(crate) labels: Labels,
    /// Over how many namespaces the applications are spread.
    pub(crate) namespaces: usize,
    /// How many pods of other applications are on the nodes already, each with a label of its own.
    pub(crate) standing: usize,
    /// Everything that is left to chance follows from it.
    pub(crate) seed: u64,
}

/// What labels pods have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labels {
    /// Those of their application, if they have one.
    Shared,
    /// Besides, one that no other pod has and no selector reads: as those of a StatefulSet and of an indexed Job.
    Unique,
}

impl Labels {
    const WORDS: [(&str, Self); 2] = [("shared", Self::Shared), ("unique", Self::Unique)];
}

/// What kind of nodes and pods are made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All nodes alike in three zones, all pods alike: SchedulingBasic of scheduler_perf.
    Basic,
    /// Many kinds of nodes and pods.
    Mixed,
    /// Applications that spread over zones and hosts: the TopologySpreading workloads of scheduler_perf.
    Spread,
    /// Applications with pods that want others near or far: the PodAffinity workloads of scheduler_perf.
    Affinity,
    /// Nodes with eight GPUs, pods that claim one or four of them by a template: Dynamic Resource Allocation.
    Devices,
}

/// What the pods of an application want of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The default constraints of a Service's pods: DefaultTopologySpreading.
    Service,
    /// The default constraints of a ReplicaSet's pods.
    ReplicaSet,
    /// As evenly over zones as they must be: TopologySpreading.
    Zone,
    /// As evenly over zones as can be: PreferredTopologySpreading.
    ZoneSoft,
    /// No two on a host: SchedulingPodAntiAffinity.
    ApartHost,
    /// No two in a zone, so that there are as many of them as zones.
    ApartZone,
    /// All in one zone: SchedulingPodAffinity.
    NearZone,
    /// On one host if possible: SchedulingPreferredPodAffinity.
    PreferNear,
    /// On different hosts if possible: SchedulingPreferredPodAntiAffinity.
    PreferApart,
}

/// Reads the words.
///
/// # Errors
/// Which word is not valid, and what to write in its place.
pub(crate) fn parse_generate(text: &str) -> Result<Generate, String> {
    let mut generate = Generate::EMPTY;
    let mut given: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not key=value; keys are {KEYS}"))?;
        if given.contains(&key) {
            return Err(format!("{key} is given twice"));
        }
        given.push(key);
        match key {
            "nodes" => generate.nodes = parse_count(key, value)?,
            "pods" => generate.pods = parse_count(key, value)?,
            "classes" => generate.classes = Some(parse_count(key, value)?),
            "labels" => generate.labels = parse_word(key, value, &Labels::WORDS)?,
            "namespaces" => generate.namespaces = parse_count(key, value)?,
            "standing" => generate.standing = parse_count(key, value)?,
            "seed" => generate.seed = value.parse().map_err(|_| format!("seed={value:?} is not a whole number"))?,
            "shape" => generate.shape = parse_word(key, value, &Shape::WORDS)?,
            "kind" => generate.kind = Some(parse_word(key, value, &Kind::WORDS)?),
            _ => return Err(format!("{key:?} is unknown; keys are {KEYS}")),
        }
    }
    if let Some(missing) = ["nodes", "pods", "shape"].into_iter().find(|key| !given.contains(key)) {
        return Err(format!("{missing} is missing; write for example nodes=5000,pods=10000,shape=basic"));
    }
    let kinds = generate.shape.kinds();
    if kinds.is_empty()
        && let Some(key) = ["classes", "kind"].into_iter().find(|key| given.contains(key))
    {
        return Err(format!("{key} means nothing to this shape; write shape=spread or shape=affinity"));
    }
    if generate.classes == Some(0) {
        return Err("classes=\"0\" leaves no class for a pod; write at least 1".to_owned());
    }
    if generate.namespaces == 0 {
        return Err("namespaces=\"0\" leaves no namespace for a pod; write at least 1".to_owned());
    }
    if generate.standing > 0 && generate.nodes == 0 {
        return Err("standing pods need nodes to be on; write nodes=1 or more".to_owned());
    }
    match generate.kind {
        Some(kind) if !kinds.contains(&kind) => {
            let words: Vec<&str> =
                Kind::WORDS.iter().filter(|(_, known)| kinds.contains(known)).map(|(word, _)| *word).collect();
            Err(format!("this kind belongs to another shape; write {}", words.join(", ")))
        }
        _ => Ok(generate),
    }
}

fn parse_count(key: &str, value: &str) -> Result<usize, String> {
    let count = value.parse().ok().filter(|count| *count <= MOST_GENERATED);
    count.ok_or_else(|| format!("{key}={value:?} is not a number from 0 to {MOST_GENERATED}"))
}

fn parse_word<T: Copy>(key: &str, value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{key}={value:?} is unknown; write {}", words.join(", "))
    })
}

// === impl Generate ===

impl Generate {
    /// No node, no pod, and what is meant where a word is not given.
    pub(crate) const EMPTY: Self = Self {
        nodes: 0,
        pods: 0,
        shape: Shape::Basic,
        classes: None,
        kind: None,
        labels: Labels::Shared,
        namespaces: 1,
        standing: 0,
        seed: 0,
    };
}

// === impl Shape ===

impl Shape {
    const WORDS: [(&str, Self); 5] = [
        ("basic", Self::Basic),
        ("mixed", Self::Mixed),
        ("spread", Self::Spread),
        ("affinity", Self::Affinity),
        ("devices", Self::Devices),
    ];

    /// The kinds of applications, in the order in which they take turns; none for a shape that has no applications.
    pub(crate) const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Basic | Self::Mixed | Self::Devices => &[],
            Self::Spread => &[Kind::Service, Kind::ReplicaSet, Kind::Zone, Kind::ZoneSoft],
            Self::Affinity => &[Kind::ApartHost, Kind::ApartZone, Kind::NearZone, Kind::PreferNear, Kind::PreferApart],
        }
    }
}

// === impl Kind ===

impl Kind {
    const WORDS: [(&str, Self); 9] = [
        ("service", Self::Service),
        ("replicaset", Self::ReplicaSet),
        ("zone", Self::Zone),
        ("zone-soft", Self::ZoneSoft),
        ("apart-host", Self::ApartHost),
        ("apart-zone", Self::ApartZone),
        ("near-zone", Self::NearZone),
        ("prefer-near", Self::PreferNear),
        ("prefer-apart", Self::PreferApart),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_cluster_is_described_in_any_order_of_keys() {
        let expected = Generate { nodes: 3, pods: 4, shape: Shape::Mixed, seed: 5, ..Generate::EMPTY };
        assert_eq!(parse_generate("nodes=3,pods=4,shape=mixed,seed=5"), Ok(expected));
        assert_eq!(parse_generate("seed=5,shape=mixed,pods=4,nodes=3"), Ok(expected));
        assert_eq!(parse_generate("nodes=3,pods=4,shape=mixed"), Ok(Generate { seed: 0, ..expected }));
        let spread = Generate { shape: Shape::Spread, classes: Some(2), kind: Some(Kind::Zone), ..expected };
        assert_eq!(parse_generate("nodes=3,pods=4,shape=spread,kind=zone,classes=2,seed=5"), Ok(spread));
        let crowded = Generate { labels: Labels::Unique, namespaces: 2, standing: 9, ..expected };
        let words = "nodes=3,pods=4,shape=mixed,seed=5,labels=unique,namespaces=2,standing=9";
        assert_eq!(parse_generate(words), Ok(crowded));
    }

    #[test]
    fn a_description_that_makes_no_sense_is_refused_with_what_to_write() {
        let keys = "keys are nodes, pods, shape, classes, kind, labels, namespaces, standing, seed";
        let cases = [
            ("nodes=3", "pods is missing; write for example nodes=5000,pods=10000,shape=basic".to_owned()),
            ("nodes=3,nodes=4", "nodes is given twice".to_owned()),
            ("nodes", format!("\"nodes\" is not key=value; {keys}")),
            ("nodes=x,pods=1", "nodes=\"x\" is not a number from 0 to 1000000".to_owned()),
            ("nodes=1000001,pods=1", "nodes=\"1000001\" is not a number from 0 to 1000000".to_owned()),
            (
                "nodes=1,pods=1,shape=round",
                "shape=\"round\" is unknown; write basic, mixed, spread, affinity, devices".to_owned(),
            ),
            ("nodes=1,pods=1,shape=basic,seed=-1", "seed=\"-1\" is not a whole number".to_owned()),
            ("colour=red", format!("\"colour\" is unknown; {keys}")),
            (
                "nodes=1,pods=1,shape=basic,kind=zone",
                "kind means nothing to this shape; write shape=spread or shape=affinity".to_owned(),
            ),
            (
                "nodes=1,pods=1,shape=spread,kind=near-zone",
                "this kind belongs to another shape; write service, replicaset, zone, zone-soft".to_owned(),
            ),
            (
                "nodes=1,pods=1,shape=spread,classes=0",
                "classes=\"0\" leaves no class for a pod; write at least 1".to_owned(),
            ),
            ("nodes=1,pods=1,shape=basic,labels=own", "labels=\"own\" is unknown; write shared, unique".to_owned()),
            (
                "nodes=1,pods=1,shape=basic,namespaces=0",
                "namespaces=\"0\" leaves no namespace for a pod; write at least 1".to_owned(),
            ),
            (
                "nodes=0,pods=1,shape=basic,standing=1",
                "standing pods need nodes to be on; write nodes=1 or more".to_owned(),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_generate(text), Err(expected), "{text}");
        }
    }
}
