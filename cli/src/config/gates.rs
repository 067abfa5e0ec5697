//! `--feature-gates` of the `config` commands.

use flotilla_configuration::features::FeatureGates;

use flotilla_framework::registry::Registry;

use crate::output::Failure;

pub(super) struct Gates {
    pub(super) gates: FeatureGates,
    pub(super) registry: Registry,
}

impl Gates {
    pub(super) fn read(flags: &[String], registry: Registry) -> Result<Self, Failure> {
        let gates = FeatureGates::parse(&flags.join(","));
        let gates = gates.map_err(|errors| Failure::input(vec![errors.to_string()]))?;
        Ok(Self { gates, registry })
    }
}
