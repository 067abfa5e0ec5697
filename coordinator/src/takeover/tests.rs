//! The lead as tables: inputs by second, and the expected actions.

use super::*;

fn elected() -> Input {
    Input::Elected { epoch: 7, after: None }
}

/// Elected; the previous leader's last write to a pod has this version.
fn elected_after(version: u64) -> Input {
    Input::Elected { epoch: 7, after: Some(version) }
}

const CATCH_UP: Action = Action::CatchUp { after: None };
const SETTLE_FIRST: &[Action] = &[Action::Settle];

fn release(reason: Option<&str>) -> Action {
    Action::Release { reason: reason.map(str::to_owned), committed: None }
}

fn lead() -> Action {
    Action::Lead { epoch: 7 }
}

fn behind() -> Input {
    Input::Behind("429".to_owned())
}

fn view(seconds: u64) -> Input {
    Input::View(Duration::from_secs(seconds))
}

/// Applies a script of inputs, each at its second, and compares the actions.
fn play(name: &str, (mut takeover, first): (Takeover, Vec<Action>), begin: Action, script: &[(f64, Input, &[Action])]) {
    assert_eq!(first, [begin], "{name}");
    let start = Instant::now();
    for (at, input, actions) in script {
        let done = takeover.apply(start + Duration::from_secs_f64(*at), input.clone());
        assert_eq!(done, *actions, "{name}: {input:?} at {at} s");
    }
}

fn standby() -> (Takeover, Vec<Action>) {
    Takeover::new(true, false)
}

const TAKEN_UP: [(f64, Input, &[Action]); 4] = [
    (1.0, Input::Synced, &[Action::Stand]),
    (20.0, Input::Elected { epoch: 7, after: None }, &[CATCH_UP]),
    (20.1, Input::CaughtUp, &[Action::Lead { epoch: 7 }]),
    (20.2, Input::Led, &[]),
];

fn after_takeover(name: &str, rest: &[(f64, Input, &[Action])]) {
    let script: Vec<_> = TAKEN_UP.into_iter().chain(rest.iter().cloned()).collect();
    play(name, standby(), Action::Watch, &script);
}

#[test]
fn a_process_stands_for_election_once_its_lists_are_through() {
    play("standby", standby(), Action::Watch, &[(0.5, view(0), &[]), (1.0, Input::Synced, &[Action::Stand])]);
    play(
        "with delayCacheUntilActive it lists once it leads",
        Takeover::new(true, true),
        Action::Stand,
        &[(1.0, elected(), &[Action::Watch]), (9.0, Input::Synced, &[CATCH_UP]), (9.1, Input::CaughtUp, &[lead()])],
    );
    play(
        "without an election nobody has led before",
        Takeover::new(false, false),
        Action::Watch,
        &[(0.0, elected(), &[Action::Watch]), (1_000.0, Input::Tick, &[]), (1_001.0, Input::Synced, &[lead()])],
    );
}

#[test]
fn the_barrier_is_tried_for_as_long_as_the_lead_lasts_and_nothing_is_decided_before() {
    let script = [
        (1.0, Input::Synced, &[Action::Stand][..]),
        (20.0, elected(), &[CATCH_UP]),
        (25.0, behind(), &[]),
        (25.2, Input::Tick, &[]),
        (25.25, Input::Tick, &[CATCH_UP]),
        (26.0, Input::Tick, &[]),
        (30.0, behind(), &[]),
        (30.5, Input::Tick, &[CATCH_UP]),
    ];
    play("two attempts", standby(), Action::Watch, &script);
    let (mut takeover, _) = standby();
    let start = Instant::now();
    takeover.apply(start, Input::Synced);
    takeover.apply(start, elected());
    let mut now = start;
    for _ in 0..100 {
        assert_eq!(takeover.apply(now, behind()), []);
        now = takeover.next_wakeup().expect("another attempt");
        assert_eq!(takeover.apply(now, Input::Tick), [CATCH_UP]);
    }
    let reason = takeover.health(now).expect_err("it leads and does not schedule");
    assert!(reason.starts_with("leading for 387 s") && reason.ends_with("429"), "{reason}");
    assert_eq!(takeover.apply(now, Input::CaughtUp), [lead()]);
    assert_eq!(takeover.health(now), Ok(()));
}

