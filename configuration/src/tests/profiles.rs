//! Rules of profiles and of their plugin sets.
//!
//! Knows: bad texts and what a person is told about them. Must not know: how they are read.

use super::{Bad, assert_refused};

/// Texts without the header are put behind it; `…` at the end of a message stands for anything.
const CASES: &[Bad] = &[
    Bad {
        name: "several profiles all need a name",
        header: true,
        text: r"
profiles:
- schedulerName: a
- plugins: {}
",
        errors: &[("5:3: profiles[1].schedulerName: found nothing; expected a name for the profile", "")],
    },
    Bad {
        name: "a name is not empty",
        header: true,
        text: r#"
profiles:
- schedulerName: ""
"#,
        errors: &[("4:18: profiles[0].schedulerName: found nothing; expected a name for the profile", "")],
    },
    Bad {
        name: "names differ",
        header: true,
        text: r"
profiles:
- schedulerName: a
- schedulerName: b
- schedulerName: a
",
        errors: &[(
            "6:18: profiles[2].schedulerName: found \"a\" a second time; expected a name of its own",
            "profiles[0] has it",
        )],
    },
    Bad {
        name: "a misspelt plugin is refused with a guess",
        header: true,
        text: r"
profiles:
- plugins:
    score:
      enabled:
      - name: ImageLocality
      - name: NodeResourceFit
",
        errors: &[(
            "8:15: profiles[0].plugins.score.enabled[1].name: found \"NodeResourceFit\", which is not a \
                 plugin of kube-scheduler; expected TaintToleration, NodeAffinity…",
            "did you mean \"NodeResourcesFit\"?",
        )],
    },
    Bad {
        name: "a plugin of another scheduler cannot be loaded",
        header: true,
        text: r"
profiles:
- plugins:
    filter:
      enabled: [{name: Coscheduling}]
",
        errors: &[(
            "6:24: profiles[0].plugins.filter.enabled[0].name: found \"Coscheduling\", which is not a \
                 plugin of kube-scheduler; expected NodeName, NodeUnschedulable, TaintToleration…",
            "Go plugins cannot be loaded; a plugin in Rust can be compiled in, which docs/plugins.md shows",
        )],
    },
    Bad {
        name: "plugins of older versions are refused with what took their place",
        header: true,
        text: r"
profiles:
- plugins:
    score:
      enabled: [{name: SelectorSpread}, {name: NodePreferAvoidPods}, {name: NodeLabel}, {name: MyPlugin}]
    filter:
      enabled: [{name: ServiceAffinity}, {name: CSILimits}]
",
        errors: &[
            (
                "6:24: profiles[0].plugins.score.enabled[0].name: found \"SelectorSpread\", which kube-scheduler no longer \
                 has; expected…",
                "PodTopologySpread took its place, whose defaultingType System does the same",
            ),
            (
                "6:48: profiles[0].plugins.score.enabled[1].name: found \"NodePreferAvoidPods\", which kube-scheduler no \
                 longer has; expected…",
                "a taint on the node with the effect PreferNoSchedule took its place",
            ),
            (
                "6:77: profiles[0].plugins.score.enabled[2].name: found \"NodeLabel\", which kube-scheduler no longer has; \
                 expected…",
                "NodeAffinityArgs.addedAffinity took its place",
            ),
            (
                "6:96: profiles[0].plugins.score.enabled[3].name: found \"MyPlugin\", which is not a plugin of \
                 kube-scheduler; expected…",
                "Go plugins cannot be loaded; a plugin in Rust can be compiled in, which docs/plugins.md shows",
            ),
            (
                "8:24: profiles[0].plugins.filter.enabled[0].name: found \"ServiceAffinity\", which kube-scheduler no \
                 longer has; expected…",
                "affinity between pods took its place, which the pods themselves ask for",
            ),
            (
                "8:49: profiles[0].plugins.filter.enabled[1].name: found \"CSILimits\", which kube-scheduler no longer \
                 has; expected…",
                "NodeVolumeLimits took its place",
            ),
        ],
    },
    Bad {
        name: "a plugin cannot run where it implements nothing",
        header: true,
        text: r"
profiles:
- plugins:
    score:
      enabled: [{name: NodeName}]
",
        errors: &[(
            "6:24: profiles[0].plugins.score.enabled[0].name: found \"NodeName\", which does not run at \
                 score; expected TaintToleration, NodeAffinity, NodeResourcesFit…",
            "NodeName runs at preFilter or filter",
        )],
    },
    Bad {
        name: "a plugin behind a feature gate cannot be enabled",
        header: true,
        text: r"
profiles:
- plugins:
    permit:
      enabled: [{name: GangScheduling}]
",
        errors: &[(
            "6:24: profiles[0].plugins.permit.enabled[0].name: plugin \"GangScheduling\" is not \
                 implemented in this version of Flotilla; expected no plugin at permit: Flotilla has none \
                 that runs there",
            "remove this entry: kube-scheduler too only runs the plugin with a feature gate that is off \
                 by default",
        )],
    },
    Bad {
        name: "a misspelt plugin that would not run there either is recognised",
        header: true,
        text: r"
profiles:
- plugins:
    bind:
      enabled: [{name: NodeAfinity}]
",
        errors: &[(
            "6:24: profiles[0].plugins.bind.enabled[0].name: found \"NodeAfinity\", which is not a plugin \
                 of kube-scheduler; expected DefaultBinder",
            "did you mean \"NodeAffinity\"?",
        )],
    },
    Bad {
        name: "plugins of older versions are refused wherever they are enabled",
        header: true,
        text: r"
profiles:
- plugins:
    filter:
      enabled: [{name: EBSLimits}]
    multiPoint:
      enabled: [{name: CinderLimits}]
",
        errors: &[
            (
                "6:24: profiles[0].plugins.filter.enabled[0].name: found \"EBSLimits\", which kube-scheduler \
                 no longer has; expected NodeName, NodeUnschedulable, TaintToleration…",
                "remove this entry: NodeVolumeLimits took its place",
            ),
            (
                "8:24: profiles[0].plugins.multiPoint.enabled[0].name: found \"CinderLimits\", which \
                 kube-scheduler no longer has; expected SchedulingGates, PrioritySort, NodeName…",
                "remove this entry: NodeVolumeLimits took its place",
            ),
        ],
    },
    Bad {
        name: "a star enables nothing",
        header: true,
        text: r#"
profiles:
- plugins:
    filter:
      enabled: [{name: "*"}]
"#,
        errors: &[(
            "6:24: profiles[0].plugins.filter.enabled[0].name: found \"*\", which is not the name of a \
                 plugin; expected NodeName, NodeUnschedulable, TaintToleration, NodeAffinity…",
            "\"*\" stands for all plugins only under `disabled`",
        )],
    },
    Bad {
        name: "entries need a name",
        header: true,
        text: r"
profiles:
- plugins:
    filter:
      enabled: [{weight: 1}]
      disabled: [{}]
",
        errors: &[(
            "6:17: profiles[0].plugins.filter.enabled[0].name: found nothing; expected NodeName, \
                 NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, VolumeRestrictions, \
                 NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread, InterPodAffinity, DynamicResources or \
                 NodeDeclaredFeatures",
            "",
        )],
    },
    Bad {
        name: "a plugin is enabled once at a point",
        header: true,
        text: r"
profiles:
- plugins:
    filter:
      enabled: [{name: NodeName}, {name: NodePorts}, {name: NodeName}]
",
        errors: &[(
            "6:61: profiles[0].plugins.filter.enabled[2].name: found \"NodeName\" a second time; expected \
                 every plugin once",
            "",
        )],
    },
    Bad {
        name: "a plugin is enabled once everywhere",
        header: true,
        text: r"
profiles:
- plugins:
    multiPoint:
      enabled: [{name: NodeName}, {name: NodeName}]
",
        errors: &[(
            "6:42: profiles[0].plugins.multiPoint.enabled[1].name: found \"NodeName\" a second time; \
                 expected every plugin once",
            "",
        )],
    },
    Bad {
        name: "someone has to order the queue and to bind",
        header: true,
        text: r#"
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
"#,
        errors: &[
            (
                "4:3: profiles[0].plugins.queueSort: found 0 plugins that order the queue; expected exactly \
                 one",
                "enable PrioritySort under queueSort or under multiPoint",
            ),
            (
                "4:3: profiles[0].plugins.bind: found no plugin that binds; expected at least one",
                "enable DefaultBinder under bind or under multiPoint",
            ),
        ],
    },
    Bad {
        name: "someone has to order the queue",
        header: true,
        text: r"
profiles:
- plugins:
    queueSort:
      disabled: [{name: PrioritySort}]
",
        errors: &[(
            "5:5: profiles[0].plugins.queueSort: found 0 plugins that order the queue; expected exactly \
                 one",
            "enable PrioritySort under queueSort or under multiPoint",
        )],
    },
    Bad {
        name: "someone has to bind",
        header: true,
        text: r#"
profiles:
- plugins:
    bind:
      disabled: [{name: "*"}]
"#,
        errors: &[(
            "5:5: profiles[0].plugins.bind: found no plugin that binds; expected at least one",
            "enable DefaultBinder under bind or under multiPoint",
        )],
    },
    Bad {
        name: "no sum of weights is negative",
        header: true,
        text: r"
profiles:
- plugins:
    score:
      enabled: [{name: ImageLocality, weight: -1}]
    multiPoint:
      enabled: [{name: NodeAffinity, weight: -2}, {name: NodePorts, weight: -3}]
",
        errors: &[(
            "6:47: profiles[0].plugins.score.enabled[0].weight: found a weight that makes their sum negative; \
                 expected weights of which no sum, from the first on, is negative",
            "to keep a plugin from scoring, name it under disabled",
        )],
    },
    Bad {
        name: "negative weights are not implemented",
        header: true,
        text: r"
profiles:
- plugins:
    multiPoint:
      enabled: [{name: NodeAffinity, weight: -2}, {name: NodePorts, weight: -3}]
",
        errors: &[(
            "6:46: profiles[0].plugins.multiPoint.enabled[0].weight: negative weights are not implemented in this \
             version of Flotilla; expected a weight of 1 or more",
            "to keep a plugin from scoring, name it under disabled",
        )],
    },
    Bad {
        name: "all profiles order the queue alike",
        header: true,
        text: r"
profiles:
- schedulerName: a
  plugins:
    queueSort:
      enabled: [{name: PrioritySort}]
- schedulerName: b
",
        errors: &[(
            "8:3: profiles[1].plugins.queueSort: found another way to order the queue; expected the same \
                 as in the first profile: all profiles share one queue",
            "",
        )],
    },
    Bad {
        name: "all profiles give the plugin that orders the queue the same arguments",
        header: true,
        text: r"
profiles:
- schedulerName: a
  plugins: &p
    queueSort: {enabled: [{name: PrioritySort}]}
  pluginConfig:
  - name: PrioritySort
    args: {a: 1}
- schedulerName: b
  plugins:
    queueSort: {enabled: [{name: PrioritySort}]}
  pluginConfig:
  - name: PrioritySort
    args: {a: 2}
",
        errors: &[(
            "13:3: profiles[1].pluginConfig: found other arguments for the plugin that orders the queue; \
                 expected the same as in the first profile: all profiles share one queue",
            "",
        )],
    },
    Bad {
        name: "one plugin orders the queue",
        header: true,
        text: r"
profiles:
- plugins:
    queueSort:
      enabled: [{name: PrioritySort}, {name: PrioritySort}]
",
        errors: &[
            (
                "6:7: profiles[0].plugins.queueSort.enabled: found 2 plugins; expected at most one plugin to \
                 order the queue",
                "",
            ),
            (
                "6:46: profiles[0].plugins.queueSort.enabled[1].name: found \"PrioritySort\" a second time; \
                 expected every plugin once",
                "",
            ),
        ],
    },
    Bad {
        name: "errors of all profiles are reported in the order of the text",
        header: true,
        text: r"
parallelism: -1
profiles:
- schedulerName: a
  percentageOfNodesToScore: 300
- schedulerName: a
  plugins:
    filter: {enabled: [{name: NodePort}]}
  pluginConfig:
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 101}
podInitialBackoffSeconds: -1
",
        errors: &[
            ("3:14: parallelism: found -1; expected an integer greater than 0", ""),
            ("6:29: profiles[0].percentageOfNodesToScore: found 300; expected a percentage from 0 to 100", ""),
            (
                "7:18: profiles[1].schedulerName: found \"a\" a second time; expected a name of its own",
                "profiles[0] has it",
            ),
            (
                "9:31: profiles[1].plugins.filter.enabled[0].name: found \"NodePort\", which is not a plugin \
                 of kube-scheduler; expected NodeName, NodeUnschedulable, TaintToleration…",
                "did you mean \"NodePorts\"?",
            ),
            (
                "12:35: profiles[1].pluginConfig[0].args.hardPodAffinityWeight: found 101; expected a weight \
                 from 0 to 100",
                "",
            ),
            ("13:27: podInitialBackoffSeconds: found -1; expected a number of seconds greater than 0", ""),
        ],
    },
];

#[test]
fn every_mistake_is_named_where_it_stands() {
    assert_refused(CASES);
}
