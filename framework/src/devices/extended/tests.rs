//! DeviceClasses of extended resources, and the requests of containers.

use super::*;

fn class(name: &str, created_s: i64, resource: Option<&str>) -> Arc<DeviceClass> {
    let extended_resource = resource.map(Into::into);
    Arc::new(DeviceClass { name: name.into(), created_s, extended_resource, ..DeviceClass::default() })
}

fn container(name: &str, is_short_lived: bool, requests: &[(&str, i64)]) -> Asking {
    let requests = requests.iter().map(|(name, count)| (Arc::from(*name), Some(*count))).collect();
    Asking { name: name.into(), is_short_lived, requests }
}

fn behind(classes: &DeviceClasses, resource: &str) -> String {
    classes.behind(resource).map_or_else(String::new, |class| class.name.to_string())
}

#[test]
fn the_newest_class_is_behind_a_resource_and_then_the_first_by_name() {
    let mut classes = DeviceClasses::default();
    classes.apply(class("b", 5, Some("example.com/gpu")));
    classes.apply(class("a", 5, Some("example.com/gpu")));
    classes.apply(class("old", 1, Some("example.com/gpu")));
    assert_eq!(behind(&classes, "example.com/gpu"), "a");
    assert_eq!(behind(&classes, "deviceclass.resource.kubernetes.io/old"), "old");
    classes.apply(class("new", 9, Some("example.com/gpu")));
    assert_eq!(behind(&classes, "example.com/gpu"), "new");
    classes.apply(class("new", 9, None));
    classes.remove("a");
    assert_eq!(behind(&classes, "example.com/gpu"), "b");
    classes.remove("b");
    classes.remove("old");
    assert_eq!(behind(&classes, "example.com/gpu"), "");
}

/// `name=count` of each request, then `container:request` of each mapping.
fn shown(containers: &[Asking], resources: &[&str], classes: &DeviceClasses) -> String {
    let resources: Vec<Arc<str>> = resources.iter().map(|name| Arc::from(*name)).collect();
    let behind = resources.iter().filter_map(|name| Some((name, classes.behind(name)?)));
    let (requests, mappings) = requests(containers, behind);
    let requests = requests.iter().map(|request| match &request.kind {
        RequestKind::Exactly(Ask { mode: AllocationMode::Count(count), .. }) => format!("{}={count}", request.name),
        other => format!("{other:?}"),
    });
    let mappings = mappings.iter().map(|mapping| format!("{}:{}", mapping.container, mapping.request));
    requests.chain(mappings).collect::<Vec<_>>().join(" ")
}

#[test]
fn containers_that_end_use_the_devices_of_those_that_start_later() {
    let mut classes = DeviceClasses::default();
    classes.apply(class("gpus", 1, Some("example.com/gpu")));
    let gpu = "example.com/gpu";
    let main = container("main", false, &[("cpu", 1), (gpu, 2)]);
    let small = container("small", true, &[(gpu, 1)]);
    let large = container("large", true, &[(gpu, 4)]);
    let larger = container("larger", true, &[(gpu, 5)]);
    assert_eq!(
        shown(std::slice::from_ref(&main), &[gpu], &classes),
        "container-0-request-1=2 main:container-0-request-1"
    );
    assert_eq!(
        shown(&[small, main.clone()], &[gpu], &classes),
        "container-1-request-1=2 main:container-1-request-1 small:container-1-request-1"
    );
    assert_eq!(
        shown(&[large, larger, main], &[gpu], &classes),
        "container-1-request-0=3 container-2-request-1=2 main:container-2-request-1 large:container-2-request-1 \
         large:container-1-request-0 larger:container-2-request-1 larger:container-1-request-0"
    );
}

#[test]
fn what_is_no_integer_or_has_no_class_is_left_out() {
    let mut classes = DeviceClasses::default();
    classes.apply(class("gpus", 1, Some("example.com/gpu")));
    let mut odd = container("odd", false, &[("example.com/gpu", 1), ("example.com/other", 1)]);
    assert_eq!(shown(std::slice::from_ref(&odd), &["example.com/other"], &classes), "");
    odd.requests[0].1 = None;
    assert_eq!(shown(&[odd], &["example.com/gpu"], &classes), "");
}

#[test]
fn a_class_may_stand_behind_resources_of_domains_that_are_not_kubernetes_own() {
    let cases = [
        ("example.com/gpu", true),
        ("deviceclass.resource.kubernetes.io/gpus", true),
        ("cpu", false),
        ("hugepages-2Mi", false),
        ("requests.example.com/gpu", false),
        ("storage.kubernetes.io/disk", false),
    ];
    for (name, expected) in cases {
        assert_eq!(is_backable(name), expected, "{name}");
    }
    let asking = container("main", false, &[("cpu", 1), ("example.com/none", 0), ("example.com/gpu", 2)]);
    assert_eq!(backable(&[asking]).into_iter().map(|name| &**name).collect::<Vec<_>>(), ["example.com/gpu"]);
}
