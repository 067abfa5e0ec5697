//! What a module sees during one call, and what it has answered: the data of a store.
//!
//! Source: `stack` in `scheduler/plugin/host.go` of kubernetes-sigs/kube-scheduler-wasm-extension.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::{
    args::{Limits, Memory},
    error::{Fault, FaultKind},
};

/// The most that is kept of what a module prints in one call, in bytes.
const MOST_OUTPUT: usize = 1 << 10;
/// The most entries of a table.
const MOST_ELEMENTS: usize = 100_000;
/// What the random numbers of each instance begin with.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is the same for all calls of a plugin under its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The plugin.
    pub(crate) plugin: &'static str,
    /// `guestConfig`.
    pub(crate) config: String,
    /// `logSeverity`.
    pub(crate) severity: i32,
    /// `args`.
    pub(crate) args: Vec<String>,
    /// The fuel of a call.
    pub(crate) fuel: u64,
    /// The memory of an instance, in bytes.
    pub(crate) memory: u64,
}

impl Default for Setting {
    /// That of a module at its load, which no plugin is yet.
    fn default() -> Self {
        let Limits { fuel_per_call, memory: Memory(memory) } = Limits::default();
        let (config, args) = (String::new(), Vec::new());
        Self { plugin: "", config, severity: 0, args, fuel: fuel_per_call, memory }
    }
}

/// The data of a store.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) setting: Arc<Setting>,
    /// The pod, as protobuf.
    pub(crate) pod: Arc<[u8]>,
    /// The name of the node that the call is about; empty where it is about none.
    pub(crate) node_name: String,
    /// That node, as protobuf.
    pub(crate) node: Vec<u8>,
    /// The raw scores that `normalizescore` reads, and how many nodes have each.
    pub(crate) scores: Option<Arc<[(i64, usize)]>>,
    /// `result.status_reason`.
    pub(crate) reason: String,
    /// `result.node_names`.
    pub(crate) node_names: Option<Vec<String>>,
    /// `result.cluster_events`.
    pub(crate) events: Vec<(u32, u32)>,
    /// `result.normalized_score_list`, as JSON.
    pub(crate) normalized: Option<Vec<u8>>,
    /// What the call printed.
    pub(crate) output: Vec<u8>,
    random: u64,
}

// === impl State ===

impl State {
    pub(crate) fn new(setting: Arc<Setting>, pod: Arc<[u8]>) -> Self {
        Self {
            setting,
            pod,
            node_name: String::new(),
            node: Vec::new(),
            scores: None,
            reason: String::new(),
            node_names: None,
            events: Vec::new(),
            normalized: None,
            output: Vec::new(),
            random: SEED,
        }
    }

    /// Before a call: nothing is answered.
    pub(crate) fn begin(&mut self) {
        self.reason.clear();
        self.node_names = None;
        self.events.clear();
        self.normalized = None;
        self.output.clear();
    }

    /// Goes on about another pod, as if nothing had been asked before.
    pub(crate) fn renew(&mut self, setting: Arc<Setting>, pod: Arc<[u8]>) {
        self.setting = setting;
        self.pod = pod;
        self.random = SEED;
    }

    /// Takes what the module prints, as far as it is kept.
    pub(crate) fn print(&mut self, text: &[u8]) {
        let room = MOST_OUTPUT.saturating_sub(self.output.len());
        self.output.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// A number that looks like a random one and is the same in each instance: xorshift64*.
    pub(crate) const fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let most = self.setting.memory;
        if desired as u64 <= most {
            return Ok(true);
        }
        let text = format!("the guest needs {desired} bytes of memory, and limits.memory is {most}");
        Err(Fault::new(FaultKind::Memory, text).into())
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        if desired <= MOST_ELEMENTS {
            return Ok(true);
        }
        let text = format!("the guest needs a table of {desired} elements, and {MOST_ELEMENTS} are the most");
        Err(Fault::new(FaultKind::Memory, text).into())
    }
}
