//! Random cases for the allocator: pools in several generations, counters, taints, capacities, and claims with every feature.

mod gated;

use serde_json::{Map, Value, json};

/// SplitMix64, one sequence per seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }
}

/// Features of a whole case, so that some cases test few features.
struct Flavour {
    counters: bool,
    shared: bool,
    capacity: bool,
    taints: bool,
    binding: bool,
    per_device: bool,
    odd: bool,
    gated: Option<gated::Gated>,
}

const DRIVERS: [&str; 2] = ["driver-a", "driver-b"];
const NODES: [&str; 2] = ["node-1", "node-2"];
const SIZES: [&str; 8] = ["1", "2", "4", "1500m", "1Gi", "2Gi", "512Mi", "1024Mi"];

pub(crate) fn case(seed: u64) -> Value {
    made(seed, None)
}

/// A case with fields that feature gates enable, for a scheduler with these features.
pub(crate) fn gated(seed: u64, features: &Value) -> Value {
    made(seed, Some(features))
}

fn made(seed: u64, features: Option<&Value>) -> Value {
    let chance = &mut Chance(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    chance.next();
    let mut flavour = Flavour {
        gated: features.map(|features| gated::Gated::of(chance, features)),
        counters: chance.percent(35),
        shared: chance.percent(35),
        capacity: chance.percent(40),
        taints: chance.percent(35),
        binding: chance.percent(20),
        per_device: chance.percent(25),
        odd: chance.percent(15),
    };
    if flavour.gated.as_ref().is_some_and(|gated| gated.fractions) {
        flavour.capacity = true;
    }
    let slices = slices(chance, &flavour);
    let devices = published(&slices);
    let (allocated, shared, consumed) = in_use(chance, &devices);
    let classes: Vec<Value> = classes(chance, &flavour);
    let claims: Vec<Value> = (0..chance.pick(&[1, 1, 1, 1, 2, 3])).map(|at| claim(chance, &flavour, at)).collect();
    let mut case = json!({
        "name": format!("seed-{seed}"),
        "node": { "metadata": { "name": "node-1", "labels": { "region": "region-1", "planet": "earth" } } },
        "classes": classes,
        "slices": slices,
        "claims": claims,
        "allocated": allocated,
        "shared": shared,
        "consumed": consumed,
    });
    if let Some(features) = features {
        gated::finish(chance, &mut case, features);
    }
    case
}

fn slices(chance: &mut Chance, flavour: &Flavour) -> Vec<Value> {
    let mut slices = Vec::new();
    let pools = chance.pick(&[1, 2, 2, 3, 3]);
    // Upstream's stable allocator tries pools in random order.
    let pools = if flavour.gated.as_ref().is_some_and(|gated| gated.is_stable) { 1 } else { pools };
    for pool in 0..pools {
        let driver = chance.pick(&DRIVERS);
        let name = format!("pool-{pool}");
        let generation = chance.between(1, 3);
        pool_of(chance, flavour, (driver, &name), generation, &mut slices);
        if chance.percent(8) {
            // Remains of an old generation, or the start of a new one.
            let other = chance.pick(&[generation.saturating_sub(1), generation + 1]);
            pool_of(chance, flavour, (driver, &name), other, &mut slices);
        }
    }
    // Informers return them in any order.
    for at in (1..slices.len()).rev() {
        let with = usize::try_from(chance.below(at as u64 + 1)).unwrap_or(0);
        slices.swap(at, with);
    }
    slices
}

fn pool_of(chance: &mut Chance, flavour: &Flavour, pool: (&str, &str), generation: u64, slices: &mut Vec<Value>) {
    let (driver, name) = pool;
    let sets = if flavour.counters { counter_sets(chance) } else { Vec::new() };
    let with_devices = chance.pick(&[1, 1, 2, 3]);
    let mut count = with_devices + u64::from(!sets.is_empty());
    if chance.percent(5) {
        count = chance.between(1, 4);
    }
    let everywhere = node_selection(chance, flavour);
    let mut number = chance.below(40);
    let mut devices_so_far = 0;
    let mut add = |chance: &mut Chance, slices: &mut Vec<Value>, mut spec: Value| {
        number += chance.between(1, 5);
        let selection = if chance.percent(85) { everywhere.clone() } else { node_selection(chance, flavour) };
        merge(&mut spec, &selection);
        merge(
            &mut spec,
            &json!({ "driver": driver, "pool": { "name": name, "generation": generation, "resourceSliceCount": count } }),
        );
        if let Some(gated) = &flavour.gated {
            gated.of_slice(chance, &mut spec);
        }
        let prefix = chance.pick(&["slice", "a-slice"]);
        let slice = format!("{prefix}-{driver}-{name}-{generation}-{number:03}");
        slices.push(json!({ "metadata": { "name": slice }, "spec": spec }));
    };
    if !sets.is_empty() {
        let mut shared = sets.clone();
        if flavour.odd && chance.percent(10) {
            shared.push(sets[0].clone());
        }
        add(chance, slices, json!({ "sharedCounters": shared }));
    }
    for _ in 0..with_devices {
        let devices: Vec<Value> = (0..chance.pick(&[1, 2, 3, 3, 4, 5]))
            .map(|_| {
                devices_so_far += 1;
                let number = if flavour.odd && chance.percent(4) { 1 } else { devices_so_far };
                device(chance, flavour, driver, number, &sets)
            })
            .collect();
        add(chance, slices, json!({ "devices": devices }));
    }
}

/// Nodes of a slice, which may delegate to its devices with `perDeviceNodeSelection`.
fn node_selection(chance: &mut Chance, flavour: &Flavour) -> Value {
    if flavour.per_device && chance.percent(60) {
        return json!({ "perDeviceNodeSelection": true });
    }
    one_selection(chance)
}

fn one_selection(chance: &mut Chance) -> Value {
    match chance.below(10) {
        0..5 => json!({ "nodeName": "node-1" }),
        5 if chance.percent(40) => json!({ "nodeName": chance.pick(&NODES) }),
        5..8 => json!({ "allNodes": true }),
        _ => json!({ "nodeSelector": { "nodeSelectorTerms": [node_term(chance)] } }),
    }
}

fn node_term(chance: &mut Chance) -> Value {
    let region = chance.pick(&["region-1", "region-1", "region-1", "region-1", "region-2"]);
    match chance.below(5) {
        0 => json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["node-1"] }] }),
        1 => json!({ "matchExpressions": [
            { "key": "region", "operator": "In", "values": [region, "region-3"] },
            { "key": "planet", "operator": "Exists" },
        ] }),
        2 => json!({ "matchExpressions": [{ "key": "region", "operator": "In", "values": ["region-3", region] }] }),
        _ => json!({ "matchExpressions": [{ "key": "region", "operator": "In", "values": [region] }] }),
    }
}

