//! The column encoding of nodes in batches, with one column per described field.
//!
//! A batch is one block. Offsets are bytes from its start, numbers are little endian, and every part is aligned to 8. The header is ten u32
//! values: number of nodes, offset and length of the pod, offset and length of the configuration, offset and number of the columns, offset
//! of the answers, length of the block, 0. A column is four of them: kind, offset of the values, offset and number of the texts. A text is
//! two: offset and length.
//!
//! - Kind 0, texts: a `u32` per node, the index of a text or `u32::MAX` for none. Equal texts are stored once.
//! - Kind 1, numbers: an `i64` per node.
//!
//! Source: none; docs/tasks/plugins.md documents it for authors of modules.

use flotilla_framework::{
    class::Taint,
    map::Map,
    snapshot::{Slot, Snapshot, Values},
    symbols::Symbol,
};
use serde_json::{Value, json};

use crate::args::NodeField;

/// Length of the header in `u32`s.
pub(crate) const HEADER: usize = 10;
const WORD: usize = 4;
const COLUMN: usize = 4 * WORD;
const NONE: u32 = u32::MAX;
/// From this many nodes, a table of all symbols is faster than a hash map.
const MANY: usize = 256;

/// Size of the answer per node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// A byte: 0, or the number of a reason.
    Filter,
    Score,
}

#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    numbers: Vec<u32>,
    used: Vec<Symbol>,
    by_symbol: Map<Symbol, u32>,
}

#[derive(Default)]
struct Texts<'a> {
    texts: Vec<std::borrow::Cow<'a, str>>,
}

impl Block {
    /// Encodes a batch and returns the offset of the answers.
    pub(crate) fn write(
        &mut self,
        nodes: &Snapshot,
        slots: &[Slot],
        fields: &[NodeField],
        (pod, config): (&str, &str),
        answers: Answers,
    ) -> usize {
        self.bytes.clear();
        self.bytes.resize(HEADER * WORD, 0);
        let pod = (self.put(pod.as_bytes()), pod.len());
        let config = (self.put(config.as_bytes()), config.len());
        let columns = self.bytes.len();
        self.bytes.resize(columns + fields.len() * COLUMN, 0);
        self.align();
        for (place, field) in fields.iter().enumerate() {
            self.write_column(nodes, slots, field, columns + place * COLUMN);
        }
        let at = self.bytes.len();
        let width = match answers {
            Answers::Filter => 1,
            Answers::Score => 8,
        };
        self.bytes.resize(at + slots.len() * width, 0);
        self.align();
        let header = [slots.len(), pod.0, pod.1, config.0, config.1, columns, fields.len(), at, self.bytes.len(), 0];
        for (place, word) in header.into_iter().enumerate() {
            self.set_word(place * WORD, word);
        }
        at
    }

    fn write_column(&mut self, nodes: &Snapshot, slots: &[Slot], field: &NodeField, column: usize) {
        let accounts = &nodes.accounts;
        match field {
            NodeField::Name => self.write_symbols(nodes, slots, |slot| nodes.name(slot), column),
            NodeField::Label(key) => {
                let values = nodes.symbols.get(key).map_or_else(Values::default, |key| nodes.label_column(key));
                self.write_symbols(nodes, slots, |slot| values.get(slot), column);
            }
            NodeField::Unschedulable => {
                self.write_numbers(slots, |slot| i64::from(nodes.unschedulable(slot)), column);
            }
            NodeField::Resource(name) => match name.as_str() {
                "cpu" => self.write_numbers(slots, |slot| accounts.allocatable_milli_cpu[slot as usize], column),
                "memory" => self.write_numbers(slots, |slot| accounts.allocatable_memory[slot as usize], column),
                "ephemeral-storage" => {
                    self.write_numbers(slots, |slot| accounts.allocatable_ephemeral_storage[slot as usize], column);
                }
                "pods" => self.write_numbers(slots, |slot| accounts.allowed_pods[slot as usize], column),
                scalar => {
                    let known = accounts.scalar(scalar);
                    self.write_numbers(slots, |slot| known.map_or(0, |known| known.allocatable(slot)), column);
                }
            },
            NodeField::Taints => {
                let mut numbers: Map<usize, u32> = Map::default();
                let mut texts = Texts::default();
                let of = |slot: Slot| {
                    let set = nodes.taint_set(slot);
                    *numbers.entry(set).or_insert_with(|| texts.add(taints(nodes.taints(set)).to_string()))
                };
                let values: Vec<u32> = slots.iter().copied().map(of).collect();
                self.write_texts(&values, &texts, column);
            }
            NodeField::Labels | NodeField::Allocatable | NodeField::Images => {
                let mut numbers: Map<String, u32> = Map::default();
                let mut texts = Texts::default();
                let of = |slot: Slot| {
                    let text = whole(nodes, slot, field).to_string();
                    *numbers.entry(text).or_insert_with_key(|text| texts.add(text.clone()))
                };
                let values: Vec<u32> = slots.iter().copied().map(of).collect();
                self.write_texts(&values, &texts, column);
            }
        }
    }

