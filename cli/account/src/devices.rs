//! Missing devices, as text and as JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    devices::{
        allocate::lacking::{DeviceLack, Refused, RequestLack, Together},
        claimed::ClaimSource,
        model::{DeviceName, taint::DeviceTaint},
        selectors::Seen,
    },
    explain::lack::Lack,
    node::NodeId,
};
use serde::Serialize;

use super::{
    account::Account,
    words,
    world::{World, name},
};

/// Holders and device attributes listed on one line.
const MOST_NAMES: usize = 5;

/// Missing devices as JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "kind")]
#[expect(clippy::large_enum_variant, reason = "most answers are requests")]
pub(crate) enum DeviceAnswer<'a> {
    #[serde(rename_all = "camelCase")]
    Request {
        claim: &'a str,
        request: &'a str,
        device_class: &'a str,
        /// Absent: all devices that match.
        #[serde(skip_serializing_if = "Option::is_none")]
        wanted: Option<i64>,
        lacks: i64,
        devices: usize,
        matching: usize,
        free: usize,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        taken: Vec<Taken<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tainted: Vec<Tainted>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        too_little_capacity: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        counters_used_up: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        incompatible: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        unsupported: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        refused: Vec<RefusedDevices<'a>>,
    },
    /// All requests up to this one cannot be met together.
    Together { claim: &'a str, request: &'a str },
    /// A constraint cannot be met.
    #[serde(rename_all = "camelCase")]
    Constraint { claim: &'a str, attribute: &'a str, must_differ: bool },
    /// The computation would take too long.
    Unknown {},
    /// The claim is allocated to devices that this node cannot use.
    #[serde(rename_all = "camelCase")]
    Allocated { claim: String, has_failed: bool },
    /// The pool cannot be used.
    #[serde(rename_all = "camelCase")]
    Pool { driver: &'a str, pool: &'a str, is_invalid: bool },
}

#[derive(Debug, Serialize)]
pub(crate) struct Taken<'a> {
    device: String,
    /// `namespace/name`.
    claims: Vec<&'a str>,
    /// `namespace/name` of the pods that reserve the claims.
    pods: Vec<&'a str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Tainted {
    device: String,
    taint: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusedDevices<'a> {
    devices: Vec<String>,
    expression: &'a str,
    /// `deviceClass`, or `request`.
    of: &'static str,
    index: usize,
    /// The values that the expression reads; `null` for a missing attribute or capacity.
    saw: BTreeMap<&'a str, Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The devices that a node lacks.
pub fn lacks(account: &Account, node: NodeId) -> impl Iterator<Item = &DeviceLack> {
    let found = account.missing.iter().filter(move |(known, _)| *known == node);
    let lacks = found.flat_map(|(_, found)| found).flat_map(|shortfall| &shortfall.lacks);
    lacks.filter_map(|lack| if let Lack::Devices(lack) = lack { Some(lack) } else { None })
}

/// The name of a claim by its index among the pod's claims.
fn claim(account: &Account, place: usize) -> String {
    let claims = account.pod.class.devices.iter().flat_map(|devices| &devices.claims);
    let needed = claims.filter(|claim| claim.source != ClaimSource::NotNeeded).nth(place);
    let (ClaimSource::Named(name) | ClaimSource::Generated(name)) =
        needed.map_or(&ClaimSource::Unknown, |claim| &claim.source)
    else {
        return String::new();
    };
    format!("{}/{name}", account.pod.class.namespace)
}

pub(crate) fn answers(account: &Account, node: NodeId) -> Vec<DeviceAnswer<'_>> {
    lacks(account, node).map(|lack| answer(account, lack)).collect()
}

fn answer<'a>(account: &'a Account, lack: &'a DeviceLack) -> DeviceAnswer<'a> {
    match lack {
        DeviceLack::Request(lack) => request_answer(account, lack),
        DeviceLack::Together(Together::Request { claim, request }) => DeviceAnswer::Together { claim, request },
        DeviceLack::Together(Together::Constraint { claim, attribute, is_distinct }) => {
            DeviceAnswer::Constraint { claim, attribute, must_differ: *is_distinct }
        }
        DeviceLack::Together(Together::Unknown) => DeviceAnswer::Unknown {},
        &DeviceLack::Allocated { claim: place, has_failed } => {
            DeviceAnswer::Allocated { claim: claim(account, place), has_failed }
        }
        DeviceLack::Pool { driver, name, is_invalid } => {
            DeviceAnswer::Pool { driver, pool: name, is_invalid: *is_invalid }
        }
    }
}

