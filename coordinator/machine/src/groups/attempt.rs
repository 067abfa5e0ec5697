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

use flotilla_framework::{
    pod_group::{Feasibility, PodGroup, Topology},
    shard::Revision,
};

use crate::{
    asking::{LOOK_AHEAD, MAX_K},
    cycle::Progress,
    event::TimeMs,
    groups::{
        placements::Within,
        scratch::Scratch,
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
    pods::PodStage,
    subject::{GroupKey, ProfileIndex, Subject, Uid},
    tally::{GroupAttempt, PlacementCounts},
};

/// Maximum number of a group's classes that workers evaluate ahead. A group usually has one class, or one per index; further classes are
/// evaluated on the coordinator.
const MAX_CLASSES: usize = 64;

impl Machine {
    pub(crate) fn attempt_group(&mut self, now_ms: TimeMs, entity: &Uid) -> Progress {
        let known = self.groups.entities.get(entity).and_then(|key| self.groups.known.get_key_value(key));
        let ready = known.and_then(|(key, group)| Some((key.clone(), Arc::clone(group.object.as_ref()?), group)));
        let Some((key, object, group)) = ready else {
            self.queue.remove(entity);
            return Progress::Decided;
        };
        let members = self.in_order(group);
        if let Err(error) = self.validate_group(&key, &object, &members) {
            self.fail_group(now_ms, &key, &object, members, &error);
            return Progress::Decided;
        }
        let Some(profile) = members.first().and_then(|uid| self.member_profile(uid)) else {
            self.queue.remove(entity);
            return Progress::Decided;
        };
        let from = self.begin_attempt(now_ms, &key);
        let (scheduled, _) = self.groups.known.get(&key).map_or((0, 0), |group| self.counts(group));
        let seeker = Seeker { object: &object, profile, members: &members, scheduled, from };
        if let Some(tried) = self.lacks_resources(&seeker) {
            self.count_group(now_ms, &key, &seeker, (&tried, None));
            self.conclude_group(now_ms, &key, &object, tried, None);
            return Progress::Decided;
        }
        let feasibility = self.feasibility(&object, profile, scheduled, members.len());
        let tried = match feasibility {
            Feasibility::Never(reason) if object.topology == Topology::Off => Tried::never(&reason, &members),
            feasibility => {
                let is_tried = !matches!(feasibility, Feasibility::Never(_)) && !self.is_tried_in_domains(&seeker);
                if is_tried && self.waits_for_offers(now_ms, &key, &members) {
                    return Progress::Waiting;
                }
                match self.try_members_surely(&seeker) {
                    Ok(tried) => tried,
                    Err(asks) => return self.ask_for_group(now_ms, &key, false, asks),
                }
            }
        };
        let room = matches!(tried.outcome, Err(GroupRefusal::Rejected(_))).then(|| self.make_room(now_ms, &seeker));
        let room = match room.transpose() {
            Ok(room) => room,
            Err(asks) => return self.ask_for_group(now_ms, &key, true, asks),
        };
        if tried.outcome.is_ok() {
            let nodes: Vec<Arc<str>> =
                tried.placed().map(|(_, placement)| Arc::clone(&placement.charge.node)).collect();
            if self.gives_way(now_ms, entity, &nodes) {
                return Progress::Decided;
            }
        }
        self.count_group(now_ms, &key, &seeker, (&tried, room.as_ref()));
        self.conclude_group(now_ms, &key, &object, tried, room);
        Progress::Decided
    }

    fn begin_attempt(&mut self, now_ms: TimeMs, key: &GroupKey) -> Revision {
        let revision = self.judge.cache().revision();
        let Some(group) = self.groups.known.get_mut(key) else { return revision };
        group.attempt_ms.get_or_insert(now_ms);
        *group.attempt_from.get_or_insert(revision)
    }

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
        let Some(profile) = self.profile(seeker.profile) else { return };
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
        let members = u32::try_from(tried.decisions.len()).unwrap_or(u32::MAX);
        let begun_ms = self.groups.known.get(key).and_then(|group| group.attempt_ms).unwrap_or(now_ms);
        let waited_ms = now_ms.saturating_sub(begun_ms);
        let placements = PlacementCounts::default();
        self.tally.count_group(GroupAttempt { profile, result, room, members, waited_ms, placements });
    }

    pub(super) fn member_profile(&self, uid: &Uid) -> Option<ProfileIndex> {
        match self.pods.get(uid)?.stage {
            PodStage::Member { profile, .. } => Some(profile),
            _ => None,
        }
    }

    pub(super) fn feasibility(
        &self,
        object: &PodGroup,
        profile: ProfileIndex,
        scheduled: usize,
        remaining: usize,
    ) -> Feasibility {
        let profile = self.profile(profile);
        profile.map_or(Feasibility::Met, |profile| object.feasibility(&profile.plugins, scheduled, remaining))
    }

    /// Checks that these pods may be placed together with the placed pods of the group.
    fn validate_group(&self, key: &GroupKey, object: &PodGroup, members: &[Uid]) -> Result<(), String> {
        let standing = self.groups.known.get(key).into_iter().flat_map(|group| &group.members);
        let standing = standing.filter_map(|uid| self.pods.get(uid)).filter(|pod| pod.charge.is_some());
        let waiting = members.iter().filter_map(|uid| self.pods.get(uid));
        object.validate(waiting.chain(standing).map(|pod| &*pod.info))
    }

    /// Requests evaluations of the members' classes. `true`: results are missing. Each class is requested once per attempt, so that the
    /// attempt ends regardless of events.
    fn waits_for_offers(&mut self, now_ms: TimeMs, key: &GroupKey, members: &[Uid]) -> bool {
        if self.is_alone(now_ms) {
            return false;
        }
        if !self.can_ask() {
            return true;
        }
        let mut subjects: BTreeMap<Subject, u32> = BTreeMap::new();
        for uid in members {
            let Some(profile) = self.member_profile(uid) else { continue };
            let Some(pod) = self.pods.get(uid) else { continue };
            let bound = MAX_CLASSES.min(ClassStates::wide_bound(self.judge.cache().nodes.len()));
            if subjects.len() < bound || subjects.contains_key(&(profile, pod.class)) {
                *subjects.entry((profile, pod.class)).or_insert(0) += 1;
            }
        }
        let mut waits = false;
        for (subject, pods) in subjects {
            let is_new = self.groups.known.get_mut(key).is_some_and(|group| group.asked.insert(subject));
            waits |= self.judge.open(subject) && self.waits_for_offers_of(now_ms, subject, pods, is_new);
        }
        waits
    }

    /// Whether a request for this many pods of a subject is in flight. `may`: sends it if necessary.
    fn waits_for_offers_of(&mut self, now_ms: TimeMs, subject: Subject, pods: u32, may: bool) -> bool {
        if may {
            self.judge.bring_up(subject);
            match self.judge.wants(subject) {
                Some(Want::Whole(head)) => self.ask_whole(now_ms, head),
                Some(Want::Offers(subject)) => {
                    let others = LOOK_AHEAD + self.judge.nominator().nodes_len();
                    let k = (pods as usize + others).min(MAX_K);
                    self.ask_for(now_ms, subject, u32::try_from(k).unwrap_or(u32::MAX), false);
                }
                None => {}
            }
        }
        self.judge.is_asked(subject)
    }

    /// Tries the members. If too few fit according to workers, and preemption may follow, evaluates on the coordinator and tries them again.
    fn try_members_surely(&mut self, seeker: &Seeker<'_>) -> Result<Tried, Asks> {
        let tried = Scratch::new(self).try_placements(seeker, false)?;
        if self.is_tried_in_domains(seeker)
            || !matches!(tried.outcome, Err(GroupRefusal::Rejected(_)))
            || !self.may_make_room(seeker)
        {
            return Ok(tried);
        }
        let refused = tried.decisions.iter().filter(|(_, decision)| matches!(decision, Decision::Refuse(..)));
        let subjects: BTreeSet<Subject> = refused.filter_map(|(uid, _)| self.subject_of_member(uid)).collect();
        let unverified: Vec<Subject> =
            subjects.into_iter().filter(|subject| self.judge.is_reported_by_workers(*subject)).collect();
        if unverified.is_empty() {
            return Ok(tried);
        }
        for subject in unverified {
            self.judge.contained(subject, |judge| judge.evaluate_here(subject));
        }
        Scratch::new(self).try_placements(seeker, false)
    }
}

