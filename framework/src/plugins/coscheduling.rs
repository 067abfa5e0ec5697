//! Coscheduling: reads PodGroups of `scheduling.x-k8s.io` as gangs. [`crate::pod_group`] has their rules.
//!
//! Source: `pkg/coscheduling` and `apis/config` of sigs.k8s.io/scheduler-plugins. That plugin holds the nodes of placed pods at Permit until
//! enough siblings have a node. Here a group is placed at once or not at all, so no pod waits at Permit.

use serde::Deserialize;

use crate::{
    extension::{Plugin, Point},
    pod_group::COSCHEDULING,
    profile::{ArgsError, read_args},
};

/// The plugin.
#[derive(Debug)]
pub struct Coscheduling;

/// `CoschedulingArgs`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct CoschedulingArgs {
    permit_waiting_time_seconds: Option<i64>,
    pod_group_backoff_seconds: Option<i64>,
    pod_group_reject_percentage: Option<i32>,
    api_version: Option<String>,
    kind: Option<String>,
}

const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "CoschedulingArgs";

impl Plugin for Coscheduling {
    fn name(&self) -> &'static str {
        COSCHEDULING
    }

    fn points(&self) -> &'static [Point] {
        &[Point::QueueSort, Point::PreFilter, Point::PostFilter, Point::Permit, Point::Reserve]
    }

    fn check_args(&self, args: &serde_json::Value) -> Result<(), ArgsError> {
        let args = read_args::<CoschedulingArgs>(args)?;
        let not_negative = |field: &str, value: Option<i64>| match value.filter(|value| *value < 0) {
            Some(value) => Err(ArgsError::at(field, format!("found {value}, expected 0 or more seconds"))),
            None => Ok(()),
        };
        not_negative("permitWaitingTimeSeconds", args.permit_waiting_time_seconds)?;
        not_negative("podGroupBackoffSeconds", args.pod_group_backoff_seconds)?;
        if let Some(percentage) = args.pod_group_reject_percentage.filter(|value| !(0..=100).contains(value)) {
            let message = format!("found {percentage}, expected a percentage from 0 to 100");
            return Err(ArgsError::at("podGroupRejectPercentage", message));
        }
        for (field, found, expected) in [("apiVersion", args.api_version, API_VERSION), ("kind", args.kind, KIND)] {
            if let Some(found) = found.filter(|found| !found.is_empty() && found != expected) {
                return Err(ArgsError::at(field, format!("found {found:?}, expected {expected}")));
            }
        }
        Ok(())
    }

    fn advise(&self, args: &serde_json::Value) -> Vec<String> {
        let has = |field: &&str| args.get(field).is_some_and(|value| !value.is_null());
        let fields = ["permitWaitingTimeSeconds", "podGroupBackoffSeconds", "podGroupRejectPercentage"];
        let unused: Vec<&str> = fields.into_iter().filter(has).collect();
        if unused.is_empty() {
            return Vec::new();
        }
        let fields = unused.join(", ");
        vec![format!("{fields}: no effect, because a group is placed at once or not at all and no pod waits at Permit")]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn error(args: Value) -> Option<String> {
        Coscheduling.check_args(&args).err().map(|error| error.message)
    }

    #[test]
    fn the_arguments_of_scheduler_plugins_are_accepted_and_have_no_effect() {
        assert_eq!(Coscheduling.advise(&json!({ "kind": KIND })), Vec::<String>::new());
        let args = json!({ "permitWaitingTimeSeconds": 10, "podGroupBackoffSeconds": 0, "kind": KIND });
        assert_eq!(error(args.clone()), None);
        assert_eq!(
            Coscheduling.advise(&args),
            [
                "permitWaitingTimeSeconds, podGroupBackoffSeconds: no effect, because a group is placed at once or not at \
                 all and no pod waits at Permit"
            ]
        );
    }

    #[test]
    fn arguments_that_scheduler_plugins_rejects_are_errors() {
        for (args, expected) in [
            (json!({ "permitWaitingTimeSeconds": -1 }), "found -1, expected 0 or more seconds"),
            (json!({ "podGroupBackoffSeconds": -2 }), "found -2, expected 0 or more seconds"),
            (json!({ "podGroupRejectPercentage": 101 }), "found 101, expected a percentage from 0 to 100"),
            (json!({ "kind": "NodeAffinityArgs" }), "found \"NodeAffinityArgs\", expected CoschedulingArgs"),
        ] {
            assert_eq!(error(args).as_deref(), Some(expected));
        }
        assert!(error(json!({ "kubeConfigPath": "x" })).is_some_and(|error| error.contains("unknown field")));
    }
}
