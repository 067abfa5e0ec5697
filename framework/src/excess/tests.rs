//! Pods beyond each limit, and the messages for them.

use super::*;
use crate::{
    labels::{LabelOperator, LabelRequirement},
    testing::{pod, term},
};

fn over(selectors: usize) -> Class {
    let terms = (0..selectors).map(|number| {
        let key = format!("team-{number}").into();
        let requirement = LabelRequirement { key, operator: LabelOperator::Exists, values: Vec::new() };
        let namespace_selector = LabelSelector::Matching(vec![requirement]);
        AffinityTerm { namespace_selector, ..term("zone", ("app", "web")) }
    });
    let terms: Vec<_> = terms.collect();
    pod("p").class(|class| class.pod_affinity.required_anti = terms).into_class()
}

type Case<'a> = (&'a dyn Fn(&mut Class), &'a str);

#[test]
fn each_list_has_a_bound_that_names_the_field_its_size_and_the_limit() {
    let texts = |count: usize| (0..count).map(|number| Arc::<str>::from(format!("example.com/n{number}")));
    let affine = |class: &mut Class| class.pod_affinity.required = vec![term("zone", ("app", "web")); 1_025];
    let keyed = |class: &mut Class| {
        class.pod_affinity.preferred = texts(129).map(|key| (1, term(&key, ("app", "web")))).collect();
    };
    let ports = |class: &mut Class| {
        class.host_ports = (1..=1_025)
            .map(|port| crate::class::HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port })
            .collect();
    };
    let cases: [Case<'_>; 7] = [
        (&affine, "spec.affinity.podAffinity has 1025 terms, the limit is 1024"),
        (&keyed, "spec.affinity.podAffinity has 129 different topology keys, the limit is 128"),
        (&ports, "spec.containers has 1025 host ports, the limit is 1024"),
        (
            &|class: &mut Class| class.requests.scalars = texts(1_025).map(|name| (name, 1)).collect(),
            "spec.containers has 1025 extended resources, the limit is 1024",
        ),
        (
            &|class: &mut Class| class.labels = texts(1_025).map(|key| (key, "".into())).collect(),
            "metadata.labels has 1025 labels, the limit is 1024",
        ),
        (
            &|class: &mut Class| {
                let claims = vec![crate::devices::claimed::PodClaim::default(); 33];
                class.devices = Some(Arc::new(crate::devices::claimed::PodDevices { claims, ..Default::default() }));
            },
            "spec.resourceClaims has 33 claims, the limit is 32",
        ),
        (
            &|class: &mut Class| class.tolerations = vec![crate::class::Toleration::default(); 1_025],
            "spec.tolerations has 1025 tolerations, the limit is 1024",
        ),
    ];
    for (change, expected) in cases {
        let class = pod("p").class(change).into_class();
        assert_eq!(of_class(&class).as_deref(), Some(expected));
        assert_eq!(cut(class, false).1.as_deref(), Some(expected));
    }
}

#[test]
fn what_is_within_the_bounds_is_left_as_it_is() {
    let class = over(1_024);
    assert_eq!(cut(class.clone(), false), (class.clone(), None));
    assert_eq!(cut(class.clone(), true), (class, None));
}

#[test]
fn what_a_pod_takes_of_its_node_is_never_cut() {
    let terms = vec![term("zone", ("app", "web")); 2_000];
    let class = pod("p").request("cpu", "3").request("example.com/gpu", "2").host_port(80).label("app", "web");
    let class = class.class(|class| class.pod_affinity.required_anti = terms).into_class();
    let (cut, excess) = cut(class.clone(), true);
    assert_eq!(excess.as_deref(), Some("spec.affinity.podAntiAffinity has 2000 terms, the limit is 1024"));
    assert_eq!((&cut.accounted, &cut.host_ports, &cut.labels), (&class.accounted, &class.host_ports, &class.labels));
    assert_eq!(cut.pod_affinity, PodAffinity::default());
}

#[test]
fn namespace_selectors_are_weighed_once_each_times_the_namespaces() {
    let class = over(100);
    assert_eq!(comparisons(&class), 100);
    assert_eq!(over_namespaces(&class, 5_242), None);
    assert_eq!(
        over_namespaces(&class, 5_243).as_deref(),
        Some(
            "spec.affinity.podAntiAffinity has 100 different namespaceSelectors over 5243 namespaces, which is 524300 \
             comparisons, the limit is 524288"
        )
    );
    let required = vec![class.pod_affinity.required_anti[0].clone(); 1_000];
    let mut repeated = class;
    repeated.pod_affinity = PodAffinity { required, ..PodAffinity::default() };
    assert_eq!(comparisons(&repeated), 1);
}

#[test]
fn a_pod_on_a_node_keeps_as_many_host_ports_as_a_pod_may_have() {
    let ports: Vec<_> = (1..=60_000)
        .map(|port| crate::class::HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port })
        .collect();
    let class = pod("p").request("cpu", "3").class(|class| class.host_ports = ports.clone()).into_class();
    let (cut, excess) = cut(class.clone(), true);
    assert_eq!(excess.as_deref(), Some("spec.containers has 60000 host ports, the limit is 1024"));
    assert_eq!((&cut.accounted, &cut.host_ports[..]), (&class.accounted, &ports[..MAX_PORTS]));
}
