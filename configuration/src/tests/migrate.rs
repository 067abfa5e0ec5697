//! Configurations of older versions, and what becomes of their text.
//!
//! Knows: texts before and after. Must not know: how a text is edited.

use super::super::{Cause, examine, migrate};
use crate::features::FeatureGates;
use flotilla_framework::registry::Registry;

/// A text that can be migrated.
struct Good {
    name: &'static str,
    before: &'static str,
    after: &'static str,
    /// `line: what`, the changes and then the notices; `…` at the end stands for anything.
    told: &'static [&'static str],
}

const CASES: &[Good] = &[
    Good {
        name: "plugins that are only named get a name, in v1 too, and comments, quotes and brackets stay",
        before: r#"apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    filter:
      enabled:
      - NodeName # why
      - "NodePorts"
      - name: NodeAffinity
      disabled: ['*', {name: TaintToleration}]
"#,
        after: r#"apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    filter:
      enabled:
      - name: NodeName # why
      - name: "NodePorts"
      - name: NodeAffinity
      disabled: [{name: '*'}, {name: TaintToleration}]
"#,
        told: &[
            "7: profiles[0].plugins.filter.enabled[0]: NodeName is now name: NodeName",
            "8: profiles[0].plugins.filter.enabled[1]: NodePorts is now name: NodePorts",
            "10: profiles[0].plugins.filter.disabled[0]: * is now name: *",
        ],
    },
    Good {
        name: "plugins that are only named are renamed and removed as others are, also in JSON",
        before: r#"{"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfiguration", "profiles": [{"plugins": {
"score": {"enabled": ["NodeResourcesLeastAllocated", "ImageLocality", "SelectorSpread"]}}}]}
"#,
        after: r#"{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{"plugins": {
