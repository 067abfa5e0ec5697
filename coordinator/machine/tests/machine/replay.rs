//! The machine is deterministic: the same events and times give the same actions.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::registry::Registry;
use flotilla_machine::{
    action::Action,
    event::{Configuration, Event},
    machine::Machine,
};

use crate::{
    simulation::{Seed, step},
    world::{Turn, World, preempting},
};

/// A world with faults, recorded from its second event on; the first is its configuration.
fn recorded(seed_number: u64) -> Vec<Turn> {
    let mut seed = Seed(seed_number);
    let mut world = World::dormant(vec![preempting()]);
    world.tape = Some(Vec::new());
    world.tell(Event::Synced);
    world.tell(Event::Leading { epoch: 1 });
    let mut nodes = BTreeMap::new();
    for index in 0..200 {
        step(&mut world, &mut seed, &mut nodes, index);
    }
    world.settle();
    world.tape.unwrap_or_default()
}

fn first_difference(tape: &[Turn]) -> Option<(usize, &[Action], Vec<Action>)> {
    let mut machine = Machine::new(0, Registry::built_in());
    machine.apply(0, Event::Configured(Arc::new(Configuration::new(1, vec![preempting()]))));
    tape.iter().enumerate().find_map(|(index, (now_ms, event, before))| {
        let actions = machine.apply(*now_ms, event.clone());
        (actions != *before).then_some((index, &before[..], actions))
    })
}

#[test]
fn events_that_are_told_again_lead_to_the_same_actions() {
    let mut binds = 0;
    for seed in 2_000..2_020 {
        let tape = recorded(seed);
        let actions = tape.iter().flat_map(|(.., actions)| actions);
        binds += actions.filter(|action| matches!(action, Action::Bind(_))).count();
        assert_eq!(first_difference(&tape), None, "seed {seed}");
    }
    assert!(binds > 200, "only {binds}");
}

#[test]
fn an_event_that_is_left_out_is_noticed() {
    let mut tape = recorded(2_000);
    let first = tape.iter().position(|(_, event, _)| matches!(event, Event::NodeApplied(_))).expect("there are nodes");
    tape.remove(first);
    assert!(first_difference(&tape).is_some_and(|(index, ..)| index >= first));
}
