//! Plugins for Flotilla in WebAssembly, in Rust.
//!
//! A plugin says once what it reads ([`Description`]), and is then asked about batches of nodes: a filter gives the number of
//! a reason for each node, 0 for none, a score gives a number. Nodes are columns ([`Nodes`]); a text that many nodes
//! share is there once, so that a plugin looks at each value once.
//!
//! A plugin is a pure function: it keeps nothing between calls, and what it says of a node depends on the pod, the configuration and that
//! node alone. Flotilla asks some nodes twice and stops a plugin that answers differently.
//!
//! ```
//! use flotilla_plugin::{Description, Nodes, Plugin, Pod, Reason};
//!
//! struct TeamNodes;
//!
//! impl Plugin for TeamNodes {
//!     fn describe() -> Description {
//!         Description {
//!             pod_fields: vec!["metadata.labels['team']".into()],
//!             node_fields: vec!["metadata.labels['team']".into()],
//!             reasons: vec![Reason::unresolvable("node(s) belonged to another team")],
//!             ..Description::default()
//!         }
//!     }
//!
//!     fn filter(pod: &Pod, _config: &str, nodes: &Nodes<'_>, out: &mut [u8]) -> Result<(), String> {
//!         let team = pod.label("team");
//!         nodes.texts(0).each(|owner| u8::from(owner.is_some() && owner != team), out);
//!         Ok(())
//!     }
//! }
//!
//! flotilla_plugin::export!(TeamNodes);
//! # fn main() {}
//! ```

pub mod testing;

use std::{collections::BTreeMap, sync::Mutex};

use serde::{Deserialize, Serialize};

/// The version of the ABI for batches.
pub const ABI: i32 = 1;

/// A plugin. Both methods are exported; one that is not wanted answers with 0.
pub trait Plugin {
    /// What the plugin reads and answers.
    fn describe() -> Description;

    /// Judges nodes: `out` has a byte for each, which is 0 for a node that will do and else the number of a reason, from 1.
    ///
    /// # Errors
    /// Why it cannot be told: the attempt fails.
    fn filter(_pod: &Pod, _config: &str, _nodes: &Nodes<'_>, _out: &mut [u8]) -> Result<(), String> {
        Ok(())
    }

    /// Scores nodes: 0 to 100, or any number from 0 where [`Description::normalize`] scales them.
    ///
    /// # Errors
    /// Why it cannot be told: the attempt fails.
    fn score(_pod: &Pod, _config: &str, _nodes: &Nodes<'_>, _out: &mut [i64]) -> Result<(), String> {
        Ok(())
    }
}

/// What a plugin reads and answers. docs/plugins.md has the fields that there are.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// The fields of the pod: pods that agree in them share their verdicts.
    pub pod_fields: Vec<String>,
    /// The fields of nodes: the columns, in this order.
    pub node_fields: Vec<String>,
    /// Why the filter refuses nodes, from number 1 on.
    pub reasons: Vec<Reason>,
    /// kube-scheduler's labels of the events that may help a pod that was refused, such as `NodeAdd`; none for any event.
    pub events: Vec<String>,
    /// How scores become scores of 0 to 100.
    pub normalize: Normalize,
}

/// Why a filter refuses a node.
#[derive(Debug, Clone, Serialize)]
pub struct Reason {
    /// The words, as kube-scheduler has them: `node(s) ...`.
    pub text: String,
    /// Taking pods away from the node would not help.
    pub unresolvable: bool,
}

/// How scores become scores of 0 to 100.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Normalize {
    /// They are.
    #[default]
    None,
    /// The largest becomes 100.
    Default,
    /// The largest becomes 0.
    Reverse,
}

/// The pod, as far as the description names its fields.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// `metadata`.
    pub metadata: Metadata,
    /// `spec`.
    pub spec: Spec,
}

/// The metadata of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.labels`, or those labels that are named.
    pub labels: BTreeMap<String, String>,
}

/// The specification of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `spec.affinity`, of which there is nodeAffinity.
    pub affinity: serde_json::Value,
    /// `spec.tolerations`.
    pub tolerations: Vec<serde_json::Value>,
    /// `spec.containers`: one for each image; the first has the requests and host ports of the pod.
    pub containers: Vec<serde_json::Value>,
}

impl Pod {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(String::as_str)
    }
}

/// Nodes, as columns.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    block: &'a [u8],
}

/// A column of texts.
#[derive(Debug, Clone)]
pub struct Texts<'a> {
    numbers: &'a [u8],
    texts: Vec<&'a str>,
}

/// A column of numbers.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<'a>(&'a [u8]);

// === impl Nodes ===

