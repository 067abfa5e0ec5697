//! `--feature-gates` of the `config` commands.

use flotilla_configuration::{
    Cause,
    features::{FeatureGates, GateErrors},
};

use flotilla_framework::registry::Registry;

use crate::output::{Failure, print_notes};

pub(super) struct Gates {
    pub(super) gates: FeatureGates,
    pub(super) registry: Registry,
    /// Gates that this version of Flotilla does not support at their value.
    pub(super) lacking: Option<GateErrors>,
}

impl Gates {
    /// Parses the flags and reports unsupported gates.
    pub(super) fn read(flags: &[String], registry: Registry) -> Result<Self, Failure> {
        let (gates, errors) = FeatureGates::examine(&flags.join(","));
        let is_invalid = |errors: &GateErrors| errors.errors.iter().any(|error| error.cause == Cause::Invalid);
        match errors {
            Some(errors) if is_invalid(&errors) => Err(Failure::input(vec![errors.to_string()])),
            lacking => {
                print_notes(&lacking.iter().map(ToString::to_string).collect::<Vec<_>>());
                Ok(Self { gates, registry, lacking })
            }
        }
    }
}
