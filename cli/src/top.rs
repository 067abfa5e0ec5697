//! `flotilla top`: a live view of `flotilla status`.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use anyhow::Context as _;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};

use crate::{
    live::Connection,
    output::{Failure, end},
    status::{Report, gather, runtime},
};

mod args;
mod draw;
mod view;

pub(crate) use args::TopArgs;

use view::View;

/// The polling interval for keys.
const KEYS: Duration = Duration::from_millis(100);

pub(crate) fn command(args: &TopArgs) -> ExitCode {
    end(run(args).map(|()| ExitCode::SUCCESS))
}

fn run(args: &TopArgs) -> Result<(), Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let line =
            "flotilla top draws on a terminal, and this is none; use flotilla status, or flotilla status -o json";
        return Err(Failure::input(vec![line.to_owned()]));
    }
    let runtime = runtime()?;
    let connection = runtime.block_on(Connection::open(&args.targets.reach.server)).map_err(Failure::run)?;
    let (tell, told) = channel();
    let targets = args.targets.clone();
    let period = Duration::from_secs(u64::from(args.interval_s));
    let asking = runtime.spawn(async move {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // The user has quit.
            if tell.send(gather(&connection, &targets).await).is_err() {
                return;
            }
        }
    });
    // Restores the terminal on a panic too.
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal").map_err(Failure::run)?;
    let shown = show(&mut terminal, &told);
    ratatui::restore();
    asking.abort();
    shown.context("cannot draw on this terminal").map_err(Failure::run)
}

fn show(terminal: &mut DefaultTerminal, told: &Receiver<Report>) -> io::Result<()> {
    let mut view = View::default();
    loop {
        told.try_iter().for_each(|report| view.take_in(report));
        terminal.draw(|frame| draw::draw(frame, &view))?;
        if event::poll(KEYS)?
            && let Event::Key(key) = event::read()?
            && is_the_end(key)
        {
            return Ok(());
        }
    }
}

fn is_the_end(key: KeyEvent) -> bool {
    let interrupts = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let leaves = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    key.kind == KeyEventKind::Press && (leaves || interrupts)
}