"score": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "ImageLocality"}]}}}]}
"#,
        told: &[
            "1: apiVersion: …",
            "2: profiles[0].plugins.score.enabled[0]: NodeResourcesLeastAllocated is now NodeResourcesFit",
            "2: profiles[0].plugins.score.enabled[1]: ImageLocality is now name: ImageLocality",
            "2: profiles[0].plugins.score.enabled[2]: SelectorSpread removed, PodTopologySpread took its place and …",
        ],
    },
    Good {
        name: "v1beta3 has the fields of v1, also in arguments, and quotes stay",
        before: r#"# Ours.
apiVersion: "kubescheduler.config.k8s.io/v1beta3" # old
kind: KubeSchedulerConfiguration

profiles:
- schedulerName: é
  pluginConfig:
  - name: NodeResourcesFit
    args:
      kind: NodeResourcesFitArgs
      apiVersion: 'kubescheduler.config.k8s.io/v1beta2'
      ignoredResources: [example.com/a]   # why
"#,
        after: r#"# Ours.
apiVersion: "kubescheduler.config.k8s.io/v1" # old
kind: KubeSchedulerConfiguration

profiles:
- schedulerName: é
  pluginConfig:
  - name: NodeResourcesFit
    args:
      kind: NodeResourcesFitArgs
      apiVersion: 'kubescheduler.config.k8s.io/v1'
      ignoredResources: [example.com/a]   # why
"#,
        told: &[
            "2: apiVersion: kubescheduler.config.k8s.io/v1beta3 is now kubescheduler.config.k8s.io/v1",
            "11: profiles[0].pluginConfig[0].args.apiVersion: kubescheduler.config.k8s.io/v1beta2 is now …",
        ],
    },
    Good {
        name: "addresses go, comments and blank lines beside them stay, and so does a missing end of the last line",
        before: "apiVersion: kubescheduler.config.k8s.io/v1beta2\r\nkind: KubeSchedulerConfiguration\r\n# health\r\n\
                 healthzBindAddress: 0.0.0.0:0 # off\r\n\r\nleaderElection:\r\n  resourceLock: endpointsleases\r\n\r\n\
                 metricsBindAddress: '#'",
        after: "apiVersion: kubescheduler.config.k8s.io/v1\r\nkind: KubeSchedulerConfiguration\r\n# health\r\n\
                # off\r\n\r\nleaderElection:\r\n  resourceLock: leases\r\n",
        told: &[
            "1: apiVersion: …",
            "4: healthzBindAddress: removed, v1 has no such field; /healthz is served on the port of --secure-port",
            "7: leaderElection.resourceLock: endpointsleases is now leases, the only lock there is",
            "9: metricsBindAddress: removed, v1 has no such field; /metrics is served on the port of --secure-port",
            "1: apiVersion: by default others weigh more than before: TaintToleration (1, now 3), NodeAffinity (1, now \
             2) and InterPodAffinity (1, now 2); to keep the old weights, …",
        ],
    },
    Good {
        name: "plugins that are gone go with what they leave empty, and their comments stay",
        before: r"apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins:
    filter:
      enabled:
      # Volumes of AWS.
      - name: EBSLimits   # needed
        # inside
        weight: 1

      - name: NodePorts
      disabled:
      - name: CinderLimits
    score:
      disabled: [{name: SelectorSpread}, {name: ImageLocality}, {name: SelectorSpread}]
    preScore:
      enabled:
      - {name: SelectorSpread} # spread
  pluginConfig:
  - name: AzureDiskLimits
    args: {a: '# no comment'}
",
        after: r"apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins:
    filter:
      enabled:
      # Volumes of AWS.
      # needed
        # inside

      - name: NodePorts
    score:
      disabled: [{name: ImageLocality}]
      # spread
",
        told: &[
            "1: apiVersion: …",
            "9: profiles[0].plugins.filter.enabled[0]: EBSLimits removed, NodeVolumeLimits took its place and runs by \
             default",
            "15: profiles[0].plugins.filter.disabled[0]: CinderLimits removed, which kube-scheduler no longer has",
            "17: profiles[0].plugins.score.disabled[0]: SelectorSpread removed, which kube-scheduler no longer has",
            "17: profiles[0].plugins.score.disabled[2]: SelectorSpread removed, which kube-scheduler no longer has",
            "20: profiles[0].plugins.preScore.enabled[0]: SelectorSpread removed, PodTopologySpread took its place and \
             runs by default",
            "22: profiles[0].pluginConfig[0]: the arguments of AzureDiskLimits removed, which kube-scheduler no longer \
             has",
        ],
    },
    Good {
        name: "a profile stays one when nothing is left of it",
        before: r"apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
profiles:
- # ours
  plugins: # none
    preScore:
      disabled: [{name: SelectorSpread}] # gone
",
        after: r"apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- # ours
  {} # none
      # gone
",
        told: &[
            "1: apiVersion: …",
            "7: profiles[0].plugins.preScore.disabled[0]: SelectorSpread removed, which kube-scheduler no longer has",
        ],
    },
    Good {
        name: "where nothing runs by default, the successor is named once",
        before: r#"{"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfiguration", "profiles": [
  {"plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [
    {"name": "PrioritySort"},
    {"name": "EBSLimits"},
    {"name": "DefaultBinder"},
    {"name": "GCEPDLimits"}
  ]}}}
]}
"#,
        after: r#"{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [
  {"plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [
    {"name": "PrioritySort"},
    {"name": "NodeVolumeLimits"},
    {"name": "DefaultBinder"}
  ]}}}
]}
"#,
        told: &[
            "1: apiVersion: …",
            "4: profiles[0].plugins.multiPoint.enabled[1].name: EBSLimits is now NodeVolumeLimits",
            "6: profiles[0].plugins.multiPoint.enabled[3]: GCEPDLimits removed, NodeVolumeLimits took its place",
        ],
    },
    Good {
        name: "brackets keep their commas right, and comments their blanks",
        before: r#"apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
profiles: [{"schedulerName": "a", "plugins": {"filter": {"enabled": [
    {"name": "EBSLimits"},
    {"name": "NodePorts"}, # x
    # y
    {"name": "GCEPDLimits"} # z
  ]}, "score": {"disabled": [{"name": "*"}]}}}]
"#,
        after: r#"apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{"schedulerName": "a", "plugins": {"filter": {"enabled": [
    {"name": "NodePorts"} # x
    # y
    # z
  ]}, "score": {"disabled": [{"name": "*"}]}}}]
