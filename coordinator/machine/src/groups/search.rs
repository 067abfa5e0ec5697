//! podGroupSearch: if a group does not fit in the order of its pods, tries their other orders, and the other placements of the groups below a
//! composite group.
//!
//! The greedy order fails a group that could fit: a small pod goes first to the only node that is large enough for a large one.
//! kube-scheduler accepts that ("not guaranteed" in KEP-4671). The search is depth-first over the shapes of the pods that are still without
//! a node: each step decides one pod, as an attempt does, so every plugin counts. A cluster from which the search failed is not searched
//! again. Pods of one class have one shape, and keep their order.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{ClassId, TopologyDomain},
    node::NodeId,
    pod_group::{Feasibility, Topology},
    preemption::is_local,
    resources::Resources,
};

use super::{
    placements::Within,
    scratch::{Mark, Scratch},
    tree::Branch,
    tried::{Asks, GroupRefusal, Seeker, Tried},
};
use crate::{
    judge::{decision::Decision, work::GROUP_WORK},
    site::Site,
    subject::Uid,
};

/// Maximum work of a search, so that the attempt can still search for victims.
const MAX_WORK: u64 = GROUP_WORK / 4;

/// Maximum number of runs of pods in a message. At some 60 bytes each they take less than the 1 KiB that a condition shows well.
const MAX_RUNS: usize = 8;

/// Maximum number of groups below one group. The search of each is on the stack, some 2 KiB.
const MAX_CHILDREN: usize = 64;

/// How groups are tried.
#[derive(Debug)]
pub(super) struct Course {
    /// Victims are removed during the attempt.
    pub(super) for_room: bool,
    pub(super) search: Option<Steps>,
}

/// The steps of a search. One step decides one pod.
#[derive(Debug)]
pub(super) struct Steps {
    left: u32,
    used: u32,
    /// The work of the event at which the search ends.
    most_work: u64,
    /// The search ended before it had tried all orders.
    is_cut: bool,
}

impl Course {
    pub(super) const fn greedy(for_room: bool) -> Self {
        Self { for_room, search: None }
    }

    /// Leaves the steps of one of `parts` equal parts, and returns those of the others.
    pub(super) fn share(&mut self, parts: usize) -> u32 {
        let Some(steps) = &mut self.search else { return 0 };
        let own = steps.left.div_ceil(u32::try_from(parts.max(1)).unwrap_or(u32::MAX));
        let others = steps.left - own;
        steps.left = own;
        others
    }

    pub(super) fn put_back(&mut self, others: u32) {
        self.search.iter_mut().for_each(|steps| steps.left += others);
    }

    /// Counts a step. `false`: the search has to end.
    fn take_step(&mut self, work: u64) -> bool {
        self.search.as_mut().is_some_and(|steps| steps.take(work))
    }

    /// Some orders cannot be tried.
    fn cut(&mut self) {
        self.search.iter_mut().for_each(|steps| steps.is_cut = true);
    }
}

impl Steps {
    /// Counts a step. `false`: none is left.
    const fn take(&mut self, work: u64) -> bool {
        if self.left == 0 || work > self.most_work {
            self.is_cut = true;
            return false;
        }
        self.left -= 1;
        self.used += 1;
        true
    }
}

/// Pods of one class, in the order of the attempt.
#[derive(Debug)]
struct Shape {
    class: ClassId,
    members: Vec<Uid>,
    placed: usize,
}

/// A cluster of the search, with the shapes that are still to be tried in it.
#[derive(Debug)]
struct Frame {
    next: usize,
    /// The number of pods that cannot be placed in it, nor after other pods.
    hopeless: usize,
    has_placed: bool,
    /// The cluster before the pod that led to it.
    mark: Mark,
}

/// The path of the search.
#[derive(Debug)]
struct Path {
    shapes: Vec<Shape>,
    /// The shape of each placed pod, with the value of its place.
    placed: Vec<(usize, u128)>,
    decisions: Vec<(Uid, Decision)>,
    /// Identifies a cluster: the sum over its placed pods.
    cluster: u128,
    failed: BTreeSet<u128>,
}

