//! Elections in virtual time: every moment is an argument.

use super::*;

const LEASE: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

fn timings() -> Timings {
    Timings { lease_duration: LEASE, renew_deadline: DEADLINE, retry_period: RETRY }
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn held_by(holder: &str, transitions: i32, renewed_s: i64) -> Record {
    Record {
        holder: holder.to_owned(),
        duration_s: 15,
        transitions,
        acquired: None,
        renewed: Some(Timestamp::from_second(renewed_s).expect("a second in range")),
        preferred: None,
        committed: None,
    }
}

fn candidate(name: &str, now: Instant) -> Election {
    Election::new(name.to_owned(), timings(), 7, now)
}

fn stored(name: &str, claim: Claim, renewed_s: i64) -> Record {
    held_by(name, claim.transitions, renewed_s)
}

fn leader(now: Instant) -> Election {
    let mut election = candidate("a", now);
    assert_eq!(election.next(now), Step::Get);
    election.observe(now, None);
    let Step::Create(claim) = election.next(now) else { panic!("an absent record is created") };
    election.written(now, now, stored("a", claim, 0));
    election
}

#[test]
fn an_absent_record_is_created_and_then_renewed_every_period() {
    let t0 = Instant::now();
    let mut election = leader(t0);
    assert_eq!(election.lead(), Some((t0 + DEADLINE, 0)));
    assert_eq!(election.next(t0), Step::Wait(t0 + RETRY));
    let t1 = t0 + RETRY;
    assert_eq!(election.next(t1), Step::Update(Claim { transitions: 0, acquired: None }));
    election.written(t1, t1 + secs(0.5), held_by("a", 0, 2));
    assert_eq!(election.lead(), Some((t1 + DEADLINE, 0)));
    assert_eq!(election.next(t1 + secs(0.5)), Step::Wait(t1 + RETRY));
}

#[test]
fn a_lead_counts_from_when_the_write_was_sent_not_from_its_answer() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, None);
    election.next(t0);
    election.written(t0, t0 + secs(4.0), held_by("a", 0, 0));
    assert_eq!(election.lead(), Some((t0 + DEADLINE, 0)));
}

#[test]
fn a_record_of_another_is_waited_out_from_its_last_observed_change() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(held_by("b", 4, 100)));
    // An unchanged record does not prolong the wait; a changed one does.
    election.notice(t0 + secs(1.0), Some(held_by("b", 4, 100)));
    election.notice(t0 + secs(3.0), Some(held_by("b", 4, 102)));
    let expires = t0 + secs(3.0) + LEASE;
    let mut now = t0 + secs(3.0);
    let mut reads = 0;
    loop {
        match election.next(now) {
            Step::Wait(until) => now = until,
            Step::Get => {
                reads += 1;
                election.observe(now, Some(held_by("b", 4, 102)));
            }
            Step::Update(claim) => {
                assert_eq!(claim, Claim { transitions: 5, acquired: None });
                break;
            }
            step => panic!("unexpected {step:?}"),
        }
    }
    assert_eq!(now, expires, "taken over the moment it expires");
    assert!((4..=9).contains(&reads), "polled every 2 to 4.4 s, but {reads} reads in 15 s");
}

#[test]
fn times_written_by_another_machine_are_never_compared_with_a_clock() {
    let t0 = Instant::now();
    for renewed_s in [0, 4_102_444_800] {
        let mut election = candidate("a", t0);
        election.next(t0);
        election.observe(t0, Some(held_by("b", 0, renewed_s)));
        assert!(matches!(election.next(t0), Step::Wait(until) if until > t0), "not expired at sight");
        let before = t0 + LEASE - Duration::from_millis(1);
        assert_eq!(election.next(before), Step::Get);
        election.observe(before, Some(held_by("b", 0, renewed_s)));
        assert_eq!(election.next(before), Step::Wait(t0 + LEASE));
        assert_eq!(election.next(t0 + LEASE), Step::Get);
        election.observe(t0 + LEASE, Some(held_by("b", 0, renewed_s)));
        assert!(matches!(election.next(t0 + LEASE), Step::Update(_)));
    }
}

