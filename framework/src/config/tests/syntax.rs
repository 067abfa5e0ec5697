//! What no configuration may hold, whatever its fields: broken YAML, aliases, duplicate keys, too much depth.
//!
//! Knows: bad texts and what a person is told about them. Must not know: how they are read.

use super::{Bad, assert_refused};

/// Texts without the header are put behind it; `…` at the end of a message stands for anything.
const CASES: &[Bad] = &[
    Bad {
        name: "an empty file is not a configuration",
        header: false,
        text: "",
        errors: &[(
            "1:1: document: found nothing; expected a KubeSchedulerConfiguration",
            "an empty file is not the default configuration: leave the file out to get that",
        )],
    },
    Bad {
        name: "a file of comments is not a configuration",
        header: false,
        text: "# nothing\n",
        errors: &[(
            "1:1: document: found nothing; expected a KubeSchedulerConfiguration",
            "an empty file is not the default configuration: leave the file out to get that",
        )],
    },
    Bad {
        name: "text that is not YAML is refused where it breaks off",
        header: false,
        text: r"
apiVersion: [kubescheduler
kind: x
",
        errors: &[(
            "2:5: apiVersion[0]: this is not YAML: illegal placement of ':' indicator; expected a \
                 KubeSchedulerConfiguration in YAML or JSON",
            "",
        )],
    },
    Bad {
        name: "a colon too many is shown in its line",
        header: true,
        text: "parallelism: a: b\n",
        errors: &[(
            "3:15: document: this is not YAML: mapping values are not allowed in this context; expected \
                 a KubeSchedulerConfiguration in YAML or JSON",
            "",
        )],
    },
    Bad {
        name: "a tab is no indentation",
        header: true,
        text: "leaderElection:\n\tleaderElect: true\n",
        errors: &[(
            "4:2: leaderElection: this is not YAML: tabs disallowed within this context (block \
                 indentation); expected a KubeSchedulerConfiguration in YAML or JSON",
            "",
        )],
    },
    Bad {
        name: "an alias is refused",
        header: true,
        text: r"
clientConnection: &client
  qps: 5
leaderElection: *client
",
        errors: &[(
            "5:17: leaderElection: found a YAML alias; expected the value itself",
            "write the aliased value out in full: aliases and merge keys are not read",
        )],
    },
    Bad {
        name: "a merge key is refused",
        header: true,
        text: r"
leaderElection:
  <<: {leaderElect: true}
",
        errors: &[(
            "4:3: leaderElection: found a YAML merge key; expected the name of a field",
            "write the merged fields out in full: aliases and merge keys are not read",
        )],
    },
    Bad {
        name: "a second document is refused",
        header: true,
        text: r"
---
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
",
        errors: &[(
            "3:1: document: found a second YAML document; expected one document",
            "keep one KubeSchedulerConfiguration in this file and remove what follows the `---`",
        )],
    },
    Bad {
        name: "a key that is set twice is shown where it is set again",
        header: true,
        text: r"
parallelism: 1
parallelism: 2
",
        errors: &[(
            "4:1: parallelism: found the key \"parallelism\" a second time; expected every key once",
            "it is first set at 3:1",
        )],
    },
    Bad {
        name: "duplicate keys do not hide other errors",
        header: true,
        text: r"
leaderElection:
  leaderElect: true
  leaderElect: false
parallelism: 0
",
        errors: &[
            (
                "5:3: leaderElection.leaderElect: found the key \"leaderElect\" a second time; expected every \
                 key once",
                "it is first set at 4:3",
            ),
            ("6:14: parallelism: found 0; expected an integer greater than 0", ""),
        ],
    },
    Bad {
        name: "a tag is refused",
        header: true,
        text: "parallelism: !number 4\n",
        errors: &[(
            "3:14: parallelism: found the YAML tag \"!number\"; expected a value without a tag",
            "remove the tag",
        )],
    },
    Bad {
        name: "a list as a key is refused",
        header: true,
        text: r"
? [a]
: b
",
        errors: &[("3:3: document: found a mapping or a list as a key; expected the name of a field", "")],
    },
    Bad {
        name: "an infinity is refused",
        header: true,
        text: r"
clientConnection:
  qps: .inf
",
        errors: &[("4:8: clientConnection.qps: found .inf; expected a finite number", "")],
    },
    Bad {
        name: "a number that no field could hold is refused",
        header: true,
        text: "parallelism: 99999999999999999999999999\n",
        errors: &[(
            "3:14: document: this cannot be read: parallelism: JSON number out of range; expected YAML \
                 or JSON",
            "",
        )],
    },
    Bad {
        name: "a control character is refused",
        header: true,
        text: "parallelism: 1\u{7}\n",
        errors: &[("3:15: document: found the character U+0007; expected printable text", "")],
    },
    Bad {
        name: "a line separator that only old YAML knows is refused",
        header: true,
        text: "# a comment\u{2028}parallelism: 0\n",
        errors: &[("3:12: document: found the character U+2028; expected printable text", "")],
    },
];

#[test]
fn every_mistake_is_named_where_it_stands() {
    assert_refused(CASES);
}
