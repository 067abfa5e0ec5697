//! How long devices for a pod take on one node: eight GPUs, claims for one and for four of them.
//!
//! Knows: what a node with GPUs looks like. Must not know: how devices are found.

use std::{hint::black_box, sync::Arc};

use criterion::{Criterion, criterion_group, criterion_main};
use flotilla_framework::{
    devices::{
        allocate::{MAX_STEPS, Scene, Scratch, allocate},
        allocated::Allocated,
        amount::Amount,
        inventory::Inventory,
        model::{
            DeviceName,
            allocation::DeviceResult,
            claim::DeviceClaim,
            class::DeviceClass,
            request::{AllocationMode, Ask, ClaimSpec, Request, RequestKind},
            slice::{Attribute, Capacity, Device, Nodes, Slice},
        },
        pools::NodePools,
        selectors::{Language, Reach, Selector, Verdicts},
        wanted::Wanted,
    },
    node::NodeInfo,
};

/// How many nodes the cluster has.
const NODES: u32 = 5_000;
/// How many devices each node has.
const DEVICES: u32 = 8;

/// A language whose every expression is "the model is H100".
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

criterion_group!(benches, devices);
criterion_main!(benches);
