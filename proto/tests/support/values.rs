//! Arbitrary values of every domain type in the protocol.

use std::sync::Arc;

use flotilla_framework::{
    class::{
        AffinityTerm, Class, ClassId, Common, HostPort, NodeTerm, Owner, OwnerKind, PodAffinity, Requirement,
        SpreadConstraint, Taint, Toleration,
    },
    declared::DeclaredFeatures,
    evaluation::{Evaluation, Offer, Refused, Stratum},
    explain::shard::{Local, NodeAccount, Page},
    extension::{DefaultSelector, Domain, Facts, PodField, Tally},
    labels::{LabelOperator, LabelRequirement, LabelSelector},
    modules::Digest,
    node::{NodeId, NodeInfo},
    preemption::{DryRunResult, Trial},
    profile::{
        Args, NodeResourcesFitArgs, Plugins, Profile, ResourceWeight, ScoringStrategy, ScoringStrategyKind, ShapePoint,
        WeightedPlugin,
    },
    resources::Resources,
    shard::{Change, Command, FromWorker, Reply, ToWorker, Unable},
    status::{Code, Refusal},
    volumes::{
        facts::{
            Binding, BoundClaim, Claims, FreeVolume, Migrated, Provision, StorageCapacity, UnboundClaim, VolumeFacts,
            Wanted, ZoneLabel,
        },
        mounts::{self, Disk, Inline, Mount, PodVolumes},
        node::{Attachment, NodeCsi},
        objects::InTree,
    },
};
use flotilla_proto::bounds::MAX_PODS_PER_CHANGE;
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::select,
};

fn text() -> impl Strategy<Value = Arc<str>> {
    "[a-zA-Z0-9./é-]{0,12}".prop_map(Arc::from)
}

fn string() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9.-]{0,12}"
}

fn labels() -> impl Strategy<Value = Vec<(Arc<str>, Arc<str>)>> {
    btree_map(text(), text(), 0..4).prop_map(|map| map.into_iter().collect())
}

fn resources() -> impl Strategy<Value = Resources> {
    let scalars = btree_map(text(), any::<i64>(), 0..3).prop_map(|map| map.into_iter().collect());
    (any::<i64>(), any::<i64>(), any::<i64>(), scalars).prop_map(|(milli_cpu, memory, ephemeral_storage, scalars)| {
        Resources { milli_cpu, memory, ephemeral_storage, scalars }
    })
}

fn taint() -> impl Strategy<Value = Taint> {
    (text(), text(), text()).prop_map(|(key, value, effect)| Taint { key, value, effect })
}

fn features() -> impl Strategy<Value = DeclaredFeatures> {
    let names = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"];
    vec(select(names.to_vec()), 0..3).prop_map(DeclaredFeatures::named)
}

pub(crate) fn node() -> impl Strategy<Value = NodeInfo> {
    let images = vec((vec(text(), 0..3), any::<i64>()), 0..3);
    let rest = (features(), images, option::of(node_csi().prop_map(Arc::new)));
    let flags = (any::<bool>(), any::<bool>());
    (text(), text(), labels(), vec(taint(), 0..3), flags, resources(), any::<i64>(), rest).prop_map(
        |(name, uid, labels, taints, flags, allocatable, allowed_pods, (declared_features, images, csi))| {
            let (unschedulable, resize_preemption_disabled) = flags;
            NodeInfo {
                name,
                uid,
                labels,
                taints,
                unschedulable,
                resize_preemption_disabled,
                allocatable,
                allowed_pods,
                declared_features,
                images,
                csi,
                devices: None,
            }
        },
    )
}

fn attachment() -> impl Strategy<Value = Attachment> {
    (text(), text()).prop_map(|(driver, handle)| Attachment { driver, handle })
}

fn node_csi() -> impl Strategy<Value = NodeCsi> {
    (vec((text(), option::of(any::<i32>())), 0..3), vec(text(), 0..3), vec(attachment(), 0..3))
        .prop_map(|(drivers, migrated_plugins, attached)| NodeCsi { drivers, migrated_plugins, attached })
}

