//! Strings that occur on many nodes, each kept once and compared as a number.
//!
//! Knows: nothing of what a string means. Must not know: labels, images or resources.

use indexmap::IndexSet;

/// A string of one [`Symbols`] table. Numbers of two tables must not be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

impl Symbol {
    /// Stands for "no value" in a column; no table hands it out.
    pub const NONE: Self = Self(u32::MAX);

    /// The position in the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A table of strings that only grows.
///
/// Bound: `u32::MAX - 1` different strings; at 40 bytes each they would need 160 GiB, so memory ends first.
#[derive(Debug, Clone, Default)]
pub struct Symbols(IndexSet<Box<str>>);

impl Symbols {
    /// The number of `text`, given out now if it is new.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(index) = self.0.get_index_of(text) {
            return symbol(index);
        }
        symbol(self.0.insert_full(text.into()).0)
    }

    /// The number of `text` if any node ever carried it.
    #[must_use]
    pub fn get(&self, text: &str) -> Option<Symbol> {
        self.0.get_index_of(text).map(symbol)
    }

    /// The text behind a number; empty for [`Symbol::NONE`].
    #[must_use]
    pub fn text(&self, symbol: Symbol) -> &str {
        self.0.get_index(symbol.index()).map_or("", |text| text)
    }
}

fn symbol(index: usize) -> Symbol {
    u32::try_from(index).map_or(Symbol::NONE, Symbol)
}
