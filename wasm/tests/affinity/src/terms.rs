//! Terms of node affinity and their matching.

/// About twenty labels of a node. A pod reads one or two, so they are not sorted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels(Vec<(String, String)>);

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

impl Labels {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(labels: T) -> Self {
        Self(labels.into_iter().collect())
    }
}

impl Wanted {
    pub(crate) fn suits(&self, name: &str, labels: &Labels) -> bool {
        let selected = self.selector.iter().all(|(key, value)| labels.get(key) == Some(value.as_str()));
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
        self.expressions.iter().all(|want| want.matches(labels.get(&want.key)))
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
