//! Rules of everything that is not a profile.
//!
//! Knows: bad texts and what a person is told about them. Must not know: how they are read.

use super::{Bad, assert_refused};

/// Texts without the header are put behind it; `…` at the end of a message stands for anything.
const CASES: &[Bad] = &[
    Bad {
        name: "parallelism is at least one",
        header: true,
        text: "parallelism: 0\n",
        errors: &[("3:14: parallelism: found 0; expected an integer greater than 0", "")],
    },
    Bad {
        name: "a lease outlives its renewal",
        header: true,
        text: r"
leaderElection:
  leaseDuration: 10s
",
        errors: &[(
            "4:18: leaderElection.leaseDuration: found a leaseDuration of 10s with a renewDeadline of \
                 10s; expected a lease that outlasts renewDeadline",
            "",
        )],
    },
    Bad {
        name: "a retry period is stretched before it is compared",
        header: true,
        text: "leaderElection: {retryPeriod: 9s}\n",
        errors: &[(
            "3:31: leaderElection.retryPeriod: found a renewDeadline of 10s with a retryPeriod of 9s; expected a \
                 renewDeadline of more than 1.2 times retryPeriod",
            "",
        )],
    },
    Bad {
        name: "a renewal deadline that is just too short is shown itself if the period is not written",
        header: true,
        text: "leaderElection: {renewDeadline: 2.4s}\n",
        errors: &[("3:33: leaderElection.renewDeadline: found a renewDeadline of 2.4s with a retryPeriod of 2s…", "")],
    },
    Bad {
        name: "a renewal deadline that is too long is shown itself if the lease is not written",
        header: true,
        text: r"
leaderElection:
  renewDeadline: 1m
",
        errors: &[(
            "4:18: leaderElection.renewDeadline: found a leaseDuration of 15s with a renewDeadline of \
                 1m0s; expected a lease that outlasts renewDeadline",
            "",
        )],
    },
    Bad {
        name: "durations of leader election are positive",
        header: true,
        text: r"
leaderElection:
  leaseDuration: -1s
  renewDeadline: -2s
  retryPeriod: -3s
",
        errors: &[
            (
                "4:18: leaderElection.leaseDuration: found a negative duration; expected a duration greater \
                 than 0",
                "",
            ),
            (
                "5:18: leaderElection.renewDeadline: found a negative duration; expected a duration greater \
                 than 0",
                "",
            ),
            (
                "6:16: leaderElection.retryPeriod: found a negative duration; expected a duration greater \
                 than 0",
                "",
            ),
        ],
    },
    Bad {
        name: "the lock is a Lease",
        header: true,
        text: r"
leaderElection:
  resourceLock: endpoints
",
        errors: &[("4:17: leaderElection.resourceLock: found \"endpoints\"; expected leases", "")],
    },
    Bad {
        name: "burst is not negative",
        header: true,
        text: r"
clientConnection:
  burst: -1
",
        errors: &[("4:10: clientConnection.burst: found -1; expected 0 or more", "")],
    },
    Bad {
        name: "qps fits in 32 bits",
        header: true,
        text: r"
clientConnection:
  qps: 1e300
",
        errors: &[("4:8: clientConnection.qps: found 1e300; expected a number that fits in 32 bits", "")],
    },
    Bad {
        name: "a percentage is at most 100",
        header: true,
        text: "percentageOfNodesToScore: 101\n",
        errors: &[("3:27: percentageOfNodesToScore: found 101; expected a percentage from 0 to 100", "")],
    },
    Bad {
        name: "a percentage is not negative",
        header: true,
        text: r"
profiles:
- percentageOfNodesToScore: -1
",
        errors: &[("4:29: profiles[0].percentageOfNodesToScore: found -1; expected a percentage from 0 to 100", "")],
    },
    Bad {
        name: "the initial backoff is positive",
        header: true,
        text: "podInitialBackoffSeconds: 0\n",
        errors: &[("3:27: podInitialBackoffSeconds: found 0; expected a number of seconds greater than 0", "")],
    },
    Bad {
        name: "the maximal backoff is not shorter than the initial one",
        header: true,
        text: "podInitialBackoffSeconds: 20\n",
        errors: &[(
            "3:27: podInitialBackoffSeconds: found a podMaxBackoffSeconds of 10 with a \
                 podInitialBackoffSeconds of 20; expected a maximum that is no less than the initial backoff",
            "",
        )],
    },
    Bad {
        name: "the maximal backoff that is too short is shown itself if it is written",
        header: true,
        text: r"
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 1
",
        errors: &[(
            "4:23: podMaxBackoffSeconds: found a podMaxBackoffSeconds of 1 with a \
                 podInitialBackoffSeconds of 2; expected a maximum that is no less than the initial backoff",
            "",
        )],
    },
];

#[test]
fn every_mistake_is_named_where_it_stands() {
    assert_refused(CASES);
}