/// A value, or an error text.
fn or_reason<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Result<T, Arc<str>>> {
    prop_oneof![value.prop_map(Ok), text().prop_map(Err)]
}

fn in_tree() -> impl Strategy<Value = InTree> {
    (text(), text(), or_reason(text()), option::of(vec(term(), 0..3)))
        .prop_map(|(plugin, driver, handle, node_affinity)| InTree { plugin, driver, handle, node_affinity })
}

fn pod_volumes() -> impl Strategy<Value = PodVolumes> {
    let disk =
        prop_oneof![
            (text(), any::<bool>()).prop_map(|(name, read_only)| Disk::GcePersistentDisk { name, read_only }),
            text().prop_map(|volume| Disk::AwsElasticBlockStore { volume }),
            (text(), any::<bool>()).prop_map(|(iqn, read_only)| Disk::Iscsi { iqn, read_only }),
            (vec(text(), 0..3), text(), text(), any::<bool>())
                .prop_map(|(monitors, pool, image, read_only)| Disk::Rbd { monitors, pool, image, read_only }),
        ];
    let inline = (option::of(disk), option::of(in_tree())).prop_map(|(disk, in_tree)| Inline { disk, in_tree });
    let mount = prop_oneof![
        text().prop_map(Mount::Claim),
        text().prop_map(Mount::Ephemeral),
        inline.prop_map(Mount::Inline),
        text().prop_map(Mount::Csi),
    ];
    let owner = (text(), text()).prop_map(|(name, uid)| mounts::Owner { name, uid });
    (vec(mount, 0..3), option::of(owner)).prop_map(|(mounts, owner)| PodVolumes { mounts, owner })
}

/// Claims that refer to three lists of nodes and two volumes.
fn claims() -> impl Strategy<Value = Claims> {
    let reach = || option::of(0..3_u32);
    let migrated = (text(), or_reason(reach())).prop_map(|(plugin, reach)| Migrated { plugin, reach });
    let bound = prop_oneof![
        Just(BoundClaim::Lost),
        (reach(), option::of(migrated)).prop_map(|(reach, migrated)| BoundClaim::Volume { reach, migrated }),
    ];
    let room = (any::<i64>(), reach()).prop_map(|(capacity, reach)| StorageCapacity { capacity, reach });
    let provision = (reach(), option::of(vec(room, 0..3))).prop_map(|(reach, rooms)| Provision { reach, rooms });
    let places = || vec(0..2_u32, 0..3);
    let unbound =
        ((text(), any::<i64>(), option::of(text()), option::of(text())), places(), places(), option::of(provision))
            .prop_map(|((storage_class, requested, selected_node, error), set_aside, suiting, provision)| {
                UnboundClaim { storage_class, requested, selected_node, error, set_aside, suiting, provision }
            });
    let volume = (any::<i64>(), reach()).prop_map(|(capacity, reach)| FreeVolume { capacity, reach });
    (vec(bound, 0..3), vec(unbound, 0..3), vec(volume, 2), vec(vec(term(), 0..2), 3))
        .prop_map(|(bound, unbound, volumes, reaches)| Claims { bound, unbound, volumes, reaches })
}

