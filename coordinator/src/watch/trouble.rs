//! What ends a list or a watch before its time, and how long the API server is left alone then.
//!
//! Knows: what each failure means. Must not know: what was listed or watched.

use std::time::Duration;

use flotilla_encoding::{DecodeError, Status};
use flotilla_runtime::{chain, driver::Stopped};

/// Between attempts: doubles from the first to the last. An API server that answers with refusals is left alone for
/// longer than one that does not answer: that one is to be found again soon after it is back.
pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(200);
pub(super) const LAST_BACKOFF: Duration = Duration::from_secs(15);
const LAST_BACKOFF_ABSENT: Duration = Duration::from_secs(2);

/// Why a list or watch came to an end before its time.
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
    #[error("the API server lists what was there at version {0}, which is older than what it told before")]
    Past(String),
    #[error("{0} is as it was before what the API server told before")]
    Undone(String),
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("a page of the list has more than {0} bytes; asking for smaller pages")]
    TooLarge(usize),
    #[error("what the API server sent makes no sense: {0}")]
    Nonsense(String),
}

impl Trouble {
    /// The longest pause after it.
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

/// A request that is not answered, or an answer that is not there to its end.
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
