//! A WebAssembly plugin.
//!
//! Source: `wasmPlugin` in `scheduler/plugin/plugin.go` of kubernetes-sigs/kube-scheduler-wasm-extension.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use flotilla_framework::{
    extension::{Filter, Plugin, PodField, Point, PreFilter, PreScore, Preparation, Score},
    modules::{Modules as _, Source},
    profile::{Args, ArgsError},
};
use serde_json::Value;

use crate::{
    args::{ModuleArgs, NodeField, PodFields},
    batch::{BatchFilter, BatchScore, Batches},
    describe::Description,
    encode::{self, ShownPod},
    exports::{Export, Exports},
    filter::ModuleFilter,
    instance::Status,
    module::Module,
    score::{ModuleNormalizer, ModuleScore},
    state::Setting,
    subject::Subject,
    table::Table,
};

/// A WebAssembly plugin; its arguments select the module.
#[derive(Debug)]
pub(crate) struct ModulePlugin {
    name: &'static str,
    table: &'static Table,
    shape: RwLock<Shape>,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    points: &'static [Point],
    events: &'static [&'static str],
}

impl ModulePlugin {
    pub(crate) fn new(name: &str, table: &'static Table) -> Self {
        let shape = RwLock::new(Shape { points: &[], events: &[] });
        Self { name: name.to_owned().leak(), table, shape }
    }

    /// Sets the extension points and the events that requeue rejected pods. Fails if the module cannot be started.
    pub(crate) fn take_shape(&self, module: &Arc<Module>, args: &ModuleArgs) -> Result<(), String> {
        let exports = module.exports();
        let has = |export| !exports.is_batched() && exports.has(export);
        let points = [
            (Point::PreFilter, has(Export::PreFilter)),
            (Point::Filter, exports.filters()),
            (Point::PreScore, exports.scores() && has(Export::PreScore)),
            (Point::Score, exports.scores()),
        ];
        let points: Vec<Point> = points.into_iter().filter_map(|(point, runs)| runs.then_some(point)).collect();
        if exports.is_batched() && args.node_fields.is_some() {
            return Err(format!(
                "plugin {:?}: the module says itself which nodeFields it reads, as columns in its order; leave nodeFields out \
                 of args",
                self.name
            ));
        }
        let subject = self.subject(Arc::clone(module), args, Arc::new([]), false);
        let events = subject.events().map_err(|fault| format!("plugin {:?}: {fault}", self.name))?;
        let shape = Shape { points: kept(points), events: kept(events) };
        *self.shape.write().unwrap_or_else(PoisonError::into_inner) = shape;
        Ok(())
    }

    fn shape(&self) -> Shape {
        *self.shape.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn subject(&self, module: Arc<Module>, args: &ModuleArgs, pod: Arc<[u8]>, is_pre_filtered: bool) -> Subject {
        let setting = Setting {
            plugin: self.name,
            config: args.guest_config.clone(),
            severity: args.log_severity,
            args: args.args.clone(),
            fuel: args.limits.fuel_per_call,
            memory: args.limits.memory.0,
        };
        let fields = args.node_fields.as_ref().and_then(|paths| NodeField::read(paths).ok());
        Subject {
            plugin: self.name,
            tally: self.table.tally(),
            module,
            setting: Arc::new(setting),
            pod,
            fields: fields.map_or_else(|| NodeField::ALL.into(), Into::into),
            is_pre_filtered,
        }
    }

    /// The batches of a subject, or the subject itself for a per-node module.
    fn batches(subject: Result<Subject, String>) -> Result<Result<Batches, String>, Result<Subject, String>> {
        let Ok(known) = &subject else { return Err(subject) };
        let Some(description) = known.module.description().cloned() else { return Err(subject) };
        let pod = String::from_utf8_lossy(&known.pod).as_ref().into();
        Ok(subject.map(|subject| Batches::new(subject, description, pod)))
    }

    fn prepare(&self, preparation: &Preparation<'_>) -> Result<Subject, String> {
        let args = ModuleArgs::of(preparation.args, self.name);
        let args = args.ok_or_else(|| "wasm: its arguments make no sense".to_owned())?;
        let digest = args.digest().ok_or_else(|| "wasm: no module was loaded for it".to_owned())?;
        let module = self.table.module(digest).ok_or_else(|| format!("wasm: module {digest} is not held here"))?;
        let shown = ShownPod::new(preparation.class, &shown_fields(&args, module.description()));
        let pod =
            if module.exports().is_batched() { encode::pod_json(&shown).into_bytes() } else { encode::pod(&shown) };
        let is_pre_filtered = preparation.is_pre_filtered && module.exports().has(Export::PreFilter);
        Ok(self.subject(module, &args, pod.into(), is_pre_filtered))
    }
}

/// The visible pod fields: configured ones, else described ones, else all.
fn shown_fields(args: &ModuleArgs, description: Option<&Arc<Description>>) -> PodFields {
    let written = args.pod_fields.as_ref().and_then(|paths| PodFields::read(paths).ok());
    let described = || description.map(|description| description.pod_fields.clone());
    written.or_else(described).unwrap_or_else(PodFields::all)
}

impl Plugin for ModulePlugin {
    fn name(&self) -> &'static str {
        self.name
    }

