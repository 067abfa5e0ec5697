//! Checks that bound pods have their devices, and that no device is allocated twice.
//!
//! A claim counts once a coordinator has allocated it while no other process could lead, until the API server is restored. Otherwise it
//! counts after the maximum age of a view.

use std::collections::BTreeMap;

use serde_json::Value;

use super::text;
use crate::{
    api::{Commit, Kind, Object, Store},
    check::COORDINATOR,
    world::devices::{DRIVER, of_driver, of_model},
};

const MODELS: [char; 3] = ['a', 'b', 'c'];

/// Driver, pool and name of a device.
type Id = (String, String, String);

#[derive(Debug, Default)]
pub(super) struct Devices {
    claims: BTreeMap<String, Claim>,
    classes: BTreeMap<String, Option<Sort>>,
    slices: BTreeMap<String, Slice>,
    /// Driver, pool and device of each rule; `None` for any.
    rules: BTreeMap<String, [Option<String>; 3]>,
    /// Time since when each device is gone or tainted, ms.
    unusable: BTreeMap<Id, u64>,
    restored_ms: Option<u64>,
}

/// Result of a selector or a class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sort {
    driver: Option<String>,
    model: Option<char>,
}

/// A request, or one of its alternatives.
#[derive(Debug, Clone)]
struct Ask {
    class: String,
    sort: Sort,
    count: usize,
    tolerates: bool,
}

#[derive(Debug)]
struct Slice {
    node: String,
    driver: String,
    pool: String,
    generation: u64,
    count: usize,
    devices: Vec<(String, Option<char>, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    id: Id,
    model: Option<char>,
    is_tainted: bool,
}

#[derive(Debug)]
struct Claim {
    /// Alternatives of each request; `None` if they are unknown.
    requests: Option<Vec<Vec<Ask>>>,
    /// Allocated devices; `None` without an allocation.
    devices: Option<Vec<Id>>,
    reserved_for: Vec<String>,
    is_terminating: bool,
    counts: bool,
    since_ms: u64,
}

impl Devices {
    /// Applies a commit. `alone`: no other process can have led at that time.
    pub(super) fn see(&mut self, commit: &Commit, alone: bool) {
        if commit.kind == Kind::ResourceClaim {
            let is_new = has_allocation(commit.after.as_deref()) && !has_allocation(commit.before.as_deref());
            let before = self.claims.get(commit.key()).map(|claim| (claim.counts, claim.since_ms));
            let (counts, since_ms) = match before {
                Some(before) if !is_new => before,
                _ => (commit.by.starts_with(COORDINATOR) && alone, commit.at_ms),
            };
            return self.set_claim(commit.key(), commit.after.as_deref(), counts, since_ms);
        }
        self.set(commit.kind, commit.key(), commit.after.as_deref(), commit.at_ms);
    }

    fn set_claim(&mut self, key: &str, object: Option<&Object>, counts: bool, since_ms: u64) {
        match object {
            None => _ = self.claims.remove(key),
            Some(object) => _ = self.claims.insert(key.to_owned(), claim(object, counts, since_ms)),
        }
    }

    fn set(&mut self, kind: Kind, key: &str, object: Option<&Object>, at_ms: u64) {
        match (kind, object) {
            (Kind::DeviceClass, Some(object)) => {
                _ = self.classes.insert(key.to_owned(), sort(object.at("/spec/selectors")));
            }
            (Kind::DeviceClass, None) => _ = self.classes.remove(key),
            (Kind::ResourceSlice, Some(object)) => _ = self.slices.insert(key.to_owned(), slice(object)),
            (Kind::ResourceSlice, None) => _ = self.slices.remove(key),
            (Kind::DeviceTaintRule, Some(object)) => {
                let field = |field: &str| object.at("/spec/deviceSelector")[field].as_str().map(str::to_owned);
                self.rules.insert(key.to_owned(), ["driver", "pool", "device"].map(field));
            }
            (Kind::DeviceTaintRule, None) => _ = self.rules.remove(key),
            _ => return,
        }
        if kind != Kind::DeviceClass {
            self.note_unusable(at_ms);
        }
    }

