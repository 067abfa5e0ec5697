//! Fields that do not exist or hold the wrong type.
//!
//! Knows: bad texts and what a person is told about them. Must not know: how they are read.

use super::{Bad, assert_refused};

/// Texts without the header are put behind it; `…` at the end of a message stands for anything.
const CASES: &[Bad] = &[
    Bad {
        name: "an unknown field is refused with a guess",
        header: true,
        text: "paralelism: 4\n",
        errors: &[(
            "3:1: paralelism: found an unknown field; expected apiVersion, kind, parallelism, \
                 leaderElection, clientConnection, enableProfiling, enableContentionProfiling…",
            "did you mean \"parallelism\"?",
        )],
    },
    Bad {
        name: "an unknown field far from any other is refused without one",
        header: true,
        text: "zzz: 4\n",
        errors: &[(
            "3:1: zzz: found an unknown field; expected apiVersion, kind, parallelism, leaderElection, \
                 clientConnection, enableProfiling, enableContentionProfiling…",
            "",
        )],
    },
    Bad {
        name: "an unknown field in a profile is refused",
        header: true,
        text: r"
profiles:
- schedulerName: a
  plugin: {}
",
        errors: &[(
            "5:3: profiles[0].plugin: found an unknown field; expected schedulerName, \
                 percentageOfNodesToScore, plugins or pluginConfig",
            "did you mean \"plugins\"?",
        )],
    },
    Bad {
        name: "fields of older versions are refused with what took their place",
        header: true,
        text: r"
algorithmSource: {provider: DefaultProvider}
healthzBindAddress: 0.0.0.0:10251
metricsBindAddress: 0.0.0.0:10251
disablePreemption: true
hardPodAffinitySymmetricWeight: 1
bindTimeoutSeconds: 600
leaderElection: {lockObjectName: a}
",
        errors: &[
            (
                "3:1: algorithmSource: found an unknown field…",
                "profiles took its place: say under profiles[].plugins which plugins run",
            ),
            (
                "4:1: healthzBindAddress: found an unknown field…",
                "the flags --bind-address and --secure-port took its place",
            ),
            (
                "5:1: metricsBindAddress: found an unknown field…",
                "the flags --bind-address and --secure-port took its place",
            ),
            (
                "6:1: disablePreemption: found an unknown field…",
                "disable the plugin DefaultPreemption under profiles[].plugins.postFilter instead",
            ),
            (
                "7:1: hardPodAffinitySymmetricWeight: found an unknown field…",
                "hardPodAffinityWeight took its place, in the arguments of InterPodAffinity under \
                 profiles[].pluginConfig",
            ),
            (
                "8:1: bindTimeoutSeconds: found an unknown field…",
                "it moved to the arguments of VolumeBinding under profiles[].pluginConfig",
            ),
            ("9:18: leaderElection.lockObjectName: found an unknown field…", "resourceName took its place"),
        ],
    },
    Bad {
        name: "fields that stand in the wrong place are refused with the right one",
        header: true,
        text: r"
schedulerName: a
profiles:
- leaderElection: {leaderElect: false}
  filter: {}
",
        errors: &[
            (
                "3:1: schedulerName: found an unknown field…",
                "did you mean profiles[].schedulerName? it belongs to a profile",
            ),
            (
                "5:3: profiles[0].leaderElection: found an unknown field; expected schedulerName, \
                 percentageOfNodesToScore, plugins or pluginConfig",
                "did you mean to move it to the top level? leaderElection stands beside profiles",
            ),
            (
                "6:3: profiles[0].filter: found an unknown field…",
                "did you mean profiles[].plugins.filter? it belongs under the plugins of a profile",
            ),
        ],
    },
    Bad {
        name: "an unknown extension point is refused",
        header: true,
        text: r"
profiles:
- plugins:
    prefilter: {}
",
        errors: &[(
            "5:5: profiles[0].plugins.prefilter: found an unknown field; expected preEnqueue, queueSort, \
                 preFilter, filter, postFilter, preScore, score, reserve, permit, preBind…",
            "did you mean \"preFilter\"?",
        )],
    },
    Bad {
        name: "all fields that do not fit are reported at once",
        header: true,
        text: r#"
parallelism: many
leaderElection:
  leaderElect: "yes"
  leaseDuration: 15
clientConnection:
  burst: "100"
  kubeconfig: 7
  nope: 1
"#,
        errors: &[
            ("3:14: parallelism: found string \"many\"; expected a 32-bit integer", ""),
            ("5:16: leaderElection.leaderElect: found string \"yes\"; expected a boolean", "write true"),
            (
                "6:18: leaderElection.leaseDuration: found integer 15; expected a duration with its unit, \
                 such as 15s, 1m30s or 1.5h",
                "write 15s",
            ),
            (
                "8:10: clientConnection.burst: found string \"100\"; expected a 32-bit integer",
                "write 100 without quotes",
            ),
            ("9:15: clientConnection.kubeconfig: found integer 7; expected a string", "put the value in quotes"),
            (
                "10:3: clientConnection.nope: found an unknown field; expected kubeconfig, \
                 acceptContentTypes, contentType, qps or burst",
                "",
            ),
        ],
    },
    Bad {
        name: "a text too long to repeat is counted",
        header: true,
        text: "parallelism: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
        errors: &[("3:14: parallelism: found a string of 300 characters; expected a 32-bit integer", "")],
    },
    Bad {
        name: "a number that does not fit is refused",
        header: true,
        text: "parallelism: 99999999999\n",
        errors: &[("3:14: parallelism: found integer 99999999999; expected a 32-bit integer", "")],
    },
    Bad {
        name: "yes, no, on and off are booleans and nothing else",
        header: true,
        text: "profiles: [{schedulerName: no}]\n",
        errors: &[(
            "3:28: profiles[0].schedulerName: found boolean false; expected a string",
            "put the value in quotes",
        )],
    },
    Bad {
        name: "a duration is not null",
        header: true,
        text: "leaderElection: {leaseDuration: null, renewDeadline: 0}\n",
        errors: &[
            (
                "3:33: leaderElection.leaseDuration: found null; expected a duration with its unit, such as 15s, 1m30s or 1.5h",
                "leave the field out to get the default",
            ),
            (
                "3:54: leaderElection.renewDeadline: found integer 0; expected a duration with its unit, such as 15s, \
                 1m30s or 1.5h",
                "write 0s",
            ),
        ],
    },
    Bad {
        name: "a fraction is not an integer",
        header: true,
        text: "parallelism: 1.5\n",
        errors: &[("3:14: parallelism: found floating point 1.5; expected a 32-bit integer", "")],
    },
    Bad {
        name: "a list of values is not a mapping",
        header: true,
        text: "leaderElection: [true, 15s]\n",
        errors: &[("3:1: leaderElection: found a list; expected a mapping", "")],
    },
    Bad {
        name: "a mapping is not a list",
        header: true,
        text: "profiles: {schedulerName: a}\n",
        errors: &[("3:1: profiles: found a mapping; expected a list", "")],
    },
    Bad {
        name: "an entry that is only a name is refused",
        header: true,
        text: r"
profiles:
- plugins:
    filter:
      disabled: [NodeName, {name: NodePorts}, 3]
",
        errors: &[
            (
                "6:18: profiles[0].plugins.filter.disabled[0]: found string \"NodeName\"; expected a mapping",
                "write `- name: NodeName`; `flotilla config migrate FILE` does that for all of them",
            ),
            ("6:47: profiles[0].plugins.filter.disabled[2]: found integer 3; expected a mapping", ""),
        ],
    },
    Bad {
        name: "a duration without a unit is refused",
        header: true,
        text: r#"
leaderElection:
  leaseDuration: "15"
"#,
        errors: &[(
            "4:18: leaderElection.leaseDuration: found string \"15\"; expected a duration with its unit, \
                 such as 15s, 1m30s or 1.5h",
            "",
        )],
    },
    Bad {
        name: "a duration with a unit that Go does not know is refused",
        header: true,
        text: r"
leaderElection:
  leaseDuration: 1d
",
        errors: &[(
            "4:18: leaderElection.leaseDuration: found string \"1d\"; expected a duration with its unit, \
                 such as 15s, 1m30s or 1.5h",
            "",
        )],
    },
    Bad {
        name: "a duration longer than Go can hold is refused",
        header: true,
        text: r"
leaderElection:
  leaseDuration: 9999999h
",
        errors: &[(
            "4:18: leaderElection.leaseDuration: found string \"9999999h\"; expected a duration with its \
                 unit, such as 15s, 1m30s or 1.5h",
            "",
        )],
    },
    Bad {
        name: "JSON errors are shown within the one long line",
        header: false,
        text: "{\"apiVersion\":\"kubescheduler.config.k8s.io/v1\",\"kind\":\"KubeSchedulerConfiguration\",\"podInitialBackoffSeconds\":1,\"podMaxBackoffSeconds\":10,\"enableProfiling\":true,\"parallelism\":0}",
        errors: &[("1:176: parallelism: found 0; expected an integer greater than 0", "")],
    },
];

#[test]
fn every_mistake_is_named_where_it_stands() {
    assert_refused(CASES);
}
