//! `flotilla ui`: serves the page to a browser on the same machine.

use std::{net::Ipv4Addr, process::ExitCode};

use anyhow::{Context as _, anyhow};
use flotilla_framework::registry::Registry;
use tokio::net::TcpListener;

use crate::output::{Failure, print_notes};

mod args;
mod content;
#[cfg(feature = "cluster")]
mod history;
#[cfg(feature = "cluster")]
mod live;
mod site;

pub(crate) use args::{EXAMPLES, UiArgs};

use content::Source;

pub(crate) fn command(args: &UiArgs, registry: Registry) -> ExitCode {
    crate::output::end(ui(args, registry).map(|()| ExitCode::SUCCESS))
}

fn ui(args: &UiArgs, registry: Registry) -> Result<(), Failure> {
    let source = Source::new(args, registry);
    let content = source.read()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime").map_err(Failure::run)?;
    let serving = async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
        let listener = listener.with_context(|| format!("cannot listen on 127.0.0.1:{}", args.port))?;
        let port = listener.local_addr().context("the listener has no address")?.port();
        let router = site::router(source, content);
        #[cfg(feature = "cluster")]
        let router = match args.is_live() {
            true => router.merge(live::router(args).await?),
            false => router,
        };
        let token = site::token()?;
        let path = site::path(&token);
        let router = site::guarded(router, port, token);
        crate::output::print(|out| writeln!(out, "http://127.0.0.1:{port}{path}"))
            .map_err(|failure| anyhow!("{failure}"))?;
        print_notes(&["open it in a browser; Ctrl-C ends it".to_owned()]);
        axum::serve(listener, router).await.context("cannot serve the page")
    };
    runtime.block_on(serving).map_err(Failure::run)
}