fn counter_sets(chance: &mut Chance) -> Vec<Value> {
    let sets = 0..chance.pick(&[1, 1, 2]);
    sets.map(|set| {
        let counters: Map<String, Value> = (0..chance.between(1, 2))
            .map(|counter| (format!("counter-{counter}"), json!({ "value": chance.pick(&["2", "3", "4", "8"]) })))
            .collect();
        json!({ "name": format!("set-{set}"), "counters": counters })
    })
    .collect()
}

fn device(chance: &mut Chance, flavour: &Flavour, driver: &str, number: u64, sets: &[Value]) -> Value {
    let mut device = json!({ "name": format!("device-{number}") });
    let mut attributes = attributes(chance, flavour, driver);
    if let Some(gated) = &flavour.gated {
        gated.of_attributes(chance, &mut attributes);
    }
    if !attributes.is_empty() {
        device["attributes"] = attributes.into();
    }
    if flavour.per_device {
        merge(&mut device, &one_selection(chance));
    }
    let is_shareable = flavour.shared && chance.percent(60);
    if is_shareable {
        device["allowMultipleAllocations"] = true.into();
    }
    if (flavour.capacity || is_shareable) && chance.percent(80) {
        device["capacity"] = capacities(chance, flavour);
    }
    if !sets.is_empty() && chance.percent(70) {
        device["consumesCounters"] = consumption(chance, flavour, sets);
    }
    if flavour.taints && chance.percent(40) {
        device["taints"] = (0..chance.between(1, 2)).map(|_| taint(chance)).collect();
    }
    if flavour.binding && chance.percent(30) {
        device["bindingConditions"] = json!(["Ready"]);
        device["bindingFailureConditions"] = json!(["Failed"]);
    }
    if flavour.binding && chance.percent(30) {
        device["bindsToNode"] = true.into();
    }
    device
}

