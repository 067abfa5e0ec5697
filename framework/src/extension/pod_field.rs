//! The fields of a pod's metadata that plugins may read, and that a class then contains.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

/// A metadata field, in the syntax of the downward API: `metadata.name`, `metadata.labels['app']`. Each field splits classes. With
/// [`Self::Name`] no two pods share results, so each is evaluated on all nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PodField {
    /// `metadata.name`.
    Name,
    /// `metadata.namespace`.
    Namespace,
    /// `metadata.labels['<key>']`.
    Label(Arc<str>),
    /// `metadata.labels`: all labels, as one JSON object with sorted keys.
    Labels,
}

/// A text that is not a [`PodField`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no field of a pod that plugins read; there are metadata.name, metadata.namespace, metadata.labels and \
     metadata.labels['KEY']"
)]
pub struct UnknownPodField(String);

impl PodField {
    /// The label of a key.
    #[must_use]
    pub fn label(key: &str) -> Self {
        Self::Label(key.into())
    }
}

impl fmt::Display for PodField {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => out.write_str("metadata.name"),
            Self::Namespace => out.write_str("metadata.namespace"),
            Self::Labels => out.write_str("metadata.labels"),
            Self::Label(key) => write!(out, "metadata.labels['{key}']"),
        }
    }
}

impl FromStr for PodField {
    type Err = UnknownPodField;

    fn from_str(text: &str) -> Result<Self, UnknownPodField> {
        let label = |text: &str| Some(text.strip_prefix("metadata.labels['")?.strip_suffix("']")?.into());
        match text {
            "metadata.name" => Ok(Self::Name),
            "metadata.namespace" => Ok(Self::Namespace),
            "metadata.labels" => Ok(Self::Labels),
            _ => label(text).map(Self::Label).ok_or_else(|| UnknownPodField(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    #[test]
    fn a_field_reads_back_as_it_is_written() {
        for field in [PodField::Name, PodField::Namespace, PodField::label("example.com/team"), PodField::Labels] {
            assert_eq!(field.to_string().parse(), Ok(field));
        }
        let error = "metadata.uid".parse::<PodField>().expect_err("nothing that plugins read");
        assert!(error.to_string().starts_with("\"metadata.uid\" is no field"), "{error}");
    }

    #[test]
    fn pods_are_of_one_class_unless_a_field_that_is_shown_differs() {
        let shown = |name: &str, fields: &[PodField]| {
            let pod = Arc::new(pod(name).label("team", "red").build());
            Arc::clone(&pod.showing(fields).class)
        };
        let team = [PodField::label("none"), PodField::label("team")];
        assert_eq!(shown("a", &team), shown("b", &team));
        assert_eq!(shown("a", &team).field(&team[1]), Some("red"));
        assert_eq!(shown("a", &team).field(&team[0]), None, "a label that the pod lacks");
        assert_eq!(shown("a", &team).field(&PodField::Name), None, "a field that nobody asked for");
        assert_eq!(shown("a", &[PodField::Labels]).field(&PodField::Labels), Some(r#"{"team":"red"}"#));
        assert_ne!(shown("a", &[PodField::Name]), shown("b", &[PodField::Name]));
        let pod = Arc::new(pod("a").build());
        assert!(Arc::ptr_eq(&pod.showing(&[]), &pod), "nothing is copied where no plugin reads anything");
        assert_eq!(pod.showing(&[PodField::Name]).showing(&[]), pod);
    }
}