impl Scratch<'_> {
    /// Tries the members in a placement until enough can no longer be placed. `for_room`: victims are removed during the attempt.
    ///
    /// # Errors
    /// Extenders have to be called first.
    pub(super) fn try_members(
        mut self,
        seeker: &Seeker<'_>,
        within: &mut Within,
        for_room: bool,
    ) -> Result<Tried, Asks> {
        self.try_together(seeker.members);
        let mut scheduled = seeker.scheduled;
        let mut left = seeker.members.iter().cloned();
        let (mut outcome, mut decisions) = (Ok(()), Vec::new());
        while let Some(uid) = left.next() {
            let decision = match self.try_member(&uid, seeker, within, for_room) {
                Ok(decision) => decision,
                Err(question) => return Err(Asks { uid, question }),
            };
            scheduled += usize::from(matches!(decision, Decision::Place(_)));
            let refusal = self.refusal_after(&decision, seeker, scheduled, left.len());
            decisions.push((uid, decision));
            if let Some(refusal) = refusal {
                outcome = Err(refusal);
                break;
            }
        }
        Ok(Tried { outcome, decisions, untried: left.collect() })
    }

    /// Why the attempt ends after this decision, with this many members placed and left.
    fn refusal_after(
        &self,
        decision: &Decision,
        seeker: &Seeker<'_>,
        scheduled: usize,
        left: usize,
    ) -> Option<GroupRefusal> {
        if let Decision::Fail(error) = decision {
            return Some(GroupRefusal::Failed(format!("failed to schedule other pod from a pod group: {error}")));
        }
        if self.judge.states().work.of_event() > GROUP_WORK {
            return Some(GroupRefusal::Failed(format!(
                "placing the pod group takes more than the {GROUP_WORK} units of work that one attempt may take; split it, or \
                 give its pods fewer differences"
            )));
        }
        match self.feasibility(seeker.object, seeker.profile, scheduled, left) {
            Feasibility::Never(reason) => Some(GroupRefusal::Rejected(reason)),
            Feasibility::Met | Feasibility::Wait => None,
        }
    }

    /// Tries a member, and charges it for the rest of the attempt. `Err`: extenders have to be called first.
    fn try_member(
        &mut self,
        uid: &Uid,
        seeker: &Seeker<'_>,
        within: &mut Within,
        for_room: bool,
    ) -> Result<Decision, Question> {
        let machine: &mut Machine = self;
        let extenders = machine.extenders_of(uid);
        let class = machine.class_within(uid, within);
        let known = machine.member_profile(uid).zip(machine.pods.get(uid));
        let Some(((profile, pod), class)) = known.zip(class) else {
            return Ok(Decision::Fail("the pod is not to be placed any more".to_owned()));
        };
        let own = pod.class;
        let group = machine.groups.known.get(&seeker.object.group_key());
        let attempt = Attempt {
            alone: true,
            is_member: true,
            own_node_refused: pod.attempts.own_node_refused == Some(seeker.from),
            extenders: &extenders,
            said: group.map(|group| (&group.heard, for_room)),
            may_prepare: machine.preparations.len() < MAX_PREPARATIONS,
            ..Attempt::new(&pod.info, (profile, class), seeker.from)
        };
        let decided = machine.judge.decide(&attempt);
        machine.drop_mismatched_workers();
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
