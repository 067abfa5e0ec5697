//! Strings of nodes, stored once each and compared by number.
//!
//! Strings of pods are only looked up ([`Lookup`]): otherwise users could fill the table with strings that no node has.

use indexmap::IndexSet;

/// A string of one [`Symbols`] table. Numbers of different tables are not comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

impl Default for Symbol {
    fn default() -> Self {
        Self::NONE
    }
}

impl Symbol {
    /// "No value" in a column; not in any table.
    pub const NONE: Self = Self(u32::MAX);

    /// The position in the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The maximum number of strings; larger numbers are for strings that are not in the table ([`Lookup`]).
const MAX_SYMBOLS: u32 = u32::MAX / 2;

/// A table of the strings of nodes.
///
/// Bound: `MAX_SYMBOLS` different strings; at 40 bytes each they would need 80 GiB, so memory ends first.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    texts: IndexSet<Box<str>>,
    bytes: usize,
}

impl Symbols {
    /// The number of `text`; a new text gets a number.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(index) = self.texts.get_index_of(text) {
            return symbol(index);
        }
        self.bytes += weight(text);
        symbol(self.texts.insert_full(text.into()).0)
    }

    /// The number of `text`, if it is in the table.
    #[must_use]
    pub fn get(&self, text: &str) -> Option<Symbol> {
        self.texts.get_index_of(text).map(symbol)
    }

    /// The text of a number; empty for [`Symbol::NONE`].
    #[must_use]
    pub fn text(&self, symbol: Symbol) -> &str {
        self.texts.get_index(symbol.index()).map_or("", |text| text)
    }

    /// The number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Their size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The strings added after the table had `len` strings, oldest first.
    pub fn since(&self, len: usize) -> impl Iterator<Item = &str> + Clone {
        (len..self.texts.len()).filter_map(|index| self.texts.get_index(index)).map(AsRef::as_ref)
    }
}

const fn weight(text: &str) -> usize {
    text.len() + 40
}

fn symbol(index: usize) -> Symbol {
    u32::try_from(index).ok().filter(|index| *index < MAX_SYMBOLS).map_or(Symbol::NONE, Symbol)
}

/// The strings that a class names and no node had: once a node has one of them, the class must be prepared again.
#[derive(Debug, Clone, Default)]
pub struct Missing(IndexSet<Box<str>>);

impl Missing {
    /// Whether one of these strings was missing.
    pub fn has_any<'a>(&self, mut texts: impl Iterator<Item = &'a str>) -> bool {
        !self.0.is_empty() && texts.any(|text| self.0.contains(text))
    }

    /// Their size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|text| weight(text)).sum()
    }
}

/// Numbers strings that may not be in a table. A missing string gets a number that no node has, valid only within this lookup.
#[derive(Debug)]
pub struct Lookup<'a> {
    table: &'a Symbols,
    missing: Missing,
}

impl<'a> Lookup<'a> {
    /// A lookup in this table.
    #[must_use]
    pub fn of(table: &'a Symbols) -> Self {
        Self { table, missing: Missing::default() }
    }

    /// The number of a string.
    pub fn number(&mut self, text: &str) -> Symbol {
        let known = self.table.get(text);
        known.unwrap_or_else(|| {
            let missing = &mut self.missing.0;
            let index = missing.get_index_of(text).unwrap_or_else(|| missing.insert_full(text.into()).0);
            // One pod has far fewer than 2^31 strings.
            Symbol(u32::MAX - 1 - u32::try_from(index).unwrap_or(0))
        })
    }

    /// The string of a number from this lookup.
    #[must_use]
    pub fn text(&self, symbol: Symbol) -> &str {
        let missing = || self.missing.0.get_index((u32::MAX - 1).checked_sub(symbol.0)? as usize);
        if symbol.0 < MAX_SYMBOLS { self.table.text(symbol) } else { missing().map_or("", |text| text) }
    }

    /// The strings that were not in the table.
    #[must_use]
    pub fn into_missing(self) -> Missing {
        self.missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_node_has_is_told_apart_and_is_not_kept() {
        let mut table = Symbols::default();
        let zone = table.intern("zone");
        let bytes = table.bytes();
        let mut lookup = Lookup::of(&table);
        let (one, two) = (lookup.number("one"), lookup.number("two"));
        assert_eq!((lookup.number("zone"), lookup.number("one")), (zone, one));
        assert!(one != two && one != Symbol::NONE && two != Symbol::NONE);
        assert_eq!((lookup.text(one), lookup.text(two), lookup.text(zone)), ("one", "two", "zone"));
        let missing = lookup.into_missing();
        assert_eq!((table.len(), table.bytes()), (1, bytes));
        table.intern("three");
        assert!(!missing.has_any(table.since(1)));
        table.intern("two");
        assert!(missing.has_any(table.since(1)) && !missing.has_any(table.since(3)));
    }
}
