//! Terms of node affinity, and which nodes they match.

use std::collections::BTreeMap;

/// Labels of a node.
pub(crate) type Labels = BTreeMap<String, String>;

/// What a pod wants of nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) selector: Vec<(String, String)>,
    pub(crate) required: Option<Vec<Term>>,
    pub(crate) preferred: Vec<(i64, Term)>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Term {
    pub(crate) expressions: Vec<Requirement>,
    pub(crate) fields: Vec<Requirement>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) values: Vec<String>,
}

impl Wanted {
    pub(crate) fn suits(&self, name: &str, labels: &Labels) -> bool {
        let selected = self.selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let matches = |terms: &Vec<Term>| terms.iter().any(|term| !term.is_empty() && term.matches(name, labels));
        selected && self.required.as_ref().is_none_or(matches)
    }

    pub(crate) fn score(&self, name: &str, labels: &Labels) -> i64 {
        let matching = self.preferred.iter().filter(|(_, term)| term.matches(name, labels));
        matching.map(|(weight, _)| weight).sum()
    }
}

impl Term {
    fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.fields.is_empty()
    }

    fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.expressions.iter().all(|want| want.matches(labels.get(&want.key).map(String::as_str)))
            && self.fields.iter().all(|want| want.matches((want.key == "metadata.name").then_some(name)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let is_one = |value: &str| self.values.iter().any(|known| known == value);
        let number = |text: &str| text.parse::<i64>().ok();
        let compared = || Some((number(value?)?, number(self.values.first()?)?));
        match self.operator.as_str() {
            "In" => value.is_some_and(is_one),
            "NotIn" => !value.is_some_and(is_one),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compared().is_some_and(|(of_node, wanted)| of_node > wanted),
            "Lt" => compared().is_some_and(|(of_node, wanted)| of_node < wanted),
            _ => false,
        }
    }
}