#[test]
fn the_duration_that_the_holder_wrote_is_honoured() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(Record { duration_s: 60, ..held_by("b", 0, 0) }));
    let now = t0 + secs(59.0);
    assert_eq!(election.next(now), Step::Get);
    election.observe(now, Some(Record { duration_s: 60, ..held_by("b", 0, 0) }));
    assert_eq!(election.next(now), Step::Wait(t0 + secs(60.0)));
}

#[test]
fn a_record_without_duration_is_honoured_for_our_own() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(Record { duration_s: 0, ..held_by("b", 0, 0) }));
    assert!(matches!(election.next(t0), Step::Wait(until) if until > t0));
    let now = t0 + LEASE;
    election.next(now);
    election.observe(now, Some(Record { duration_s: 0, ..held_by("b", 0, 0) }));
    assert!(matches!(election.next(now), Step::Update(_)));
}

#[test]
fn a_released_record_is_taken_at_once_and_starts_a_new_transition() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(held_by("b", 8, 1)));
    let t1 = t0 + secs(1.0);
    election.notice(t1, Some(Record { duration_s: 1, ..held_by("", 8, 2) }));
    assert_eq!(election.next(t1), Step::Get, "a watch may run behind, so it is read first");
    election.observe(t1, Some(Record { duration_s: 1, ..held_by("", 8, 2) }));
    assert_eq!(election.next(t1), Step::Update(Claim { transitions: 9, acquired: None }));
}

#[test]
fn a_conflict_while_acquiring_leaves_the_winner_its_turn() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(held_by("", 1, 0)));
    assert!(matches!(election.next(t0), Step::Update(_)));
    election.refused(t0);
    assert!(election.lead().is_none());
    assert!(matches!(election.next(t0), Step::Wait(until) if until >= t0 + RETRY));
}

#[test]
fn a_conflict_that_did_not_change_the_record_does_not_restart_the_wait() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(held_by("b", 1, 0)));
    let expired = t0 + LEASE;
    election.next(expired);
    election.observe(expired, Some(held_by("b", 1, 0)));
    assert!(matches!(election.next(expired), Step::Update(_)));
    election.refused(expired);
    let Step::Wait(again) = election.next(expired) else { panic!("rests after a conflict") };
    assert_eq!(election.next(again), Step::Get);
    election.observe(again, Some(held_by("b", 1, 0)));
    assert!(matches!(election.next(again), Step::Update(_)), "somebody's label edit is not a sign of life");
}

#[test]
fn a_conflict_while_renewing_is_read_and_retried_once_per_attempt() {
    let t0 = Instant::now();
    let mut election = leader(t0);
    let t1 = t0 + RETRY;
    assert!(matches!(election.next(t1), Step::Update(_)));
    election.refused(t1);
    assert_eq!(election.next(t1), Step::Get);
    // The answer to an earlier renewal was lost: this process holds the record in a newer version.
    election.observe(t1, Some(held_by("a", 0, 1)));
    assert_eq!(election.next(t1), Step::Update(Claim { transitions: 0, acquired: None }), "the epoch stays");
    election.refused(t1);
    assert_eq!(election.next(t1), Step::Wait(t1 + RETRY), "a fight over the record is no storm");
    assert_eq!(election.next(t1 + RETRY), Step::Get);
    assert_eq!(election.lead(), Some((t0 + DEADLINE, 0)), "and prolongs nothing");
}

#[test]
fn a_leader_that_reads_another_holder_has_lost() {
    let t0 = Instant::now();
    let mut election = leader(t0);
    election.next(t0 + RETRY);
    election.refused(t0 + RETRY);
    election.observe(t0 + RETRY, Some(held_by("b", 1, 5)));
    assert_eq!(election.next(t0 + RETRY), Step::Lost(Loss::Taken("b".to_owned())));
}

#[test]
fn a_leader_whose_record_was_cleared_by_others_has_lost() {
    let t0 = Instant::now();
    let mut election = leader(t0);
    election.next(t0 + RETRY);
    election.refused(t0 + RETRY);
    election.observe(t0 + RETRY, Some(held_by("", 0, 5)));
    assert_eq!(election.next(t0 + RETRY), Step::Lost(Loss::Cleared));
}