    fn points(&self) -> &'static [Point] {
        self.shape().points
    }

    fn check_args(&self, args: &Value) -> Result<(), ArgsError> {
        ModuleArgs::read(args).map(|_| ())
    }

    fn advise(&self, args: &Value) -> Vec<String> {
        let Ok(args) = ModuleArgs::read(args) else { return Vec::new() };
        let mut advice = Vec::new();
        let source = Source { url: args.guest_url.clone(), sha256: args.sha256.clone() };
        let digest = self.table.resolved(&source).and_then(Result::ok).or_else(|| args.digest());
        let module = digest.and_then(|digest| self.table.module(digest));
        let description = module.as_ref().and_then(|module| module.description());
        if shown_fields(&args, description).distinguishes_pods() {
            let is_said = args.pod_fields.is_some() || description.is_some();
            let how = if is_said { "podFields shows it" } else { "without podFields the module sees" };
            advice.push(format!(
                "{how} the name of each pod, so that no two pods share a verdict and each costs an evaluation of all nodes; \
                 set podFields to what the module reads, such as [\"metadata.labels['app']\", spec.nodeSelector]"
            ));
        }
        let exports = module.as_ref().map(|module| module.exports());
        let idle = exports.into_iter().flat_map(Exports::iter).filter(|export| export.instead().is_some());
        let idle: Vec<&str> = idle.map(Export::name).collect();
        if !idle.is_empty() {
            advice.push(format!(
                "the module exports {}, which are not run: if they do more than nothing, docs/tasks/plugins.md says what to do \
                 instead",
                idle.join(", ")
            ));
        }
        advice
    }

    fn pod_fields(&self, args: &Args) -> Vec<PodField> {
        let Some(args) = ModuleArgs::of(args, self.name) else { return Vec::new() };
        let module = args.digest().and_then(|digest| self.table.module(digest));
        shown_fields(&args, module.as_ref().and_then(|module| module.description())).metadata
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        preparation.is_pre_filtered = true;
        let asked = self.prepare(preparation).map(|subject| subject.pre_filter());
        let (answer, names) = match asked {
            Ok(Ok(answered)) => answered,
            Ok(Err(fault)) => return PreFilter::Fail(fault.text),
            Err(error) => return PreFilter::Fail(error),
        };
        match (answer.status, names) {
            (Status::Success, None) => PreFilter::Continue,
            (Status::Success, Some(names)) => {
                PreFilter::Only(names.iter().map(|name| preparation.symbols.number(name)).collect())
            }
            (Status::Skip, _) => PreFilter::Skip,
            (Status::Unschedulable | Status::Unresolvable, _) => PreFilter::Refuse(answer.reason),
            (Status::Error, _) => PreFilter::Fail(answer.reason),
        }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let subject = self.prepare(preparation);
        let own = (self.name, self.table.tally());
        Some(Filter::Node(match Self::batches(subject) {
            Ok(batches) => Box::new(BatchFilter(batches, own)),
            Err(subject) => Box::new(ModuleFilter::new(own, subject)),
        }))
    }

    fn pre_score(&self, preparation: &mut Preparation<'_>) -> PreScore {
        let asked = self.prepare(preparation).map(|subject| subject.start(true).map(|(_, answer)| answer));
        match asked {
            Ok(Ok(answer)) => match answer.status {
                Status::Success => PreScore::Continue,
                Status::Skip => PreScore::Skip,
                Status::Unschedulable | Status::Unresolvable | Status::Error => PreScore::Fail(answer.reason),
            },
            Ok(Err(fault)) => PreScore::Fail(fault.text),
            Err(error) => PreScore::Fail(error),
        }
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let own = (self.name, self.table.tally());
        let subject = match Self::batches(self.prepare(preparation)) {
            Ok(batches) => return Some(Score::Node(Box::new(BatchScore(batches, own)))),
            Err(subject) => subject,
        };
        let normalizes = subject.as_ref().is_ok_and(|subject| subject.module.exports().has(Export::NormalizeScore));
        let normalizer = subject.clone().ok().filter(|_| normalizes).map(ModuleNormalizer::new);
        Some(Score::Node(Box::new(ModuleScore::new(own, subject, normalizer.map(Arc::new)))))
    }

    fn events(&self) -> &'static [&'static str] {
        self.shape().events
    }
}

/// Leaks a list, once per distinct value.
fn kept<T: Clone + PartialEq + Send + Kept>(list: Vec<T>) -> &'static [T] {
    let mut known = T::all().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.iter().copied().find(|known| **known == *list) {
        return known;
    }
    let list: &'static [T] = list.leak();
    known.push(list);
    list
}

/// Types of leaked lists. Their number is bounded by the variety of modules' exports and events.
trait Kept: Sized + 'static {
    fn all() -> &'static Mutex<Vec<&'static [Self]>>;
}

impl Kept for Point {
    fn all() -> &'static Mutex<Vec<&'static [Self]>> {
        static ALL: Mutex<Vec<&'static [Point]>> = Mutex::new(Vec::new());
        &ALL
    }
}

impl Kept for &'static str {
    fn all() -> &'static Mutex<Vec<&'static [Self]>> {
        static ALL: Mutex<Vec<&'static [&'static str]>> = Mutex::new(Vec::new());
        &ALL
    }
}