    fn note_unusable(&mut self, at_ms: u64) {
        let all = self.reachable(None);
        let is_usable = |id: &Id| all.iter().any(|device| device.id == *id && !device.is_tainted);
        let named = self.slices.values().flat_map(|slice| slice.devices.iter().map(|(name, ..)| slice.id(name)));
        let known: Vec<Id> = self.unusable.keys().cloned().chain(named).collect();
        for id in known {
            if is_usable(&id) {
                self.unusable.remove(&id);
            } else {
                self.unusable.entry(id).or_insert(at_ms);
            }
        }
    }

    pub(super) fn restored(&mut self, store: &Store, at_ms: u64) {
        *self = Self { restored_ms: Some(at_ms), ..Self::default() };
        for object in store.objects(Kind::ResourceClaim) {
            self.set_claim(object.key(), Some(object), false, at_ms);
        }
        for kind in [Kind::DeviceClass, Kind::ResourceSlice, Kind::DeviceTaintRule] {
            store.objects(kind).for_each(|object| self.set(kind, object.key(), Some(object), at_ms));
        }
    }

    /// Violations of a coordinator's write to a claim. `alone`: no other process can have led at that time. `view_ms`: maximum age of a
    /// view; `is_sharp`: that is a few seconds.
    pub(super) fn allocate(
        &self,
        commit: &Commit,
        alone: bool,
        view_ms: u64,
        is_sharp: bool,
    ) -> Vec<(&'static str, String)> {
        let Some(after) = commit.after.as_deref().filter(|after| has_allocation(Some(after))) else {
            return Vec::new();
        };
        if has_allocation(commit.before.as_deref()) || !alone {
            return Vec::new();
        }
        let (key, from_ms) = (commit.key(), commit.at_ms.saturating_sub(view_ms));
        let others =
            self.claims.iter().filter(|(other, claim)| *other != key && (claim.counts || claim.since_ms <= from_ms));
        let others: Vec<(&String, &Id)> =
            others.flat_map(|(key, claim)| claim.devices.iter().flatten().map(move |id| (key, id))).collect();
        let mut found = Vec::new();
        for id in allocated(after).into_iter().flatten() {
            let (driver, pool, name) = &id;
            if let Some((other, _)) = others.iter().find(|(_, taken)| **taken == id) {
                found.push(("D1", format!("{key} is allocated {driver}/{pool}/{name}, which {other} has")));
            }
            let tolerates = || self.claims.get(key).is_none_or(Claim::tolerates);
            if is_sharp && self.unusable.get(&id).is_some_and(|since_ms| *since_ms <= from_ms) && !tolerates() {
                found.push(("D4", format!("{key} is allocated {driver}/{pool}/{name}, which is gone or tainted")));
            }
        }
        found
    }

    /// Violations of a binding by a view of at most this age.
    pub(super) fn bind(&self, commit: &Commit, view_ms: u64) -> Vec<(&'static str, String)> {
        let Some(pod) = commit.after.as_deref() else { return Vec::new() };
        if self.restored_ms.is_some_and(|at_ms| at_ms + view_ms >= commit.at_ms) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for name in claims(pod) {
            let Some(name) = name else {
                found.push(("D2", format!("{} is bound before all of its claims were created", pod.key())));
                continue;
            };
            let claim = self.claims.get(&format!("{}/{name}", pod.namespace()));
            let Some(devices) = claim.and_then(|claim| claim.devices.as_ref()) else {
                found.push(("D2", format!("{} is bound, and its claim {name} is not allocated", pod.key())));
                continue;
            };
            if !claim.is_some_and(|claim| claim.reserved_for.iter().any(|uid| uid == pod.uid())) {
                found.push(("D2", format!("{} is bound, and its claim {name} is not reserved for it", pod.key())));
            }
            if let Some((_, pool, device)) = devices.iter().find(|id| id.0 == DRIVER && id.1 != pod.node_name()) {
                let (key, node) = (pod.key(), pod.node_name());
                found.push((
                    "D3",
                    format!("{key} is bound to {node}, and device {device} of its claim {name} is on {pool}"),
                ));
            }
        }
        found
    }

