//! Parses `--generate`.

/// The limit of generated nodes or pods: ten times the largest known cluster.
const MOST_GENERATED: usize = 1_000_000;

const KEYS: &str = "nodes, pods, shape, classes, kind, labels, namespaces, standing, seed";

/// The specification of a generated cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generate {
    pub(crate) nodes: usize,
    /// The number of pending pods.
    pub(crate) pods: usize,
    pub(crate) shape: Shape,
    /// The number of applications, for shapes with applications.
    pub(crate) classes: Option<usize>,
    /// The kind of all applications; without it, applications alternate between the kinds of the shape.
    pub(crate) kind: Option<Kind>,
    pub(crate) labels: Labels,
    /// The number of namespaces for the applications.
    pub(crate) namespaces: usize,
    /// The number of bound pods of other applications, each with a unique label.
    pub(crate) standing: usize,
    /// The seed of all random choices.
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labels {
    /// The labels of the application, if any.
    Shared,
    /// Additionally a unique label that no selector reads, as in StatefulSets and indexed Jobs.
    Unique,
}

impl Labels {
    const WORDS: [(&str, Self); 2] = [("shared", Self::Shared), ("unique", Self::Unique)];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Identical nodes in three zones and identical pods: SchedulingBasic of scheduler_perf.
    Basic,
    Mixed,
    /// Applications that spread over zones and hosts: the TopologySpreading workloads of scheduler_perf.
    Spread,
    /// Applications with pod affinity or anti-affinity: the PodAffinity workloads of scheduler_perf.
    Affinity,
    /// Nodes with eight GPUs, and pods that claim one or four from a template: Dynamic Resource Allocation.
    Devices,
}

/// The placement rule of an application's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The default constraints of a Service's pods: DefaultTopologySpreading.
    Service,
    /// The default constraints of a ReplicaSet's pods.
    ReplicaSet,
    /// Required spread over zones: TopologySpreading.
    Zone,
    /// Preferred spread over zones: PreferredTopologySpreading.
    ZoneSoft,
    /// Required anti-affinity per host: SchedulingPodAntiAffinity.
    ApartHost,
    /// Required anti-affinity per zone, with one pod for each zone.
    ApartZone,
    /// Required affinity per zone: SchedulingPodAffinity.
    NearZone,
    /// Preferred affinity per host: SchedulingPreferredPodAffinity.
    PreferNear,
    /// Preferred anti-affinity per host: SchedulingPreferredPodAntiAffinity.
    PreferApart,
}

/// Parses the specification.
///
/// # Errors
/// A key or value is invalid, with the valid ones.
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

impl Generate {
    /// No nodes and pods, and the defaults of all other keys.
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

impl Shape {
    const WORDS: [(&str, Self); 5] = [
        ("basic", Self::Basic),
        ("mixed", Self::Mixed),
        ("spread", Self::Spread),
        ("affinity", Self::Affinity),
        ("devices", Self::Devices),
    ];

    /// The kinds of applications in alternating order; empty for a shape without applications.
    pub(crate) const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Basic | Self::Mixed | Self::Devices => &[],
            Self::Spread => &[Kind::Service, Kind::ReplicaSet, Kind::Zone, Kind::ZoneSoft],
            Self::Affinity => &[Kind::ApartHost, Kind::ApartZone, Kind::NearZone, Kind::PreferNear, Kind::PreferApart],
        }
    }
}

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
