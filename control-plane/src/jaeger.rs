//! Jaeger, which takes spans and shows them: built from its Go module, once, and started beside a control plane.
//!
//! Knows: its flags, and where it is asked. Must not know: whose spans it is sent.
//!
//! It is Jaeger's all-in-one program with its spans in memory. A Go module carries no pictures, so what it shows at its
//! root is a placeholder; its API, with all that it knows, is whole.

use std::{path::Path, process::Command};

use anyhow::{Context as _, bail};
use flotilla_go_programs::jaeger;
use kube::{Client, Config};

use super::binaries::build_missing;
use super::{ProcessGroup, Progress, START_TIMEOUT, TAIL_LINES, free_port, get, wait_until};

/// The name of its process and of its log.
pub const JAEGER_NAME: &str = "jaeger";
/// More than any test sends, and nothing against the memory of a machine.
const MOST_TRACES: u32 = 20_000;

/// A Jaeger, by its addresses: they are known before it runs, so that others can be told of them.
#[derive(Clone, Copy, Debug)]
pub struct Jaeger {
    otlp_port: u16,
    query_port: u16,
}

impl Jaeger {
    /// Gives it its addresses. Nothing is started.
    ///
    /// # Errors
    /// Where no port is free.
    pub fn reserve() -> anyhow::Result<Self> {
        Ok(Self { otlp_port: free_port()?, query_port: free_port()? })
    }

    /// Where it takes spans, by OTLP over gRPC, as `host:port`.
    pub fn otlp_address(&self) -> String {
        format!("127.0.0.1:{}", self.otlp_port)
    }

    /// The URL of the same.
    pub fn otlp_endpoint(&self) -> String {
        format!("http://{}", self.otlp_address())
    }

    /// The URL at which it is asked, such as `/api/traces/ID`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.query_port)
    }

    /// Builds it if it is missing below `cache_dir`, starts it in a group, and waits until it answers.
    ///
    /// # Errors
    /// Where it cannot be built or does not get ready; with its last lines.
    pub async fn start(
        &self,
        processes: &ProcessGroup,
        cache_dir: &Path,
        progress: &dyn Progress,
    ) -> anyhow::Result<()> {
        let programs = jaeger(cache_dir)?;
        build_missing(&programs, progress).await?;
        let mut command = self.command(&programs.path(JAEGER_NAME))?;
        command.current_dir(processes.logs());
        processes.spawn(JAEGER_NAME, command)?;
        let ended =
            wait_until("jaeger to be ready", START_TIMEOUT, async || match processes.exit_status(JAEGER_NAME) {
                Ok(None) => self.get("api/services").await.map(|_| None).map_err(|error| format!("{error:#}")),
                Ok(Some(status)) => Ok(Some(status)),
                Err(error) => Err(format!("{error:#}")),
            });
        let tail = || processes.log_tail(JAEGER_NAME, TAIL_LINES);
        match ended.await.with_context(tail)? {
            None => Ok(()),
            Some(status) => bail!("jaeger ended with {status} instead of becoming ready\n{}", tail()),
        }
    }

    /// What its API answers to a GET of `path`, such as `api/services`.
    ///
    /// # Errors
    /// Where it does not answer with success.
    pub async fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut config = Config::new(self.url().parse().context("the URL of Jaeger")?);
        // No proxy can reach our loopback.
        config.proxy_url = None;
        get(&Client::try_from(config)?, path).await
    }

    fn command(&self, program: &Path) -> anyhow::Result<Command> {
        let mut command = Command::new(program);
        command.env_clear().env("SPAN_STORAGE_TYPE", "memory");
        command.arg(format!("--memory.max-traces={MOST_TRACES}"));
        command.arg(format!("--collector.otlp.grpc.host-port={}", self.otlp_address()));
        command.arg(format!("--query.http-server.host-port=127.0.0.1:{}", self.query_port));
        // These are not used; without an address each of them would listen on all of the machine's.
        for server in
            ["collector.otlp.http", "collector.grpc-server", "collector.http-server", "query.grpc-server", "admin.http"]
        {
            command.arg(format!("--{server}.host-port=127.0.0.1:{}", free_port()?));
        }
        Ok(command)
    }
}
