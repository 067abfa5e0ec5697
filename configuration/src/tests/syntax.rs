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
            "put a text that holds a colon in quotes, and the keys of one mapping in one column",
        )],
    },
    Bad {
        name: "a tab is no indentation",
        header: true,
        text: "leaderElection:\n\tleaderElect: true\n",
        errors: &[(
            "4:2: leaderElection: this is not YAML: tabs disallowed within this context (block \
                 indentation); expected a KubeSchedulerConfiguration in YAML or JSON",
            "indent with spaces",
        )],
    },
    Bad {
        name: "keys of one mapping stand in one column",
        header: true,
        text: "leaderElection:\n  leaderElect: true\n   leaseDuration: 15s\n",
        errors: &[("5:…", "put a text that holds a colon in quotes, and the keys of one mapping in one column")],
    },
    Bad {
        name: "keys that stand to the left of their mapping end it",
        header: true,
        text: "profiles:\n    - schedulerName: a\n   - schedulerName: b\n",
        errors: &[("5:…", "the keys of one mapping stand in one column, and a list's items in another")],
    },
    Bad {
        name: "an alias of nothing is refused",
        header: true,
        text: "leaderElection: *client\n",
        errors: &[(
            "3:17: leaderElection: this is not YAML: while parsing node, found unknown anchor; expected a \
             KubeSchedulerConfiguration in YAML or JSON",
            "",
        )],
    },
    Bad {
        name: "an alias of what it is part of is refused",
        header: true,
        text: r"
profiles:
- &profile
  pluginConfig: [{name: x, args: *profile}]
",
        errors: &[(
            "5:34: profiles[0].pluginConfig[0].args: found a YAML alias to something that it is itself part of; \
             expected a value",
            "an alias can only stand behind what it repeats",
        )],
    },
    Bad {
        name: "what is wrong behind an alias is shown where it is written, and once",
        header: true,
        text: r"
profiles:
- schedulerName: a
  plugins: &plugins
    filter: {enabld: []}
- schedulerName: b
  plugins: *plugins
",
        errors: &[
            (
                "6:14: profiles[0].plugins.filter.enabld: found an unknown field; expected enabled or disabled",
                "did you mean \"enabled\"?",
            ),
            (
                "6:14: profiles[1].plugins.filter.enabld: found an unknown field; expected enabled or disabled",
                "did you mean \"enabled\"?",
            ),
        ],
    },
    Bad {
        name: "a key that is merged cannot be set as well",
        header: true,
        text: r"
clientConnection:
  <<: {burst: 5}
  burst: 6
",
        errors: &[(
            "5:3: clientConnection.burst: found the key \"burst\" a second time; expected every key once",
            "it is first set at 4:8; a key that is merged cannot be set as well, in kube-scheduler neither",
        )],
    },
    Bad {
        name: "a key cannot be merged twice",
        header: true,
        text: r"
clientConnection:
  <<: [{burst: 5}, {burst: 6}]
",
        errors: &[(
            "4:9: clientConnection.burst: found the key \"burst\" a second time; expected every key once",
            "it is first set at 4:21; a key that is merged cannot be set as well, in kube-scheduler neither",
        )],
    },
    Bad {
        name: "only mappings are merged",
        header: true,
        text: r"
clientConnection:
  <<: [{burst: 5}, 6]
",
        errors: &[(
            "4:3: clientConnection: found a merge key without a mapping; expected a mapping or a list of mappings",
            "write `<<: *name` or `<<: [*one, *other]`, where each name is the anchor of a mapping",
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
        name: "a value is what its tag says",
        header: true,
        text: "parallelism: !!int four\n",
        errors: &[(
            "3:14: parallelism: found \"four\" with the YAML tag \"tag:yaml.org,2002:!int\"; expected a value that is \
             what its tag says",
            "",
        )],
    },
    Bad {
        name: "what begins with a brace is JSON",
        header: false,
        text: "{apiVersion: kubescheduler.config.k8s.io/v1}",
        errors: &[(
            "1:2: document: this is not JSON: key must be a string; expected JSON, because the text begins with a brace",
            "put keys and texts in double quotes, or leave out the outermost braces to write YAML",
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
        errors: &[("3:14: parallelism: found floating point 1e+26; expected a 32-bit integer", "")],
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