#[test]
fn the_lease_is_given_back_only_once_the_machine_follows_and_nothing_is_under_way() {
    after_takeover(
        "SIGTERM",
        &[
            (30.0, Input::Terminate, &[Action::Follow]),
            (30.1, Input::Drained, &[]),
            (30.2, Input::Followed, &[Action::Drain]),
            (33.0, Input::Tick, &[]),
            (34.0, Input::Drained, SETTLE_FIRST),
            (34.1, Input::Settled(Some(812)), &[Action::Release { reason: None, committed: Some(812) }]),
            (99.0, Input::Tick, &[]),
        ],
    );
    let late = "work in flight did not end within 15s; the lease is left to expire";
    after_takeover(
        "writes that do not end",
        &[
            (30.0, Input::Terminate, &[Action::Follow]),
            (30.2, Input::Followed, &[Action::Drain]),
            (45.0, Input::Tick, &[Action::Abandon(late.to_owned())]),
            (46.0, Input::Drained, &[]),
        ],
    );
    after_takeover(
        "a machine that hangs",
        &[(30.0, Input::Terminate, &[Action::Follow]), (45.0, Input::Tick, &[Action::Abandon(late.to_owned())])],
    );
    let twice = "second termination signal: exiting without waiting for work in flight".to_owned();
    after_takeover(
        "a second signal",
        &[(30.0, Input::Terminate, &[Action::Follow]), (31.0, Input::Terminate, &[Action::Abandon(twice)])],
    );
}

#[test]
fn the_end_of_a_lead_never_overtakes_its_begin() {
    let script = [
        (1.0, Input::Synced, &[Action::Stand][..]),
        (20.0, elected(), &[CATCH_UP]),
        (20.1, Input::CaughtUp, &[lead()]),
        (20.2, Input::Terminate, &[]),
        (20.3, Input::Led, &[Action::Follow]),
        (20.4, Input::Followed, &[Action::Drain]),
        (20.5, Input::Drained, SETTLE_FIRST),
        (20.6, Input::Settled(None), &[release(None)]),
    ];
    play("SIGTERM right after the election", standby(), Action::Watch, &script);
}

#[test]
fn who_does_not_decide_yet_gives_the_lease_back_at_once() {
    let over: &[Action] = &[release(None)];
    play("standing", standby(), Action::Watch, &[(1.0, Input::Terminate, over), (2.0, elected(), &[])]);
    let elected_first = [(1.0, elected(), &[Action::Watch][..]), (2.0, Input::Terminate, over)];
    play("elected", Takeover::new(true, true), Action::Stand, &elected_first);
    let script = [
        (1.0, Input::Synced, &[Action::Stand][..]),
        (2.0, elected(), &[CATCH_UP]),
        (3.0, Input::Terminate, over),
        (4.0, Input::CaughtUp, &[]),
    ];
    play("barrier", standby(), Action::Watch, &script);
}

