//! Rules of plugins' arguments.
//!
//! Knows: bad texts and what a person is told about them. Must not know: how they are read.

use super::{Bad, assert_refused};

/// Texts without the header are put behind it; `…` at the end of a message stands for anything.
const CASES: &[Bad] = &[
    Bad {
        name: "the name of the arguments is not that of the plugin",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFitArgs
",
        errors: &[(
            "5:11: profiles[0].pluginConfig[0].name: found \"NodeResourcesFitArgs\", which is the kind of the \
             arguments; expected the name of a plugin",
            "write NodeResourcesFit",
        )],
    },
    Bad {
        name: "a plugin that only pod groups reach gets no default arguments",
        header: true,
        text: r"
profiles:
- plugins:
    multiPoint: {disabled: [{name: DefaultPreemption}]}
    podGroupPostFilter: {enabled: [{name: DynamicResources}]}
- schedulerName: b
  plugins:
    multiPoint: {disabled: [{name: DynamicResources}]}
    podGroupPostFilter: {enabled: [{name: DynamicResources}]}
  pluginConfig: []
",
        errors: &[
            ("4:3: profiles[0].schedulerName: found nothing; expected a name for the profile", ""),
            (
                "11:3: profiles[1].pluginConfig: found no arguments for \"DynamicResources\"; expected an entry `name: \
                 DynamicResources`",
                "kube-scheduler fills in the default ones only for a plugin that is enabled at some extension point \
                 besides podGroupPostFilter",
            ),
        ],
    },
    Bad {
        name: "arguments are given once",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeAffinity
  - name: NodeAffinity
",
        errors: &[(
            "6:11: profiles[0].pluginConfig[1].name: found \"NodeAffinity\" a second time; expected every \
                 plugin once",
            "it is first configured at profiles[0].pluginConfig[0]",
        )],
    },
    Bad {
        name: "plugins of older versions take no arguments",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: GCEPDLimits
",
        errors: &[(
            "5:11: profiles[0].pluginConfig[0].name: found \"GCEPDLimits\", which kube-scheduler no longer \
                 has; expected the name of a plugin",
            "remove this entry: NodeVolumeLimits took its place",
        )],
    },
    Bad {
        name: "arguments say what they are",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1beta3
      kind: NodeAffinityArgs
",
        errors: &[
            (
                "7:19: profiles[0].pluginConfig[0].args.apiVersion: found \"kubescheduler.config.k8s.\
                 io/v1beta3\"; expected kubescheduler.config.k8s.io/v1",
                "",
            ),
            (
                "8:13: profiles[0].pluginConfig[0].args.kind: found \"NodeAffinityArgs\"; expected \
                 NodeResourcesFitArgs",
                "",
            ),
        ],
    },
    Bad {
        name: "unknown arguments are refused",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategie: {}
",
        errors: &[(
            "7:7: profiles[0].pluginConfig[0].args.scoringStrategie: found an unknown field; expected \
                 apiVersion, kind, ignoredResources, ignoredResourceGroups or scoringStrategy",
            "did you mean \"scoringStrategy\"?",
        )],
    },
    Bad {
        name: "arguments are a mapping",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: [1]
",
        errors: &[("6:5: profiles[0].pluginConfig[0].args: found a list; expected a mapping", "")],
    },
    Bad {
        name: "DefaultPreemption takes a percentage and a number",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: DefaultPreemption
    args:
      minCandidateNodesPercentage: 101
      minCandidateNodesAbsolute: -1
",
        errors: &[
            (
                "7:36: profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: found 101; expected a \
                 percentage from 0 to 100",
                "",
            ),
            (
                "8:34: profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: found -1; expected 0 or \
                 more",
                "",
            ),
        ],
    },
    Bad {
        name: "DefaultPreemption looks at some candidates",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: DefaultPreemption
    args:
      minCandidateNodesPercentage: 0
      minCandidateNodesAbsolute: 0
",
        errors: &[
            (
                "7:36: profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: found 0; expected more \
                 than 0 here or in minCandidateNodesAbsolute",
                "",
            ),
            (
                "8:34: profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: found 0; expected more \
                 than 0 here or in minCandidateNodesPercentage",
                "",
            ),
        ],
    },
    Bad {
        name: "InterPodAffinity takes a weight up to 100",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: InterPodAffinity
    args:
      hardPodAffinityWeight: -1
",
        errors: &[(
            "7:30: profiles[0].pluginConfig[0].args.hardPodAffinityWeight: found -1; expected a weight \
                 from 0 to 100",
            "",
        )],
    },
    Bad {
        name: "DynamicResources takes timeouts",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: DynamicResources
    args:
      filterTimeout: -1s
      bindingTimeout: 999ms
",
        errors: &[
            (
                "7:22: profiles[0].pluginConfig[0].args.filterTimeout: found a negative duration; expected 0 \
                 or more",
                "",
            ),
            (
                "8:23: profiles[0].pluginConfig[0].args.bindingTimeout: found less than a second; expected \
                 at least 1s",
                "",
            ),
        ],
    },
    Bad {
        name: "VolumeBinding takes no negative timeout and a shape",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: VolumeBinding
    args:
      bindTimeoutSeconds: -1
      shape:
      - {utilization: 0, score: 11}
",
        errors: &[
            (
                "7:27: profiles[0].pluginConfig[0].args.bindTimeoutSeconds: found -1; expected 0 or more \
                 seconds",
                "",
            ),
            (
                "9:33: profiles[0].pluginConfig[0].args.shape[0].score: found 11; expected a score from 0 to \
                 10",
                "",
            ),
        ],
    },
    Bad {
        name: "NodeResourcesBalancedAllocation takes each resource once with weight 1",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesBalancedAllocation
    args:
      resources:
      - {name: cpu, weight: 2}
      - {name: cpu}
      - {weight: 1}
      - {}
",
        errors: &[
            ("8:29: profiles[0].pluginConfig[0].args.resources[0].weight: found 2; expected 1", ""),
            (
                "9:16: profiles[0].pluginConfig[0].args.resources[1].name: found \"cpu\" a second time; \
                 expected every resource once",
                "",
            ),
            (
                "11:9: profiles[0].pluginConfig[0].args.resources[3].name: found \"\" a second time; expected every \
                 resource once",
                "",
            ),
        ],
    },
    Bad {
        name: "ignored resources are names of labels",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/gpu, -gpu, 'a/b/c', 5]
      ignoredResourceGroups: [example.com, example.com/gpu, '']
",
        errors: &[
            (
                "7:43: profiles[0].pluginConfig[0].args.ignoredResources[1]: found \"-gpu\"; expected a \
                 qualified name such as cpu or example.com/gpu: letters, digits, '-', '_' and '.', at…",
                "",
            ),
            (
                "7:49: profiles[0].pluginConfig[0].args.ignoredResources[2]: found \"a/b/c\"; expected a \
                 qualified name such as cpu or example.com/gpu: letters, digits, '-', '_' and '.'…",
                "",
            ),
            (
                "7:58: profiles[0].pluginConfig[0].args.ignoredResources[3]: found integer 5; expected a \
                 string",
                "put the value in quotes",
            ),
            (
                "8:44: profiles[0].pluginConfig[0].args.ignoredResourceGroups[1]: found \"example.com/gpu\"; \
                 expected a group without a '/'",
                "write only what stands before the '/'",
            ),
            (
                "8:61: profiles[0].pluginConfig[0].args.ignoredResourceGroups[2]: found \"\"; expected a \
                 qualified name such as cpu or example.com/gpu: letters, digits, '-', '_' and '.'…",
                "",
            ),
        ],
    },
    Bad {
        name: "a scoring strategy has a type",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        resources: [{name: cpu, weight: 1}]
",
        errors: &[(
            "7:7: profiles[0].pluginConfig[0].args.scoringStrategy.type: found nothing; expected \
                 LeastAllocated, MostAllocated or RequestedToCapacityRatio",
            "",
        )],
    },
    Bad {
        name: "a misspelt scoring strategy is refused with a guess",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: LeastAlocated
",
        errors: &[(
            "8:15: profiles[0].pluginConfig[0].args.scoringStrategy.type: found \"LeastAlocated\"; \
                 expected LeastAllocated, MostAllocated or RequestedToCapacityRatio",
            "did you mean \"LeastAllocated\"?",
        )],
    },
    Bad {
        name: "weights of resources go from 1 to 100",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - {name: cpu, weight: 101}
        - {name: memory, weight: -1}
",
        errors: &[
            (
                "10:31: profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: found 101; \
                 expected a weight from 1 to 100",
                "",
            ),
            (
                "11:34: profiles[0].pluginConfig[0].args.scoringStrategy.resources[1].weight: found -1; \
                 expected a weight from 1 to 100",
                "",
            ),
        ],
    },
    Bad {
        name: "RequestedToCapacityRatio needs its shape",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
",
        errors: &[(
            "7:7: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: found \
                 nothing; expected a shape, because type is RequestedToCapacityRatio",
            "",
        )],
    },
    Bad {
        name: "RequestedToCapacityRatio needs a point",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        requestedToCapacityRatio: {shape: []}
",
        errors: &[(
            "9:36: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape: \
                 found nothing; expected at least one point",
            "",
        )],
    },
    Bad {
        name: "only RequestedToCapacityRatio has a shape",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: LeastAllocated
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}]}
",
        errors: &[(
            "9:9: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: found a \
                 shape; expected none, because type is LeastAllocated",
            "set type to RequestedToCapacityRatio to use it",
        )],
    },
    Bad {
        name: "shapes increase and stay in range",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        requestedToCapacityRatio:
          shape:
          - {utilization: -1, score: 0}
          - {utilization: 50, score: -1}
          - {utilization: 50, score: 5}
          - {utilization: 101, score: 11}
",
        errors: &[
            (
                "11:27: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[0].\
                 utilization: found -1; expected a utilization from 0 to 100",
                "",
            ),
            (
                "12:38: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[1].\
                 score: found -1; expected a score from 0 to 10",
                "",
            ),
            (
                "13:27: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[2].\
                 utilization: found 50; expected more than in the point before",
                "",
            ),
            (
                "14:27: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[3].\
                 utilization: found 101; expected a utilization from 0 to 100",
                "",
            ),
            (
                "14:39: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[3].\
                 score: found 11; expected a score from 0 to 10",
                "",
            ),
        ],
    },
];

#[test]
fn every_mistake_is_named_where_it_stands() {
    assert_refused(CASES);
}
