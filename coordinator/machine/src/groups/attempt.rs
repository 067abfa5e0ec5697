//! An attempt at a pod group: tries its members in order, each after the members before it are charged.
//!
//! First the machine requests evaluations of the members' classes. Until the answers arrive the group stays at the head of the queue. Then
//! it decides all members within one event, with the same code as for single pods. Each member that finds a node is charged to it at once,
//! so that the next decision includes it. Missing results are evaluated on the coordinator. The end of the [`Scratch`] removes all
//! charges, and `outcome` carries out the result, so that no event sees half a group.
//!
//! Source: `podGroupSchedulingDefaultAlgorithm`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::pod_group::{Feasibility, Topology};

use crate::{
    action::{PodName, PreemptorKind},
    asking::{LOOK_AHEAD, MAX_K},
    cycle::Progress,
    event::TimeMs,
    groups::{
        placements::Within,
        room::Room,
        scratch::Scratch,
        search::Course,
        tree::Branch,
        tried::{Asks, GroupPreemption, GroupRefusal, Seeker, Tried},
    },
    judge::{
        class_states::ClassStates,
        decision::{Attempt, Decision, Need, Want},
        extender_answers::Question,
        reserve::MAX_PREPARATIONS,
        work::GROUP_WORK,
    },
    machine::Machine,
    preempt::Preemptor,
    site::Site,
    subject::{GroupKey, Subject, Uid},
    tally::GroupAttempt,
};

/// Maximum number of a group's classes that workers evaluate ahead. A group usually has one class, or one per index; further classes are
/// evaluated on the coordinator.
const MAX_CLASSES: usize = 64;

impl Machine {
    pub(crate) fn attempt_group(&mut self, now_ms: TimeMs, entity: &Uid) -> Progress {
        let key = self.groups.entities.get(entity).cloned();
        let Some(branch) = key.and_then(|key| self.site().branch(&key)) else {
            self.queue.remove(entity);
            return Progress::Decided;
        };
        let (key, object, members) = (&branch.key, &branch.object, branch.all_members());
        if let Err(error) = self.site().validate_group(&branch, &members) {
            self.fail_group(now_ms, &branch, error);
            return Progress::Decided;
        }
        let Some((profile, _)) = members.first().and_then(|uid| self.pods.member_subject(uid)) else {
            self.queue.remove(entity);
            return Progress::Decided;
        };
        let from = self.groups.begin_attempt(now_ms, key, self.judge.cache().revision());
        let seeker = Seeker { branch: &branch, object, profile, members: &members, from };
        if let Some(tried) = self.site().lacks_resources(&seeker) {
            self.site().count_group(now_ms, key, &seeker, (&tried, None));
            self.conclude_group(now_ms, &branch, tried, None);
            return Progress::Decided;
        }
        let feasibility = self.settings.feasibility(object, profile, branch.met(), branch.remaining());
        let tried = match feasibility {
            Feasibility::Never(reason) if object.topology == Topology::Off => Tried::never(&reason, &branch),
            feasibility => {
                let is_tried =
                    !matches!(feasibility, Feasibility::Never(_)) && !self.site().is_tried_in_domains(&seeker);
                if is_tried && self.site().waits_for_offers(now_ms, key, &members) {
                    return Progress::Waiting;
                }
                match self.site().try_members_surely(&seeker) {
                    Ok(tried) => tried,
                    Err(asks) => return self.ask_for_group(now_ms, key, false, asks),
                }
            }
        };
        let is_rejected = matches!(tried.outcome, Err(GroupRefusal::Rejected(_)));
        let room = is_rejected.then(|| self.site().find_room(&seeker, &tried));
        let room = match room.transpose() {
            Ok(room) => room.map(|room| self.make_room(now_ms, &seeker, room)),
            Err(asks) => return self.ask_for_group(now_ms, key, true, asks),
        };
        if tried.outcome.is_ok() {
            let placed = tried.placed().into_iter();
            let nodes: Vec<Arc<str>> = placed.map(|(_, placement)| Arc::clone(&placement.charge.node)).collect();
            if self.gives_way(now_ms, entity, &nodes) {
                return Progress::Decided;
            }
        }
        self.site().count_group(now_ms, key, &seeker, (&tried, room.as_ref()));
        self.conclude_group(now_ms, &branch, tried, room);
        Progress::Decided
    }

    /// Deletes the victims for a group, and frees claims. Returns the result for the members.
    fn make_room(&mut self, now_ms: TimeMs, seeker: &Seeker<'_>, room: Room) -> GroupPreemption {
        let Room { outcome, victims, freed } = room;
        let first = seeker.members.first().and_then(|uid| self.pods.get(uid));
        if let Some((victims, first)) = victims.zip(first) {
            let (object, scheduler_name) = (seeker.object, Arc::clone(&first.info.scheduler_name));
            // No pod has the UID of a group, so a lookup of the preemptor finds none.
            let name = PodName {
                uid: Arc::clone(&object.uid),
                namespace: Arc::clone(&object.namespace),
                name: Arc::clone(&object.name),
            };
            let kind = match seeker.branch.is_composite() {
                true => PreemptorKind::CompositePodGroup,
                false => PreemptorKind::PodGroup,
            };
            let preemptor = Preemptor { name, kind, pods: seeker.members.to_vec(), scheduler_name, node: None };
            let uid = Arc::clone(&preemptor.name.uid);
            self.evict(now_ms, preemptor, &victims, true);
            if self.preemptions.is_under_way(&uid) {
                self.groups.begin_preemption(&uid, &seeker.branch.key);
            }
        }
        freed.into_iter().for_each(|unreserve| self.shards().free(unreserve));
        outcome
    }