fn attributes(chance: &mut Chance, flavour: &Flavour, driver: &str) -> Map<String, Value> {
    let mut attributes = Map::new();
    let mut add = |name: String, value: Value| drop(attributes.insert(name, value));
    let qualified = |chance: &mut Chance, id: &str| {
        if chance.percent(25) { format!("{driver}/{id}") } else { id.to_owned() }
    };
    if !flavour.odd || chance.percent(95) {
        add(qualified(chance, "x"), json!({ "int": chance.below(3) }));
    }
    if !flavour.odd || chance.percent(95) {
        add(qualified(chance, "kind"), json!({ "string": chance.pick(&["big", "small"]) }));
    }
    if !flavour.odd || chance.percent(95) {
        add(qualified(chance, "flag"), json!({ "bool": chance.percent(70) }));
    }
    if chance.percent(90) {
        add("example.com/numa".to_owned(), json!({ "int": chance.below(2) }));
    }
    if chance.percent(40) {
        add("version".to_owned(), json!({ "version": chance.pick(&["1.0.0", "1.2.3"]) }));
    }
    if flavour.odd && chance.percent(5) {
        add("unknown".to_owned(), json!({}));
    }
    attributes
}

fn capacities(chance: &mut Chance, flavour: &Flavour) -> Value {
    let mut capacities = Map::new();
    for name in ["memory", "cores"] {
        if chance.percent(70) {
            capacities.insert(name.to_owned(), capacity(chance, flavour));
        }
    }
    capacities.into()
}

fn capacity(chance: &mut Chance, flavour: &Flavour) -> Value {
    if let Some(capacity) = flavour.gated.as_ref().and_then(|gated| gated.capacity(chance)) {
        return capacity;
    }
    let mut capacity = json!({ "value": chance.pick(&["2", "4", "8", "4Gi", "8Gi", "4096Mi"]) });
    match chance.below(6) {
        0 | 1 => {
            let (least, step, most) =
                chance.pick(&[("1", "1", "4"), ("1Gi", "512Mi", "3Gi"), ("2", "2", "8"), ("500m", "1", "4")]);
            let mut range = json!({ "min": least });
            if chance.percent(80) {
                range["step"] = step.into();
            }
            if chance.percent(60) {
                range["max"] = most.into();
            }
            capacity["requestPolicy"] = json!({ "default": least, "validRange": range });
        }
        2 => {
            capacity["requestPolicy"] = json!({ "default": "1", "validValues": ["1", "2", "1Gi", "2Gi"] });
        }
        3 => capacity["requestPolicy"] = json!({ "default": chance.pick(&["1", "1Gi"]) }),
        _ => {}
    }
    if flavour.odd && chance.percent(4) {
        capacity["requestPolicy"] = json!({ "default": "-1" });
    }
    capacity
}

fn consumption(chance: &mut Chance, flavour: &Flavour, sets: &[Value]) -> Value {
    let mut consumes = Vec::new();
    for set in sets {
        if !chance.percent(75) {
            continue;
        }
        let mut counters = Map::new();
        for name in set["counters"].as_object().into_iter().flatten().map(|(name, _)| name) {
            if chance.percent(80) {
                counters.insert(name.clone(), json!({ "value": chance.pick(&["0", "1", "1", "2", "500m"]) }));
            }
        }
        if flavour.odd && chance.percent(2) {
            counters.insert("counter-none".to_owned(), json!({ "value": "1" }));
        }
        let mut one = json!({ "counterSet": set["name"], "counters": counters });
        if flavour.odd && chance.percent(4) {
            one["compatibilityGroups"] = json!(["group"]);
        }
        if let Some(gated) = &flavour.gated {
            gated.of_consumption(chance, &mut one);
        }
        consumes.push(one);
    }
    if flavour.odd && chance.percent(2) {
        consumes.push(json!({ "counterSet": "set-none", "counters": { "counter-0": { "value": "1" } } }));
    }
    consumes.into()
}

fn taint(chance: &mut Chance) -> Value {
    json!({
        "key": chance.pick(&["taint-1", "taint-2"]),
        "value": chance.pick(&["", "value"]),
        "effect": chance.pick(&["NoSchedule", "NoExecute", "None"]),
    })
}