"#,
        told: &[
            "1: apiVersion: …",
            "4: profiles[0].plugins.filter.enabled[0]: EBSLimits removed, …",
            "7: profiles[0].plugins.filter.enabled[2]: GCEPDLimits removed, …",
        ],
    },
    Good {
        name: "JSON stays JSON",
        before: r#"{
  "apiVersion": "kubescheduler.config.k8s.io/v1beta2",
  "kind": "KubeSchedulerConfiguration",
  "profiles": [{"schedulerName": "a", "plugins": {"filter": {"enabled": [
    {"name": "EBSLimits"},
    {"name": "NodePorts"}
  ]}}}],
  "healthzBindAddress": "",
  "metricsBindAddress": "a #b"
}"#,
        after: r#"{
  "apiVersion": "kubescheduler.config.k8s.io/v1",
  "kind": "KubeSchedulerConfiguration",
  "profiles": [{"schedulerName": "a", "plugins": {"filter": {"enabled": [
    {"name": "NodePorts"}
  ]}}}]
}"#,
        told: &[
            "2: apiVersion: …",
            "5: profiles[0].plugins.filter.enabled[0]: EBSLimits removed, …",
            "8: healthzBindAddress: …",
            "9: metricsBindAddress: …",
            "4: profiles[0]: by default others weigh more than before: …",
        ],
    },
    Good {
        name: "what scored resources in v1beta1 is NodeResourcesFit, and constraints say that they are a list",
        before: r"apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins:
    score:
      enabled:
      - name: NodeResourcesLeastAllocated
        weight: 7
      - name: TaintToleration
      disabled:
      - name: NodePreferAvoidPods
      - name: NodeAffinity
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultConstraints: # zones
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
- schedulerName: b
  plugins: {score: {disabled: [{name: NodeResourcesLeastAllocated}]}}
  pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [
    {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]
",
        after: r"apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins:
    score:
      enabled:
      - name: NodeResourcesFit
        weight: 7
      - name: TaintToleration
      disabled:
      - name: NodeAffinity
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: # zones
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
- schedulerName: b
  plugins: {score: {disabled: [{name: NodeResourcesFit}]}}
  pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [
    {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]
",
        told: &[
            "1: apiVersion: …",
            "8: profiles[0].plugins.score.enabled[0].name: NodeResourcesLeastAllocated is now NodeResourcesFit",
            "12: profiles[0].plugins.score.disabled[0]: NodePreferAvoidPods removed, which kube-scheduler no longer has",
            "17: profiles[0].pluginConfig[0].args.defaultConstraints: defaultingType: List added, which constraints \
             used to imply",
            "20: profiles[1].plugins.score.disabled[0].name: NodeResourcesLeastAllocated is now NodeResourcesFit",
            "21: profiles[1].pluginConfig[0].args.defaultConstraints: …",
            "1: apiVersion: NodePreferAvoidPods is gone from the default plugins: …",
            "4: profiles[0]: by default others weigh more than before: InterPodAffinity (1, now 2); …",
            "19: profiles[1]: by default others weigh more than before: TaintToleration (1, now 3), NodeAffinity …",
        ],
    },
    Good {
        name: "fields of v1alpha2 that say nothing new go",
        before: r"apiVersion: kubescheduler.config.k8s.io/v1alpha2
kind: KubeSchedulerConfiguration
disablePreemption: false
bindTimeoutSeconds: 600
profiles:
- plugins:
    unreserve:
    score: {disabled: [{name: '*'}], enabled: [{name: DefaultPodTopologySpread, weight: 2}]}
",
        after: r"apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score: {disabled: [{name: '*'}], enabled: [{name: PodTopologySpread, weight: 2}]}
",
        told: &[
            "1: apiVersion: …",
            "3: disablePreemption: removed, v1 has no such field; pods preempt others",
            "4: bindTimeoutSeconds: removed, v1 has no such field; this is its default",
            "7: profiles[0].plugins.unreserve: removed, v1 has no such extension point",
            "8: profiles[0].plugins.score.enabled[0].name: DefaultPodTopologySpread is now PodTopologySpread",
            "1: apiVersion: NodePreferAvoidPods is gone …",
        ],
    },
    Good {
        name: "a mark of the byte order stays, and v1 is left alone whatever else it holds",
        before: "\u{feff}apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 8",
        after: "\u{feff}apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 8",
        told: &[],
    },
];

#[test]
fn a_text_of_an_older_version_is_rewritten_where_it_has_to_be_and_nowhere_else() {
    for case in CASES {
        let migration =
            migrate(case.before, "scheduler.yaml").unwrap_or_else(|errors| panic!("{}:\n{errors}", case.name));
        assert_eq!(migration.text, case.after, "{}", case.name);
        let told = migration.changes.iter().chain(&migration.notices);
        let told: Vec<String> = told.map(|change| format!("{}: {}", change.line, change.what)).collect();
        let is_same = told.len() == case.told.len()
            && told.iter().zip(case.told).all(|(found, expected)| match expected.strip_suffix('…') {
                Some(beginning) => found.starts_with(beginning),
                None => found == expected,
            });
        assert!(is_same, "{}: {told:#?}", case.name);
    }
}

#[test]
fn what_comes_of_a_migration_is_accepted_and_is_not_migrated_again() {
    for case in CASES {
        let examination = examine(case.after, "scheduler.yaml", &FeatureGates::default(), Registry::built_in());
        let invalid = examination.errors.iter().flat_map(|found| &found.errors);
        let invalid: Vec<_> = invalid.filter(|error| error.cause == Cause::Invalid).collect();
        assert!(invalid.is_empty(), "{}: {invalid:#?}", case.name);
        let again = migrate(case.after, "scheduler.yaml").expect("v1");
        assert_eq!((again.text.as_str(), again.changes, again.notices), (case.after, vec![], vec![]), "{}", case.name);
    }
}

/// Texts that cannot be migrated, and `line:column: path: found; expected | hint` of every reason.
const BY_HAND: &[(&str, &[&str])] = &[
    (
        "apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\nschedulerName: a\n",
        &[
            "1:13: apiVersion: found \"kubescheduler.config.k8s.io/v1alpha1\"; expected v1alpha2 or later, whose fields \
           can be carried over | v1alpha1 has one schedulerName …",
        ],
    ),
    (
        "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n    \
         filter:\n      enabled:\n      - name: NodeLabel\n    score:\n      enabled:\n      - name: \
         NodeResourcesMostAllocated\n        weight: 2\n      - name: SelectorSpread\n      disabled:\n      - name: \
         PodTopologySpread\n  pluginConfig:\n  - name: NodeResourcesLeastAllocated\n    args: {resources: [{name: cpu, \
         weight: 1}]}\n",
        &[
            "7:15: profiles[0].plugins.filter.enabled[0].name: found \"NodeLabel\", which kube-scheduler no longer has; \
             expected a plugin of kube-scheduler | say it with the addedAffinity of NodeAffinity, or with node affinity \
             in the pods",
            "10:15: profiles[0].plugins.score.enabled[0].name: found \"NodeResourcesMostAllocated\", which \
             kube-scheduler no longer has; expected a plugin of kube-scheduler | enable NodeResourcesFit under \
             plugins.score with the same weight, …",
            "12:15: profiles[0].plugins.score.enabled[1].name: found \"SelectorSpread\", which kube-scheduler no longer \
             has; expected a plugin of kube-scheduler | PodTopologySpread took its place, and is switched off here: \
             enable that, or remove this",
            "16:11: profiles[0].pluginConfig[0].name: found \"NodeResourcesLeastAllocated\", which kube-scheduler no \
             longer has; expected a plugin of kube-scheduler | name NodeResourcesFit, …",
        ],
    ),
    (
        "apiVersion: kubescheduler.config.k8s.io/v1alpha2\nkind: KubeSchedulerConfiguration\ndisablePreemption: true\n\
         bindTimeoutSeconds: 30\nprofiles:\n- plugins: {unreserve: {enabled: [{name: A}]}}\n",
        &[
            "3:20: disablePreemption: found disablePreemption, which v1 does not have; expected a profile without \
             DefaultPreemption | list DefaultPreemption under …",
            "4:21: bindTimeoutSeconds: found bindTimeoutSeconds, which v1 has in the arguments of VolumeBinding; \
             expected VolumeBindingArgs with bindTimeoutSeconds | set …",
            "6:13: profiles[0].plugins.unreserve: found unreserve, which v1 does not have; expected reserve | move its \
             plugins to reserve, unless they are there already, and remove it",
        ],
    ),
    (
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n    \
         filter:\n      enabled:\n      - &limits\n        name: EBSLimits\n      - name: NodeName\n",
        &[
            "1:1: document: the way this is written does not allow to change it in place; expected a plain style | write \
           the file in plain block style, …",
        ],
    ),
    (
        "apiVersion: v1\nkind: ConfigMap\n",
        &[
            "1:13: apiVersion: found \"v1\"; expected apiVersion: kubescheduler.config.k8s.io/v1 | …",
            "2:7: kind: found \"ConfigMap\"; expected kind: KubeSchedulerConfiguration | give the text that stands under \
             the ConfigMap's data, not the ConfigMap",
        ],
    ),
    ("a: [\n", &["…"]),
];

#[test]
fn what_has_no_way_to_be_said_in_v1_is_told_with_its_place() {
    for (text, expected) in BY_HAND {
        let errors = migrate(text, "scheduler.yaml").expect_err(text).errors;
        let told = errors.iter().map(|error| {
            let shown = error.to_string().replacen("scheduler.yaml:", "", 1);
            format!("{shown} | {}", error.hint.as_deref().unwrap_or_default())
        });
        let told: Vec<String> = told.collect();
        let is_same = told.len() == expected.len()
            && told.iter().zip(*expected).all(|(found, expected)| match expected.strip_suffix('…') {
                Some(beginning) => found.starts_with(beginning),
                None => found == expected,
            });
        assert!(is_same, "{told:#?}");
    }
}

#[test]
fn no_text_makes_a_migration_panic_or_lose_a_comment() {
    let texts = CASES.iter().map(|case| case.before).chain(BY_HAND.iter().map(|(text, _)| *text));
    for text in texts {
        for (end, _) in text.char_indices() {
            let text = text.get(..end).expect("a boundary");
            let Ok(migration) = migrate(text, "scheduler.yaml") else { continue };
            // Values with this character are all in quotes.
            let count =
                |text: &str| text.matches('#').count() - text.matches("'#").count() - text.matches("a #b").count();
            assert_eq!(count(&migration.text), count(text), "{text}");
        }
    }
}