impl Path {
    fn left(&self) -> usize {
        self.shapes.iter().map(|shape| shape.members.len() - shape.placed).sum()
    }

    /// The next pod of the first shape from `from` on that has one left.
    fn next(&self, from: usize) -> Option<(usize, Uid)> {
        let mut shapes = self.shapes.iter().enumerate().skip(from);
        shapes.find_map(|(at, shape)| Some((at, shape.members.get(shape.placed)?.clone())))
    }

    fn push(&mut self, shape: usize, node: NodeId, decision: (Uid, Decision)) {
        let value = value_of(self.shapes[shape].class, node);
        self.shapes[shape].placed += 1;
        self.placed.push((shape, value));
        self.decisions.push(decision);
        self.cluster = self.cluster.wrapping_add(value);
    }

    fn pop(&mut self) {
        let Some((shape, value)) = self.placed.pop() else { return };
        self.shapes[shape].placed -= 1;
        self.decisions.pop();
        self.cluster = self.cluster.wrapping_sub(value);
    }
}

/// A pod of a class on a node as a number. The sum of 128 bits over all placed pods is as good as unique (MurmurHash3's finalizer).
const fn value_of(class: ClassId, node: NodeId) -> u128 {
    const fn mix(mut value: u64) -> u64 {
        value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        value ^ (value >> 33)
    }
    let high = mix(class.0 ^ mix(node.0 as u64 + 1));
    let low = mix(high ^ mix(class.0.wrapping_add(0x9e37_79b9_7f4a_7c15)));
    (high as u128) << 64 | low as u128
}

impl Site<'_> {
    /// The maximum number of steps; `None`: no search. A group of which a pod has extenders is not searched, because each step would call them.
    pub(super) fn steps_of(&self, seeker: &Seeker<'_>) -> Option<u32> {
        let search = self.settings.profile(seeker.profile)?.args.gang_scheduling.pod_group_search?;
        let has_extenders = |uid: &Uid| !self.settings.extenders_of(self.pods.get(uid)).is_empty();
        (!seeker.members.iter().any(has_extenders)).then_some(search.max_steps)
    }
}

impl Scratch<'_, '_> {
    /// Searches if the group is rejected and its profile enables it. Returns the result of the search if the group fits.
    ///
    /// # Errors
    /// Extenders have to be called first.
    pub(super) fn search_after(mut self, seeker: &Seeker<'_>, for_room: bool, mut tried: Tried) -> Result<Tried, Asks> {
        let Err(GroupRefusal::Rejected(reason)) = &mut tried.outcome else { return Ok(tried) };
        let Some(max_steps) = self.steps_of(seeker) else { return Ok(tried) };
        let most_work = self.shards.judge.states().work().of_event().saturating_add(MAX_WORK).min(GROUP_WORK / 2);
        let steps = Steps { left: max_steps, used: 0, most_work, is_cut: false };
        let mut course = Course { for_room, search: Some(steps) };
        let mut found = self.nested().try_root(seeker, &mut course)?;
        if found.outcome.is_ok() {
            found.order = Some(self.order_of(seeker, &found));
            return Ok(found);
        }
        if let Some(Steps { used, is_cut, .. }) = course.search {
            let end = if is_cut { "ended before it had tried all orders" } else { "tried all orders" };
            reason.push_str(&format!(", podGroupSearch {end}, steps: {used}"));
        }
        Ok(tried)
    }