/// Devices of all slices, and whether they are shareable.
fn published(slices: &[Value]) -> Vec<(Value, bool)> {
    let mut devices = Vec::new();
    for slice in slices {
        let spec = &slice["spec"];
        for device in spec["devices"].as_array().into_iter().flatten() {
            let name = json!({ "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"] });
            devices.push((name, device["allowMultipleAllocations"] == true));
        }
    }
    devices
}

fn in_use(chance: &mut Chance, devices: &[(Value, bool)]) -> (Vec<Value>, Vec<Value>, Vec<Value>) {
    let (mut allocated, mut shared, mut consumed) = (Vec::new(), Vec::new(), Vec::new());
    let share = chance.pick(&[0, 0, 10, 25]);
    for (at, (name, is_shareable)) in devices.iter().enumerate() {
        if !chance.percent(share) {
            continue;
        }
        if !is_shareable || chance.percent(5) {
            allocated.push(name.clone());
            continue;
        }
        let mut device = name.clone();
        if chance.percent(70) {
            let names = [chance.pick(&["memory", "cores"]), chance.pick(&["memory", "gone"])];
            let amounts = names.map(|name| (name.to_owned(), chance.pick(&["1", "1Gi", "2", "0"]).into()));
            device["capacity"] = Value::Object(amounts.into_iter().collect());
            consumed.push(device);
        } else {
            device["share"] = format!("share-{at}").into();
            shared.push(device);
        }
    }
    (allocated, shared, consumed)
}

fn classes(chance: &mut Chance, flavour: &Flavour) -> Vec<Value> {
    let mut classes = vec![
        class("class-a", &["device.driver == \"driver-a\""]),
        class("class-b", &["device.driver == \"driver-b\""]),
        class("class-any", &[]),
        class("class-two", &["device.driver == \"driver-a\"", selector(chance, flavour)]),
    ];
    for class in &mut classes {
        if chance.percent(30) {
            let config = |at: u64| json!({ "opaque": { "driver": "driver-a", "parameters": { "of-class": at } } });
            class["spec"]["config"] = (0..chance.between(1, 2)).map(config).collect();
        }
    }
    if flavour.odd && chance.percent(20) {
        classes.remove(0);
    }
    classes
}

fn class(name: &str, expressions: &[&str]) -> Value {
    let selectors = expressions.iter().map(|expression| json!({ "cel": { "expression": expression } }));
    json!({ "metadata": { "name": name }, "spec": { "selectors": selectors.collect::<Vec<_>>() } })
}

fn selector(chance: &mut Chance, flavour: &Flavour) -> &'static str {
    if flavour.odd && chance.percent(10) {
        return chance.pick(&["noSuchVar", "device.attributes[\"driver-a\"].x == 1"]);
    }
    // Without a guard on the driver or on missing attributes these fail, which ends the attempt.
    chance.pick(&[
        "device.driver == \"driver-a\"",
        "device.driver == \"driver-b\"",
        "device.driver == \"driver-b\" || device.attributes[\"driver-a\"].x == 1",
        "device.driver == \"driver-b\" || device.attributes[\"driver-a\"].kind == \"big\"",
        "device.driver == \"driver-a\" || device.attributes[\"driver-b\"].flag",
        "device.driver == \"driver-a\" || device.driver == \"driver-b\"",
        "device.allowMultipleAllocations == true",
        "device.allowMultipleAllocations == false",
    ])
}

