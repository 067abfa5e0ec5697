//! Generates inputs: objects of a cluster, and optionally a change.

mod admission;
mod changes;
mod dice;
mod parts;
mod placement;
mod priorities;
mod sets;
mod volumes;

use serde_json::Value;

use dice::Dice;

/// A generated input.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) seed: u64,
    pub(crate) kind: &'static str,
    /// The objects in the order of the file.
    pub(crate) objects: Vec<Value>,
    pub(crate) change: Option<Change>,
    /// Whether the pods of each object are decided before the next object is applied.
    pub(crate) settles_between: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Change {
    Apply(Vec<Value>),
    Drain(String),
}

type Generator = fn(&mut Dice) -> Input;

const KINDS: [(&str, Generator); 14] = [
    ("requests", placement::requests),
    ("affinity", placement::affinity),
    ("ordered", sets::ordered),
    ("daemons", sets::daemons),
    ("preemption", priorities::preemption),
    ("priorities", priorities::all_at_once),
    ("local volumes", volumes::local),
    ("provisioned volumes", volumes::provisioned),
    ("limits", admission::limited),
    ("classes", admission::classes),
    ("quotas", admission::quotas),
    ("rollout", changes::rollout),
    ("update", changes::update),
    ("drain", changes::drain),
];

/// The input of a seed. Consecutive seeds generate all kinds.
pub(crate) fn input(seed: u64) -> Input {
    let index = usize::try_from(seed).unwrap_or_default() % KINDS.len();
    let (kind, generator) = KINDS[index];
    Input { seed, kind, ..generator(&mut Dice::new(seed)) }
}

impl Input {
    fn new(objects: Vec<Value>) -> Self {
        Self { seed: 0, kind: "", objects, change: None, settles_between: true }
    }

    fn then(self, change: Change) -> Self {
        Self { change: Some(change), ..self }
    }

    /// Whether the change applies only new objects.
    pub(crate) fn only_adds(&self) -> bool {
        let name = |object: &Value| (object["kind"].clone(), object["metadata"].clone());
        let is_new = |object: &Value| self.objects.iter().all(|known| name(known) != name(object));
        matches!(&self.change, Some(Change::Apply(objects)) if objects.iter().all(is_new))
    }

    /// The same objects with the workloads and pods in another order.
    pub(crate) fn shuffled(&self, seed: u64) -> Vec<Value> {
        let is_first = |object: &Value| object["kind"] != "Pod" && object.pointer("/spec/template").is_none();
        let (mut first, mut others): (Vec<Value>, Vec<Value>) = self.objects.iter().cloned().partition(is_first);
        Dice::new(seed).shuffle(&mut others);
        first.append(&mut others);
        first
    }
}