    fn write_symbols(&mut self, nodes: &Snapshot, slots: &[Slot], of: impl Fn(Slot) -> Symbol, column: usize) {
        let values = self.bytes.len();
        self.bytes.reserve(slots.len() * WORD);
        let mut texts = Texts::default();
        if slots.len() >= MANY {
            self.numbers.resize(nodes.symbols.len(), NONE);
            for &slot in slots {
                let symbol = of(slot);
                let Some(known) = self.numbers.get_mut(symbol.index()) else {
                    self.bytes.extend_from_slice(&NONE.to_le_bytes());
                    continue;
                };
                if *known == NONE {
                    *known = texts.add(nodes.symbols.text(symbol));
                    self.used.push(symbol);
                }
                self.bytes.extend_from_slice(&known.to_le_bytes());
            }
            self.used.drain(..).for_each(|symbol| self.numbers[symbol.index()] = NONE);
        } else {
            self.by_symbol.clear();
            for &slot in slots {
                let symbol = of(slot);
                let number = match symbol {
                    Symbol::NONE => NONE,
                    symbol => *self.by_symbol.entry(symbol).or_insert_with(|| texts.add(nodes.symbols.text(symbol))),
                };
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        self.align();
        self.write_column_of_texts(values, &texts, column);
    }

    fn write_texts(&mut self, numbers: &[u32], texts: &Texts<'_>, column: usize) {
        let values = self.bytes.len();
        numbers.iter().for_each(|number| self.bytes.extend_from_slice(&number.to_le_bytes()));
        self.align();
        self.write_column_of_texts(values, texts, column);
    }

    fn write_column_of_texts(&mut self, values: usize, texts: &Texts<'_>, column: usize) {
        let list = self.bytes.len();
        self.bytes.resize(list + texts.texts.len() * 2 * WORD, 0);
        for (place, text) in texts.texts.iter().enumerate() {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(text.as_bytes());
            self.set_word(list + place * 2 * WORD, at);
            self.set_word(list + place * 2 * WORD + WORD, text.len());
        }
        self.align();
        self.set_column(column, [0, values, list, texts.texts.len()]);
    }

    fn write_numbers(&mut self, slots: &[Slot], of: impl Fn(Slot) -> i64, column: usize) {
        let values = self.bytes.len();
        self.bytes.reserve(slots.len() * 8);
        slots.iter().for_each(|&slot| self.bytes.extend_from_slice(&of(slot).to_le_bytes()));
        self.set_column(column, [1, values, 0, 0]);
    }

    fn set_column(&mut self, column: usize, words: [usize; 4]) {
        for (place, word) in words.into_iter().enumerate() {
            self.set_word(column + place * WORD, word);
        }
    }

    fn put(&mut self, bytes: &[u8]) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.align();
        at
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    fn set_word(&mut self, at: usize, word: usize) {
        let word = u32::try_from(word).unwrap_or(u32::MAX);
        self.bytes[at..at + WORD].copy_from_slice(&word.to_le_bytes());
    }
}

impl<'a> Texts<'a> {
    fn add(&mut self, text: impl Into<std::borrow::Cow<'a, str>>) -> u32 {
        self.texts.push(text.into());
        u32::try_from(self.texts.len() - 1).unwrap_or(NONE)
    }
}

fn taints(taints: &[Taint]) -> Value {
    let taint = |Taint { key, value, effect }: &Taint| json!({ "key": key, "value": value, "effect": effect });
    Value::Array(taints.iter().map(taint).collect())
}

/// A field that is neither a single text nor a number.
fn whole(nodes: &Snapshot, slot: Slot, field: &NodeField) -> Value {
    let text = |symbol: Symbol| nodes.symbols.text(symbol);
    match field {
        NodeField::Labels => {
            let labels = nodes.labels(slot).map(|(key, value)| (text(key).to_owned(), text(value).into()));
            let sorted: std::collections::BTreeMap<String, Value> = labels.collect();
            Value::Object(sorted.into_iter().collect())
        }
        NodeField::Images => {
            let mut names: Vec<&str> = nodes.images(slot).iter().map(|&name| text(name)).collect();
            names.sort_unstable();
            json!(names)
        }
        _ => {
            let (accounts, at) = (&nodes.accounts, slot as usize);
            let fixed = [
                ("cpu", accounts.allocatable_milli_cpu[at]),
                ("memory", accounts.allocatable_memory[at]),
                ("ephemeral-storage", accounts.allocatable_ephemeral_storage[at]),
                ("pods", accounts.allowed_pods[at]),
            ];
            let scalars = accounts.scalars().map(|(name, column)| (name, column.allocatable(slot)));
            let all = fixed.into_iter().chain(scalars.filter(|(_, amount)| *amount != 0));
            let sorted: std::collections::BTreeMap<&str, i64> = all.collect();
            json!(sorted)
        }
    }
}
