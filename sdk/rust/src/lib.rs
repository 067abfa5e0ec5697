//! SDK for Flotilla plugins in Rust, compiled to WebAssembly.
//!
//! A plugin declares the fields that it reads ([`Description`]) and is then called with batches of nodes. A filter returns the number of a
//! reason per node, 0 for none; a score returns a number. Nodes are columns ([`Nodes`]). Nodes share equal texts, so a plugin evaluates
//! each value once.
//!
//! A plugin is a pure function: it keeps no state between calls, and its result for a node depends only on the pod, the configuration and
//! that node. Flotilla evaluates some nodes twice and stops a plugin with different results.
//!
//! ```
//! use flotilla_plugin::{Description, Nodes, Plugin, Pod, Reason};
//!
//! struct TeamNodes;
//!
//! impl Plugin for TeamNodes {
//!      fn describe() -> Description {
//!          Description {
//!              pod_fields: vec!["metadata.labels['team']".into()],
//!              node_fields: vec!["metadata.labels['team']".into()],
//!              reasons: vec![Reason::unresolvable("node(s) belonged to another team")],
//!              ..Description::default()
//!          }
//!      }
//!
//!      fn filter(pod: &Pod, _config: &str, nodes: &Nodes<'_>, out: &mut [u8]) -> Result<(), String> {
//!          let team = pod.label("team");
//!          nodes.texts(0).each(|owner| u8::from(owner.is_some() && owner != team), out);
//!          Ok(())
//!      }
//! }
//!
//! flotilla_plugin::export!(TeamNodes);
//! # fn main() {}
//! ```

pub mod testing;

use std::{collections::BTreeMap, sync::Mutex};

use serde::{Deserialize, Serialize};

/// ABI version for batches.
pub const ABI: i32 = 1;

/// A plugin. Both methods are exported; an unused one returns 0.
pub trait Plugin {
    /// Fields and results of the plugin.
    fn describe() -> Description;

    /// Filters nodes: `out` has a byte per node, 0 for a feasible node, otherwise the number of a reason, from 1.
    ///
    /// # Errors
    /// The attempt fails with this error.
    fn filter(_pod: &Pod, _config: &str, _nodes: &Nodes<'_>, _out: &mut [u8]) -> Result<(), String> {
        Ok(())
    }

    /// Scores nodes: 0 to 100, or any number from 0 if [`Description::normalize`] scales scores.
    ///
    /// # Errors
    /// The attempt fails with this error.
    fn score(_pod: &Pod, _config: &str, _nodes: &Nodes<'_>, _out: &mut [i64]) -> Result<(), String> {
        Ok(())
    }
}

/// Fields and results of a plugin. docs/tasks/plugins.md lists the fields.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Fields of the pod. Pods with equal fields share results.
    pub pod_fields: Vec<String>,
    /// Fields of nodes: the columns, in this order.
    pub node_fields: Vec<String>,
    /// Reasons of the filter, numbered from 1.
    pub reasons: Vec<Reason>,
    /// kube-scheduler's labels of events that may make a rejected pod schedulable, such as `NodeAdd`; none for any event.
    pub events: Vec<String>,
    /// Normalization of scores to 0 to 100.
    pub normalize: Normalize,
}

/// A reason for rejecting a node.
#[derive(Debug, Clone, Serialize)]
pub struct Reason {
    /// The message in kube-scheduler's form: `node(s) ...`.
    pub text: String,
    /// Whether preemption cannot help.
    pub unresolvable: bool,
}

/// Normalization of scores to 0 to 100.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Normalize {
    /// None.
    #[default]
    None,
    /// The maximum becomes 100.
    Default,
    /// The maximum becomes 0.
    Reverse,
}

/// The described fields of the pod.
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
    /// `metadata.labels`, or only the described labels.
    pub labels: BTreeMap<String, String>,
}

/// The specification of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `spec.affinity`, only nodeAffinity.
    pub affinity: serde_json::Value,
    /// `spec.tolerations`.
    pub tolerations: Vec<serde_json::Value>,
    /// `spec.containers`: one per image; the first has the requests and host ports of the pod.
    pub containers: Vec<serde_json::Value>,
}

impl Pod {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(String::as_str)
    }
}

