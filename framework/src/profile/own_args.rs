//! The arguments of plugins beyond kube-scheduler's own.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use serde_path_to_error::Segment;

use super::Args;

/// The arguments of a plugin that takes none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

/// The problem of a plugin's arguments, and its position in them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ArgsError {
    /// The steps from `args` to the problem; empty for all of `args`.
    pub path: Vec<ArgsStep>,
    /// `found ..., expected ...`, or serde's message.
    pub message: String,
}

/// One step into arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgsStep {
    /// Into a field of a mapping.
    Field(String),
    /// Into an element of a list, counted from 0.
    Element(usize),
}

impl ArgsError {
    /// A field with a value of the right type that is invalid; `message` is `found ..., expected ...`.
    #[must_use]
    pub fn at(field: &str, message: impl Into<String>) -> Self {
        Self { path: vec![ArgsStep::Field(field.to_owned())], message: message.into() }
    }
}

impl Args {
    /// The arguments of a plugin; those of an empty mapping if nothing is configured.
    ///
    /// # Errors
    /// Those of [`read_args`]. [`check_args`](crate::extension::Plugin::check_args) rejects such a configuration.
    pub fn of<T: DeserializeOwned>(&self, plugin: &str) -> Result<T, ArgsError> {
        match self.own.get(plugin) {
            Some(written) => read_args(written),
            None => read_args(&Value::Object(serde_json::Map::new())),
        }
    }
}

/// Reads arguments into a type of the plugin. Use `#[serde(deny_unknown_fields)]` on it, so that a misspelt field is an error.
///
/// # Errors
/// The first field that does not fit the type.
pub fn read_args<T: DeserializeOwned>(args: &Value) -> Result<T, ArgsError> {
    serde_path_to_error::deserialize(args).map_err(|error| {
        let step = |segment: &Segment| match segment {
            Segment::Seq { index } => Some(ArgsStep::Element(*index)),
            Segment::Map { key } => Some(ArgsStep::Field(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        ArgsError { path: error.path().iter().map_while(step).collect(), message: error.inner().to_string() }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Weights {
        weights: Vec<u32>,
    }

    #[test]
    fn what_is_written_is_read_and_what_does_not_fit_is_named() {
        let mut args = Args::default();
        args.own.insert("Own".to_owned(), json!({ "weights": [1, 2] }));
        assert_eq!(args.of("Own"), Ok(Weights { weights: vec![1, 2] }));
        args.own.insert("Own".to_owned(), json!({ "weights": [1, "two"] }));
        let error = args.of::<Weights>("Own").expect_err("a text is no number");
        assert_eq!(error.path, [ArgsStep::Field("weights".to_owned()), ArgsStep::Element(1)]);
        assert_eq!(error.message, "invalid type: string \"two\", expected u32");
    }

    #[test]
    fn without_arguments_an_empty_mapping_is_read() {
        assert_eq!(Args::default().of("Own"), Ok(NoArgs {}));
        let error = Args::default().of::<Weights>("Own").expect_err("a field without a default");
        assert_eq!(error.message, "missing field `weights`");
    }
}
