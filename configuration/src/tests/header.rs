//! Documents that are something else than a KubeSchedulerConfiguration of the version that is read.
//!
//! Knows: bad texts and what a person is told about them. Must not know: how they are read.

use super::{Bad, assert_refused};

/// Texts without the header are put behind it; `…` at the end of a message stands for anything.
const CASES: &[Bad] = &[
    Bad {
        name: "a list is not a configuration",
        header: false,
        text: r"
- a
- b
",
        errors: &[(
            "1:1: document: found a list; expected a mapping with apiVersion: kubescheduler.config.k8s.\
                 io/v1 and kind: KubeSchedulerConfiguration",
            "",
        )],
    },
    Bad {
        name: "a single word is not a configuration",
        header: false,
        text: "hello\n",
        errors: &[(
            "1:1: document: found a single value; expected a mapping with apiVersion: kubescheduler.\
                 config.k8s.io/v1 and kind: KubeSchedulerConfiguration",
            "",
        )],
    },
    Bad {
        name: "apiVersion and kind have to be there",
        header: false,
        text: "parallelism: 4\n",
        errors: &[
            ("1:1: apiVersion: found nothing; expected apiVersion: kubescheduler.config.k8s.io/v1", ""),
            ("1:1: kind: found nothing; expected kind: KubeSchedulerConfiguration", ""),
        ],
    },
    Bad {
        name: "the old version v1alpha1 is refused",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v1alpha1
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"kubescheduler.config.k8s.io/v1alpha1\", which kube-scheduler no \
                 longer reads; expected apiVersion: kubescheduler.config.k8s.io/v1",
            "compare every field with v1: several changed on the way there",
        )],
    },
    Bad {
        name: "the old version v1alpha2 is refused",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v1alpha2
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"kubescheduler.config.k8s.io/v1alpha2\", which kube-scheduler no \
                 longer reads; expected apiVersion: kubescheduler.config.k8s.io/v1",
            "compare every field with v1: several changed on the way there",
        )],
    },
    Bad {
        name: "the old version v1beta1 is refused",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"kubescheduler.config.k8s.io/v1beta1\", which kube-scheduler no \
                 longer reads; expected apiVersion: kubescheduler.config.k8s.io/v1",
            "compare every field with v1: several changed on the way there",
        )],
    },
    Bad {
        name: "the old version v1beta2 is refused",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"kubescheduler.config.k8s.io/v1beta2\", which kube-scheduler no \
                 longer reads; expected apiVersion: kubescheduler.config.k8s.io/v1",
            "v1 has the fields of v1beta2 except healthzBindAddress and metricsBindAddress: `flotilla config migrate \
             FILE` rewrites the file",
        )],
    },
    Bad {
        name: "the old version v1beta3 is refused",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"kubescheduler.config.k8s.io/v1beta3\", which kube-scheduler no \
                 longer reads; expected apiVersion: kubescheduler.config.k8s.io/v1",
            "the fields of v1beta3 are those of v1: `flotilla config migrate FILE` rewrites the file",
        )],
    },
    Bad {
        name: "a version of the future is refused",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v2
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"kubescheduler.config.k8s.io/v2\", a version that does not exist; \
                 expected apiVersion: kubescheduler.config.k8s.io/v1",
            "",
        )],
    },
    Bad {
        name: "a group with a hyphen is refused",
        header: false,
        text: r"
apiVersion: kube-scheduler.k8s.io/v1
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"kube-scheduler.k8s.io/v1\", a group that does not exist; expected \
                 apiVersion: kubescheduler.config.k8s.io/v1",
            "the group has no hyphen",
        )],
    },
    Bad {
        name: "a misspelt group is refused",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.oi/v1
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"kubescheduler.config.k8s.oi/v1\", a group that does not exist; expected apiVersion: \
                 kubescheduler.config.k8s.io/v1",
            "did you mean \"kubescheduler.config.k8s.io/v1\"?",
        )],
    },
    Bad {
        name: "the version of core objects is refused",
        header: false,
        text: r"
apiVersion: v1
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"v1\"; expected apiVersion: kubescheduler.config.k8s.io/v1",
            "v1 alone is the version of objects such as Pod and ConfigMap",
        )],
    },
    Bad {
        name: "a ConfigMap around the configuration is refused",
        header: false,
        text: r"
apiVersion: v1
kind: ConfigMap
data: {}
",
        errors: &[
            (
                "1:13: apiVersion: found \"v1\"; expected apiVersion: kubescheduler.config.k8s.io/v1",
                "v1 alone is the version of objects such as Pod and ConfigMap",
            ),
            (
                "2:7: kind: found \"ConfigMap\"; expected kind: KubeSchedulerConfiguration",
                "give the text that stands under the ConfigMap's data, not the ConfigMap",
            ),
        ],
    },
    Bad {
        name: "the key under which a ConfigMap holds the configuration is named",
        header: false,
        text: r"
apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler-config, namespace: kube-system}
data:
  other: nothing
  scheduler.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