fn request_answer<'a>(account: &'a Account, lack: &'a RequestLack) -> DeviceAnswer<'a> {
    let names = |devices: &[DeviceName]| devices.iter().map(ToString::to_string).collect();
    let taken = lack.taken.iter().map(|device| {
        let holders = || account.holders.get(device).into_iter().flatten();
        Taken {
            device: device.to_string(),
            claims: holders().map(|holder| holder.claim.as_str()).collect(),
            pods: holders().flat_map(|holder| &holder.pods).map(String::as_str).collect(),
        }
    });
    let tainted =
        lack.tainted.iter().map(|(device, known)| Tainted { device: device.to_string(), taint: taint(known) });
    let refused = lack.refused.iter().map(|refused| RefusedDevices {
        devices: names(&refused.devices),
        expression: &refused.expression,
        of: if refused.is_of_class { "deviceClass" } else { "request" },
        index: refused.index,
        saw: refused.seen.iter().map(|seen| (&*seen.name, seen.value.as_deref())).collect(),
        error: refused.error.as_deref(),
    });
    DeviceAnswer::Request {
        claim: &lack.claim,
        request: &lack.request,
        device_class: &lack.class,
        wanted: lack.wanted,
        lacks: lack.short(),
        devices: lack.devices,
        matching: lack.matching,
        free: lack.free,
        taken: taken.collect(),
        tainted: tainted.collect(),
        too_little_capacity: names(&lack.small),
        counters_used_up: names(&lack.counted),
        incompatible: names(&lack.incompatible),
        unsupported: names(&lack.unsupported),
        refused: refused.collect(),
    }
}

/// Nodes that lack the same devices, with one line for each lack, the nearest miss first.
pub fn paragraphs<'a>(account: &Account, world: &'a World) -> Vec<(Vec<&'a str>, Vec<String>)> {
    let mut paragraphs: BTreeMap<(i64, Vec<String>), Vec<&str>> = BTreeMap::new();
    for (node, _) in &account.missing {
        let lines: Vec<String> = lacks(account, *node).flat_map(|lack| lines(account, lack)).collect();
        if !lines.is_empty() {
            let short = lacks(account, *node).map(short).fold(0, i64::saturating_add);
            paragraphs.entry((short, lines)).or_default().push(name(world, *node));
        }
    }
    paragraphs
        .into_iter()
        .map(|((_, lines), mut nodes)| {
            nodes.sort_unstable();
            (nodes, lines)
        })
        .collect()
}

/// The number of missing devices; larger than any count if the lack is not a number.
pub fn short(lack: &DeviceLack) -> i64 {
    if let DeviceLack::Request(lack) = lack { lack.short() } else { i64::from(u32::MAX) }
}

fn lines(account: &Account, lack: &DeviceLack) -> Vec<String> {
    match lack {
        DeviceLack::Request(lack) => {
            let refused = lack.refused.iter().map(|refused| self::refused(lack, refused));
            [request(account, lack)].into_iter().chain(refused).collect()
        }
        DeviceLack::Together(Together::Request { claim, request }) => vec![format!(
            "has devices for each single request, but none is left for request {request} of claim {claim} after those \
             before it"
        )],
        DeviceLack::Together(Together::Constraint { claim, attribute, is_distinct }) => {
            let demand = if *is_distinct { "different values" } else { "one value" };
            vec![format!("has devices for each request of claim {claim}, but not with {demand} of {attribute}")]
        }
        DeviceLack::Together(Together::Unknown) => {
            vec!["has devices for each single request, but not for all together".to_owned()]
        }
        &DeviceLack::Allocated { claim: place, has_failed } => {
            let claim = claim(account, place);
            let why = if has_failed { "did not get ready" } else { "cannot be reached from it" };
            vec![format!("cannot use claim {claim}: it is allocated, and its devices {why}")]
        }
        DeviceLack::Pool { driver, name, is_invalid } => {
            let why = if *is_invalid { "its slices contradict each other" } else { "it is being updated" };
            vec![format!("cannot use pool {name} of driver {driver}: {why}")]
        }
    }
}

