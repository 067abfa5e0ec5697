//! Accepted extenders. Rejected ones are in `cases/extenders.txt`.

use flotilla_framework::registry::Registry;
use serde_json::json;

use super::super::examine;
use super::with_header;
use crate::features::FeatureGates;

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