/// Nodes as columns.
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

impl<'a> Nodes<'a> {
    /// Nodes of a batch in the host's encoding.
    #[must_use]
    pub const fn of(block: &'a [u8]) -> Self {
        Self { block }
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.word(0)
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column with this index in the description: names and values of labels as texts; labels, taints, images and allocatable resources
    /// as JSON.
    ///
    /// # Panics
    /// If there is no such column, or it has numbers.
    #[must_use]
    pub fn texts(&self, field: usize) -> Texts<'a> {
        let [kind, values, list, count] = self.column(field);
        assert_eq!(kind, 0, "field {field} has numbers");
        let text = |place: usize| self.text(self.word_at(list + 8 * place), self.word_at(list + 8 * place + 4));
        Texts { numbers: &self.block[values..values + 4 * self.len()], texts: (0..count).map(text).collect() }
    }

    /// The column with this index in the description: `spec.unschedulable` as 0 or 1, and resources, CPU in millicores.
    ///
    /// # Panics
    /// If there is no such column, or it has texts.
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

impl<'a> Texts<'a> {
    /// The text of a node.
    #[must_use]
    pub fn get(&self, node: usize) -> Option<&'a str> {
        let number = self.numbers.get(4 * node..4 * node + 4)?;
        self.texts.get(u32::from_le_bytes(number.try_into().ok()?) as usize).copied()
    }

    /// Writes the result of `of` for each node's text. Calls `of` once per distinct text.
    pub fn each<T: Copy>(&self, of: impl Fn(Option<&str>) -> T, out: &mut [T]) {
        let none = of(None);
        let of_texts: Vec<T> = self.texts.iter().map(|text| of(Some(text))).collect();
        for (number, out) in self.numbers.chunks_exact(4).zip(out) {
            let number = u32::from_le_bytes([number[0], number[1], number[2], number[3]]) as usize;
            *out = of_texts.get(number).copied().unwrap_or(none);
        }
    }

    /// As [`Self::each`], but only for nodes with the initial value in `out`: of several rejecting columns the first counts.
    pub fn each_left(&self, of: impl Fn(Option<&str>) -> u8, out: &mut [u8]) {
        let none = of(None);
        let of_texts: Vec<u8> = self.texts.iter().map(|text| of(Some(text))).collect();
        for (number, out) in self.numbers.chunks_exact(4).zip(out).filter(|(_, out)| **out == 0) {
            let number = u32::from_le_bytes([number[0], number[1], number[2], number[3]]) as usize;
            *out = of_texts.get(number).copied().unwrap_or(none);
        }
    }
}

impl Numbers<'_> {
    /// The number of a node; 0 for an invalid index.
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

impl Reason {
    /// A reason for which preemption may help.
    #[must_use]
    pub fn unschedulable(text: &str) -> Self {
        Self { text: text.to_owned(), unresolvable: false }
    }

    /// A reason for which preemption cannot help.
    #[must_use]
    pub fn unresolvable(text: &str) -> Self {
        Self { text: text.to_owned(), unresolvable: true }
    }
}

/// State of the exported functions: the block for batches, and the description.
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

    /// A block of at least this many bytes, aligned to 8.
    #[doc(hidden)]
    pub fn alloc(&self, len: i32) -> i32 {
        let mut block = self.block.lock().expect("one thread");
        block.clear();
        block.resize(usize::try_from(len).unwrap_or(0) + 8, 0);
        (address(&block) + 7) & !7
    }

    /// Address and length of the description, packed.
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
        // The compiler does not see the host's writes.
        answer(std::hint::black_box(&mut block[first..]))
    }
}

fn address(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.as_ptr().addr()).unwrap_or(0)
}

fn filter<P: Plugin>(block: &mut [u8]) -> Result<(), String> {
    let at = Nodes::of(block).answers();
    let (input, answers) = block.split_at_mut(at);
    let nodes = Nodes::of(input);
    let pod = serde_json::from_str(nodes.pod()).map_err(|error| format!("the pod: {error}"))?;
    P::filter(&pod, nodes.config(), &nodes, &mut answers[..nodes.len()])
}

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

/// Exports a plugin from a module. Once per crate, with `cdylib` in `crate-type`.
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
