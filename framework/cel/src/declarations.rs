//! Functions and operators of the environment. `declarations.tsv` is upstream's environment as written by `integration-tests/oracle/cel
//! --declarations`. Functions of authorizers are left out because no device has one.

use std::{collections::BTreeMap, sync::LazyLock};

use crate::types::Type;

#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) is_member: bool,
    /// Starts with the receiver's type, if any.
    pub(crate) arguments: Vec<Type>,
    pub(crate) result: Type,
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(read);

/// Overloads of a function, in upstream's order. Operators are functions with names like `_+_`.
pub(crate) fn overloads(function: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(function).map(Vec::as_slice)
}

fn read() -> BTreeMap<&'static str, Vec<Overload>> {
    let mut functions: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
    for line in include_str!("declarations.tsv").lines() {
        if let Some((function, overload)) = read_line(line) {
            functions.entry(function).or_default().push(overload);
        }
    }
    functions
}

fn read_line(line: &'static str) -> Option<(&'static str, Overload)> {
    let [function, id, kind, arguments, result] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
    let arguments = arguments.split("; ").filter(|argument| !argument.is_empty());
    let arguments = arguments.map(Type::parse).collect::<Option<_>>()?;
    Some((function, Overload { id, is_member: kind == "member", arguments, result: Type::parse(result)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_can_be_read() {
        let lines: Vec<&str> = include_str!("declarations.tsv").lines().collect();
        for line in &lines {
            assert!(read_line(line).is_some(), "{line}");
        }
        assert_eq!(FUNCTIONS.values().map(Vec::len).sum::<usize>(), lines.len());
    }
}
