//! Rules of the arguments that hold topology spread constraints and node affinity.
//!
//! Knows: bad texts and what a person is told about them. Must not know: how they are read.

use super::{Bad, assert_refused};

/// Texts without the header are put behind it; `…` at the end of a message stands for anything.
const CASES: &[Bad] = &[
    Bad {
        name: "PodTopologySpread knows two ways of defaulting",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: Lists
",
        errors: &[(
            "7:23: profiles[0].pluginConfig[0].args.defaultingType: found \"Lists\"; expected System or \
                 List",
            "did you mean \"List\"?",
        )],
    },
    Bad {
        name: "the system's constraints cannot be listed",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
",
        errors: &[(
            "7:7: profiles[0].pluginConfig[0].args.defaultConstraints: found constraints with a \
                 defaultingType of System; expected constraints with a defaultingType of List",
            "",
        )],
    },
    Bad {
        name: "the system's constraints cannot be listed even by name",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: System
      defaultConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
",
        errors: &[(
            "7:23: profiles[0].pluginConfig[0].args.defaultingType: found constraints with a \
                 defaultingType of System; expected constraints with a defaultingType of List",
            "",
        )],
    },
    Bad {
        name: "constraints are checked as those of pods are",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 0, topologyKey: 'a b', whenUnsatisfiable: DontSchedule}
      - {maxSkew: 1, labelSelector: {}}
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
      - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
",
        errors: &[
            (
                "9:19: profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: found 0; expected an \
                 integer greater than 0",
                "",
            ),
            (
                "9:35: profiles[0].pluginConfig[0].args.defaultConstraints[0].topologyKey: found \"a b\"; \
                 expected a qualified name such as cpu or example.com/gpu: letters, digits, '-'…",
                "",
            ),
            (
                "9:61: profiles[0].pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: found \
                 \"DontSchedule\"; expected DoNotSchedule or ScheduleAnyway",
                "did you mean \"DoNotSchedule\"?",
            ),
            (
                "10:9: profiles[0].pluginConfig[0].args.defaultConstraints[1].topologyKey: found nothing; \
                 expected the name of a node label",
                "",
            ),
            (
                "10:9: profiles[0].pluginConfig[0].args.defaultConstraints[1].whenUnsatisfiable: found \
                 nothing; expected DoNotSchedule or ScheduleAnyway",
                "",
            ),
            (
                "10:22: profiles[0].pluginConfig[0].args.defaultConstraints[1].labelSelector: found a \
                 selector; expected none: it is derived for each pod from the services and controllers that \
                 select it",
                "",
            ),
            (
                "12:9: profiles[0].pluginConfig[0].args.defaultConstraints[3]: found a second constraint for \
                 \"zone\" with \"ScheduleAnyway\"; expected every topologyKey once per whenUnsatisfiable",
                "",
            ),
        ],
    },
    Bad {
        name: "added affinity has to parse",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - {}
          - matchExpressions:
            - {key: 'a b', operator: In, values: [ok, '-no']}
            - {key: a, operator: In}
            - {key: a, operator: Exists, values: [b]}
            - {key: a, operator: Gt, values: [x]}
            - {key: a, operator: Lt, values: ['1', '2']}
            - {key: a, operator: Inn, values: [b]}
            - {key: a}
            matchFields:
            - {key: metadata.name, operator: In, values: [a, b]}
            - {key: metadata.name, operator: Exists}
",
        errors: &[
            (
                "12:21: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[0].\
                 key: found \"a b\"; expected…",
                "",
            ),
            (
                "12:55: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[0].\
                 values[1]: found \"-no\";…",
                "",
            ),
            (
                "13:15: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[1].\
                 values: found no values;…",
                "",
            ),
            (
                "14:42: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[2].\
                 values: found 1 value;…",
                "",
            ),
            (
                "15:47: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[3].\
                 values[0]: found \"x\"; expected an integer for Gt",
                "",
            ),
            (
                "16:38: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[4].\
                 values: found 2 values;…",
                "",
            ),
            (
                "17:34: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[5].\
                 operator: found \"Inn\";…",
                "did you mean \"In\"?",
            ),
            (
                "18:15: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[6].\
                 operator: found nothing;…",
                "",
            ),
            (
                "20:50: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchFields[0].values: \
                 found 2 values; expected…",
                "",
            ),
            (
                "21:46: profiles[0].pluginConfig[0].args.addedAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchFields[1].\
                 operator: found \"Exists\"; expected In or NotIn",
                "",
            ),
        ],
    },
    Bad {
        name: "preferred added affinity has to parse unless it weighs nothing",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 1
          preference: {matchExpressions: [{key: a, operator: Is}]}
        - weight: 0
          preference: {matchExpressions: [{key: a, operator: Is}]}
",
        errors: &[(
            "10:62: profiles[0].pluginConfig[0].args.addedAffinity.\
                 preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator: \
                 found \"Is\"; expected…",
            "did you mean \"In\"?",
        )],
    },
    Bad {
        name: "added affinity has no unknown fields",
        header: true,
        text: r"
profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringScheduling: {}
",
        errors: &[(
            "8:9: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringScheduling: found an \
                 unknown field; expected requiredDuringSchedulingIgnoredDuringExecution or…",
            "",
        )],
    },
];

#[test]
fn every_mistake_is_named_where_it_stands() {
    assert_refused(CASES);
}
