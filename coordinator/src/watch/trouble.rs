//! Failures of lists and watches, and the backoff after each.

use std::time::Duration;

use flotilla_encoding::{DecodeError, Status};
use flotilla_runtime::{chain, driver::Stopped};

/// Backoff, doubling from the first to the last. After a refusal it grows longer than after a missing answer: an API server that was down
/// has to be found soon after its return.
pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(200);
pub(super) const LAST_BACKOFF: Duration = Duration::from_secs(15);
const LAST_BACKOFF_ABSENT: Duration = Duration::from_secs(2);
/// The last backoff before a kind that this process may not read counts as empty.
pub(super) const LAST_BACKOFF_FORBIDDEN: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("{0}")]
    Expired(String),
    #[error(
        "{0}; grant list and watch on it to the user or service account of this process, as deploy/base/rbac.yaml does"
    )]
    Forbidden(String),
    #[error("{0}")]
    Unserved(String),
    #[error("{0}")]
    Api(Status),
    #[error("{0}")]
    Absent(String),
    #[error("the API server ended the watch: {0}")]
    Refused(Status),
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("the API server's list is at version {0}, older than its earlier events")]
    Past(String),
    #[error("{0} is older than the API server's earlier events")]
    Undone(String),
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("a page of the list has more than {0} bytes; requesting smaller pages")]
    TooLarge(usize),
    #[error("invalid message from the API server: {0}")]
    Nonsense(String),
}

impl Trouble {
    pub(super) fn last_backoff(&self) -> Duration {
        match self {
            Self::Absent(_) | Self::Broken(_) | Self::Late(_) => LAST_BACKOFF_ABSENT,
            _ => LAST_BACKOFF,
        }
    }
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        match status.code {
            410 => Self::Expired(status.message),
            403 => Self::Forbidden(status.message),
            404 => Self::Unserved(status.message),
            _ => Self::Api(status),
        }
    }
}

impl From<kube::Error> for Trouble {
    fn from(error: kube::Error) -> Self {
        Self::Absent(chain(&error))
    }
}

impl From<DecodeError> for Trouble {
    fn from(error: DecodeError) -> Self {
        Self::Nonsense(error.to_string())
    }
}

impl From<kube::core::request::Error> for Trouble {
    fn from(error: kube::core::request::Error) -> Self {
        Self::Nonsense(error.to_string())
    }
}
