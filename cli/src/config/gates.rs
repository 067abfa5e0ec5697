//! `--feature-gates` of all commands on configurations.
//!
//! Knows: which of its errors end the command. Must not know: any gate.

use flotilla_configuration::{
    Cause,
    features::{FeatureGates, GateErrors},
};

use flotilla_framework::registry::Registry;

use crate::output::{Failure, tell};

/// What the flags come to, and the process brings.
pub(super) struct Gates {
    /// The gates, as kube-scheduler would have them.
    pub(super) gates: FeatureGates,
    /// The plugins that configurations may name.
    pub(super) registry: Registry,
    /// The gates that this version of Flotilla cannot have so.
    pub(super) lacking: Option<GateErrors>,
}

impl Gates {
    /// Reads the flags, and tells what this version lacks.
    pub(super) fn read(flags: &[String], registry: Registry) -> Result<Self, Failure> {
        let (gates, errors) = FeatureGates::examine(&flags.join(","));
        let is_invalid = |errors: &GateErrors| errors.errors.iter().any(|error| error.cause == Cause::Invalid);
        match errors {
            Some(errors) if is_invalid(&errors) => Err(Failure::input(vec![errors.to_string()])),
            lacking => {
                tell(&lacking.iter().map(ToString::to_string).collect::<Vec<_>>());
                Ok(Self { gates, registry, lacking })
            }
        }
    }
}
