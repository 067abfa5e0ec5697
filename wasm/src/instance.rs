//! One instance of a module and its calls.
//!
//! Source: `scheduler/plugin/guest.go` of kubernetes-sigs/kube-scheduler-wasm-extension.

use std::sync::Arc;

use wasmtime::{Instance as Raw, Memory, Store, Trap, TypedFunc, WasmParams, WasmResults};

use crate::{
    args::FUEL_OF_START,
    error::{Fault, FaultKind},
    exports::Export,
    host::Exit,
    module::Module,
    state::{Setting, State},
};

/// Nodes in a batch per fuel of a call: 20,000 units per node by default.
const NODES_PER_FUEL: usize = 1_000;

/// Status codes.
///
/// Source: `Code` in `k8s.io/kube-scheduler/framework`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Success,
    Unschedulable,
    /// `UnschedulableAndUnresolvable`, or `Pending`, for which no pod is preempted either.
    Unresolvable,
    Skip,
    /// `Error`, `Wait`, or an unknown code.
    Error,
}

impl Status {
    const fn of(code: i32) -> Self {
        match code {
            0 => Self::Success,
            2 => Self::Unschedulable,
            3 | 6 => Self::Unresolvable,
            5 => Self::Skip,
            _ => Self::Error,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) reason: String,
}

pub(crate) struct Instance {
    store: Store<State>,
    raw: Raw,
    memory: Memory,
    filter: Option<TypedFunc<(), i32>>,
    score: Option<TypedFunc<(), i64>>,
}

impl Instance {
    pub(crate) fn start(module: &Module, setting: &Arc<Setting>, pod: &Arc<[u8]>) -> Result<Self, Fault> {
        let mut store = Store::new(module.engine(), State::new(Arc::clone(setting), Arc::clone(pod)));
        store.limiter(|state| state);
        let fuel = setting.fuel.saturating_mul(FUEL_OF_START);
        let _ = store.set_fuel(fuel);
        let raw = module.instantiate(&mut store).map_err(|error| fault(&mut store, "instantiate", fuel, &error))?;
        let memory = raw.get_memory(&mut store, "memory");
        let memory =
            memory.ok_or_else(|| Fault::new(FaultKind::Answer, "wasm: guest doesn't export memory[memory]"))?;
        for start in ["_initialize", "_start"] {
            let Ok(function) = raw.get_typed_func::<(), ()>(&mut store, start) else { continue };
            if let Err(error) = function.call(&mut store, ())
                && error.downcast_ref().is_none_or(|Exit(code)| *code != 0)
            {
                return Err(fault(&mut store, "instantiate", fuel, &error));
            }
        }
        let filter = raw.get_typed_func(&mut store, Export::Filter.name()).ok();
        let score = raw.get_typed_func(&mut store, Export::Score.name()).ok();
        Ok(Self { store, raw, memory, filter, score })
    }

    /// Whether it was started with this setting, which it may have read at start.
    pub(crate) fn is_under(&self, setting: &Setting) -> bool {
        *self.store.data().setting == *setting
    }

    pub(crate) fn reset(&mut self, setting: &Arc<Setting>, pod: &Arc<[u8]>) {
        self.store.data_mut().renew(Arc::clone(setting), Arc::clone(pod));
    }

    pub(crate) fn set_node(&mut self, name: &str, fill: impl FnOnce(&mut Vec<u8>)) {
        let state = self.store.data_mut();
        state.node_name.clear();
        state.node_name.push_str(name);
        state.node.clear();
        fill(&mut state.node);
    }

    /// `prefilter`: its status, and the remaining node names if limited.
    pub(crate) fn pre_filter(&mut self) -> Result<(Answer, Option<Vec<String>>), Fault> {
        let answer = self.status(Export::PreFilter)?;
        Ok((answer, self.store.data_mut().node_names.take()))
    }

    pub(crate) fn pre_score(&mut self) -> Result<Answer, Fault> {
        self.status(Export::PreScore)
    }

    pub(crate) fn filter(&mut self) -> Result<Answer, Fault> {
        let Some(function) = self.filter.clone() else { return Err(lacks(Export::Filter)) };
        let code = self.call(Export::Filter, &function, ())?;
        Ok(self.answer(code))
    }

    pub(crate) fn score(&mut self) -> Result<(i64, Answer), Fault> {
        let Some(function) = self.score.clone() else { return Err(lacks(Export::Score)) };
        let both = self.call(Export::Score, &function, ())?;
        // The upper half is the score, the lower half the status.
        let (score, code) = ((both >> 32) as i32, both as i32);
        Ok((i64::from(score), self.answer(code)))
    }

