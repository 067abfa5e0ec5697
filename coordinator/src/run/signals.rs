//! The signals that end the process.
//!
//! Knows: which they are. Must not know: how the process ends.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the process.
pub(super) struct Terminations {
    terminate: Signal,
    interrupt: Signal,
}

impl Terminations {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