pub(crate) fn volume_facts() -> impl Strategy<Value = VolumeFacts> {
    let wanted = prop_oneof![
        (attachment(), any::<bool>()).prop_map(|(attachment, migrated)| Wanted::Attach { attachment, migrated }),
        text().prop_map(Wanted::Missing),
        (text(), any::<bool>()).prop_map(|(error, migrated)| Wanted::Fail { error, migrated }),
    ];
    let binding = prop_oneof![
        Just(Binding::Nothing),
        text().prop_map(Binding::Refuse),
        text().prop_map(Binding::Fail),
        claims().prop_map(Binding::Claims),
    ];
    let zone = (text(), vec(text(), 0..3)).prop_map(|(key, values)| ZoneLabel { key, values });
    let uncountable = vec((any::<u64>().prop_map(ClassId), text()), 0..3);
    let lists = (vec(wanted, 0..3), vec(text(), 0..3), uncountable);
    let exclusive = (or_reason(any::<u32>()), vec(text(), 0..3));
    (exclusive, lists, binding, or_reason(vec(zone, 0..3))).prop_map(
        |((exclusive, exclusive_claims), (wanted, demanded, uncountable), binding, zones)| VolumeFacts {
            exclusive,
            exclusive_claims,
            wanted,
            demanded,
            uncountable,
            binding,
            zones,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let pods = (any::<u32>().prop_map(NodeId), any::<u64>().prop_map(ClassId), 0..=MAX_PODS_PER_CHANGE);
    prop_oneof![
        (any::<u32>(), node()).prop_map(|(id, node)| Change::UpsertNode { id: NodeId(id), node: Arc::new(node) }),
        any::<u32>().prop_map(|id| Change::RemoveNode { id: NodeId(id) }),
        pods.clone().prop_map(|(node, class, count)| Change::AddPods { node, class, count }),
        pods.prop_map(|(node, class, count)| Change::RemovePods { node, class, count }),
        (any::<u64>(), vec(attachment(), 0..3)).prop_map(|(class, attachments)| Change::SetAttachments {
            class: ClassId(class),
            attachments: attachments.into(),
        }),
    ]
}

fn requirement() -> impl Strategy<Value = Requirement> {
    (text(), text(), vec(text(), 0..3)).prop_map(|(key, operator, values)| Requirement { key, operator, values })
}

fn term() -> impl Strategy<Value = NodeTerm> {
    (vec(requirement(), 0..3), vec(requirement(), 0..2))
        .prop_map(|(expressions, fields)| NodeTerm { expressions, fields })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    (text(), text(), text(), text()).prop_map(|(key, operator, value, effect)| Toleration {
        key,
        operator,
        value,
        effect,
    })
}

fn host_port() -> impl Strategy<Value = HostPort> {
    (text(), text(), any::<i32>()).prop_map(|(ip, protocol, port)| HostPort { ip, protocol, port })
}

fn selector() -> impl Strategy<Value = LabelSelector> {
    let requirement = (text(), select(&LabelOperator::ALL), vec(text(), 0..3))
        .prop_map(|(key, operator, values)| LabelRequirement { key, operator, values });
    prop_oneof![
        1 => Just(LabelSelector::Nothing),
        3 => vec(requirement, 0..3).prop_map(LabelSelector::Matching),
    ]
}

fn spread() -> impl Strategy<Value = SpreadConstraint> {
    let selector = prop_oneof![selector().prop_map(Ok), text().prop_map(Err)];
    (any::<i32>(), text(), any::<bool>(), selector, any::<i32>(), any::<bool>(), any::<bool>()).prop_map(
        |(max_skew, topology_key, required, selector, min_domains, honors_affinity, honors_taints)| SpreadConstraint {
            max_skew,
            topology_key,
            required,
            selector,
            min_domains,
            honors_affinity,
            honors_taints,
        },
    )
}

fn pod_affinity() -> impl Strategy<Value = PodAffinity> {
    let term = || {
        (selector(), vec(text(), 0..3), selector(), text()).prop_map(
            |(selector, namespaces, namespace_selector, topology_key)| AffinityTerm {
                selector,
                namespaces,
                namespace_selector,
                topology_key,
            },
        )
    };
    let required = || vec(term(), 0..2);
    let preferred = || vec((any::<i32>(), term()), 0..2);
    (required(), required(), preferred(), preferred(), option::of(text())).prop_map(
        |(required, required_anti, preferred, preferred_anti, error)| PodAffinity {
            required,
            required_anti,
            preferred,
            preferred_anti,
            error,
        },
    )
}

fn owner() -> impl Strategy<Value = Owner> {
    let kinds = vec![OwnerKind::ReplicationController, OwnerKind::ReplicaSet, OwnerKind::StatefulSet];
    (select(kinds), text()).prop_map(|(kind, name)| Owner { kind, name })
}

pub(crate) fn class() -> impl Strategy<Value = Class> {
    let amounts = (resources(), resources(), resources(), any::<i64>(), any::<i64>());
    let affinity = (
        (option::of(text()), any::<bool>()),
        vec((text(), text()), 0..3),
        option::of(vec(term(), 0..3)),
        vec((any::<i32>(), term()), 0..3),
    );
    let rest = (vec(toleration(), 0..3), vec(host_port(), 0..3), vec(text(), 0..3));
    let volumes = option::of(pod_volumes().prop_map(Arc::new));
    let fields = vec((prop_oneof![Just(PodField::Name), text().prop_map(PodField::Label)], text()), 0..3);
    let fields = fields.prop_map(|mut fields| {
        fields.sort_unstable();
        fields.dedup_by(|(left, _), (right, _)| left == right);
        fields
    });
    let others = (vec(spread(), 0..3), pod_affinity(), option::of(owner()), any::<bool>(), features(), volumes, fields);
    (text(), labels(), amounts, affinity, rest, others).prop_map(
        |(namespace, labels, amounts, affinity, rest, others)| {
            let (requests, score_requests, accounted, nonzero_milli_cpu, nonzero_memory) = amounts;
            let ((node_name, resize_deferred), node_selector, required_terms, preferred_terms) = affinity;
            let (tolerations, host_ports, images) = rest;
            let (spread, pod_affinity, owner, terminating, declared_features, volumes, fields) = others;
            let common = Common {
                requests,
                score_requests,
                accounted,
                nonzero_milli_cpu,
                nonzero_memory,
                node_name,
                resize_deferred,
                node_selector,
                required_terms,
                preferred_terms,
                tolerations,
                host_ports,
                images,
                spread,
                pod_affinity,
                owner,
                declared_features,
            };
            let common = Arc::new(common);
            Class { namespace, labels, common, terminating, volumes, fields, devices: None, within: None }
        },
    )
}

fn names() -> impl Strategy<Value = Vec<String>> {
    vec(string(), 0..3)
}

fn plugins() -> impl Strategy<Value = Plugins> {
    let weighted = || vec((string(), any::<i64>()).prop_map(|(name, weight)| WeightedPlugin { name, weight }), 0..3);
    let before = (names(), names(), names(), names(), names(), names());
    let after = (names(), names(), names(), names(), names());
    let group = (names(), weighted(), names());
    (before, weighted(), after, group).prop_map(|(before, score, after, group)| {
        let (pre_enqueue, queue_sort, pre_filter, filter, post_filter, pre_score) = before;
        let (reserve, permit, pre_bind, bind, post_bind) = after;
        let (placement_generate, placement_score, pod_group_post_filter) = group;
        Plugins {
            pre_enqueue,
            queue_sort,
            pre_filter,
            filter,
            post_filter,
            pre_score,
            score,
            reserve,
            permit,
            pre_bind,
            bind,
            post_bind,
            placement_generate,
            placement_score,
            pod_group_post_filter,
        }
    })
}

fn args() -> impl Strategy<Value = Args> {
    let kinds = [
        ScoringStrategyKind::LeastAllocated,
        ScoringStrategyKind::MostAllocated,
        ScoringStrategyKind::RequestedToCapacityRatio,
    ];
    let resource = (string(), any::<i64>()).prop_map(|(name, weight)| ResourceWeight { name, weight });
    let point = (any::<i32>(), any::<i32>()).prop_map(|(utilization, score)| ShapePoint { utilization, score });
    let strategy = (select(kinds.to_vec()), vec(resource, 0..3), vec(point, 0..3))
        .prop_map(|(kind, resources, shape)| ScoringStrategy { kind, resources, shape });
    (names(), names(), strategy).prop_map(|(ignored_resources, ignored_resource_groups, scoring_strategy)| Args {
        node_resources_fit: NodeResourcesFitArgs { ignored_resources, ignored_resource_groups, scoring_strategy },
        ..Args::default()
    })
}

fn profile() -> impl Strategy<Value = Profile> {
    (text(), option::of(any::<i32>()), plugins(), args()).prop_map(
        |(scheduler_name, percentage_of_nodes_to_score, plugins, args)| Profile {
            scheduler_name,
            percentage_of_nodes_to_score,
            plugins,
            args,
        },
    )
}

pub(crate) fn facts() -> impl Strategy<Value = Facts> {
    let keys = || vec(text(), 0..3);
    let volumes = option::of(volume_facts().prop_map(Arc::new));
    (vec(any::<i64>(), 0..4), labels(), vec(keys(), 0..3), keys(), keys(), selector(), volumes).prop_map(
        |(image_contributions, namespace_labels, term_namespaces, repelling_keys, scoring_keys, selector, volumes)| {
            Facts {
                image_contributions,
                namespace_labels,
                term_namespaces: term_namespaces.into_iter().map(Into::into).collect(),
                repelling_keys,
                scoring_keys,
                default_selector: DefaultSelector(selector),
                volumes,
                devices: None,
            }
        },
    )
}

fn trial() -> impl Strategy<Value = Trial> {
    let unit = vec((any::<u64>().prop_map(ClassId), any::<bool>()), 1..3);
    let beside = vec(any::<u64>().prop_map(ClassId), 0..3);
    (any::<u32>(), vec(unit, 0..4), any::<bool>(), beside).prop_map(|(node, victims, is_alone, beside)| {
        let units: Vec<u32> = victims.iter().map(|unit| unit.len().try_into().expect("a small unit")).collect();
        let units = if is_alone { Vec::new() } else { units };
        Trial { node: NodeId(node), victims: victims.concat(), units, beside }
    })
}

fn outcome() -> impl Strategy<Value = DryRunResult> {
    let codes = vec![Code::Unschedulable, Code::UnschedulableAndUnresolvable, Code::Error];
    prop_oneof![
        (btree_map(any::<u32>(), Just(()), 1..5), any::<u32>()).prop_map(|(indexes, violations)| {
            DryRunResult::Victims { indexes: indexes.into_keys().collect(), violations }
        }),
        (any::<u16>(), select(codes), any::<u64>())
            .prop_map(|(order, code, detail)| DryRunResult::Refused(order, Refusal { code, detail })),
        select(vec![DryRunResult::NoVictims, DryRunResult::Needless, DryRunResult::Stale]),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let evaluate = || (any::<u64>(), any::<u64>(), text(), any::<u64>(), facts(), any::<u32>(), text());
    let explain = (evaluate(), option::of(any::<u32>()));
    prop_oneof![
        (any::<u64>(), any::<u64>(), vec(profile(), 0..3)).prop_map(|(generation, tie_break_seed, profiles)| {
            Command::Configure { generation, tie_break_seed, profiles: profiles.into() }
        }),
        (any::<bool>(), any::<bool>(), vec(change(), 0..4)).prop_map(|(first, last, changes)| Command::Snapshot {
            first,
            last,
            changes
        }),
        (any::<[u8; 32]>(), vec(any::<u8>(), 0..9)).prop_map(|(digest, part)| Command::Module {
            digest: Digest(digest),
            size: 9,
            part: part.into(),
        }),
        vec(change(), 0..4).prop_map(|changes| Command::Delta { changes }),
        (any::<u64>(), class())
            .prop_map(|(id, class)| Command::RegisterClass { id: ClassId(id), class: Arc::new(class) }),
        any::<u64>().prop_map(|id| Command::ForgetClass { id: ClassId(id) }),
        evaluate().prop_map(|(request, generation, profile, class, facts, k, trace)| Command::Evaluate {
            request,
            generation,
            profile,
            class: ClassId(class),
            facts: facts.into(),
            k,
            trace,
        }),
        (evaluate(), vec(trial(), 0..4)).prop_map(|((request, generation, profile, class, facts, ..), trials)| {
            Command::DryRun {
                request,
                generation,
                profile,
                class: ClassId(class),
                facts: facts.into(),
                trials: trials.into(),
            }
        }),
        explain.prop_map(|((request, generation, profile, class, facts, limit, trace), after)| Command::Explain {
            request,
            generation,
            profile,
            class: ClassId(class),
            facts: facts.into(),
            after: after.map(NodeId),
            limit,
            trace,
        }),
    ]
}

pub(crate) fn to_worker() -> impl Strategy<Value = ToWorker> {
    (any::<u64>(), any::<u64>(), command()).prop_map(|(epoch, revision, command)| ToWorker { epoch, revision, command })
}

fn domains() -> impl Strategy<Value = Vec<Domain>> {
    vec(option::of(text()), 0..3)
}

fn stratum() -> impl Strategy<Value = Stratum> {
    let offer = (any::<u32>(), any::<i64>(), any::<u64>()).prop_map(|(node, base, rank)| Offer {
        node: NodeId(node),
        base,
        rank,
    });
    (vec(any::<i64>(), 0..3), domains(), 0..1000_u32, vec(offer, 0..5)).prop_map(|(raws, domains, hidden, offers)| {
        Stratum { raws, domains, size: hidden + offers.len() as u32, offers }
    })
}

fn refused() -> impl Strategy<Value = Refused> {
    let codes = vec![Code::Unschedulable, Code::UnschedulableAndUnresolvable, Code::Error];
    (any::<u16>(), select(codes), any::<u64>(), domains(), 0..1000_u32).prop_map(
        |(order, code, detail, domains, count)| Refused { order, refusal: Refusal { code, detail }, domains, count },
    )
}

fn tally() -> impl Strategy<Value = Tally> {
    btree_map((any::<u16>(), text()), any::<i64>(), 0..4).prop_map(|map| Tally(map.into_iter().collect()))
}

fn evaluation() -> impl Strategy<Value = Evaluation> {
    (0..1000_u32, vec(stratum(), 0..4), vec(refused(), 0..4), vec(tally(), 0..3)).prop_map(
        |(more, strata, refused, tallies)| {
            let feasible: u32 = strata.iter().map(|stratum| stratum.size).sum();
            let covered = more + feasible + refused.iter().map(|refused| refused.count).sum::<u32>();
            Evaluation { covered, strata, refused, tallies }
        },
    )
}

fn page() -> impl Strategy<Value = Page> {
    let codes = vec![Code::Unschedulable, Code::UnschedulableAndUnresolvable, Code::Error];
    let local = prop_oneof![
        (any::<u16>(), select(codes), any::<u64>())
            .prop_map(|(order, code, detail)| Local::Refused(order, Refusal { code, detail })),
        vec(any::<i64>(), 0..4).prop_map(Local::Feasible),
    ];
    (btree_map(any::<u32>(), (domains(), local), 0..5), vec(tally(), 0..3), any::<bool>()).prop_map(
        |(nodes, tallies, more)| {
            let more = more && !nodes.is_empty();
            let account = |(node, (domains, local))| NodeAccount { node: NodeId(node), domains, local };
            Page { nodes: nodes.into_iter().map(account).collect(), tallies, more }
        },
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    let reasons = vec![
        Unable::Generation,
        Unable::Profile,
        Unable::Class,
        Unable::TooManyStrata,
        Unable::TooLarge,
        Unable::Panicked,
    ];
    prop_oneof![
        (text(), any::<u64>(), vec(text(), 0..3)).prop_map(|(version, nonce, plugins)| Reply::Hello {
            version,
            nonce,
            plugins
        }),
        (any::<u64>(), any::<u32>()).prop_map(|(generation, nodes)| Reply::Applied { generation, nodes }),
        (any::<u64>(), evaluation()).prop_map(|(request, evaluation)| Reply::Evaluated { request, evaluation }),
        (any::<u64>(), page()).prop_map(|(request, page)| Reply::Explained { request, page }),
        (any::<u64>(), vec(outcome(), 0..4)).prop_map(|(request, outcomes)| Reply::DryRunResults { request, outcomes }),
        (any::<u64>(), select(reasons)).prop_map(|(request, why)| Reply::Unable { request, why }),
    ]
}

pub(crate) fn from_worker() -> impl Strategy<Value = FromWorker> {
    (any::<u64>(), any::<u64>(), reply()).prop_map(|(epoch, revision, reply)| FromWorker { epoch, revision, reply })
}