",
        errors: &[
            (
                "1:13: apiVersion: found \"v1\"; expected apiVersion: kubescheduler.config.k8s.io/v1",
                "v1 alone is the version of objects such as Pod and ConfigMap",
            ),
            (
                "2:7: kind: found \"ConfigMap\"; expected kind: KubeSchedulerConfiguration",
                "the configuration stands under data, as scheduler.yaml: extract it with `kubectl get configmap \
                 scheduler-config -n kube-system -o jsonpath='{.data.scheduler\\.yaml}'`",
            ),
        ],
    },
    Bad {
        name: "a group that is nearly right is refused with a guess",
        header: false,
        text: r"
apiVersion: kubescheduler.k8s.io/v1
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found \"kubescheduler.k8s.io/v1\", a group that does not exist; expected apiVersion: \
             kubescheduler.config.k8s.io/v1",
            "did you mean \"kubescheduler.config.k8s.io/v1\"?",
        )],
    },
    Bad {
        name: "another kind is refused",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfig
",
        errors: &[("2:7: kind: found \"KubeSchedulerConfig\"; expected kind: KubeSchedulerConfiguration", "")],
    },
    Bad {
        name: "arguments alone are refused",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v1
kind: NodeResourcesFitArgs
",
        errors: &[(
            "2:7: kind: found \"NodeResourcesFitArgs\"; expected kind: KubeSchedulerConfiguration",
            "arguments of a plugin stand under profiles[].pluginConfig[].args",
        )],
    },
    Bad {
        name: "a policy is refused",
        header: false,
        text: r"
apiVersion: v1
kind: Policy
",
        errors: &[
            (
                "1:13: apiVersion: found \"v1\"; expected apiVersion: kubescheduler.config.k8s.io/v1",
                "v1 alone is the version of objects such as Pod and ConfigMap",
            ),
            (
                "2:7: kind: found \"Policy\"; expected kind: KubeSchedulerConfiguration",
                "policies are gone from kube-scheduler: profiles took their place",
            ),
        ],
    },
    Bad {
        name: "an apiVersion that is a number is refused",
        header: false,
        text: r"
apiVersion: 1
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "1:13: apiVersion: found something that is not text; expected apiVersion: kubescheduler.\
                 config.k8s.io/v1",
            "",
        )],
    },
    Bad {
        name: "a wrong version is told beside every other mistake",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
parallelism: 0
profiles:
- plugins:
    filter:
      enabled:
      - NodeNam
      - NodeName
      disabled: ['*']
",
        errors: &[
            (
                "1:13: apiVersion: …",
                "the fields of v1beta3 are those of v1: `flotilla config migrate FILE` rewrites the file",
            ),
            ("3:14: parallelism: found 0; expected an integer greater than 0", ""),
            (
                "8:9: profiles[0].plugins.filter.enabled[0]: found string \"NodeNam\"; expected a mapping",
                "write `- name: NodeNam`; `flotilla config migrate FILE` does that for all of them",
            ),
            (
                "8:9: profiles[0].plugins.filter.enabled[0].name: found \"NodeNam\", which is not a plugin of …",
                "did you mean \"NodeName\"?",
            ),
            (
                "9:9: profiles[0].plugins.filter.enabled[1]: found string \"NodeName\"; expected a mapping",
                "write `- name: NodeName`; `flotilla config migrate FILE` does that for all of them",
            ),
            (
                "10:18: profiles[0].plugins.filter.disabled[0]: found string \"*\"; expected a mapping",
                "write `- name: \"*\"`; `flotilla config migrate FILE` does that for all of them",
            ),
        ],
    },
    Bad {
        name: "without a kind the version alone says what the document is",
        header: false,
        text: r"
apiVersion: kubescheduler.config.k8s.io/v1
parallelism: 0
",
        errors: &[
            ("1:1: kind: found nothing; expected kind: KubeSchedulerConfiguration", ""),
            ("2:14: parallelism: found 0; expected an integer greater than 0", ""),
        ],
    },
];

#[test]
fn every_mistake_is_named_where_it_stands() {
    assert_refused(CASES);
}