    fn ask_for_group(&mut self, now_ms: TimeMs, key: &GroupKey, for_room: bool, asks: Asks) -> Progress {
        let Asks { uid, question } = asks;
        let extenders = self.settings.extenders_of(self.pods.get(&uid));
        self.send(now_ms, &uid, &extenders, question, Some((key.clone(), for_room)));
        Progress::Waiting
    }
}

impl Site<'_> {
    /// Counts a completed attempt.
    ///
    /// Source: `podgroup_schedule_attempts_total` and `workload_preemption_attempts_total`.
    fn count_group(
        &mut self,
        now_ms: TimeMs,
        key: &GroupKey,
        seeker: &Seeker<'_>,
        (tried, room): (&Tried, Option<&GroupPreemption>),
    ) {
        let Some(profile) = self.settings.profile(seeker.profile) else { return };
        let result = match (&tried.outcome, room) {
            (Ok(()), _) => "scheduled",
            (Err(GroupRefusal::Failed(_)), _) | (_, Some(GroupPreemption::Failed(_))) => "error",
            (_, Some(GroupPreemption::Coming(..))) => "waiting_on_preemption",
            (Err(GroupRefusal::Rejected(_)), _) => "unschedulable",
        };
        let room = room.map(|room| match room {
            GroupPreemption::Coming(..) => "Success",
            GroupPreemption::None(_) => "Unschedulable",
            GroupPreemption::Failed(_) => "Error",
        });
        let profile = Arc::clone(&profile.scheduler_name);
        let members = u32::try_from(tried.decisions().count()).unwrap_or(u32::MAX);
        let begun_ms = self.groups.known.get(key).and_then(|group| group.attempt_ms).unwrap_or(now_ms);
        let waited_ms = now_ms.saturating_sub(begun_ms);
        let placements = self.tally.take_placements();
        self.tally.count_group(GroupAttempt { profile, result, room, members, waited_ms, placements });
    }

    /// Checks that these pods may be placed together with the placed pods of the group.
    fn validate_group(&self, branch: &Branch, members: &[Uid]) -> Result<(), String> {
        let standing =
            self.groups.members(&branch.key).filter_map(|uid| self.pods.get(uid)).filter(|pod| pod.charge.is_some());
        let waiting = members.iter().filter_map(|uid| self.pods.get(uid));
        branch.object.validate(waiting.chain(standing).map(|pod| &*pod.info))
    }

    /// Requests evaluations of the members' classes. `true`: results are missing. Each class is requested once per attempt, so that the
    /// attempt ends regardless of events.
    fn waits_for_offers(&mut self, now_ms: TimeMs, key: &GroupKey, members: &[Uid]) -> bool {
        if self.shards.is_alone(now_ms) {
            return false;
        }
        if !self.shards.roster.is_any_ready() {
            return true;
        }
        let mut subjects: BTreeMap<Subject, u32> = BTreeMap::new();
        for uid in members {
            let Some(subject) = self.pods.member_subject(uid) else { continue };
            let bound = MAX_CLASSES.min(ClassStates::wide_bound(self.shards.judge.cache().nodes().len()));
            if subjects.len() < bound || subjects.contains_key(&subject) {
                *subjects.entry(subject).or_insert(0) += 1;
            }
        }
        let mut waits = false;
        for (subject, pods) in subjects {
            let is_new = self.groups.known.get_mut(key).is_some_and(|group| group.asked.insert(subject));
            waits |= self.shards.judge.open(subject) && self.waits_for_offers_of(now_ms, subject, pods, is_new);
        }
        waits
    }

    /// Whether a request for this many pods of a subject is in flight. `may`: sends it if necessary.
    fn waits_for_offers_of(&mut self, now_ms: TimeMs, subject: Subject, pods: u32, may: bool) -> bool {
        if may {
            self.shards.judge.bring_up(subject);
            match self.shards.judge.wants(subject) {
                Some(Want::Whole(head)) => self.ask_for(now_ms, head, u32::MAX, true),
                Some(Want::Offers(subject)) => {
                    let others = LOOK_AHEAD + self.shards.judge.nominator().nodes_len();
                    let k = (pods as usize + others).min(MAX_K);
                    self.ask_for(now_ms, subject, u32::try_from(k).unwrap_or(u32::MAX), false);
                }
                None => {}
            }
        }
        self.shards.judge.is_asked(subject)
    }

    /// Tries the members, and searches other orders of them if the profile enables it.
    fn try_members_surely(&mut self, seeker: &Seeker<'_>) -> Result<Tried, Asks> {
        let tried = self.try_in_order(seeker)?;
        Scratch::new(self).search_after(seeker, false, tried)
    }

    /// Tries the members. If too few fit according to workers, and a search may follow, evaluates on the coordinator and tries them again.
    fn try_in_order(&mut self, seeker: &Seeker<'_>) -> Result<Tried, Asks> {
        let tried = Scratch::new(self).try_root(seeker, &mut Course::greedy(false))?;
        if self.is_tried_in_domains(seeker)
            || !matches!(tried.outcome, Err(GroupRefusal::Rejected(_)))
            || !(self.may_make_room(seeker) || self.steps_of(seeker).is_some())
        {
            return Ok(tried);
        }
        let refused = tried.decisions().filter(|(_, decision)| matches!(decision, Decision::Refuse(..)));
        let subjects: BTreeSet<Subject> = refused.filter_map(|(uid, _)| self.pods.member_subject(uid)).collect();
        let unverified: Vec<Subject> =
            subjects.into_iter().filter(|subject| self.shards.judge.is_reported_by_workers(*subject)).collect();
        if unverified.is_empty() {
            return Ok(tried);
        }
        for subject in unverified {
            self.shards.judge.contained(subject, |judge| judge.evaluate_here(subject));
        }
        Scratch::new(self).try_root(seeker, &mut Course::greedy(false))
    }
}