fn claim(chance: &mut Chance, flavour: &Flavour, at: u64) -> Value {
    let requests: Vec<Value> =
        (0..chance.pick(&[1, 1, 1, 2, 2, 3])).map(|number| request(chance, flavour, number)).collect();
    let mut names = Vec::new();
    for request in &requests {
        let name = request["name"].as_str().unwrap_or_default();
        names.push(name.to_owned());
        let alternatives = request["firstAvailable"].as_array().into_iter().flatten();
        names.extend(alternatives.map(|one| format!("{name}/{}", one["name"].as_str().unwrap_or_default())));
    }
    let some = |chance: &mut Chance| {
        let mut some: Vec<&String> = names.iter().filter(|_| chance.percent(50)).collect();
        if chance.percent(40) {
            some.clear();
        }
        json!(some)
    };
    let mut devices = json!({ "requests": requests });
    if chance.percent(35) {
        let constraints = (0..chance.between(1, 2)).map(|_| {
            let kind = chance.pick(&["matchAttribute", "matchAttribute", "distinctAttribute"]);
            let attribute =
                chance.pick(&["driver-a/x", "driver-a/kind", "example.com/numa", "driver-b/flag", "driver-a/version"]);
            let gated = flavour.gated.as_ref().and_then(|gated| gated.constrained(chance));
            let attribute = gated.unwrap_or(attribute);
            json!({ "requests": some(chance), kind: attribute })
        });
        devices["constraints"] = constraints.collect();
    }
    if chance.percent(30) {
        let config = (0..chance.between(1, 2)).map(|at| {
            let opaque = json!({ "driver": "driver-b", "parameters": { "of-claim": at } });
            json!({ "requests": some(chance), "opaque": opaque })
        });
        devices["config"] = config.collect();
    }
    json!({
        "metadata": { "name": format!("claim-{at}"), "namespace": "default" },
        "spec": { "devices": devices },
    })
}

fn request(chance: &mut Chance, flavour: &Flavour, number: u64) -> Value {
    let name = format!("request-{number}");
    if chance.percent(30) {
        let alternatives: Vec<Value> = (0..chance.between(1, 3))
            .map(|at| {
                let mut one = ask(chance, flavour);
                one["name"] = format!("sub-{at}").into();
                one
            })
            .collect();
        return json!({ "name": name, "firstAvailable": alternatives });
    }
    let mut exactly = ask(chance, flavour);
    if chance.percent(10) {
        exactly["adminAccess"] = chance.percent(80).into();
    }
    json!({ "name": name, "exactly": exactly })
}

fn ask(chance: &mut Chance, flavour: &Flavour) -> Value {
    let class = chance.pick(&["class-a", "class-any", "class-any", "class-any", "class-b", "class-two"]);
    let mut ask = json!({ "deviceClassName": class, "allocationMode": "ExactCount" });
    let count = chance.pick(&[1, 1, 1, 1, 1, 2, 2, 3]);
    ask["count"] = if flavour.odd && chance.percent(15) { chance.between(10, 34) } else { count }.into();
    if chance.percent(10) {
        ask = json!({ "deviceClassName": class, "allocationMode": "All" });
    }
    if chance.percent(25) {
        let one = |chance: &mut Chance| json!({ "cel": { "expression": selector(chance, flavour) } });
        ask["selectors"] = (0..chance.between(1, 2)).map(|_| one(chance)).collect();
    }
    if flavour.taints && chance.percent(40) {
        ask["tolerations"] = (0..chance.between(1, 2)).map(|_| toleration(chance)).collect();
    }
    if (flavour.capacity || flavour.shared) && chance.percent(40) {
        let mut requests = Map::new();
        requests.insert("memory".to_owned(), chance.pick(&SIZES).into());
        if chance.percent(30) {
            requests.insert("cores".to_owned(), chance.pick(&SIZES).into());
        }
        if flavour.odd && chance.percent(5) {
            requests.insert("memory".to_owned(), chance.pick(&["9223372036854775808", "9E", "-1", "0"]).into());
        }
        ask["capacity"] = json!({ "requests": requests });
    }
    if let Some(gated) = &flavour.gated {
        gated.of_ask(chance, &mut ask);
    }
    ask
}

fn toleration(chance: &mut Chance) -> Value {
    let mut toleration = json!({ "operator": chance.pick(&["Exists", "Equal"]) });
    if chance.percent(70) {
        toleration["key"] = chance.pick(&["taint-1", "taint-2"]).into();
    }
    if toleration["operator"] == "Equal" && chance.percent(70) {
        toleration["value"] = "value".into();
    }
    if chance.percent(40) {
        toleration["effect"] = chance.pick(&["NoSchedule", "NoExecute"]).into();
    }
    if chance.percent(20) {
        toleration["effect"] = "NoExecute".into();
        toleration["tolerationSeconds"] = 60.into();
    }
    toleration
}

fn merge(into: &mut Value, from: &Value) {
    for (name, value) in from.as_object().into_iter().flatten() {
        into[name] = value.clone();
    }
}
