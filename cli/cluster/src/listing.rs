//! Shortens lists in messages.

/// The limit of names in one note.
const MOST_NAMES: usize = 3;

/// The first names of a list, and how many more there are.
pub(crate) fn bounded<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let left_out = names.len().saturating_sub(MOST_NAMES);
    let shown: Vec<&str> = names.take(MOST_NAMES).collect();
    let shown = shown.join(", ");
    if left_out > 0 { format!("{shown} and {left_out} more") } else { shown }
}
