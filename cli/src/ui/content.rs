//! The content of the server: the page, and accounts of its pods.

use std::{io, sync::Arc};

use anyhow::Context as _;
use flotilla_account::explainer::Explainer;
use flotilla_framework::{class::PodInfo, registry::Registry};

use super::args::UiArgs;
use crate::{
    input::Text,
    output::Failure,
    page::{self, Report, report::Serving},
    simulate::{self, args::SimulateArgs},
    whatif::{self, WhatifArgs},
};

const UNWRITTEN: &str = "cannot write the page";

#[derive(Clone, Debug)]
pub(super) struct Source {
    what: What,
    #[cfg(feature = "cluster")]
    coordinator: Option<super::live::Configured>,
    registry: Registry,
    is_live: bool,
    /// The input can be read again: a live cluster without standard input.
    pub(super) is_read_anew: bool,
}

#[derive(Clone, Debug)]
enum What {
    Simulated(Box<SimulateArgs>),
    Compared(Box<WhatifArgs>),
}

#[derive(Debug)]
pub(super) struct Content {
    pub(super) page: Vec<u8>,
    /// The time of the page in milliseconds since 1970. It prevents accounts for pods of another page.
    pub(super) made_ms: u64,
    /// The pods in the order of the report; `None` for pods without an account.
    pub(super) pods: Vec<Option<Arc<PodInfo>>>,
    pub(super) teller: Explainer,
}

impl Source {
    pub(super) fn new(args: &UiArgs, registry: Registry) -> Self {
        let what = match args.comparison() {
            Some(args) => What::Compared(Box::new(args)),
            None => What::Simulated(Box::new(args.simulation())),
        };
        Self {
            what,
            #[cfg(feature = "cluster")]
            coordinator: super::live::Configured::new(args),
            registry,
            is_live: args.is_live(),
            is_read_anew: args.is_live() && !args.reads_stdin(),
        }
    }

    /// The configuration of the live cluster's coordinator, if no file replaces it.
    fn live_configuration(&self) -> Option<Text> {
        #[cfg(feature = "cluster")]
        return self.coordinator.as_ref()?.ask();
        #[cfg(not(feature = "cluster"))]
        None
    }

    /// Reads the cluster, schedules its pods and renders the page.
    pub(super) fn read(&self) -> Result<Content, Failure> {
        let fallback = self.live_configuration();
        match &self.what {
            What::Simulated(args) => {
                let simulated = simulate::for_page(args, fallback.as_ref(), self.registry)?;
                let report = simulated.report().context(UNWRITTEN).map_err(Failure::run)?;
                let (page, made_ms) = self.page(report).context(UNWRITTEN).map_err(Failure::run)?;
                let pods = simulated.pods().map(|pod| pod.cloned()).collect();
                Ok(Content { page, made_ms, pods, teller: simulated.explainer() })
            }
            What::Compared(args) => {
                let compared = whatif::compared(args, fallback.as_ref(), self.registry)?;
                let made = compared.report(|report| self.page(report));
                let (page, made_ms) = made.context(UNWRITTEN).map_err(Failure::run)?;
                Ok(Content { page, made_ms, pods: compared.pods(), teller: compared.explainer() })
            }
        }
    }

    fn page(&self, mut report: Report<'_>) -> io::Result<(Vec<u8>, u64)> {
        report.serving = Some(Serving { is_live: self.is_live });
        let mut page = Vec::new();
        page::write(&report, &mut page)?;
        Ok((page, report.made_ms))
    }
}
