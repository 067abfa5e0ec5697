//! Benchmark: device allocation for a pod on one node and on 5,000, and re-evaluation after a change of a slice or an allocation.

use std::{hint::black_box, sync::Arc};

use criterion::{Criterion, criterion_group, criterion_main};
use flotilla_framework::{
    class::{Class, ClassId, PodInfo},
    devices::{
        allocate::{MAX_STEPS, Scene, Scratch, allocate},
        allocated::Allocated,
        amount::Amount,
        cache::DeviceCache,
        claimed::{ClaimSource, PodClaim, PodDevices},
        inventory::Inventory,
        model::{
            DeviceName,
            allocation::DeviceResult,
            claim::{Controller, DeviceClaim},
            class::DeviceClass,
            request::{AllocationMode, Ask, ClaimSpec, Request, RequestKind},
            slice::{Attribute, Capacity, Device, Nodes, Slice},
        },
        pools::NodePools,
        selectors::{Language, Reach, Selector, Verdicts},
        wanted::Wanted,
    },
    evaluate::{Columns, Scratch as Columning},
    extension::{
        Facts,
        objects::{Object, ObjectCache, Written},
    },
    node::{NodeId, NodeInfo},
    prepared::Prepared,
    profile::{Profile, WeightedPlugin},
    registry::Registry,
    snapshot::Snapshot,
    testing::{self, node, pod},
    volumes::mounts::Owner,
};

const NODES: u32 = 5_000;
const DEVICES: u32 = 8;

/// A language in which every expression means "the model is H100".
#[derive(Debug)]
struct Model(Reach);

impl Language for Model {
    fn compile(&self, _: &str) -> Result<Box<dyn Selector>, String> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Selector for Model {
    fn matches(&self, _: &str, device: &Device) -> Result<bool, String> {
        Ok(device.attributes.iter().any(|(name, value)| &**name == "model" && *value == Attribute::Text("H100".into())))
    }

    fn reach(&self) -> &Reach {
        &self.0
    }
}

fn slice(node: u32) -> Arc<Slice> {
    let name: Arc<str> = format!("node-{node}").into();
    let memory = Amount::parse("80Gi").unwrap_or_default();
    let devices = (0..DEVICES).map(|index| Device {
        name: format!("gpu-{index}").into(),
        attributes: vec![
            ("index".into(), Attribute::Int(i64::from(index))),
            ("model".into(), Attribute::Text("H100".into())),
            ("uuid".into(), Attribute::Text(format!("GPU-{node}-{index}").into())),
        ],
        capacity: vec![("memory".into(), Capacity { value: memory.clone(), policy: None })],
        ..Device::default()
    });
    Arc::new(Slice {
        name: format!("node-{node}-gpus").into(),
        driver: "gpu.example.com".into(),
        pool: Arc::clone(&name),
        generation: 1,
        slice_count: 1,
        nodes: Nodes { name: Some(name), ..Nodes::default() },
        devices: devices.collect(),
        ..Slice::default()
    })
}

fn claim(count: i64) -> DeviceClaim {
    let ask = Ask {
        class: "gpu".into(),
        selectors: vec![Some("model".into())],
        mode: AllocationMode::Count(count),
        ..Ask::default()
    };
    let request = Request { name: "gpus".into(), kind: RequestKind::Exactly(ask) };
    let spec = Arc::new(ClaimSpec { requests: vec![request], ..ClaimSpec::default() });
    DeviceClaim { namespace: "default".into(), name: "claim".into(), spec, ..DeviceClaim::default() }
}

fn devices(criterion: &mut Criterion) {
    let mut inventory = Inventory::default();
    (0..NODES).for_each(|node| inventory.apply(slice(node)));
    let node = NodeInfo { name: "node-7".into(), ..NodeInfo::default() };
    let pools = NodePools::of(&node, &inventory);
    assert_eq!(pools.len(), DEVICES as usize);
    let reach = Reach::Some { attributes: vec!["model".into()], capacities: Vec::new() };
    let mut verdicts = Verdicts::new(Arc::new(Model(reach)));
    let class =
        Arc::new(DeviceClass { name: "gpu".into(), selectors: vec![Some("class".into())], ..DeviceClass::default() });
    let taken = |index: u32| {
        let device = format!("gpu-{index}").into();
        DeviceResult {
            device: DeviceName { driver: "gpu.example.com".into(), pool: "node-7".into(), device },
            ..DeviceResult::default()
        }
    };
    let mut allocated = Allocated::default();
    allocated.add(&(0..4).map(taken).collect::<Vec<_>>(), inventory.names());
    let mut scratch = Scratch::default();
    for (what, count, finds) in [("one", 1, true), ("four", 4, true), ("five of four", 5, false)] {
        let wanted = Wanted::of([&claim(count)], &|_| Some(Arc::clone(&class)), &mut verdicts);
        let scene = Scene { pools: &pools, allocated: &allocated, wanted: &wanted, max_steps: MAX_STEPS };
        assert_eq!(allocate(scene, &mut verdicts, &mut scratch).is_ok_and(|found| found.is_some()), finds);
        criterion.bench_function(&format!("allocate {what}"), |bencher| {
            bencher.iter(|| allocate(black_box(scene), &mut verdicts, &mut scratch));
        });
    }
    criterion.bench_function("pools of a node", |bencher| {
        bencher.iter(|| NodePools::of(black_box(&node), &inventory));
    });
}

const PLUGIN: &str = "DynamicResources";
const OF_CLASS: &str = "device.driver == 'gpu.example.com'";
const H100: &str = "device.attributes['gpu.example.com'].model == 'H100'";

struct Cluster {
    cache: DeviceCache,
    nodes: Snapshot,
}

impl Cluster {
    fn new(pod: &PodInfo, count: i64) -> Self {
        let mut cache = DeviceCache::of(PLUGIN);
        let class =
            DeviceClass { name: "gpu".into(), selectors: vec![Some(OF_CLASS.into())], ..DeviceClass::default() };
        cache.apply(&Object::Device(class.into()));
        (0..NODES).for_each(|number| drop(cache.apply(&Object::Device(Slice::clone(&slice(number)).into()))));
        let mut claim = DeviceClaim { uid: "claim".into(), ..claim(count) };
        claim.controller = Some(Controller {
            kind: "Pod".into(),
            name: Arc::clone(&pod.name),
            uid: Arc::clone(&pod.uid),
            ..Controller::default()
        });
        let mut spec = ClaimSpec::clone(&claim.spec);
        for request in &mut spec.requests {
            if let RequestKind::Exactly(ask) = &mut request.kind {
                ask.selectors = vec![Some(H100.into())];
            }
        }
        claim.spec = Arc::new(spec);
        cache.apply(&Object::Device(claim.into()));
        let mut cluster = Self { cache, nodes: Snapshot::new(1) };
        (0..NODES).for_each(|number| cluster.refresh(number));
        cluster
    }