impl<'a> Nodes<'a> {
    /// The nodes of a batch as the host writes it.
    #[must_use]
    pub const fn of(block: &'a [u8]) -> Self {
        Self { block }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.word(0)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column of the field at this place of the description, which has texts: names and values of labels; whole labels, taints,
    /// images and allocatable resources as JSON.
    ///
    /// # Panics
    /// Where there is no such column, or it has numbers.
    #[must_use]
    pub fn texts(&self, field: usize) -> Texts<'a> {
        let [kind, values, list, count] = self.column(field);
        assert_eq!(kind, 0, "field {field} has numbers");
        let text = |place: usize| self.text(self.word_at(list + 8 * place), self.word_at(list + 8 * place + 4));
        Texts { numbers: &self.block[values..values + 4 * self.len()], texts: (0..count).map(text).collect() }
    }

    /// The column of the field at this place of the description, which has numbers: `spec.unschedulable` as 0 or 1, and resources, CPU in
    /// thousandths of a core.
    ///
    /// # Panics
    /// Where there is no such column, or it has texts.
    #[must_use]
    pub fn numbers(&self, field: usize) -> Numbers<'a> {
        let [kind, values, ..] = self.column(field);
        assert_eq!(kind, 1, "field {field} has texts");
        Numbers(&self.block[values..values + 8 * self.len()])
    }

    fn pod(&self) -> &'a str {
        self.text(self.word(1), self.word(2))
    }

    fn config(&self) -> &'a str {
        self.text(self.word(3), self.word(4))
    }

    fn answers(&self) -> usize {
        self.word(7)
    }

    fn column(&self, field: usize) -> [usize; 4] {
        assert!(field < self.word(6), "there is no column {field}");
        let at = self.word(5) + 16 * field;
        [0, 4, 8, 12].map(|word| self.word_at(at + word))
    }

    fn text(&self, at: usize, len: usize) -> &'a str {
        std::str::from_utf8(&self.block[at..at + len]).unwrap_or_default()
    }

    fn word(&self, number: usize) -> usize {
        self.word_at(4 * number)
    }

    fn word_at(&self, at: usize) -> usize {
        let bytes = self.block[at..at + 4].try_into().unwrap_or_default();
        u32::from_le_bytes(bytes) as usize
    }
}

// === impl Texts ===

impl<'a> Texts<'a> {
    /// The text of a node.
    #[must_use]
    pub fn get(&self, node: usize) -> Option<&'a str> {
        let number = self.numbers.get(4 * node..4 * node + 4)?;
        self.texts.get(u32::from_le_bytes(number.try_into().ok()?) as usize).copied()
    }

    /// Writes what `of` says of the text of each node, which is asked once for each text that differs.
    pub fn each<T: Copy>(&self, of: impl Fn(Option<&str>) -> T, out: &mut [T]) {
        let none = of(None);
        let of_texts: Vec<T> = self.texts.iter().map(|text| of(Some(text))).collect();
        for (number, out) in self.numbers.chunks_exact(4).zip(out) {
            let number = u32::from_le_bytes([number[0], number[1], number[2], number[3]]) as usize;
            *out = of_texts.get(number).copied().unwrap_or(none);
        }
    }

    /// As [`Self::each`], for the nodes for which `out` is as it was at the beginning: where several columns refuse, the first that
    /// does counts.
    pub fn each_left(&self, of: impl Fn(Option<&str>) -> u8, out: &mut [u8]) {
        let none = of(None);
        let of_texts: Vec<u8> = self.texts.iter().map(|text| of(Some(text))).collect();
        for (number, out) in self.numbers.chunks_exact(4).zip(out).filter(|(_, out)| **out == 0) {
            let number = u32::from_le_bytes([number[0], number[1], number[2], number[3]]) as usize;
            *out = of_texts.get(number).copied().unwrap_or(none);
        }
    }
}

// === impl Numbers ===

impl Numbers<'_> {
    /// The number of a node; 0 for one that there is not.
    #[must_use]
    pub fn get(&self, node: usize) -> i64 {
        let bytes = self.0.get(8 * node..8 * node + 8).and_then(|bytes| bytes.try_into().ok());
        i64::from_le_bytes(bytes.unwrap_or_default())
    }

    /// The numbers of all nodes, in order.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        self.0.chunks_exact(8).map(|bytes| bytes.try_into().map(i64::from_le_bytes).unwrap_or(0))
    }
}

// === impl Reason ===

impl Reason {
    /// Taking pods away from the node may help.
    #[must_use]
    pub fn unschedulable(text: &str) -> Self {
        Self { text: text.to_owned(), unresolvable: false }
    }

    /// Taking pods away from the node would not help.
    #[must_use]
    pub fn unresolvable(text: &str) -> Self {
        Self { text: text.to_owned(), unresolvable: true }
    }
}