    /// Tries the members in each order, until enough have a node.
    pub(super) fn search_members(
        mut self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        within: &mut Within,
        course: &mut Course,
    ) -> Result<Tried, Asks> {
        let mut path = self.path(branch);
        let mut frames = vec![Frame { next: 0, hopeless: 0, has_placed: false, mark: self.mark() }];
        let never = |scratch: &Self, scheduled: usize, left: usize| {
            let scheduled = branch.met() + scheduled;
            let feasibility = scratch.settings.feasibility(&branch.object, seeker.profile, scheduled, left);
            matches!(feasibility, Feasibility::Never(_))
        };
        while let Some(frame) = frames.last_mut() {
            let next = path.next(frame.next);
            let is_dead =
                path.failed.contains(&path.cluster) || never(&self, path.placed.len(), path.left() - frame.hopeless);
            let Some((at, uid)) = next.filter(|_| !is_dead) else {
                if !is_dead && !frame.has_placed && !never(&self, path.placed.len(), 0) {
                    return self.complete(seeker, path, within, course);
                }
                path.failed.insert(path.cluster);
                self.revert_to(frame.mark);
                path.pop();
                frames.pop();
                continue;
            };
            frame.next = at + 1;
            let work = self.shards.judge.states().work().of_event();
            if !course.take_step(work) {
                break;
            }
            let mark = self.mark();
            match self.asked(&uid, seeker, within, course)? {
                Decision::Place(placement) => {
                    frame.has_placed = true;
                    let node = self.shards.judge.cache().nodes().get(&placement.charge.node).map(|node| node.id);
                    path.push(at, node.unwrap_or(NodeId(u32::MAX)), (uid, Decision::Place(placement)));
                    frames.push(Frame { next: 0, hopeless: 0, has_placed: false, mark });
                }
                Decision::Refuse(..) if self.stays_refused(&uid, seeker, within) => {
                    let shape = &path.shapes[at];
                    frame.hopeless += shape.members.len() - shape.placed;
                }
                Decision::Refuse(..) => {}
                Decision::Fail(_) => {
                    course.cut();
                    break;
                }
            }
        }
        Ok(Tried::refused(GroupRefusal::Rejected(String::new()), branch))
    }

    /// Tries the groups below a composite group in all their placements, until enough of them are placed. At most [`MAX_CHILDREN`] groups.
    pub(super) fn search_children(
        mut self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        domain: Option<&Arc<TopologyDomain>>,
        course: &mut Course,
    ) -> Result<Tried, Asks> {
        let mut tried = Tried::of(Ok(()), Vec::new());
        if branch.children.len() > MAX_CHILDREN {
            course.cut();
        } else if self.nested().search_child((seeker, branch), domain, course, 0, &mut tried.children)? {
            return Ok(tried);
        }
        Ok(Tried::refused(GroupRefusal::Rejected(String::new()), branch))
    }