    fn info(&mut self, number: u32) -> Arc<NodeInfo> {
        let built = node(&format!("node-{number}")).capacity("cpu", "32").capacity("memory", "256Gi").build();
        let mut info = Arc::new(built);
        self.cache.complete(&mut info);
        info
    }

    fn refresh(&mut self, number: u32) {
        let info = self.info(number);
        self.nodes.upsert_node(NodeId(number), &info);
    }

    fn prepare(&self, class: &Class) -> Prepared {
        let mut facts = Facts::default();
        self.cache.resolve(class, &mut facts);
        Prepared::new(Registry::built_in(), &profile(), class, &facts, &self.nodes)
    }
}

fn profile() -> Profile {
    let mut profile = testing::profile();
    let plugins = &mut profile.plugins;
    for point in [&mut plugins.pre_filter, &mut plugins.filter, &mut plugins.reserve, &mut plugins.pre_bind] {
        point.push(PLUGIN.to_owned());
    }
    plugins.score.push(WeightedPlugin { name: PLUGIN.to_owned(), weight: 2 });
    profile
}

fn claiming() -> PodInfo {
    let owner = Owner { name: "p".into(), uid: pod("p").build().uid };
    let claims =
        vec![PodClaim { entry: "gpus".into(), source: ClaimSource::Generated("claim".into()), ..PodClaim::default() }];
    let devices = PodDevices { owner, claims, ..PodDevices::default() };
    let built = pod("p").request("cpu", "100m").request("memory", "256Mi");
    built.class(|class| class.devices = Some(Arc::new(devices))).build()
}

fn clusters(criterion: &mut Criterion) {
    let pod = claiming();
    for (what, count) in [("one", 1), ("four", 4)] {
        let mut cluster = Cluster::new(&pod, count);
        let shared = cluster.cache.share(&pod.class).flatten();
        let class = Arc::new(Class { devices: shared, ..Class::clone(&pod.class) });
        cluster.nodes.register_class(ClassId(0), Arc::clone(&class));
        let (mut columns, mut scratch) = (Columns::default(), Columning::default());
        criterion.bench_function(&format!("a new class that claims {what}, on 5,000 nodes"), |bencher| {
            bencher.iter(|| {
                let prepared = cluster.prepare(&class);
                columns.forget();
                black_box(columns.refresh(&prepared, &cluster.nodes, &mut scratch));
            });
        });
        let prepared = cluster.prepare(&class);
        columns.forget();
        columns.refresh(&prepared, &cluster.nodes, &mut scratch);
        let mut version = 0_u64;
        criterion.bench_function(&format!("a slice changes, for a class that claims {what}"), |bencher| {
            bencher.iter(|| {
                version += 1;
                let mut changed = Slice::clone(&slice(7));
                changed.resource_version = version.to_string().into();
                changed.devices.truncate(if version.is_multiple_of(2) { 8 } else { 7 });
                let changes = cluster.cache.apply(&Object::Device(changed.into())).unwrap_or_default();
                assert_eq!(changes.nodes.len(), 1);
                cluster.refresh(7);
                black_box(columns.refresh(&prepared, &cluster.nodes, &mut scratch));
            });
        });
        let chosen = cluster.info(7);
        criterion.bench_function(&format!("the search repeated for the plan, {what}"), |bencher| {
            bencher.iter(|| black_box(cluster.cache.plan(&pod, &chosen, &profile())).is_ok());
        });
        let Ok(Some(plan)) = cluster.cache.plan(&pod, &chosen, &profile()) else { continue };
        criterion.bench_function(&format!("an allocation and its end, {what}: the node judged twice"), |bencher| {
            bencher.iter(|| {
                cluster.cache.reserve(&*plan);
                cluster.refresh(7);
                black_box(columns.refresh(&prepared, &cluster.nodes, &mut scratch));
                cluster.cache.unreserve(&*plan, &Written::new());
                cluster.refresh(7);
                black_box(columns.refresh(&prepared, &cluster.nodes, &mut scratch));
            });
        });
    }
}

criterion_group!(benches, devices, clusters);
criterion_main!(benches);