    /// `normalizescore` of raw scores with numbers of nodes; `None` if the guest leaves them unchanged.
    pub(crate) fn normalize(&mut self, scores: Arc<[(i64, usize)]>) -> Result<(Answer, Option<Vec<u8>>), Fault> {
        self.store.data_mut().scores = Some(scores);
        let answer = self.status(Export::NormalizeScore)?;
        Ok((answer, self.store.data_mut().normalized.take()))
    }

    pub(crate) fn enqueue(&mut self) -> Result<Vec<(u32, u32)>, Fault> {
        self.named::<(), ()>(Export::Enqueue, ())?;
        Ok(std::mem::take(&mut self.store.data_mut().events))
    }

    pub(crate) fn batch(&mut self, export: Export, block: i32, nodes: usize) -> Result<i32, Fault> {
        let function = self.raw.get_typed_func::<i32, i32>(&mut self.store, export.name());
        let function = function.map_err(|_| lacks(export))?;
        let fuel = self.store.data().setting.fuel.saturating_mul(1 + (nodes / NODES_PER_FUEL) as u64);
        self.fuelled(export, &function, block, fuel)
    }

    pub(crate) fn named<P: WasmParams, R: WasmResults>(&mut self, export: Export, parameters: P) -> Result<R, Fault> {
        let function = self.raw.get_typed_func::<P, R>(&mut self.store, export.name());
        let function = function.map_err(|_| lacks(export))?;
        self.call(export, &function, parameters)
    }

    pub(crate) fn memory(&mut self) -> &mut [u8] {
        self.memory.data_mut(&mut self.store)
    }

    pub(crate) fn reason(&self) -> &str {
        &self.store.data().reason
    }

    fn status(&mut self, export: Export) -> Result<Answer, Fault> {
        let code = self.named::<(), i32>(export, ())?;
        Ok(self.answer(code))
    }

    fn answer(&mut self, code: i32) -> Answer {
        Answer { status: Status::of(code), reason: std::mem::take(&mut self.store.data_mut().reason) }
    }

    fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        export: Export,
        function: &TypedFunc<P, R>,
        parameters: P,
    ) -> Result<R, Fault> {
        let fuel = self.store.data().setting.fuel;
        self.fuelled(export, function, parameters, fuel)
    }

    fn fuelled<P: WasmParams, R: WasmResults>(
        &mut self,
        export: Export,
        function: &TypedFunc<P, R>,
        parameters: P,
        fuel: u64,
    ) -> Result<R, Fault> {
        self.store.data_mut().begin();
        let _ = self.store.set_fuel(fuel);
        function.call(&mut self.store, parameters).map_err(|error| fault(&mut self.store, export.name(), fuel, &error))
    }
}

fn lacks(export: Export) -> Fault {
    Fault::new(FaultKind::Answer, format!("wasm: {0} error: the guest does not export {0}", export.name()))
}

/// A failed call in upstream's form, without a stack trace.
///
/// Source: `decorateError` in `guest.go`, and the texts of wazero.
fn fault(store: &mut Store<State>, export: &str, fuel: u64, error: &wasmtime::Error) -> Fault {
    let (kind, text) = if let Some(fault) = error.downcast_ref::<Fault>() {
        (fault.kind, fault.text.clone())
    } else if let Some(exit) = error.downcast_ref::<Exit>() {
        (FaultKind::Trap, exit.to_string())
    } else {
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => {
                let more = "raise limits.fuelPerCall, or have the guest do less";
                (FaultKind::Fuel, format!("the fuel of a call is used up ({fuel} units): {more}"))
            }
            Some(Trap::UnreachableCodeReached) => (FaultKind::Trap, "wasm error: unreachable".to_owned()),
            Some(Trap::StackOverflow) => (FaultKind::Trap, "wasm error: stack overflow".to_owned()),
            Some(trap) => {
                (FaultKind::Trap, format!("wasm error: {}", trap.to_string().trim_start_matches("wasm trap: ")))
            }
            None => (FaultKind::Trap, error.root_cause().to_string()),
        }
    };
    let output = std::mem::take(&mut store.data_mut().output);
    let text = if output.is_empty() {
        format!("wasm: {export} error: {text}")
    } else {
        format!("wasm: {export} error: {}\n{text}", String::from_utf8_lossy(&output))
    };
    Fault { kind, text }
}