#[test]
fn a_leader_that_cannot_schedule_gives_the_lease_back() {
    let why = "the initial lists are not complete after 300s as leader".to_owned();
    let missing = [
        (1.0, elected(), &[Action::Watch][..]),
        (300.9, Input::Tick, &[]),
        (301.0, Input::Tick, &[release(Some(&why))]),
    ];
    play("lists that never come", Takeover::new(true, true), Action::Stand, &missing);

    let ended = || Input::WatchEnded("pods: panicked".to_owned());
    let why = Some("a watch has ended: pods: panicked".to_owned());
    after_takeover(
        "a watch that ended",
        &[
            (30.0, ended(), &[Action::Follow]),
            (30.1, Input::Followed, &[Action::Drain]),
            (30.2, Input::Drained, SETTLE_FIRST),
            (30.3, Input::Settled(None), &[release(why.as_deref())]),
        ],
    );
    play("a standby whose watch ended", standby(), Action::Watch, &[(1.0, ended(), &[release(why.as_deref())])]);

    let why = Some("the API server's controller of leader election has chosen another leader".to_owned());
    after_takeover(
        "a term that ended",
        &[
            (30.0, Input::TermEnded, &[Action::Follow]),
            (30.1, Input::Followed, &[Action::Drain]),
            (30.2, Input::Drained, SETTLE_FIRST),
            (30.3, Input::Settled(None), &[release(why.as_deref())]),
        ],
    );

    let old = "the pod or node cache is 181 s old, more than 180 s: binding has stopped".to_owned();
    after_takeover(
        "a view that is not told anything",
        &[
            (30.0, view(180), &[]),
            (31.0, view(181), &[Action::Follow]),
            (31.1, Input::Followed, &[Action::Drain]),
            (31.2, Input::Drained, SETTLE_FIRST),
            (31.5, Input::Tick, &[release(Some(&old))]),
        ],
    );
    let script = [
        (1.0, Input::Synced, &[Action::Stand][..]),
        (20.0, elected(), &[CATCH_UP]),
        (25.0, behind(), &[]),
        (201.0, view(181), &[release(Some(&old))]),
    ];
    play("at the barrier", standby(), Action::Watch, &script);
}

#[test]
fn a_standby_whose_view_is_too_old_does_not_stand_until_it_is_fresh_again() {
    let (mut takeover, _) = standby();
    let now = Instant::now();
    takeover.apply(now, Input::Synced);
    assert_eq!(takeover.may_stand(), Ok(()));
    assert_eq!(takeover.apply(now, view(181)), [], "and stays, to be there when the view is fresh again");
    assert!(takeover.may_stand().is_err());
    takeover.apply(now, view(2));
    assert_eq!(takeover.may_stand(), Ok(()));
}

#[test]
fn what_the_leader_before_says_is_enough_once_and_is_not_believed_where_it_does_not_come_true() {
    let script = [
        (1.0, Input::Synced, &[Action::Stand][..]),
        (20.0, elected_after(812), &[Action::CatchUp { after: Some(812) }]),
        (20.001, Input::CaughtUp, &[lead()]),
    ];
    play("a view that is as new as that", standby(), Action::Watch, &script);
    let script = [
        (1.0, Input::Synced, &[Action::Stand][..]),
        (20.0, elected_after(812), &[Action::CatchUp { after: Some(812) }]),
        (21.0, behind(), &[]),
        (21.25, Input::Tick, &[CATCH_UP]),
        (22.0, behind(), &[]),
        (22.5, Input::Tick, &[CATCH_UP]),
        (22.6, Input::CaughtUp, &[lead()]),
    ];
    play("a version that nobody ever sees", standby(), Action::Watch, &script);
    let lazily = [
        (1.0, elected_after(812), &[Action::Watch][..]),
        (9.0, Input::Synced, &[Action::CatchUp { after: Some(812) }]),
    ];
    play("with delayCacheUntilActive", Takeover::new(true, true), Action::Stand, &lazily);
}

#[test]
fn a_leader_that_does_not_see_its_own_binds_in_time_says_nothing_of_them() {
    let ending = [
        (30.0, Input::Terminate, &[Action::Follow][..]),
        (30.1, Input::Settled(Some(812)), &[]),
        (30.2, Input::Followed, &[Action::Drain]),
        (30.3, Input::Settled(Some(812)), &[]),
        (30.4, Input::Drained, SETTLE_FIRST),
    ];
    let late =
        [(30.69, Input::Tick, &[][..]), (30.71, Input::Tick, &[release(None)]), (30.8, Input::Settled(Some(812)), &[])];
    after_takeover("late", &[&ending[..], &late].concat());
    let twice = "second termination signal: exiting without waiting for work in flight".to_owned();
    let impatient = [(30.5, Input::Terminate, &[Action::Abandon(twice)][..])];
    after_takeover("a second signal", &[&ending[..], &impatient].concat());
    let script = [
        (1.0, Input::Synced, &[Action::Stand][..]),
        (20.0, elected_after(812), &[Action::CatchUp { after: Some(812) }]),
        (20.5, Input::Terminate, &[release(None)]),
    ];
    play("a leader that never saw what others wrote", standby(), Action::Watch, &script);
}