    /// Whether a node has devices for these claims; `None` is a claim that does not exist yet. `false` for claims with unknown requests.
    pub(super) fn are_on(&self, namespace: &str, claims: &[Option<String>], node: &str) -> bool {
        let mut asks = Vec::new();
        for name in claims {
            let name = name.as_ref().map(|name| format!("{namespace}/{name}"));
            let Some(claim) = name.and_then(|name| self.claims.get(&name)) else { return false };
            if claim.is_terminating {
                return false;
            }
            match (&claim.devices, &claim.requests) {
                (Some(devices), _) if devices.iter().all(|id| id.0 != DRIVER || id.1 == node) => {}
                (None, Some(requests)) => asks.extend(requests),
                _ => return false,
            }
        }
        let taken: Vec<&Id> = self.claims.values().flat_map(|claim| claim.devices.iter().flatten()).collect();
        let mut free = self.reachable(Some(node));
        free.retain(|device| !taken.contains(&&device.id));
        self.finds(&asks, &free)
    }

    /// Whether devices exist for all requests. Devices of one sort are interchangeable.
    fn finds(&self, asks: &[&Vec<Ask>], free: &[Device]) -> bool {
        let Some((first, rest)) = asks.split_first() else { return true };
        first.iter().any(|ask| self.finds_devices(ask, ask.count, rest, free))
    }

    fn finds_devices(&self, ask: &Ask, count: usize, rest: &[&Vec<Ask>], free: &[Device]) -> bool {
        if count == 0 {
            return self.finds(rest, free);
        }
        let mut tried: Vec<(&str, Option<char>, bool)> = Vec::new();
        for (place, device) in free.iter().enumerate() {
            let sort = (&*device.id.0, device.model, device.is_tainted);
            if tried.contains(&sort) || !self.suits(ask, device) {
                continue;
            }
            tried.push(sort);
            let left = [&free[..place], &free[place + 1..]].concat();
            if self.finds_devices(ask, count - 1, rest, &left) {
                return true;
            }
        }
        false
    }

    fn suits(&self, ask: &Ask, device: &Device) -> bool {
        let is_of = |sort: &Sort| {
            sort.driver.as_ref().is_none_or(|driver| *driver == device.id.0)
                && sort.model.is_none_or(|model| device.model == Some(model))
        };
        let class = self.classes.get(&ask.class).and_then(Option::as_ref);
        class.is_some_and(is_of) && is_of(&ask.sort) && (ask.tolerates || !device.is_tainted)
    }

    /// Devices of complete pools that a node reaches, or all of them.
    fn reachable(&self, node: Option<&str>) -> Vec<Device> {
        let mut pools: BTreeMap<(&str, &str), Vec<&Slice>> = BTreeMap::new();
        for slice in self.slices.values() {
            pools.entry((&slice.driver, &slice.pool)).or_default().push(slice);
        }
        let mut devices = Vec::new();
        for ((driver, pool), mut slices) in pools {
            let newest = slices.iter().map(|slice| slice.generation).max().unwrap_or(0);
            slices.retain(|slice| slice.generation == newest);
            if slices.first().is_none_or(|slice| slice.count != slices.len()) {
                continue;
            }
            let of_node = |slice: &&&Slice| slice.node.is_empty() || node.is_none_or(|node| node == slice.node);
            for slice in slices.iter().filter(of_node) {
                let device = |(name, model, is_tainted): &(String, Option<char>, bool)| Device {
                    id: slice.id(name),
                    model: *model,
                    is_tainted: *is_tainted || self.is_ruled_out(driver, pool, name),
                };
                devices.extend(slice.devices.iter().map(device));
            }
        }
        devices
    }