#[test]
fn a_leader_whose_renewals_fail_retries_every_period_until_the_deadline() {
    let t0 = Instant::now();
    let mut election = leader(t0);
    let mut now = t0;
    let mut attempts = 0;
    loop {
        match election.next(now) {
            Step::Wait(until) => now = until,
            Step::Update(_) => {
                attempts += 1;
                election.failed(now);
            }
            Step::Lost(loss) => {
                assert_eq!(loss, Loss::Deadline);
                break;
            }
            step => panic!("unexpected {step:?}"),
        }
    }
    assert_eq!(now, t0 + DEADLINE);
    assert_eq!(attempts, 4, "at 2, 4, 6 and 8 s");
}

#[test]
fn a_process_that_was_stopped_past_its_deadline_has_lost_without_asking() {
    let t0 = Instant::now();
    let mut election = leader(t0);
    assert_eq!(election.next(t0 + DEADLINE), Step::Lost(Loss::Deadline));
}

#[test]
fn a_leader_stops_before_a_standby_that_saw_its_last_renewal_may_start() {
    let t0 = Instant::now();
    let leader = leader(t0);
    let (valid_until, _) = leader.lead().expect("leads");
    // The standby cannot have observed the record before it was sent.
    let mut standby = candidate("b", t0);
    standby.next(t0);
    standby.observe(t0, Some(held_by("a", 0, 0)));
    let mut now = t0;
    loop {
        match standby.next(now) {
            Step::Wait(until) => now = until,
            Step::Get => standby.observe(now, Some(held_by("a", 0, 0))),
            _ => break,
        }
    }
    assert_eq!(now - valid_until, LEASE - DEADLINE);
}

#[test]
fn a_record_left_by_an_earlier_process_of_this_name_is_taken_under_a_new_epoch() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(held_by("a", 3, 100)));
    assert_eq!(election.next(t0), Step::Update(Claim { transitions: 4, acquired: None }));
}

#[test]
fn a_takeover_whose_answer_was_lost_is_completed_by_the_next_attempt() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(held_by("", 3, 1)));
    assert!(matches!(election.next(t0), Step::Update(Claim { transitions: 4, .. })));
    election.failed(t0 + secs(5.0));
    assert!(election.lead().is_none(), "stored or not, nobody told us");
    let Step::Wait(now) = election.next(t0 + secs(5.0)) else { panic!("rests after a failure") };
    assert_eq!(election.next(now), Step::Get);
    election.observe(now, Some(held_by("a", 4, 2)));
    assert_eq!(election.next(now), Step::Update(Claim { transitions: 5, acquired: None }));
}

#[test]
fn a_deleted_record_is_created_again_without_going_back_in_epochs() {
    let t0 = Instant::now();
    let mut standby = candidate("b", t0);
    standby.next(t0);
    standby.observe(t0, Some(held_by("a", 6, 0)));
    standby.notice(t0, None);
    assert_eq!(standby.next(t0), Step::Get);
    standby.observe(t0, None);
    assert_eq!(standby.next(t0), Step::Create(Claim { transitions: 7, acquired: None }));

    let mut leader = leader(t0);
    let t1 = t0 + RETRY;
    leader.next(t1);
    leader.refused(t1);
    assert_eq!(leader.next(t1), Step::Get);
    leader.observe(t1, None);
    assert_eq!(leader.next(t1), Step::Create(Claim { transitions: 0, acquired: None }));
}

#[test]
fn failing_reads_are_spread_between_one_and_two_point_two_periods() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    let mut now = t0;
    for _ in 0..200 {
        assert_eq!(election.next(now), Step::Get);
        election.failed(now);
        let Step::Wait(until) = election.next(now) else { panic!("rests after a failure") };
        let pause = until - now;
        assert!(pause >= RETRY && pause < RETRY.mul_f64(1.0 + JITTER_FACTOR), "paused {pause:?}");
        now = until;
    }
}

