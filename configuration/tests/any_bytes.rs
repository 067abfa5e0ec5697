//! Any text is either a configuration or errors with positions.
//!
//! Covers `load` and `examine` (YAML 1.1 and JSON), `migrate`, and `FeatureGates`. The caller rejects text that is not UTF-8.

#![allow(missing_docs)]

use flotilla_configuration::{examine, features::FeatureGates, load, migrate};
use flotilla_framework::registry::Registry;
use flotilla_mutate::{Bound, Decoder, Form};

#[allow(dead_code, reason = "the other test reads answers as well")]
#[path = "configuration/corpus.rs"]
mod corpus;

/// Aliases may expand to 100,000 values regardless of the text's length, measured at 11 MB with their positions.
const BOUND: Bound = Bound { times: 64, plus: 32 << 20 };

const LONG: usize = 512 << 10;

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
            let found = examine(&text, "file", &gates, Registry::built_in());
            let is_loaded = match load(&text, "file", &gates, Registry::built_in()) {
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

/// Short texts that are expensive to read: many profiles, values, keys, tags, anchors, and long keys in many paths.
fn odd() -> Vec<String> {
    const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let repeated = |before: &str, unit: &str, after: &str| {
        let times = (LONG - before.len() - after.len()) / unit.len();
        format!("{before}{}{after}", unit.repeat(times))
    };
    let profiles = format!("{HEAD}profiles:\n");
    let list = format!("{HEAD}profiles: [");
    let deep: String = (0..60).map(|depth| format!("{}{}:\n", " ".repeat(depth), "k".repeat(1_000))).collect();
    let long_key = format!("{HEAD}? {}\n: [", "k".repeat(LONG / 2));
    let alias = format!("a: &a {}\nb: [", "k".repeat(LONG / 2));
    let mut texts = Vec::new();
    for unit in
        ["-\n", "- {}\n", "- a\n", "- {a: 1}\n", "- !x a\n", "- &a a\n", "- []\n", "a:\n", "a: 1\n", "- 0x\n", "- [\n"]
    {
        texts.push(repeated(&profiles, unit, ""));
    }
    for unit in [",", "a,", "a: ", "[],", "{},", ": ", "{a: 1},", "[", "{a: ", "!x a,"] {
        texts.push(repeated(&list, unit, "]"));
        texts.push(repeated("{a: [", unit, "]}"));
    }
    for unit in ["[", "{", "- ", "? ", "'", "\"", "#\n", "\n", "\r", "\t", "|\n", "---\n", "%YAML 1.1\n", "ä", "\0"] {
        texts.push(repeated(HEAD, unit, ""));
    }
    texts.push(repeated(&format!("{deep}{}a: [", " ".repeat(60)), "!x a,", "]"));
    texts.push(repeated(&long_key, "a,", "]"));
    texts.push(repeated(&alias, "{*a : 1},", "]"));
    texts.push(repeated(&alias, "*a,", "]"));
    texts
}

/// A text may hold 50,000 values, which take more memory per byte than any realistic file. The parser was measured at 355 times the size of
/// the text for pairs in a list. Without a limit on profiles the factor was 3,300.
#[test]
fn half_a_mebibyte_of_odd_yaml_is_read_or_refused_within_a_bound() {
    let gates = FeatureGates::default();
    let bound = Bound { times: 384, plus: 64 << 20 };
    let decoder = Decoder { name: "odd YAML", samples: &[], form: Form::Text, bound };
    let mut refused = 0;
    for text in odd() {
        let is_read = decoder.stands_one(text.as_bytes(), |bytes| {
            let text = String::from_utf8_lossy(bytes);
            drop(migrate(&text, "file"));
            load(&text, "file", &gates, Registry::built_in())
                .inspect_err(|errors| assert!(errors.to_string().len() < 1 << 20))
                .is_ok()
        });
        refused += usize::from(!is_read);
    }
    // Comments and empty lines are valid.
    assert!(refused > 30, "{refused}");
}

#[test]
fn what_a_configuration_has_too_much_of_is_named() {
    const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let profiles =
        |many: usize| -> String { (0..many).map(|number| format!("- schedulerName: s{number}\n")).collect() };
    let errors = |text: &str| {
        let read = load(text, "file", &FeatureGates::default(), Registry::built_in());
        read.map_or_else(|errors| errors.to_string(), |read| format!("{} profiles", read.profiles.len()))
    };
    let found = errors(&format!("{HEAD}profiles:\n{}", profiles(1_001)));
    assert!(found.contains("file:3:1: profiles: found 1001 profiles; expected at most 1000 profiles"), "{found}");
    assert_eq!(errors(&format!("{HEAD}profiles:\n{}", profiles(1_000))), "1000 profiles");
    let found = errors(&format!("{HEAD}? {}\n: 1\n", "k".repeat(1_025)));
    assert!(found.contains("found a key of 1025 bytes; expected the name of a field"), "{found}");
    let found = errors(&format!("{HEAD}profiles: [{}]\n", "a,".repeat(50_001)));
    assert!(found.contains("found more than 50000 values"), "{found}");
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
