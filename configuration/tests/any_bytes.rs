//! Any text is a configuration, or errors that say where.
//!
//! The decoders of this crate are `load` and `examine` (YAML 1.1 and JSON), `migrate`, and `FeatureGates` for the text of
//! `--feature-gates`. A file that is not UTF-8 is refused before.
//!
//! Knows: the corpus of configurations, and what one may take. Must not know: what a field means.

#![allow(missing_docs)]

use flotilla_configuration::{examine, features::FeatureGates, load, migrate};
use flotilla_mutate::{Bound, Decoder, Form};

#[allow(dead_code, reason = "the other test reads answers as well")]
#[path = "configuration/corpus.rs"]
mod corpus;

/// Aliases may expand to 100,000 values, whatever the length of the text; with their places those were seen to take 11 MB.
const BOUND: Bound = Bound { times: 64, plus: 32 << 20 };

/// The files whose path begins with this.
fn samples(group: &str) -> Vec<Vec<u8>> {
    corpus::files().into_iter().filter(|(name, _)| name.starts_with(group)).map(|(_, text)| text).collect()
}

#[test]
fn a_configuration_is_read_within_a_multiple_of_its_bytes() {
    let gates = FeatureGates::default();
    for group in ["good/", "bad/"] {
        let name = format!("a configuration of {group}");
        Decoder { name: &name, samples: &samples(group), form: Form::Text, bound: BOUND }.stands(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            let found = examine(&text, "file", &gates);
            let is_loaded = match load(&text, "file", &gates) {
                Ok(_) => true,
                Err(errors) => {
                    assert!(!errors.to_string().is_empty());
                    false
                }
            };
            assert_eq!(is_loaded, found.errors.is_none());
            is_loaded
        });
    }
}

#[test]
fn a_configuration_is_migrated_within_a_multiple_of_its_bytes() {
    let samples: Vec<Vec<u8>> = ["v1beta1", "v1beta2", "v1beta3", "v1"]
        .iter()
        .flat_map(|version| {
            samples("good/").into_iter().take(100).map(move |text| {
                String::from_utf8_lossy(&text)
                    .replace("config.k8s.io/v1", &format!("config.k8s.io/{version}"))
                    .into_bytes()
            })
        })
        .collect();
    Decoder { name: "migrate", samples: &samples, form: Form::Text, bound: BOUND }.stands(|bytes| {
        migrate(&String::from_utf8_lossy(bytes), "file")
            .inspect_err(|errors| assert!(!errors.to_string().is_empty()))
            .is_ok()
    });
}

#[test]
fn feature_gates_are_read_within_a_multiple_of_their_bytes() {
    let samples = ["GenericWorkload=true", "kube:HPAScaleToZero=true, kube : QOSReserved=true"];
    let samples = samples.map(|text| text.as_bytes().to_vec());
    Decoder { name: "feature gates", samples: &samples, form: Form::Text, bound: BOUND }.stands(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        FeatureGates::parse(&text).inspect_err(|errors| assert!(!errors.to_string().is_empty())).is_ok()
    });
}