#[test]
fn two_candidates_and_a_lossy_server_never_lead_at_once() {
    // One record, two candidates, and answers lost by a seeded draw.
    for seed in 0..200u64 {
        let t0 = Instant::now();
        let mut world: Option<(u64, Record)> = None;
        let mut ends = [(candidate("a", t0), 0u64), (candidate("b", t0), 0u64)];
        ends[1].0.spread = seed;
        let mut dice = candidate("dice", t0);
        dice.spread = seed.wrapping_mul(31);
        let mut now = t0;
        let mut ticks = 0;
        while now < t0 + secs(120.0) {
            now += Duration::from_millis(100);
            ticks += 1;
            for (which, name) in ["a", "b"].into_iter().enumerate() {
                let (election, version) = &mut ends[which];
                let lost = dice.draw() < 0.5;
                match election.next(now) {
                    Step::Get if lost => election.failed(now),
                    Step::Get => {
                        *version = world.as_ref().map_or(0, |(v, _)| *v);
                        election.observe(now, world.as_ref().map(|(_, record)| record.clone()));
                    }
                    Step::Create(claim) | Step::Update(claim) => {
                        let current = world.as_ref().map_or(0, |(v, _)| *v);
                        if current != *version {
                            election.refused(now);
                            continue;
                        }
                        let record = stored(name, claim, ticks);
                        // Half of the lost requests are stored all the same.
                        if !lost || dice.draw() < 0.5 {
                            world = Some((current + 1, record.clone()));
                        }
                        if lost {
                            election.failed(now);
                        } else {
                            *version = current + 1;
                            election.written(now, now, record);
                        }
                    }
                    // The process ends and another of its name starts.
                    Step::Lost(_) => *election = candidate(name, now),
                    Step::Wait(_) => {}
                }
            }
            let leading = ends.iter().filter(|(e, _)| e.lead().is_some_and(|(until, _)| now < until)).count();
            assert!(leading <= 1, "two leaders with seed {seed} after {:?}", now - t0);
        }
    }
}

/// A record that its fourth holder released at second 90, with this annotation.
fn released(annotation: &str) -> Record {
    let record = held_by("", 3, 90);
    Record { committed: committed_in(annotation, &record), ..record }
}

#[test]
fn what_a_released_record_says_is_read_only_of_the_release_that_it_was_written_for() {
    let text = committed_text(3, Timestamp::from_second(90).expect("a time"), 812);
    assert_eq!(text, "3/90000000/812");
    assert_eq!(released(&text).committed, Some(812));
    let held = held_by("b", 3, 90);
    assert_eq!(committed_in(&text, &held), None, "somebody holds it");
    assert_eq!(committed_in(&text, &held_by("", 4, 90)), None, "another led since, who left the annotation as it was");
    assert_eq!(committed_in(&text, &held_by("", 3, 91)), None, "it was released again since");
    assert_eq!(committed_in(&text, &Record { renewed: None, ..held_by("", 3, 90) }), None);
    for wrong in [
        "",
        "/",
        "812",
        "3/90000000/",
        "3/90000000/0",
        "3/90000000/-1",
        "3/90000000/+812",
        "3/90000000/0812",
        "3/90000000/812 ",
        "3/90000000/8.0",
        "3/90000000/18446744073709551616",
        "3/90000000/1/812",
        "03/90000000/812",
        "3/90/812",
        "4/90000000/812",
    ] {
        assert_eq!(released(wrong).committed, None, "{wrong:?}");
    }
}

#[test]
fn who_takes_a_released_record_knows_what_its_holder_said_for_as_long_as_it_leads() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(released("3/90000000/812")));
    let Step::Update(claim) = election.next(t0) else { panic!("a released record is open") };
    assert_eq!(election.after(), None, "not ours yet");
    election.written(t0, t0, stored("a", claim, 91));
    assert_eq!(election.after(), Some(812));
    election.written(t0 + RETRY, t0 + RETRY, stored("a", claim, 93));
    assert_eq!(election.after(), Some(812));
}

#[test]
fn a_record_that_was_taken_by_a_write_whose_answer_was_lost_says_nothing_of_who_held_it_before() {
    let t0 = Instant::now();
    let mut election = candidate("a", t0);
    election.next(t0);
    election.observe(t0, Some(released("3/90000000/812")));
    let Step::Update(claim) = election.next(t0) else { panic!("a released record is open") };
    election.failed(t0 + secs(1.0));
    let Step::Wait(later) = election.next(t0 + secs(1.0)) else { panic!("a pause") };
    election.next(later);
    election.observe(later, Some(stored("a", claim, 91)));
    let Step::Update(claim) = election.next(later) else { panic!("our own record is open") };
    election.written(later, later, stored("a", claim, 92));
    assert_eq!(election.after(), None);
    let mut crashed = candidate("c", t0);
    crashed.next(t0);
    crashed.observe(t0, Some(held_by("b", 3, 90)));
    crashed.next(t0 + LEASE);
    crashed.observe(t0 + LEASE, Some(held_by("b", 3, 90)));
    let Step::Update(claim) = crashed.next(t0 + LEASE) else { panic!("an expired record is open") };
    crashed.written(t0 + LEASE, t0 + LEASE, stored("c", claim, 105));
    assert_eq!(crashed.after(), None, "a leader that was killed says nothing");
}

