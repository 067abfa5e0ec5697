//! Columns of values by node: vectors if enough nodes have a value, otherwise sorted lists.
//!
//! A vector is fastest to read, but takes memory for every node, and each node may have a thousand labels that no other node has.

/// The position of a node in the columns of one snapshot.
pub type Slot = u32;

/// The maximum number of positions per value in a growing vector: a label value then takes at most 64 bytes, and 512 of 8,192 nodes make a
/// vector.
const POSITIONS_PER_VALUE: usize = 16;

/// A vector becomes a list above this number of positions per value. The factor of 2 avoids rewriting the column whenever one value comes
/// and goes.
const MAX_POSITIONS_PER_VALUE: usize = 2 * POSITIONS_PER_VALUE;

/// The values; `T::default()` means none.
#[derive(Debug, Clone)]
pub(super) struct Column<T> {
    cells: Cells<T>,
    values: usize,
}

#[derive(Debug, Clone)]
enum Cells<T> {
    /// By position, up to the last one that ever had a value.
    Dense(Vec<T>),
    /// Sorted by position.
    Sparse(Vec<(Slot, T)>),
}

/// Read access to the values of a column.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a, T>(Source<'a, T>);

#[derive(Debug, Clone, Copy)]
enum Source<'a, T> {
    Dense(&'a [T]),
    Sparse(&'a [(Slot, T)]),
}

impl<'a, T: Copy + Default> Values<'a, T> {
    pub(crate) const fn dense(values: &'a [T]) -> Self {
        Self(Source::Dense(values))
    }

    /// The value at a position; the default if there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, slot: Slot) -> T {
        match self.0 {
            Source::Dense(values) => values.get(slot as usize).copied().unwrap_or_default(),
            Source::Sparse(values) => searched(values, slot),
        }
    }
}

impl<T> Default for Values<'_, T> {
    fn default() -> Self {
        Self(Source::Dense(&[]))
    }
}

fn searched<T: Copy + Default>(values: &[(Slot, T)], slot: Slot) -> T {
    values.binary_search_by_key(&slot, |(at, _)| *at).map_or_else(|_| T::default(), |index| values[index].1)
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { cells: Cells::Sparse(Vec::new()), values: 0 }
    }
}

impl<T: Copy + Default + PartialEq> Column<T> {
    pub(super) const fn len(&self) -> usize {
        self.values
    }

