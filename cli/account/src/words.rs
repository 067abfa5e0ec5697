//! Shortfalls as text that follows "with".

use flotilla_framework::{
    class::{ANY_IP, HostPort, Requirement, Taint},
    devices::allocate::lacking::{DeviceLack, RequestLack},
    explain::lack::Lack,
};

use crate::amount::Amount;

/// One shortfall: `200m more cpu`, `a toleration for dedicated=db:NoSchedule`.
pub fn lack(lack: &Lack) -> String {
    match lack {
        Lack::Resource { name, allocatable, .. } if &**name == "pods" => {
            format!("room for one more pod than {allocatable}")
        }
        Lack::Resource { name, short, request, allocatable } => {
            let more = format!("{} more {name}", amount(name, *short));
            if request > allocatable { format!("{more} than its {}", amount(name, *allocatable)) } else { more }
        }
        Lack::Toleration(wanted) => format!("a toleration for {}", taint(wanted)),
        Lack::Cordoned => "its cordon lifted".to_owned(),
        Lack::Feature(name) => format!("a kubelet that declares {name}"),
        Lack::Label { requirement, found } => label(requirement, found.as_deref()),
        Lack::Name(Requirement { operator, values, .. }) => {
            let names = values.join(" or ");
            if &**operator == "NotIn" { format!("another name than {names}") } else { format!("the name {names}") }
        }
        Lack::Port(taken) => format!("port {} free", port(taken)),
        Lack::Volumes { driver, over } => {
            let volumes = if *over == 1 { "volume" } else { "volumes" };
            format!("room for {over} more {volumes} of {driver}")
        }
        Lack::Driver(name) => format!("the driver {name}"),
        Lack::Key(key) => format!("a label {key}"),
        Lack::Skew { key, over } => format!("{over} fewer of the pods that are spread over {key}"),
        Lack::Near(key) => format!("a pod that its affinity over {key} asks for"),
        Lack::Away(key) => format!("no pod that its anti-affinity over {key} avoids"),
        Lack::Welcome(key) => format!("no pod with anti-affinity over {key} that excludes it"),
        Lack::Devices(DeviceLack::Request(lack)) if lack.devices > 0 => format!("{} free", devices(lack)),
        Lack::Devices(DeviceLack::Request(lack)) => devices(lack),
        Lack::Devices(DeviceLack::Together(_)) => "devices for all requests together".to_owned(),
        Lack::Devices(DeviceLack::Allocated { .. }) => "the devices of a claim that is allocated".to_owned(),
        Lack::Devices(DeviceLack::Pool { name, .. }) => format!("pool {name} in order"),
    }
}

/// `1 device of class big`.
pub fn devices(lack: &RequestLack) -> String {
    let short = lack.short();
    format!("{short} {} of class {}", if short == 1 { "device" } else { "devices" }, lack.class)
}

/// Several items: `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1 node`, `2 nodes`.
pub fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

fn amount(resource: &str, value: i64) -> String {
    Amount::of(resource, value.into()).quantity()
}

/// `KEY=VALUE:EFFECT`, or `KEY:EFFECT` without a value.
pub fn taint(Taint { key, value, effect }: &Taint) -> String {
    if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
}

fn port(HostPort { ip, protocol, port }: &HostPort) -> String {
    if &**ip == ANY_IP { format!("{port}/{protocol}") } else { format!("{ip}:{port}/{protocol}") }
}

