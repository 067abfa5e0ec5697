//! `flotilla plugin check`: inspects a module.
//!
//! The module evaluates a sample pod twice: on all nodes in one batch, and on each node separately in reverse order. A pure module returns
//! the same results.

use std::{
    fmt::Write as _,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use flotilla_framework::{
    class::{Class, Common, PodInfo, Taint},
    extension::{Facts, Filter, NodeFilter, NodeScore, Plugin, Point, PreFilter, PreScore, Preparation, Score},
    modules::Modules as _,
    node::{NodeId, NodeInfo},
    profile::Args,
    resources::Resources,
    snapshot::{Slot, Snapshot},
    status::Refusal,
    symbols::Lookup,
};
use flotilla_wasm::{ModuleArgs, Table};
use serde_json::{Value, json};

use super::CheckArgs;
use crate::output::{Failure, print};

const NAME: &str = "Module";

/// The number of sample nodes: two batches.
const NODES: u32 = 1024;

pub(super) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let report = report(args).map_err(Failure::run)?;
    print(|out| out.write_all(report.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

fn report(args: &CheckArgs) -> anyhow::Result<String> {
    let shown = args.file.display();
    let bytes =
        std::fs::read(&args.file).with_context(|| format!("cannot read {shown}; check the path and its mode"))?;
    let (size, table) = (bytes.len(), Table::new());
    let begun = Instant::now();
    let digest = table.load(bytes.into()).map_err(|error| anyhow!("{shown}: {error}"))?;
    let compiled = begun.elapsed();
    let written = arguments(args, &digest.to_string());
    let read = ModuleArgs::read(&written).map_err(|error| anyhow!("{}", error.message))?;
    table.name(NAME, &written, digest).map_err(|error| anyhow!("{shown}: {error}"))?;
    let module = table.module(digest).context("the module is not held")?;
    let exports = module.exports();
    let mut out = String::new();
    let depth =
        if exports.is_batched() { "batches of nodes" } else { "node by node (kube-scheduler-wasm-extension v0.1)" };
    writeln!(out, "module    {shown}: {size} bytes, compiled in {compiled:.1?}")?;
    writeln!(out, "sha256    {digest}")?;
    writeln!(out, "asked     {depth}")?;
    let runs: Vec<_> = exports.iter().filter(|export| export.instead().is_none()).map(|export| export.name()).collect();
    writeln!(out, "run       {}", runs.join(", "))?;
    for (export, instead) in exports.iter().filter_map(|export| Some((export, export.instead()?))) {
        writeln!(out, "not run   {}: {instead}", export.name())?;
    }
    writeln!(
        out,
        "limits    {} units of fuel a call, {} bytes of memory",
        read.limits.fuel_per_call, read.limits.memory.0
    )?;
    let plugin = table.find(NAME).context("the plugin is not found")?;
    plugin.advise(&written).iter().try_for_each(|advice| writeln!(out, "note      {advice}"))?;
    let sample = Sample::new(plugin, written);
    sample.tell(plugin, exports.filters(), exports.scores(), &mut out)?;
    Ok(out)
}

fn arguments(args: &CheckArgs, digest: &str) -> Value {
    let mut written = json!({ "guestURL": "file:///module.wasm", "sha256": digest, "guestConfig": args.guest_config });
    for (field, paths) in [("podFields", &args.pod_fields), ("nodeFields", &args.node_fields)] {
        if !paths.is_empty() {
            written[field] = json!(paths);
        }
    }
    written
}

struct Sample {
    class: Arc<Class>,
    args: Args,
    nodes: Snapshot,
    slots: Vec<Slot>,
}

impl Sample {
    fn new(plugin: &dyn Plugin, written: Value) -> Self {
        let mut args = Args::default();
        args.own.insert(NAME.to_owned(), written);
        let label = |key: &str, value: &str| (key.into(), value.into());
        let common = Common {
            requests: Resources { milli_cpu: 500, memory: 1 << 30, ..Resources::default() },
            node_selector: vec![label("disk", "ssd")],
            images: vec!["example.com/shop:1".into()],
            ..Common::default()
        };
        let labels = vec![label("app", "shop"), label("team", "red")];
        let class = Class { labels, common: Arc::new(common), ..Class::default() };
        let mut fields = plugin.pod_fields(&args);
        fields.sort_unstable();
        let class = Arc::new(pod(class)).showing(&fields).class.clone();
        let mut nodes = Snapshot::new(0);
        let slots = (0..NODES).map(|number| nodes.upsert_node(NodeId(number), &node(number))).collect();
        Self { class, args, nodes, slots }
    }

    /// Runs the module and appends the results to `out`.
    fn tell(&self, plugin: &dyn Plugin, filters: bool, scores: bool, out: &mut String) -> anyhow::Result<()> {
        let runs = |point| plugin.points().contains(&point);
        if runs(Point::PreFilter) {
            match self.prepared(|preparation| plugin.pre_filter(preparation)) {
                PreFilter::Fail(error) => bail!("prefilter: {error}"),
                PreFilter::Refuse(reason) => writeln!(out, "prefilter refuses the sample pod: {reason}")?,
                _ => {}
            }
        }
        if filters {
            let filter = || self.prepared(|preparation| plugin.filter(preparation));
            let Some(Filter::Node(in_a_row)) = filter() else { bail!("there is no filter") };
            let begun = Instant::now();
            let mut todo = self.slots.clone();
            let mut refused = Vec::new();
            in_a_row.sieve(&self.nodes, &mut todo, &mut |slot, refusal| refused.push((slot, refusal)));
            let took = begun.elapsed();
            let Some(Filter::Node(by_itself)) = filter() else { bail!("there is no filter") };
            refused.sort_unstable();
            let of = |slot: Slot| refused.binary_search_by_key(&slot, |(slot, _)| *slot).ok().map(|at| refused[at].1);
            self.compare(
                "filter",
                |slot| words(of(slot), &*in_a_row),
                |slot| words(by_itself.filter(&self.nodes, slot).err(), &*by_itself),
            )?;
            writeln!(out, "filter    {} of {NODES} sample nodes refused; {}", refused.len(), each(took))?;
        }
        if scores {
            if runs(Point::PreScore)
                && let PreScore::Fail(error) = self.prepared(|preparation| plugin.pre_score(preparation))
            {
                bail!("prescore: {error}");
            }
            let score = || self.prepared(|preparation| plugin.score(preparation));
            let Some(Score::Node(in_a_row)) = score() else { bail!("there is no score") };
            let begun = Instant::now();
            let all = self.scores(&*in_a_row);
            let took = begun.elapsed();
            let Some(Score::Node(by_itself)) = score() else { bail!("there is no score") };
            let one = |slot: Slot| match by_itself.fallible() {
                None => by_itself.score(&self.nodes, slot).to_string(),
                Some(score) => match score.try_score(&self.nodes, slot) {
                    Ok(raw) => raw.to_string(),
                    Err(refusal) => score.reasons(refusal.detail).join(", "),
                },
            };
            self.compare("score", |slot| all[slot as usize].clone(), one)?;
            writeln!(out, "score     {}", each(took))?;
        }
        writeln!(out, "pure      yes, on {NODES} sample nodes")?;
        Ok(())
    }

    fn prepared<T>(&self, ask: impl FnOnce(&mut Preparation<'_>) -> T) -> T {
        let (table, taint_sets) = self.nodes.tables();
        let facts = Facts::default();
        ask(&mut Preparation {
            class: &self.class,
            args: &self.args,
            facts: &facts,
            symbols: Lookup::of(table),
            taint_sets,
            is_pre_filtered: true,
            is_filtered: true,
        })
    }

    /// The raw scores of all nodes, or the errors.
    fn scores(&self, score: &dyn NodeScore) -> Vec<String> {
        let mut sums = vec![0; self.slots.len()];
        let mut failed: Vec<(Slot, Refusal)> = Vec::new();
        match score.fallible() {
            None => score.add_column(&self.nodes, &self.slots, 1, &mut sums),
            Some(score) => {
                score.try_add_column(&self.nodes, &self.slots, 1, &mut sums, &mut |slot, why| failed.push((slot, why)));
            }
        }
        let mut all: Vec<String> = sums.iter().map(ToString::to_string).collect();
        for (slot, refusal) in failed {
            let reasons = score.fallible().map(|score| score.reasons(refusal.detail)).unwrap_or_default();
            all[slot as usize] = reasons.join(", ");
        }
        all
    }

    fn compare(
        &self,
        what: &str,
        in_a_row: impl Fn(Slot) -> String,
        by_itself: impl Fn(Slot) -> String,
    ) -> anyhow::Result<()> {
        for &slot in self.slots.iter().rev() {
            let (row, own) = (in_a_row(slot), by_itself(slot));
            if row.contains("wasm: ") {
                bail!("{what} of node {}: {row}", self.name(slot));
            }
            if row != own {
                bail!(
                    "the module is not pure: {what} of node {} is {row:?} after other nodes and {own:?} alone; it \
                     must keep no state between nodes",
                    self.name(slot)
                );
            }
        }
        Ok(())
    }

    fn name(&self, slot: Slot) -> &str {
        self.nodes.symbols.text(self.nodes.name(slot))
    }
}

fn words(refusal: Option<Refusal>, filter: &dyn NodeFilter) -> String {
    refusal.map_or_else(|| "feasible".to_owned(), |refusal| filter.reasons(refusal.detail).join(", "))
}

fn each(took: Duration) -> String {
    format!("{:.2?} a node", took / NODES)
}

fn pod(class: Class) -> PodInfo {
    PodInfo {
        uid: "sample".into(),
        name: "sample-1".into(),
        class: Arc::new(Class { namespace: "default".into(), ..class }),
        scheduler_name: "flotilla".into(),
        priority: 0,
        never_preempts: false,
        started_ns: None,
        is_preempted: false,
        extended_resources: Vec::new(),
        gates: Vec::new(),
        node_name: None,
        nominated_node_name: None,
        deleting: false,
        finished: false,
        generation: 1,
        scheduling_group: None,
        condition: None,
        limits: None,
        trace_parent: None,
        excess: None,
        unreadable: None,
    }
}

fn node(number: u32) -> NodeInfo {
    let name = format!("node-{number}");
    let pick = |from: &[&str]| from[number as usize % from.len()].to_owned();
    let mut labels = vec![
        ("disk".into(), pick(&["ssd", "hdd", "ssd"]).into()),
        ("example.com/team".into(), pick(&["red", "blue", "red", "green", "red"]).into()),
        ("kubernetes.io/arch".into(), pick(&["amd64", "arm64"]).into()),
        ("kubernetes.io/hostname".into(), name.as_str().into()),
        ("kubernetes.io/os".into(), "linux".into()),
        ("topology.kubernetes.io/zone".into(), pick(&["zone-a", "zone-b", "zone-c"]).into()),
    ];
    if number.is_multiple_of(7) {
        labels.retain(|(key, _): &(Arc<str>, Arc<str>)| &**key != "example.com/team");
    }
    let taint = Taint { key: "dedicated".into(), value: "batch".into(), effect: "NoSchedule".into() };
    NodeInfo {
        name: name.as_str().into(),
        uid: name.as_str().into(),
        labels,
        taints: if number.is_multiple_of(11) { vec![taint] } else { Vec::new() },
        unschedulable: number.is_multiple_of(97),
        allocatable: Resources { milli_cpu: 8000, memory: 32 << 30, ..Resources::default() },
        allowed_pods: 110,
        images: vec![(vec!["example.com/shop:1".into()], 100 << 20)],
        ..NodeInfo::default()
    }
}
