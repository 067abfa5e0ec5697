//! Input and output of a call: the data of a store.
//!
//! Source: `stack` in `scheduler/plugin/host.go` of kubernetes-sigs/kube-scheduler-wasm-extension.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::{
    args::{Limits, Memory},
    error::{Fault, FaultKind},
};

/// Maximum retained output of a call in bytes.
const MOST_OUTPUT: usize = 1 << 10;
/// Maximum number of table entries.
const MOST_ELEMENTS: usize = 100_000;
/// Seed of every instance's random numbers.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Constant data of a plugin under its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) plugin: &'static str,
    pub(crate) config: String,
    pub(crate) severity: i32,
    pub(crate) args: Vec<String>,
    pub(crate) fuel: u64,
    pub(crate) memory: u64,
}

impl Default for Setting {
    /// The setting of a module while loading.
    fn default() -> Self {
        let Limits { fuel_per_call, memory: Memory(memory) } = Limits::default();
        let (config, args) = (String::new(), Vec::new());
        Self { plugin: "", config, severity: 0, args, fuel: fuel_per_call, memory }
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) setting: Arc<Setting>,
    pub(crate) pod: Arc<[u8]>,
    /// The node of the call; empty if there is none.
    pub(crate) node_name: String,
    pub(crate) node: Vec<u8>,
    /// Raw scores for `normalizescore`, with numbers of nodes.
    pub(crate) scores: Option<Arc<[(i64, usize)]>>,
    pub(crate) reason: String,
    pub(crate) node_names: Option<Vec<String>>,
    pub(crate) events: Vec<(u32, u32)>,
    pub(crate) normalized: Option<Vec<u8>>,
    pub(crate) output: Vec<u8>,
    random: u64,
}

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

    pub(crate) fn begin(&mut self) {
        self.reason.clear();
        self.node_names = None;
        self.events.clear();
        self.normalized = None;
        self.output.clear();
    }

    /// Resets the state for another pod.
    pub(crate) fn renew(&mut self, setting: Arc<Setting>, pod: Arc<[u8]>) {
        self.setting = setting;
        self.pod = pod;
        self.random = SEED;
    }

    /// Keeps output up to `MOST_OUTPUT`.
    pub(crate) fn print(&mut self, text: &[u8]) {
        let room = MOST_OUTPUT.saturating_sub(self.output.len());
        self.output.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// A pseudorandom number, equal in each instance: xorshift64*.
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