fn coordinated(now: Instant) -> Election {
    candidate("a", now).coordinated(true)
}

/// Reads this record at `now`.
fn read(election: &mut Election, now: Instant, record: Option<Record>) -> Step {
    assert_eq!(election.next(now), Step::Get);
    election.observe(now, record);
    election.next(now)
}

#[test]
fn a_coordinated_candidate_waits_until_the_record_names_it() {
    let t0 = Instant::now();
    let preferring = Record { preferred: Some("b".to_owned()), ..held_by("a", 3, 100) };
    for (case, record) in [
        ("no record", None),
        ("no holder", Some(held_by("", 3, 100))),
        ("another holder", Some(held_by("b", 3, 100))),
        ("its own term has ended", Some(preferring)),
    ] {
        let mut election = coordinated(t0);
        assert!(matches!(read(&mut election, t0, record), Step::Wait(until) if until > t0), "{case}");
        assert_eq!(election.lead(), None);
    }
    let mut election = coordinated(t0);
    read(&mut election, t0, Some(held_by("b", 3, 100)));
    // An expired record of another holder is the controller's.
    let later = t0 + 2 * LEASE;
    assert!(matches!(read(&mut election, later, Some(held_by("b", 3, 100))), Step::Wait(_)));
    election.notice(later, Some(held_by("a", 3, 130)));
    let Step::Update(claim) = read(&mut election, later, Some(held_by("a", 3, 130))) else { panic!("it is elected") };
    assert_eq!(claim, Claim { transitions: 4, acquired: None });
    election.written(later, later, held_by("a", 4, 130));
    assert_eq!(election.lead(), Some((later + DEADLINE, 4)));
}

#[test]
fn a_coordinated_candidate_does_not_claim_an_expired_record() {
    let t0 = Instant::now();
    let mut election = coordinated(t0);
    // The watch shows the election, and reads fail until the record has expired.
    election.notice(t0, Some(held_by("a", 3, 100)));
    let expired = t0 + LEASE + secs(1.0);
    assert!(matches!(read(&mut election, expired, Some(held_by("a", 3, 100))), Step::Wait(_)));
}

#[test]
fn a_coordinated_leader_ends_its_lead_when_another_holder_is_preferred() {
    let t0 = Instant::now();
    let mut election = coordinated(t0);
    read(&mut election, t0, Some(held_by("a", 3, 100)));
    election.written(t0, t0, held_by("a", 4, 100));
    assert_eq!(election.successor(), None);
    let t1 = t0 + RETRY;
    assert!(matches!(election.next(t1), Step::Update(_)));
    election.refused(t1);
    let ending = Record { preferred: Some("b".to_owned()), ..held_by("a", 4, 101) };
    assert_eq!(read(&mut election, t1, Some(ending)), Step::Wait(t0 + DEADLINE));
    assert_eq!((election.successor(), election.lead()), (Some("b"), Some((t0 + DEADLINE, 4))));
    assert_eq!(election.next(t0 + DEADLINE), Step::Lost(Loss::EndOfTerm("b".to_owned())));
}

#[test]
fn a_coordinated_leader_does_not_create_a_deleted_record() {
    let t0 = Instant::now();
    let mut election = coordinated(t0);
    read(&mut election, t0, Some(held_by("a", 3, 100)));
    election.written(t0, t0, held_by("a", 4, 100));
    let t1 = t0 + RETRY;
    assert!(matches!(election.next(t1), Step::Update(_)));
    election.refused(t1);
    assert_eq!(read(&mut election, t1, None), Step::Wait(t1 + RETRY));
    assert_eq!(read(&mut election, t1 + RETRY, None), Step::Wait(t1 + 2 * RETRY));
    assert_eq!(election.next(t0 + DEADLINE), Step::Lost(Loss::Deadline));
}