/// `lacks 1 device of class big for request gpu of claim shop/a: 2 of 4 match, both are taken by claims of shop/b`.
fn request(account: &Account, lack: &RequestLack) -> String {
    let RequestLack { claim, request, devices, matching, .. } = lack;
    let what = words::devices(lack);
    let has = match (*devices, *matching) {
        (0, _) => "it reaches none".to_owned(),
        (1, 0) => "its one device does not match".to_owned(),
        (all, 0) => format!("none of its {all} match"),
        (all, matching) => format!("{matching} of {all} match"),
    };
    let mut parts = vec![has];
    let mut part = |count: usize, rest: &dyn Fn(&str) -> String| {
        if count > 0 {
            parts.push(rest(&match (count, *matching) {
                (1, 1) => "it is".to_owned(),
                (1, _) => "1 is".to_owned(),
                (2, 2) => "both are".to_owned(),
                (all, matching) if all == matching => format!("all {all} are"),
                (some, _) => format!("{some} are"),
            }));
        }
    };
    part(lack.taken.len(), &|are| format!("{are} taken{}", by(account, &lack.taken)));
    let taints: BTreeSet<String> = lack.tainted.iter().map(|(_, known)| taint(known)).collect();
    let taints: Vec<String> = taints.into_iter().collect();
    part(lack.tainted.len(), &|are| format!("{are} tainted with {}", words::list(&taints)));
    part(lack.small.len(), &|are| format!("{are} without enough free capacity"));
    part(lack.counted.len(), &|are| format!("{are} without free counters of the pool"));
    part(lack.incompatible.len(), &|are| format!("{are} without a common compatibility group"));
    part(lack.unsupported.len(), &|are| format!("{are} unsupported by the feature gates or the node"));
    format!("lacks {what} for request {request} of claim {claim}: {}", parts.join(", "))
}

/// The pods that hold the devices, or the claims that no pod uses.
fn by(account: &Account, devices: &[DeviceName]) -> String {
    let holders = devices.iter().flat_map(|device| account.holders.get(device).into_iter().flatten());
    let (mut pods, mut claims) = (BTreeSet::new(), BTreeSet::new());
    for holder in holders {
        pods.extend(holder.pods.iter().map(String::as_str));
        if holder.pods.is_empty() {
            claims.insert(holder.claim.as_str());
        }
    }
    let mut parts = Vec::new();
    if !pods.is_empty() {
        parts.push(format!("claims of {}", some(&pods)));
    }
    if !claims.is_empty() {
        let word = if claims.len() == 1 { "claim" } else { "claims" };
        parts.push(format!("{word} {}, which no pod uses", some(&claims)));
    }
    if parts.is_empty() { String::new() } else { format!(" by {}", parts.join(" and by ")) }
}

fn some(names: &BTreeSet<&str>) -> String {
    let shown: Vec<&str> = names.iter().take(MOST_NAMES).copied().collect();
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `  2 are refused by the selector of class big: EXPRESSION, where model is "small"`.
fn refused(lack: &RequestLack, refused: &Refused) -> String {
    let Refused { expression, is_of_class, seen, error, devices, .. } = refused;
    let are = if devices.len() == 1 { "1 is".to_owned() } else { format!("{} are", devices.len()) };
    let of = if *is_of_class { format!("class {}", lack.class) } else { format!("request {}", lack.request) };
    let value = |Seen { name, value }: &Seen| match value {
        Some(value) => format!("{name} is {value}"),
        None => format!("{name} is not there"),
    };
    let mut saw: Vec<String> = seen.iter().take(MOST_NAMES).map(value).collect();
    if seen.len() > MOST_NAMES {
        saw.push(format!("{} more values", seen.len() - MOST_NAMES));
    }
    let saw = if saw.is_empty() { String::new() } else { format!(", where {}", words::list(&saw)) };
    let error = error.as_ref().map_or_else(String::new, |error: &Arc<str>| format!(" ({error})"));
    format!("  {are} refused by the selector of {of}: {expression}{saw}{error}")
}

fn taint(DeviceTaint { key, value, effect }: &DeviceTaint) -> String {
    let effect = effect.name();
    if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
}
