//! Gathers the status of a running Flotilla.

use std::time::Duration;

use flotilla_coordinator::serve::status::CoordinatorStatus;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    args::Targets,
    problems::{Problem, problems},
};
use crate::live::{self, Connection, Holder};

/// The timeout of each target, short because a user waits.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// A coordinator leads, workers are ready, and none of them lags.
    pub(crate) healthy: bool,
    /// The problems, the most severe first.
    pub(crate) problems: Vec<Problem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<Holder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease_error: Option<String>,
    pub(crate) coordinators: Vec<Answer>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<CoordinatorStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Report {
    /// `now` is the reference for ages and expiry.
    pub(crate) fn new(lease: Result<Holder, String>, coordinators: Vec<Answer>, now: Timestamp) -> Self {
        let (lease, lease_error) = match lease {
            Ok(lease) => (Some(lease), None),
            Err(error) => (None, Some(error)),
        };
        let mut report = Self { healthy: true, problems: Vec::new(), lease, lease_error, coordinators };
        report.problems = problems(&report, now);
        report.healthy = !report.problems.iter().any(|problem| problem.severe);
        report
    }

    /// The status of the leader, if it answered.
    pub(crate) fn leader(&self) -> Option<&CoordinatorStatus> {
        self.statuses().find(|status| status.leading)
    }

    pub(crate) fn statuses(&self) -> impl Iterator<Item = &CoordinatorStatus> {
        self.coordinators.iter().filter_map(|answer| answer.status.as_ref())
    }
}

/// Asks all targets in parallel.
pub(crate) async fn gather(connection: &Connection, targets: &Targets) -> Report {
    let Targets { coordinator, reach } = targets;
    let urls: Vec<Option<&str>> = match coordinator.as_slice() {
        [] => vec![None],
        urls => urls.iter().map(|url| Some(url.as_str())).collect(),
    };
    let lease = async {
        let holder = tokio::time::timeout(PATIENCE, live::holder(connection, reach)).await;
        match holder {
            Ok(holder) => holder.map_err(|error| format!("{error:#}")),
            Err(_) => Err(format!("{} does not answer within {PATIENCE:?}", connection.place)),
        }
    };
    let answers = futures::future::join_all(urls.into_iter().map(|url| answer(connection, targets, url)));
    let (lease, answers) = tokio::join!(lease, answers);
    Report::new(lease, answers, Timestamp::now())
}

async fn answer(connection: &Connection, targets: &Targets, url: Option<&str>) -> Answer {
    let name = url.unwrap_or("the holder of the Lease").to_owned();
    let asking = async {
        let coordinator = live::find(connection, &targets.reach, url).await?;
        let status = coordinator.status().await?;
        anyhow::Ok((coordinator.name, status))
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(Ok((name, status))) => Answer { name, status: Some(status), error: None },
        Ok(Err(error)) => Answer { name, status: None, error: Some(format!("{error:#}")) },
        Err(_) => Answer { name, status: None, error: Some(format!("no answer within {PATIENCE:?}")) },
    }
}
