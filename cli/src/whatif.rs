//! `flotilla whatif`: simulates a change and compares the cluster without and with it.

use std::{collections::BTreeMap, process::ExitCode};

use flotilla_cluster::{Cluster, Edit};
use flotilla_configuration::Configuration;
use flotilla_framework::registry::Registry;
use flotilla_simulate::run::Settings;
use serde_json::{Map, Value};

use crate::{
    cluster::{self, Files, Manifests, Origin},
    input::{self, Inputs, Text},
    output::{Failure, STAYS_PENDING, print_notes},
    progress::log,
    rollouts::{NotCreated, Rollout},
};

mod args;
mod compare;
mod drains;
pub(crate) mod output;
mod page;
mod plan;
mod removal;
mod side;
mod survey;

pub(crate) use args::{CHANGES, Changes, Format, WhatifArgs};
pub(crate) use page::Compared;

use args::FailOn;
use compare::Answer;
use plan::Plan;
use removal::Removal;
use side::Side;
use survey::{ObjectName, Survey, key, template};

/// The command's name in messages.
const NAME: &str = "flotilla whatif";

/// The objects that are applied, with their pod templates.
#[derive(Default)]
struct Applied(BTreeMap<ObjectName, Option<Value>>);

impl Edit for Applied {
    fn edit(&mut self, kind: &str, object: &mut Map<String, Value>, _: bool) -> bool {
        self.0.insert(key(kind, object), template(kind, object));
        true
    }

    fn added(&mut self) -> Vec<Value> {
        Vec::new()
    }
}

pub(crate) fn command(args: &WhatifArgs, registry: Registry) -> ExitCode {
    crate::output::end(whatif(args, registry))
}

fn whatif(args: &WhatifArgs, registry: Registry) -> Result<ExitCode, Failure> {
    let compared = compared(args, None, registry)?;
    let answer = &compared.answer;
    crate::output::print(|out| match args.output {
        Format::Html => compared.print(out),
        format => answer.print(format, out),
    })?;
    let fails = |what: &FailOn| match what {
        FailOn::Pending => answer.has_pending() || compared.is_refused,
        FailOn::Preemption => !answer.preemptions.is_empty(),
        FailOn::Blocked => answer.drains.iter().any(drains::Drain::is_blocked),
        FailOn::Removable => answer.removal.as_ref().is_some_and(Removal::is_any),
        FailOn::Stuck => answer.rollouts.iter().any(Rollout::is_stuck),
    };
    Ok(if args.fail_on.iter().any(fails) { ExitCode::from(STAYS_PENDING) } else { ExitCode::SUCCESS })
}

/// Simulates both sides. `fallback`: the current configuration if no file is given.
pub(crate) fn compared(args: &WhatifArgs, fallback: Option<&Text>, registry: Registry) -> Result<Compared, Failure> {
    log(args.verbose);
    if args.fail_on.contains(&FailOn::Removable) && !args.changes.remove_node.iter().any(|node| node == removal::AUTO) {
        let text = "--fail-on removable: no search for such nodes was asked for; add --remove-node auto";
        return Err(Failure::input(vec![text.to_owned()]));
    }
    let gates = cluster::gates(&args.feature_gates)?;
    let now = Origin::new(args.current_config.as_deref(), fallback);
    let next = args.config.as_deref().map_or(now, Origin::File);
    let (now, refuse_now) = cluster::configuration_without_calls(now, &gates, registry, NAME)?;
    let (next, refuse_next) = cluster::configuration_without_calls(next, &gates, registry, NAME)?;
    let mut survey = Survey::new(&args.reading.pod_template);
    let inputs = Inputs::of(&args.files, &args.reading, &args.live)?;
    let (mut files, before) = Files::read(inputs, &mut survey, &now.profiles, &gates)?;
    let mut applied = Applied::default();
    files.apply(&args.changes.apply, &mut applied, &next.profiles, &gates)?;
    let mut plan = Plan::new(&args.changes, &survey, &applied.0).map_err(Failure::input)?;
    let after = files.changed(&mut plan, &next.profiles, &gates, Manifests::of(args.is_asked()))?;
    let search = plan.is_searched.then(|| removal::candidates(&survey, &before.nodes));
    drop((survey, files));
    print_notes(&plan.notes);
    print_notes(&after.made.new_lines(&before.made));
    let is_refused = after.made.refused.iter().any(|refused| !before.made.refused.contains(refused));
    let (before, after) = (before.showing(registry, &now.profiles), after.showing(registry, &next.profiles));
    refused(&before, refuse_now)?;
    refused(&after, refuse_next)?;
    let mut words = plan.words;
    words.extend(args.config.as_ref().map(|path| format!("decide by {}", path.display())));
    let drained = plan.drained.iter().map(|node| node.as_str().into()).collect();
    let now = settings(args, now, registry);
    let next = Settings { drained, ..settings(args, next, registry) };
    let before = Side::of(before, &now).map_err(Failure::run)?;
    let (after, removals) = Side::with_removals(after, &next, search.as_ref()).map_err(Failure::run)?;
    let removal = search.map(|_| Removal::new(&removals, &after));
    words.extend(removal.iter().map(Removal::sentence));
    let answer = Answer { removal, ..Answer::new(words, &before, &after, &next.profiles, registry) };
    print_notes(&NotCreated::lines(&answer.not_created));
    let was_missing = NotCreated::all(&before.report);
    let is_refused = is_refused || answer.not_created.iter().any(|one| !was_missing.contains(one));
    let Settings { profiles, extenders, .. } = next;
    let subject = input::names(&args.files);
    Ok(Compared {
        answer,
        is_refused,
        before,
        after,
        profiles,
        extenders,
        subject,
        registry,
        is_asked: args.is_asked(),
    })
}

fn refused(
    cluster: &Cluster,
    refuse: impl Fn(&flotilla_framework::class::PodInfo) -> Option<Failure>,
) -> Result<(), Failure> {
    cluster.pending.iter().find_map(|pod| refuse(pod)).map_or(Ok(()), Err)
}

fn settings(args: &WhatifArgs, configuration: Configuration, registry: Registry) -> Settings {
    let Configuration { profiles, extenders, .. } = configuration;
    Settings {
        registry,
        profiles,
        extenders,
        workers: args.workers,
        tie_break_seed: 0,
        once: false,
        may_preempt: true,
        drained: Vec::new(),
    }
}
