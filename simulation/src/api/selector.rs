//! Label and field selectors. Source: k8s.io/apimachinery `pkg/labels/selector.go` and `pkg/fields/selector.go`.

use serde_json::Value;

use super::{object::Object, refusal::Refusal};

/// Selector of a list or watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    namespace: String,
    fields: Vec<Term>,
    labels: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    /// Path of a field, or key of a label.
    place: String,
    /// Accepted values; empty if it only needs to exist.
    values: Vec<String>,
    not: bool,
}

impl Selector {
    /// Parses the selectors of a query; empty texts select everything.
    ///
    /// # Errors
    /// The text is invalid, or the model does not support it.
    pub fn parse(namespace: &str, fields: &str, labels: &str) -> Result<Self, Refusal> {
        let fields = split(fields).map(field).collect::<Result<_, _>>()?;
        let labels = split(labels).map(label).collect::<Result<_, _>>()?;
        Ok(Self { namespace: namespace.to_owned(), fields, labels })
    }

    /// Whether it selects all objects.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.namespace.is_empty() && self.fields.is_empty() && self.labels.is_empty()
    }

    /// Whether it selects this object.
    #[must_use]
    pub fn selects(&self, object: &Object) -> bool {
        let label = |key: &str| object.value()["metadata"]["labels"].get(key).and_then(Value::as_str);
        (self.namespace.is_empty() || object.namespace() == self.namespace)
            // A missing field equals an empty one.
            && self.fields.iter().all(|term| term.holds(Some(object.text(&term.place))))
            && self.labels.iter().all(|term| term.holds(label(&term.place)))
    }
}

impl Term {
    fn holds(&self, value: Option<&str>) -> bool {
        let found = value.is_some_and(|value| self.values.is_empty() || self.values.iter().any(|one| one == value));
        found != self.not
    }
}

/// Splits a selector at commas outside parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|term| !term.is_empty())
}

/// Parses `a=b`, `a==b` or `a!=b`.
fn compared(term: &str) -> Option<(&str, &str, bool)> {
    let (place, value, not) = match term.split_once("!=") {
        Some((place, value)) => (place, value, true),
        None => term.split_once('=').map(|(place, value)| (place, value.trim_start_matches('='), false))?,
    };
    Some((place.trim(), value.trim(), not))
}

fn field(term: &str) -> Result<Term, Refusal> {
    let (place, value, not) = compared(term)
        .ok_or_else(|| Refusal::bad_request(format!("unable to parse \"{term}\" as a field selector")))?;
    Ok(Term { place: format!("/{}", place.replace('.', "/")), values: vec![value.to_owned()], not })
}

fn label(term: &str) -> Result<Term, Refusal> {
    if let Some((place, value, not)) = compared(term) {
        return Ok(Term { place: place.to_owned(), values: vec![value.to_owned()], not });
    }
    let among = |words: &str| words.trim().strip_prefix('(')?.strip_suffix(')').map(str::to_owned);
    for (word, not) in [(" notin ", true), (" in ", false)] {
        if let Some((place, words)) = term.split_once(word) {
            let words = among(words)
                .ok_or_else(|| Refusal::bad_request(format!("unable to parse \"{term}\" as a label selector")))?;
            let values = words.split(',').map(|value| value.trim().to_owned()).collect();
            return Ok(Term { place: place.trim().to_owned(), values, not });
        }
    }
    let (place, not) = term.strip_prefix('!').map_or((term, false), |place| (place, true));
    Ok(Term { place: place.trim().to_owned(), values: Vec::new(), not })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::kind::Kind;

    #[test]
    fn selectors_select_as_the_api_server_has_it() {
        let metadata = json!({ "namespace": "a", "name": "web-1", "labels": { "app": "web", "tier": "x" } });
        let object = json!({ "metadata": metadata, "spec": {}, "status": { "phase": "Running" } });
        let object = Object::new(Kind::Pod, 1, object);
        for (namespace, fields, labels, selected) in [
            ("", "", "", true),
            ("a", "", "", true),
            ("b", "", "", false),
            ("", "status.phase!=Succeeded,status.phase!=Failed", "", true),
            ("", "status.phase=Running,metadata.name==web-1", "", true),
            ("", "status.phase!=Running", "", false),
            ("", "spec.nodeName=", "", true),
            ("", "spec.nodeName=n1", "", false),
            ("", "", "app=web,tier in (x, y)", true),
            ("", "", "app notin (web,db)", false),
            ("", "", "other notin (web,db)", true),
            ("", "", "app,!other", true),
            ("", "", "!app", false),
            ("", "", "app!=web", false),
            ("", "", "other!=web", true),
            ("", "", "other", false),
        ] {
            let selector = Selector::parse(namespace, fields, labels).expect("a selector");
            assert_eq!(selector.selects(&object), selected, "{namespace:?} {fields:?} {labels:?}");
        }
        assert_eq!(Selector::parse("", "nonsense", "").map_err(|refusal| refusal.code), Err(400));
    }
}
