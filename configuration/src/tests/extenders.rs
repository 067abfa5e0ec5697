//! Extenders, which are read, checked and completed.
//!
//! Knows: good and bad ones. Must not know: how they are read.

use flotilla_framework::registry::Registry;
use serde_json::json;

use super::super::examine;
use super::{Bad, assert_refused, with_header};
use crate::features::FeatureGates;

const CASES: &[Bad] = &[
    Bad {
        name: "unknown fields of extenders are refused",
        header: true,
        text: r"
extenders:
- urlprefix: http://127.0.0.1:8888
  httpTimeout: 5
  tlsConfig: {caData: '!'}
",
        errors: &[
            (
                "4:3: extenders[0].urlprefix: found an unknown field; expected urlPrefix, filterVerb, preemptVerb, \
                 prioritizeVerb, weight, bindVerb, enableHTTPS, tlsConfig, httpTimeout, nodeCacheCapable, \
                 managedResources or ignorable",
                "did you mean \"urlPrefix\"?",
            ),
            (
                "5:16: extenders[0].httpTimeout: found integer 5; expected a duration with its unit, such as 15s, 1m30s \
                 or 1.5h",
                "write 5s",
            ),
            ("6:23: extenders[0].tlsConfig.caData: …", ""),
        ],
    },
    Bad {
        name: "an extender that scores has a weight, and one at most binds",
        header: true,
        text: r"
extenders:
- {urlPrefix: a, prioritizeVerb: p, bindVerb: b}
- {urlPrefix: a, prioritizeVerb: p, weight: -1, bindVerb: b}
",
        errors: &[
            ("3:1: extenders: found 2 extenders with a bindVerb; expected at most one that binds", ""),
            (
                "4:3: extenders[0].weight: found 0; expected a weight of 1 or more",
                "an extender with a prioritizeVerb scores nodes",
            ),
            (
                "5:45: extenders[1].weight: found -1; expected a weight of 1 or more",
                "an extender with a prioritizeVerb scores nodes",
            ),
        ],
    },
    Bad {
        name: "extenders manage extended resources, each of them one",
        header: true,
        text: r"
extenders:
- managedResources: [{name: cpu}, {name: a.kubernetes.io/b}, {name: example.com/a}]
- managedResources: [{name: example.com/a}, {name: requests.a/b}, {name: '-'}]
",
        errors: &[
            (
                "4:29: extenders[0].managedResources[0].name: found \"cpu\"; expected an extended resource such as \
                 example.com/gpu, outside of kubernetes.io",
                "",
            ),
            (
                "4:42: extenders[0].managedResources[1].name: found \"a.kubernetes.io/b\"; expected an extended resource \
                 such as example.com/gpu, outside of kubernetes.io",
                "",
            ),
            (
                "5:29: extenders[1].managedResources[0].name: found \"example.com/a\" a second time; expected every \
                 resource once over all extenders",
                "",
            ),
            (
                "5:52: extenders[1].managedResources[1].name: found \"requests.a/b\"; expected an extended resource such \
                 as example.com/gpu, outside of kubernetes.io",
                "",
            ),
            ("5:74: extenders[1].managedResources[2].name: found \"-\"; expected a qualified name such as…", ""),
        ],
    },
    Bad {
        name: "certificates are PEM, and only given where they are used",
        header: true,
        text: r"
extenders:
- tlsConfig: {insecure: true, caFile: ca.pem}
- tlsConfig: {caData: aGVsbG8=, certData: aGVsbG8=}
- tlsConfig: {certData: aGVsbG8=, keyFile: key.pem}
",
        errors: &[
            (
                "4:3: extenders[0].tlsConfig: found certificates to trust together with insecure: true; expected one or \
                 the other",
                "",
            ),
            (
                "5:23: extenders[1].tlsConfig.caData: found something else than PEM; expected PEM with a line that ends \
                 in `CERTIFICATE-----`, in base64",
                "",
            ),
            (
                "6:25: extenders[2].tlsConfig.certData: found something else than PEM; expected PEM with a line that \
                 ends in `CERTIFICATE-----`, in base64",
                "",
            ),
        ],
    },
    Bad {
        name: "what extenders have ignored needs a plugin that ignores it",
        header: true,
        text: r"
extenders:
- managedResources: [{name: example.com/a, ignoredByScheduler: true}]
profiles:
- plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}
",
        errors: &[(
            "6:3: profiles[0].pluginConfig: found no arguments for NodeResourcesFit, which an extender's \
                 ignoredByScheduler changes; expected the plugin NodeResourcesFit, or an entry `name: NodeResourcesFit` \
                 here",
            "",
        )],
    },
];

#[test]
fn every_mistake_is_named_where_it_stands() {
    assert_refused(CASES);
}

#[test]
fn extenders_are_kept_and_completed_and_their_resources_ignored() {
    let text = with_header(
        "
extenders:
- urlPrefix: https://a
  filterVerb: f
  prioritizeVerb: p
  weight: 2
  enableHTTPS: true
  tlsConfig: {serverName: b}
  nodeCacheCapable: true
  managedResources: [{name: example.com/a, ignoredByScheduler: true}, {name: example.com/b}]
- {ignorable: true, httpTimeout: 100ms}
profiles:
- pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: ['?']}}]
",
    );
    let found = examine(&text, "f", &FeatureGates::default(), Registry::built_in());
    assert_eq!(found.errors, None);
    let configuration = found.configuration.unwrap_or_default();
    assert_eq!(configuration.profiles[0].args.node_resources_fit.ignored_resources, ["example.com/a"]);
    assert_eq!(
        configuration.to_v1()["extenders"],
        json!([
            {
                "urlPrefix": "https://a",
                "filterVerb": "f",
                "prioritizeVerb": "p",
                "weight": 2,
                "enableHTTPS": true,
                "tlsConfig": { "serverName": "b" },
                "httpTimeout": "5s",
                "nodeCacheCapable": true,
                "managedResources": [{ "name": "example.com/a", "ignoredByScheduler": true }, { "name": "example.com/b" }],
            },
            { "urlPrefix": "", "httpTimeout": "100ms", "ignorable": true },
        ])
    );
}