impl Scratch<'_, '_> {
    /// Tries the members in a placement until enough can no longer be placed.
    ///
    /// # Errors
    /// Extenders have to be called first.
    pub(super) fn try_members(
        mut self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        within: &mut Within,
        course: &mut Course,
    ) -> Result<Tried, Asks> {
        if course.search.is_some() {
            return self.search_members((seeker, branch), within, course);
        }
        let mut scheduled = branch.met();
        let mut left = branch.members.iter().cloned();
        let (mut outcome, mut decisions) = (Ok(()), Vec::new());
        while let Some(uid) = left.next() {
            let decision = match self.try_member(&uid, seeker, within, course.for_room) {
                Ok(decision) => decision,
                Err(question) => return Err(Asks { uid, question }),
            };
            scheduled += usize::from(matches!(decision, Decision::Place(_)));
            let refusal = self.refusal_after(&decision, (seeker, branch), scheduled, left.len());
            decisions.push((uid, decision));
            if let Some(refusal) = refusal {
                outcome = Err(refusal);
                break;
            }
        }
        Ok(Tried { untried: left.collect(), ..Tried::of(outcome, decisions) })
    }

    /// Why the attempt ends after this decision, with this many members placed and left.
    fn refusal_after(
        &self,
        decision: &Decision,
        (seeker, branch): (&Seeker<'_>, &Branch),
        scheduled: usize,
        left: usize,
    ) -> Option<GroupRefusal> {
        if let Decision::Fail(error) = decision {
            return Some(GroupRefusal::Failed(format!("failed to schedule other pod from a pod group: {error}")));
        }
        if self.shards.judge.states().work().of_event() > GROUP_WORK {
            return Some(GroupRefusal::Failed(format!(
                "placing the pod group takes more than the {GROUP_WORK} units of work that one attempt may take; split it, or \
                 give its pods fewer differences"
            )));
        }
        match self.settings.feasibility(&branch.object, seeker.profile, scheduled, left) {
            Feasibility::Never(reason) => Some(GroupRefusal::Rejected(reason)),
            Feasibility::Met | Feasibility::Wait => None,
        }
    }

    /// Tries a member, and charges it for the rest of the attempt. `Err`: extenders have to be called first.
    pub(super) fn try_member(
        &mut self,
        uid: &Uid,
        seeker: &Seeker<'_>,
        within: &mut Within,
        for_room: bool,
    ) -> Result<Decision, Question> {
        let site: &mut Site<'_> = self;
        let class = site.class_within(uid, within);
        let extenders = site.settings.extenders_of(site.pods.get(uid));
        let known = site.pods.member_subject(uid).zip(site.pods.get(uid));
        let Some((((profile, _), pod), class)) = known.zip(class) else {
            return Ok(Decision::Fail("the pod is not to be placed any more".to_owned()));
        };
        let own = pod.class;
        let group = site.groups.known.get(&seeker.branch.key);
        let attempt = Attempt {
            alone: true,
            is_member: true,
            own_node_refused: pod.attempts.own_node_refused == Some(seeker.from),
            extenders: &extenders,
            said: group.map(|group| (&group.heard, for_room)),
            may_prepare: site.preparations.len() < MAX_PREPARATIONS,
            ..Attempt::new(&pod.info, (profile, class), seeker.from)
        };
        let decided = site.shards.judge.decide(&attempt);
        site.shards.drop_mismatched();
        let mut decision = decided.or_else(|need| match need {
            Need::Extenders(question) => Err(question),
            // Members are decided with `alone`, so only extenders can be waited for.
            Need::Workers(_) => Ok(Decision::Fail("no decision could be made on the pod at once".to_owned())),
        })?;
        if let Decision::Place(placement) = &mut decision {
            placement.charge.class = own;
            self.place(uid, placement);
        }
        Ok(decision)
    }
}
