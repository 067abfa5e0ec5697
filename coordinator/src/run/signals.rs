//! The signals that end the process.

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

pub(super) enum Terminations {
    /// Signals of the operating system.
    System { terminate: Signal, interrupt: Signal },
    /// Names of signals from the host.
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
                None => std::future::pending().await,
            },
        }
    }
}
