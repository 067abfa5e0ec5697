//! Jaeger's all-in-one program with in-memory storage, built from its Go module. A Go module contains no web assets, so the page at its
//! root is a placeholder; its API is complete.

use std::{path::Path, process::Command};

use anyhow::{Context as _, bail};
use flotilla_go_programs::jaeger;
use kube::{Client, Config};

use super::binaries::build_missing;
use super::{ProcessGroup, Progress, START_TIMEOUT, TAIL_LINES, free_port, get, wait_until};

/// Name of the process and its log.
pub const JAEGER_NAME: &str = "jaeger";
const MOST_TRACES: u32 = 20_000;

/// The addresses of a Jaeger, known before it starts so that other components can be configured.
#[derive(Clone, Copy, Debug)]
pub struct Jaeger {
    otlp_port: u16,
    query_port: u16,
}

impl Jaeger {
    /// Reserves the addresses without starting Jaeger.
    ///
    /// # Errors
    /// No port is free.
    pub fn reserve() -> anyhow::Result<Self> {
        Ok(Self { otlp_port: free_port()?, query_port: free_port()? })
    }

    /// OTLP gRPC address, as `host:port`.
    pub fn otlp_address(&self) -> String {
        format!("127.0.0.1:{}", self.otlp_port)
    }

    /// URL of [`Self::otlp_address`].
    pub fn otlp_endpoint(&self) -> String {
        format!("http://{}", self.otlp_address())
    }

    /// URL of the query API, such as of `/api/traces/ID`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.query_port)
    }

    /// Builds Jaeger below `cache_dir` if it is missing, starts it in `processes`, and waits until it is ready.
    ///
    /// # Errors
    /// The build fails, or Jaeger does not become ready; contains the tail of its log.
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

    /// Body of a GET of `path`, such as `api/services`.
    ///
    /// # Errors
    /// The status is not a success.
    pub async fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut config = Config::new(self.url().parse().context("the URL of Jaeger")?);
        // A proxy cannot reach our loopback.
        config.proxy_url = None;
        get(&Client::try_from(config)?, path).await
    }

    fn command(&self, program: &Path) -> anyhow::Result<Command> {
        let mut command = Command::new(program);
        command.env_clear().env("SPAN_STORAGE_TYPE", "memory");
        command.arg(format!("--memory.max-traces={MOST_TRACES}"));
        command.arg(format!("--collector.otlp.grpc.host-port={}", self.otlp_address()));
        command.arg(format!("--query.http-server.host-port=127.0.0.1:{}", self.query_port));
        // Unused servers, which listen on all addresses by default.
        for server in
            ["collector.otlp.http", "collector.grpc-server", "collector.http-server", "query.grpc-server", "admin.http"]
        {
            command.arg(format!("--{server}.host-port=127.0.0.1:{}", free_port()?));
        }
        Ok(command)
    }
}