fn label(Requirement { key, operator, values }: &Requirement, found: Option<&str>) -> String {
    let among = values.join(", ");
    let demand = match (&**operator, values.as_slice()) {
        ("In", [value]) => format!("label {key}={value}"),
        ("In", _) => format!("label {key} in ({among})"),
        ("NotIn", [value]) => format!("label {key} not {value}"),
        ("NotIn", _) => format!("label {key} not in ({among})"),
        ("Exists", _) => format!("a label {key}"),
        ("DoesNotExist", _) => format!("no label {key}"),
        ("Gt", _) => format!("label {key} above {among}"),
        ("Lt", _) => format!("label {key} below {among}"),
        _ => format!("label {key} {operator} ({among})"),
    };
    match found {
        Some(found) if matches!(&**operator, "In" | "Gt" | "Lt") => format!("{demand} in place of {found:?}"),
        _ => demand,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(operator: &str, values: &[&str]) -> Requirement {
        let values = values.iter().map(|&value| value.into()).collect();
        Requirement { key: "disk".into(), operator: operator.into(), values }
    }

    #[test]
    fn every_lack_has_words_that_fit_behind_with() {
        let resource = |name: &str, short, request, allocatable| {
            lack(&Lack::Resource { name: name.into(), short, request, allocatable })
        };
        assert_eq!(resource("cpu", 200, 500, 4000), "200m more cpu");
        assert_eq!(resource("memory", 36 << 30, 100 << 30, 64 << 30), "36Gi more memory than its 64Gi");
        assert_eq!(resource("example.com/gpu", 1, 1, 0), "1 more example.com/gpu than its 0");
        assert_eq!(resource("pods", 1, 1, 110), "room for one more pod than 110");
        let taint = |value: &str| Taint { key: "gpu".into(), value: value.into(), effect: "NoExecute".into() };
        assert_eq!(lack(&Lack::Toleration(taint("a"))), "a toleration for gpu=a:NoExecute");
        assert_eq!(lack(&Lack::Toleration(taint(""))), "a toleration for gpu:NoExecute");
        assert_eq!(lack(&Lack::Cordoned), "its cordon lifted");
        let port = |ip: &str| HostPort { ip: ip.into(), protocol: "UDP".into(), port: 53 };
        assert_eq!(lack(&Lack::Port(port(ANY_IP))), "port 53/UDP free");
        assert_eq!(lack(&Lack::Port(port("10.0.0.1"))), "port 10.0.0.1:53/UDP free");
        assert_eq!(lack(&Lack::Name(requirement("In", &["a"]))), "the name a");
        assert_eq!(lack(&Lack::Name(requirement("NotIn", &["a"]))), "another name than a");
        assert_eq!(lack(&Lack::Key("zone".into())), "a label zone");
        let skew = Lack::Skew { key: "zone".into(), over: 2 };
        assert_eq!(lack(&skew), "2 fewer of the pods that are spread over zone");
        assert_eq!(lack(&Lack::Near("zone".into())), "a pod that its affinity over zone asks for");
        assert_eq!(lack(&Lack::Away("zone".into())), "no pod that its anti-affinity over zone avoids");
        assert_eq!(lack(&Lack::Welcome("zone".into())), "no pod with anti-affinity over zone that excludes it");
    }

    #[test]
    fn every_operator_on_a_label_has_words() {
        let label = |operator, values: &[&str], found: Option<&str>| {
            lack(&Lack::Label { requirement: requirement(operator, values), found: found.map(Into::into) })
        };
        assert_eq!(label("In", &["ssd"], None), "label disk=ssd");
        assert_eq!(label("In", &["ssd", "nvme"], Some("hdd")), "label disk in (ssd, nvme) in place of \"hdd\"");
        assert_eq!(label("NotIn", &["hdd"], Some("hdd")), "label disk not hdd");
        assert_eq!(label("NotIn", &["a", "b"], Some("a")), "label disk not in (a, b)");
        assert_eq!(label("Exists", &[], None), "a label disk");
        assert_eq!(label("DoesNotExist", &[], Some("hdd")), "no label disk");
        assert_eq!(label("Gt", &["5"], Some("3")), "label disk above 5 in place of \"3\"");
        assert_eq!(label("Lt", &["5"], None), "label disk below 5");
        assert_eq!(label("Odd", &["5"], Some("3")), "label disk Odd (5)");
    }
}