    pub(super) fn values(&self) -> Values<'_, T> {
        Values(match &self.cells {
            Cells::Dense(cells) => Source::Dense(cells),
            Cells::Sparse(cells) => Source::Sparse(cells),
        })
    }

    pub(super) fn get(&self, slot: Slot) -> T {
        self.values().get(slot)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, T)> {
        let (dense, sparse) = match &self.cells {
            Cells::Dense(cells) => (cells.as_slice(), &[][..]),
            Cells::Sparse(cells) => (&[][..], cells.as_slice()),
        };
        let dense = (0..).zip(dense).map(|(slot, value)| (slot, *value));
        dense.chain(sparse.iter().copied()).filter(|(_, value)| *value != T::default())
    }

    pub(super) fn map(&mut self, mut change: impl FnMut(T) -> T) {
        let mut change = |value: &mut T| {
            if *value != T::default() {
                *value = change(*value);
            }
        };
        match &mut self.cells {
            Cells::Dense(cells) => cells.iter_mut().for_each(change),
            Cells::Sparse(cells) => cells.iter_mut().for_each(|(_, value)| change(value)),
        }
    }

    /// Sets the value at a position; the default removes it.
    pub(super) fn set(&mut self, slot: Slot, value: T) {
        let old = self.get(slot);
        if old == value {
            return;
        }
        self.values += usize::from(old == T::default());
        self.values -= usize::from(value == T::default());
        let at = slot as usize;
        match &mut self.cells {
            Cells::Dense(cells) if at < cells.len() => cells[at] = value,
            Cells::Dense(cells) if at < POSITIONS_PER_VALUE * self.values => {
                cells.resize(at + 1, T::default());
                cells[at] = value;
            }
            Cells::Dense(_) => {
                self.make_sparse();
                self.set_sparse(slot, value);
            }
            Cells::Sparse(_) => self.set_sparse(slot, value),
        }
        match &self.cells {
            Cells::Dense(cells) if cells.len() > MAX_POSITIONS_PER_VALUE * self.values => self.make_sparse(),
            Cells::Sparse(cells)
                if cells.last().is_some_and(|(last, _)| (*last as usize) < POSITIONS_PER_VALUE * self.values) =>
            {
                self.make_dense();
            }
            _ => {}
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.cells {
            Cells::Dense(cells) => cells.capacity() * size_of::<T>(),
            Cells::Sparse(cells) => cells.capacity() * size_of::<(Slot, T)>(),
        }
    }

    fn set_sparse(&mut self, slot: Slot, value: T) {
        let Cells::Sparse(cells) = &mut self.cells else { return };
        match cells.binary_search_by_key(&slot, |(at, _)| *at) {
            Ok(index) if value == T::default() => {
                cells.remove(index);
                if cells.capacity() > 4 * cells.len() {
                    cells.shrink_to(2 * cells.len());
                }
            }
            Ok(index) => cells[index].1 = value,
            Err(index) if value != T::default() => {
                if cells.capacity() == 0 {
                    // Most lists have one entry: a hostname, or a label of a single node.
                    cells.reserve_exact(1);
                }
                cells.insert(index, (slot, value));
            }
            Err(_) => {}
        }
    }

    fn make_sparse(&mut self) {
        self.cells = Cells::Sparse(self.iter().collect());
    }

    fn make_dense(&mut self) {
        let Cells::Sparse(sparse) = &self.cells else { return };
        let length = sparse.last().map_or(0, |(last, _)| *last as usize + 1);
        let mut dense = vec![T::default(); length];
        sparse.iter().for_each(|(slot, value)| dense[*slot as usize] = *value);
        self.cells = Cells::Dense(dense);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_column_has_the_values_that_were_set_and_takes_no_more_than_they_do() {
        let mut column = Column::<i64>::default();
        let mut expected = BTreeMap::new();
        let mut state = 7_u64;
        for step in 0..20_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = Slot::try_from((state >> 33) % if step % 4_000 < 2_000 { 5_000 } else { 100 }).expect("a slot");
            // Long runs of additions and of removals, so that both forms occur.
            let value = if step % 2_000 < 1_200 { i64::try_from(step).expect("a value") } else { 0 };
            column.set(slot, value);
            if value == 0 {
                expected.remove(&slot)
            } else {
                expected.insert(slot, value)
            };
            assert_eq!((column.get(slot), column.len()), (value, expected.len()));
            assert!(column.bytes() <= 2 * 8 * MAX_POSITIONS_PER_VALUE * (expected.len() + 1), "{}", column.bytes());
        }
        assert!(column.iter().eq(expected.iter().map(|(slot, value)| (*slot, *value))));
        expected.into_keys().for_each(|slot| column.set(slot, 0));
        assert_eq!((column.len(), column.iter().count(), column.bytes()), (0, 0, 0));
    }

    #[test]
    fn a_column_that_enough_nodes_have_is_a_vector() {
        let mut column = Column::<i64>::default();
        (0..100).for_each(|slot| column.set(slot * 10, 1));
        assert!(matches!(column.cells, Cells::Dense(_)));
        (0..100).filter(|slot| slot % 10 != 0).for_each(|slot| column.set(slot * 10, 0));
        assert!(matches!(column.cells, Cells::Sparse(_)));
        column.map(|value| value + 1);
        assert_eq!((column.get(100), column.get(101), column.values().get(900)), (2, 0, 2));
    }
}