/// What the exported functions share: the block that the host writes batches into, and the description.
#[doc(hidden)]
pub struct Shared {
    block: Mutex<Vec<u8>>,
    described: Mutex<Vec<u8>>,
}

impl Shared {
    #[doc(hidden)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is a static")]
    pub const fn new() -> Self {
        Self { block: Mutex::new(Vec::new()), described: Mutex::new(Vec::new()) }
    }

    /// A block of at least so many bytes, at a multiple of 8.
    #[doc(hidden)]
    pub fn alloc(&self, len: i32) -> i32 {
        let mut block = self.block.lock().expect("one thread");
        block.clear();
        block.resize(usize::try_from(len).unwrap_or(0) + 8, 0);
        (address(&block) + 7) & !7
    }

    /// Place and length of the description, packed.
    #[doc(hidden)]
    pub fn describe<P: Plugin>(&self) -> i64 {
        let mut described = self.described.lock().expect("one thread");
        *described = serde_json::to_vec(&P::describe()).unwrap_or_default();
        (i64::from(address(&described)) << 32) | i64::try_from(described.len()).unwrap_or(0)
    }

    #[doc(hidden)]
    pub fn filter<P: Plugin>(&self, batch: i32) -> Result<(), String> {
        self.answer(batch, filter::<P>)
    }

    #[doc(hidden)]
    pub fn score<P: Plugin>(&self, batch: i32) -> Result<(), String> {
        self.answer(batch, score::<P>)
    }

    fn answer(&self, batch: i32, answer: fn(&mut [u8]) -> Result<(), String>) -> Result<(), String> {
        let mut block = self.block.lock().expect("one thread");
        let first = usize::try_from(batch - address(&block)).map_err(|_| "a batch outside of its block".to_owned())?;
        // What the host wrote is not what the compiler has seen being written.
        answer(std::hint::black_box(&mut block[first..]))
    }
}

fn address(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.as_ptr().addr()).unwrap_or(0)
}

/// Has a plugin judge the batch in a block.
fn filter<P: Plugin>(block: &mut [u8]) -> Result<(), String> {
    let at = Nodes::of(block).answers();
    let (input, answers) = block.split_at_mut(at);
    let nodes = Nodes::of(input);
    let pod = serde_json::from_str(nodes.pod()).map_err(|error| format!("the pod: {error}"))?;
    P::filter(&pod, nodes.config(), &nodes, &mut answers[..nodes.len()])
}

/// Has a plugin score the batch in a block.
fn score<P: Plugin>(block: &mut [u8]) -> Result<(), String> {
    let at = Nodes::of(block).answers();
    let (input, answers) = block.split_at_mut(at);
    let nodes = Nodes::of(input);
    let pod = serde_json::from_str(nodes.pod()).map_err(|error| format!("the pod: {error}"))?;
    let mut scores = vec![0_i64; nodes.len()];
    P::score(&pod, nodes.config(), &nodes, &mut scores)?;
    for (answer, score) in answers.chunks_exact_mut(8).zip(scores) {
        answer.copy_from_slice(&score.to_le_bytes());
    }
    Ok(())
}

/// Exports a plugin from a module. Once in a crate, whose `crate-type` has `cdylib`.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        mod flotilla_exports {
            use super::*;

            static SHARED: $crate::Shared = $crate::Shared::new();

            #[link(wasm_import_module = "k8s.io/scheduler")]
            unsafe extern "C" {
                #[link_name = "result.status_reason"]
                safe fn status_reason(text: i32, len: i32);
            }

            fn told(answered: Result<(), String>) -> i32 {
                let Err(reason) = answered else { return 0 };
                let at = i32::try_from(reason.as_ptr().addr()).unwrap_or(0);
                status_reason(at, i32::try_from(reason.len()).unwrap_or(0));
                1
            }

            #[unsafe(no_mangle)]
            extern "C" fn flotilla_abi() -> i32 {
                $crate::ABI
            }

            #[unsafe(no_mangle)]
            extern "C" fn flotilla_describe() -> i64 {
                SHARED.describe::<$plugin>()
            }

            #[unsafe(no_mangle)]
            extern "C" fn flotilla_alloc(len: i32) -> i32 {
                SHARED.alloc(len)
            }

            #[unsafe(no_mangle)]
            extern "C" fn flotilla_filter(batch: i32) -> i32 {
                told(SHARED.filter::<$plugin>(batch))
            }

            #[unsafe(no_mangle)]
            extern "C" fn flotilla_score(batch: i32) -> i32 {
                told(SHARED.score::<$plugin>(batch))
            }
        }
    };
}
