//! The signals that end the process.
//!
//! Knows: which they are. Must not know: how the process ends.

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// The signals that end the process.
pub(super) enum Terminations {
    /// Those of the operating system.
    System { terminate: Signal, interrupt: Signal },
    /// Those of whatever hosts it; the names of signals.
    Told(mpsc::Receiver<&'static str>),
}

impl Terminations {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self::System { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(super) async fn next(&mut self) -> &'static str {
        match self {
            Self::System { terminate, interrupt } => tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            },
            Self::Told(told) => match told.recv().await {
                Some(signal) => signal,
                // Nobody is left to tell anything.
                None => std::future::pending().await,
            },
        }
    }
}
