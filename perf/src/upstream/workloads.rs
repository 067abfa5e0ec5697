//! The workloads that the harness lists.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Workload {
    /// Folder below scheduler_perf.
    pub(crate) package: String,
    /// Test case and workload, such as `SchedulingBasic/5000Nodes_10000Pods`.
    pub(crate) workload: String,
    /// Kubernetes' threshold in pods per second; 0 if there is none.
    pub(crate) threshold: f64,
    /// Reason if the workload cannot run with a scheduler in another process; otherwise empty.
    pub(crate) skip: String,
}

/// Parses the list, one JSON object per line.
pub(crate) fn parse(list: &str) -> serde_json::Result<Vec<Workload>> {
    list.lines().map(serde_json::from_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_list_is_a_workload() {
        let list = "{\"package\":\"misc\",\"workload\":\"SchedulingBasic/5000Nodes\",\"threshold\":270,\"skip\":\"\"}\n\
            {\"package\":\"dra\",\"workload\":\"A/B\",\"threshold\":0,\"skip\":\"reason\"}\n";
        let workloads = parse(list).expect("it is valid");
        assert_eq!((workloads[0].workload.as_str(), workloads[0].threshold), ("SchedulingBasic/5000Nodes", 270.0));
        assert_eq!((workloads[1].package.as_str(), workloads[1].skip.as_str()), ("dra", "reason"));
        assert!(parse("{").is_err());
    }
}