    /// Tries the group after those with a result, and then the groups after it. `false`: too few groups can be placed.
    fn search_child(
        mut self,
        (seeker, branch): (&Seeker<'_>, &Branch),
        domain: Option<&Arc<TopologyDomain>>,
        course: &mut Course,
        scheduled: usize,
        results: &mut Vec<Tried>,
    ) -> Result<bool, Asks> {
        let left = branch.children.len() - results.len();
        let feasibility = self.settings.feasibility(&branch.object, seeker.profile, scheduled, left);
        let work = self.shards.judge.states().work().of_event();
        if matches!(feasibility, Feasibility::Never(_)) || !course.take_step(work) {
            return Ok(false);
        }
        let Some(child) = branch.children.get(results.len()) else { return Ok(true) };
        let (mut met, mut refused) = self.nested().try_placements((seeker, child), domain, course)?;
        if met.is_empty() {
            // The usual order has the reason; it may also fit if the search of the group was cut.
            let greedy = &mut Course::greedy(course.for_room);
            (met, refused) = self.nested().try_placements((seeker, child), domain, greedy)?;
        }
        for tried in met {
            let mut scratch = self.nested();
            tried.placed().into_iter().for_each(|(uid, placement)| scratch.place(uid, placement));
            results.push(tried);
            if scratch.search_child((seeker, branch), domain, course, scheduled + 1, results)? {
                return Ok(true);
            }
            results.pop();
        }
        results.push(refused);
        let is_found = self.search_child((seeker, branch), domain, course, scheduled, results)?;
        if !is_found {
            results.pop();
        }
        Ok(is_found)
    }

    /// The result of a search: enough pods have a node, and the others are decided once more.
    fn complete(
        &mut self,
        seeker: &Seeker<'_>,
        mut path: Path,
        within: &mut Within,
        course: &Course,
    ) -> Result<Tried, Asks> {
        let left = path.shapes.iter().flat_map(|shape| &shape.members[shape.placed..]);
        for uid in left {
            let decision = self.asked(uid, seeker, within, course)?;
            path.decisions.push((uid.clone(), decision));
        }
        Ok(Tried::of(Ok(()), path.decisions))
    }

    fn asked(
        &mut self,
        uid: &Uid,
        seeker: &Seeker<'_>,
        within: &mut Within,
        course: &Course,
    ) -> Result<Decision, Asks> {
        let decision = self.try_member(uid, seeker, within, course.for_room);
        decision.map_err(|question| Asks { uid: uid.clone(), question })
    }

    /// Whether a refused pod is refused on every node after further pods too: none of its plugins reads pods of other nodes.
    fn stays_refused(&mut self, uid: &Uid, seeker: &Seeker<'_>, within: &mut Within) -> bool {
        let Some(class) = self.class_within(uid, within) else { return true };
        self.shards.judge.states().get((seeker.profile, class)).is_some_and(|state| is_local(state.prepared()))
    }

    /// The members by shape, the largest shape first.
    fn path(&self, branch: &Branch) -> Path {
        let mut shapes: Vec<Shape> = Vec::new();
        for uid in &branch.members {
            let Some(class) = self.pods.get(uid).map(|pod| pod.class) else { continue };
            match shapes.iter_mut().find(|shape| shape.class == class) {
                Some(shape) => shape.members.push(uid.clone()),
                None => shapes.push(Shape { class, members: vec![uid.clone()], placed: 0 }),
            }
        }
        shapes.sort_by_cached_key(|shape| Reverse(self.size(shape)));
        Path { shapes, placed: Vec::new(), decisions: Vec::new(), cluster: 0, failed: BTreeSet::new() }
    }

    /// The largest share of a node's CPU, memory or extended resources that a pod takes, in millionths.
    fn size(&self, shape: &Shape) -> i64 {
        let Some(info) = shape.members.first().and_then(|uid| self.pods.get(uid)).map(|pod| &pod.info) else {
            return 0;
        };
        let share = |wanted: i64, most: i64| wanted.saturating_mul(1_000_000) / most.max(1);
        let nodes = self.shards.judge.cache().nodes();
        let most =
            |of: &dyn Fn(&Resources) -> i64| nodes.values().map(|node| of(&node.info.allocatable)).max().unwrap_or(0);
        let requests = &info.class.requests;
        let cpu = share(requests.milli_cpu, most(&|resources| resources.milli_cpu));
        let memory = share(requests.memory >> 20, most(&|resources| resources.memory >> 20));
        let scalars =
            requests.scalars.iter().map(|(name, wanted)| share(*wanted, most(&|resources| resources.get(name))));
        scalars.chain([cpu, memory]).max().unwrap_or(0)
    }

    /// The message about a found order, such as `podGroupSearch: fits in rack=r2 in this order: 2 like big-0, then 3 like small-0`.
    fn order_of(&self, seeker: &Seeker<'_>, tried: &Tried) -> String {
        let placed = tried.placed();
        let (mut runs, mut names): (Vec<(ClassId, usize)>, BTreeMap<ClassId, &str>) = (Vec::new(), BTreeMap::new());
        for pod in placed.iter().filter_map(|(uid, _)| self.pods.get(uid)) {
            names.entry(pod.class).or_insert(&pod.info.name);
            match runs.last_mut().filter(|(class, _)| *class == pod.class) {
                Some((_, count)) => *count += 1,
                None => runs.push((pod.class, 1)),
            }
        }
        let run = |(class, count): &(ClassId, usize)| format!("{count} like {}", names.get(class).unwrap_or(&""));
        let mut words: Vec<String> = runs.iter().take(MAX_RUNS).map(run).collect();
        words.extend((runs.len() > MAX_RUNS).then(|| "others".to_owned()));
        let words = words.join(", then ");
        let node =
            placed.first().and_then(|(_, placement)| self.shards.judge.cache().nodes().get(&placement.charge.node));
        match (&seeker.object.topology, node) {
            (Topology::Key(key), Some(node)) => {
                let value = node.info.label(key).unwrap_or_default();
                format!("podGroupSearch: fits in {key}={value} in this order: {words}")
            }
            _ => format!("podGroupSearch: fits in this order: {words}"),
        }
    }
}
