//! Requests of an election: how long one may take, and why one brought nothing.
//!
//! Must not know: what is asked for, or what follows.

use std::time::Duration;

/// Why a request brought nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("{0}; grant get, create, update and watch on leases.coordination.k8s.io in its namespace")]
    Forbidden(Box<kube::core::Status>),
    #[error(transparent)]
    Api(kube::Error),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden(status),
            error => Self::Api(error),
        }
    }
}

impl Failure {
    /// The record is not as we knew it. A 404 to a creation is another thing: there the namespace is missing.
    pub(super) fn is_refusal(&self, create: bool) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => status.code == 409 || (status.code == 404 && !create),
            _ => false,
        }
    }
}

/// The answer to a request that may take so long.
pub(super) async fn timed<T>(limit: Duration, request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    timed_out(limit, async { request.await.map_err(Failure::from) }).await
}

/// As [`timed`], of several requests together.
pub(super) async fn timed_out<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Failure::Late(limit)))
}
