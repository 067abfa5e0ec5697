//! Requests of an election, their limits and failures.

use std::time::Duration;

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
    /// The status code of the answer.
    pub(super) const fn code(&self) -> Option<u16> {
        match self {
            Self::Forbidden(status) => Some(status.code),
            Self::Api(kube::Error::Api(status)) => Some(status.code),
            Self::Api(_) | Self::Late(_) => None,
        }
    }

    /// The record has changed. A 404 to a creation is different: the namespace is missing.
    pub(super) fn is_refusal(&self, create: bool) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => status.code == 409 || (status.code == 404 && !create),
            _ => false,
        }
    }
}

pub(super) async fn timed<T>(limit: Duration, request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    timed_out(limit, async { request.await.map_err(Failure::from) }).await
}

pub(super) async fn timed_out<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Failure::Late(limit)))
}