    fn is_ruled_out(&self, driver: &str, pool: &str, device: &str) -> bool {
        let is = |asked: &Option<String>, has: &str| asked.as_ref().is_none_or(|asked| asked == has);
        self.rules.values().any(|rule| is(&rule[0], driver) && is(&rule[1], pool) && is(&rule[2], device))
    }
}

impl Slice {
    fn id(&self, device: &str) -> Id {
        (self.driver.clone(), self.pool.clone(), device.to_owned())
    }
}

impl Claim {
    /// Whether some request tolerates taints, or is unknown.
    fn tolerates(&self) -> bool {
        self.requests.as_ref().is_none_or(|requests| requests.iter().flatten().any(|ask| ask.tolerates))
    }
}

pub(super) fn claims(pod: &Object) -> impl Iterator<Item = Option<&str>> {
    let list = |path: &str| pod.at(path).as_array().map_or(&[][..], Vec::as_slice);
    let statuses = list("/status/resourceClaimStatuses");
    list("/spec/resourceClaims").iter().map(|entry| {
        entry["resourceClaimName"]
            .as_str()
            .or_else(|| statuses.iter().find(|status| status["name"] == entry["name"])?["resourceClaimName"].as_str())
    })
}

fn has_allocation(claim: Option<&Object>) -> bool {
    claim.is_some_and(|claim| !claim.at("/status/allocation").is_null())
}

fn allocated(claim: &Object) -> Option<Vec<Id>> {
    let results = claim.at("/status/allocation/devices/results").as_array()?;
    let text = |result: &Value, field: &str| result[field].as_str().unwrap_or_default().to_owned();
    let id = |result: &Value| (text(result, "driver"), text(result, "pool"), text(result, "device"));
    Some(results.iter().map(id).collect())
}

fn claim(object: &Object, counts: bool, since_ms: u64) -> Claim {
    let list = |path: &str| object.at(path).as_array().map_or(&[][..], Vec::as_slice);
    let consumers = list("/status/reservedFor").iter();
    let is_simple = list("/spec/devices/constraints").is_empty();
    let requests = list("/spec/devices/requests").iter().map(request);
    Claim {
        requests: if is_simple { requests.collect() } else { None },
        devices: allocated(object),
        reserved_for: consumers.filter_map(|consumer| consumer["uid"].as_str().map(str::to_owned)).collect(),
        is_terminating: object.is_terminating(),
        counts,
        since_ms,
    }
}

fn request(request: &Value) -> Option<Vec<Ask>> {
    match request["firstAvailable"].as_array() {
        Some(alternatives) => alternatives.iter().map(ask).collect(),
        None => ask(&request["exactly"]).map(|ask| vec![ask]),
    }
}

fn ask(ask: &Value) -> Option<Ask> {
    if ask["allocationMode"] != "ExactCount" {
        return None;
    }
    Some(Ask {
        class: ask["deviceClassName"].as_str()?.to_owned(),
        sort: sort(&ask["selectors"])?,
        count: usize::try_from(ask["count"].as_u64()?).ok()?,
        tolerates: !ask["tolerations"].is_null(),
    })
}

/// Sort of devices of some selectors; `None` if unknown.
fn sort(selectors: &Value) -> Option<Sort> {
    let mut sort = Sort::default();
    for selector in selectors.as_array().into_iter().flatten() {
        let expression = selector["cel"]["expression"].as_str()?;
        let model = MODELS.into_iter().find(|model| of_model(*model) == expression);
        match expression.split('"').nth(1) {
            Some(driver) if of_driver(driver) == expression => sort.driver = Some(driver.to_owned()),
            _ => sort.model = Some(model?),
        }
    }
    Some(sort)
}

fn slice(object: &Object) -> Slice {
    let number = |path: &str| object.at(path).as_u64().unwrap_or(0);
    let devices = object.at("/spec/devices").as_array().map_or(&[][..], Vec::as_slice).iter();
    let device = |device: &Value| {
        let model = device["attributes"]["model"]["string"].as_str().and_then(|model| model.chars().next());
        (device["name"].as_str().unwrap_or_default().to_owned(), model, !device["taints"].is_null())
    };
    Slice {
        node: text(object, "/spec/nodeName").to_owned(),
        driver: text(object, "/spec/driver").to_owned(),
        pool: text(object, "/spec/pool/name").to_owned(),
        generation: number("/spec/pool/generation"),
        count: usize::try_from(number("/spec/pool/resourceSliceCount")).unwrap_or(0),
        devices: devices.map(device).collect(),
    }
}
