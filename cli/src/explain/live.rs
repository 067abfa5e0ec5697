//! `flotilla explain pod`: evaluates a pod of a live cluster, with its state in the queue.

use std::io::{self, Write};

use flotilla_account::{account::Account, answer::Answer, world::World};
use flotilla_cluster::{Cluster, Gatherer};
use flotilla_configuration::{Configuration, features::FeatureGates};
use flotilla_coordinator::serve::explain::{Explained, ExplainedDecision};
use flotilla_framework::{profile::Profile, registry::Registry};
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::{
    Wanted,
    args::{ExplainArgs, Format},
    explain_all::Pages,
    extenders::Asking,
    hire, table, target,
    workers::Workers,
};
use crate::{
    cluster::{self, Manifests},
    live::{self, Connection, Coordinator, list},
    output::{Failure, print_notes, printable},
    page,
};

mod decided;
mod words;

/// The pod before any node is evaluated.
struct Subject {
    namespace: String,
    name: String,
    scheduler_name: String,
    node: Option<String>,
    nominated: Option<String>,
    uid: String,
    /// The coordinator's answer.
    queue: Option<Explained>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LiveAnswer<'a> {
    #[serde(flatten)]
    account: Option<Answer<'a>>,
    #[serde(flatten)]
    settled: Option<Settled<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nominated_node: Option<&'a str>,
    /// The node of the pod, and the subject of the account in that case.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account_of: Option<&'a str>,
    /// The coordinator's answer; absent if the request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a Explained>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Settled<'a> {
    pod: String,
    scheduler_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    /// Why no node was evaluated.
    message: &'a str,
}

pub(super) fn explain(
    args: &ExplainArgs,
    runtime: &Runtime,
    workers: &Workers,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let name = target::pod_name(&args.target).map_err(|error| Failure::input(vec![error]))?;
    let connection = runtime.block_on(Connection::open(&args.live.reach.server)).map_err(Failure::run)?;
    let namespace = args.live.namespace.clone().unwrap_or_else(|| connection.namespace.clone());
    let pod = list::pod(&connection.client, &namespace, name, &connection.place);
    let pod = runtime.block_on(pod).map_err(Failure::run)?;
    let coordinator = runtime.block_on(live::find(&connection, &args.live.reach, args.live.coordinator.as_deref()));
    let coordinator = coordinator.map_err(|error| unknown_queue(&error)).ok();
    let queue = coordinator.as_ref().and_then(|coordinator| {
        let told = runtime.block_on(coordinator.explain(&namespace, name));
        told.map_err(|error| unknown_queue(&error)).ok()
    });
    let subject = Subject::new(&pod, namespace, queue);
    if let Some(why) = settled(&pod) {
        return crate::output::print_to(out, |out| subject.print_settled(args.output, &why, out));
    }
    if subject.decision().is_some() {
        let why = format!("it is on node {}", subject.node.as_deref().unwrap_or_default());
        return crate::output::print_to(out, |out| subject.print_settled(args.output, &why, out));
    }
    let Configuration { profiles, extenders, .. } =
        configuration(args, runtime, coordinator.as_ref(), &subject, workers.registry())?;
    let asking = Asking::new(&extenders).map_err(|error| Failure::input(vec![format!("{error:#}")]))?;
    if !profiles.iter().any(|profile| *profile.scheduler_name == *subject.scheduler_name) {
        let names: Vec<&str> = profiles.iter().map(|profile| &*profile.scheduler_name).collect();
        let scheduler = &subject.scheduler_name;
        let why = format!("it asks for scheduler {scheduler:?}, and profiles are {}", names.join(", "));
        return crate::output::print_to(out, |out| subject.print_settled(args.output, &why, out));
    }
    let gatherer = match &asking {
        Some(_) => cluster::telling(),
        None => Manifests::of(args.output == Format::Html && !args.no_questions).gatherer(),
    };
    let mut cluster = read(runtime, &connection, &profiles, gatherer)?;
    if subject.node.is_some() {
        print_notes(&[subject.why_present()]);
        cluster.unbind(&subject.key());
    }
    let cluster = cluster.showing(workers.registry(), &profiles);
    let asking = asking.as_ref().map(|asking| (asking, &cluster.texts));
    let wanted = Wanted { format: args.output, is_compared: false, asking };
    let (account, world) = judge(runtime, workers, &profiles, &cluster, &subject, wanted)?;
    crate::output::print_to(out, |out| match args.output {
        Format::Html => {
            let mut pages = Pages::default();
            pages.add(&account, &world)?;
            let kept = match args.no_questions {
                true => None,
                false => page::kept(&cluster, &profiles, workers.registry(), &extenders)?,
            };
            pages.print(&cluster, connection.place.clone(), kept, out)
        }
        format => subject.print(format, &account, &world, out),
    })
}

fn unknown_queue(error: &anyhow::Error) {
    print_notes(&[format!("the state of the queue is not known: {error:#}")]);
}

/// The subject of the account for a bound pod without a kept decision.
const PRESENT: &str = "the present cluster without the pod";

/// Why no node needs evaluation, if so.
fn settled(pod: &Pod) -> Option<String> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|node| !node.is_empty());
    match (phase, node) {
        ("Succeeded" | "Failed", _) => Some(format!("it has ended ({phase})")),
        (_, None) if pod.metadata.deletion_timestamp.is_some() => Some("it is being deleted".to_owned()),
        _ => None,
    }
}

/// The configuration of `--config`, else of the coordinator, else the defaults.
fn configuration(
    args: &ExplainArgs,
    runtime: &Runtime,
    coordinator: Option<&Coordinator>,
    subject: &Subject,
    registry: Registry,
) -> Result<Configuration, Failure> {
    if args.config.is_some() {
        return cluster::configuration(args.config.as_deref(), &FeatureGates::default(), registry);
    }
    let asked = coordinator.map(|coordinator| runtime.block_on(coordinator.configuration()));
    let error = match asked {
        Some(Ok(text)) => match cluster::configuration_of(&text, "/configz", &FeatureGates::default(), registry) {
            Ok(configuration) => return Ok(configuration),
            Err(failure) => failure.to_string(),
        },
        Some(Err(error)) => format!("{error:#}"),
        None => "no coordinator could be asked".to_owned(),
    };
    print_notes(&[format!("evaluated with kube-scheduler's default configuration; --config names another ({error})")]);
    let mut configuration = Configuration::default();
    if let Some(profile) = configuration.profiles.first_mut() {
        profile.scheduler_name = subject.scheduler_name.as_str().into();
    }
    Ok(configuration)
}

fn read(
    runtime: &Runtime,
    connection: &Connection,
    profiles: &[Profile],
    gatherer: Gatherer,
) -> Result<Cluster, Failure> {
    cluster::gather(profiles, gatherer, |loader| {
        let mut each = |kind: &list::Kind, objects: Vec<serde_json::Value>| {
            objects.into_iter().for_each(|object| loader.element(object, kind.name));
        };
        let unread = list::all(&connection.client, &connection.place, &mut each);
        let unread = runtime.block_on(unread).map_err(Failure::run)?;
        print_notes(&unread);
        Ok(())
    })
}

fn judge(
    runtime: &Runtime,
    workers: &Workers,
    profiles: &[Profile],
    cluster: &Cluster,
    subject: &Subject,
    wanted: Wanted<'_>,
) -> Result<(Account, World), Failure> {
    let key = subject.key();
    let pod = cluster.pending.iter().find(|pod| pod.key() == key).ok_or_else(|| {
        Failure::run(anyhow::anyhow!("pod {key:?} is not pending any more, or is not valid; ask again"))
    })?;
    let mut world = World::new(workers.registry(), cluster, profiles);
    let mut attached = runtime.block_on(hire(workers, &world, profiles)).map_err(Failure::run)?;
    let account = super::account(pod, &mut world, &mut attached, profiles, wanted);
    let account = runtime.block_on(account).map_err(Failure::run)?;
    Ok((account, world))
}

impl Subject {
    fn new(pod: &Pod, namespace: String, queue: Option<Explained>) -> Self {
        let spec = pod.spec.as_ref();
        let scheduler_name = spec.and_then(|spec| spec.scheduler_name.clone()).filter(|name| !name.is_empty());
        Self {
            namespace,
            name: pod.metadata.name.clone().unwrap_or_default(),
            scheduler_name: scheduler_name.unwrap_or_else(|| "default-scheduler".to_owned()),
            node: spec.and_then(|spec| spec.node_name.clone()).filter(|node| !node.is_empty()),
            nominated: pod.status.as_ref().and_then(|status| status.nominated_node_name.clone()),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            queue,
        }
    }

    fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The decision that bound the pod, if the coordinator kept it.
    fn decision(&self) -> Option<&ExplainedDecision> {
        let decision = self.queue.as_ref()?.decision.as_ref()?;
        // An earlier pod of the same name has another UID.
        (decision.uid == self.uid && self.node.as_deref() == Some(&*decision.node)).then_some(decision)
    }

    /// Why the account is of the present cluster instead of the decision.
    fn why_present(&self) -> String {
        let withheld = self.queue.as_ref().and_then(|queue| queue.decision_withheld.as_deref());
        let (pod, node) = (self.key(), self.node.as_deref().unwrap_or_default());
        let why = withheld.unwrap_or("the leader has not kept it, or another scheduler made it");
        format!(
            "{pod} is on {node}, and its decision is not available: {why}. The pod is evaluated in the present \
             cluster as if it were pending; its claims and volumes stay allocated"
        )
    }

    fn print_queue(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.queue.as_ref().map(words::lines).unwrap_or_default();
        for (place, line) in lines.iter().enumerate() {
            match place {
                0 => writeln!(out, "{}: {}", printable(&self.key()), printable(line))?,
                _ => writeln!(out, "  {}", printable(line))?,
            }
        }
        if let Some(node) = &self.nominated {
            writeln!(out, "  nominated to node {}", printable(node))?;
        }
        if lines.is_empty() && self.nominated.is_none() { Ok(()) } else { writeln!(out) }
    }

    fn print(&self, format: Format, account: &Account, world: &World, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table | Format::Wide => {
                self.print_queue(out)?;
                table::print(account, &[], world, format == Format::Wide, out)
            }
            Format::Json | Format::Yaml => {
                let account = Some(Answer::new(account, world));
                let bound_to = self.node.as_deref();
                let account_of = bound_to.map(|_| PRESENT);
                serialize(format, &LiveAnswer { account, bound_to, account_of, ..self.answer() }, out)
            }
            // The page is written from the whole cluster.
            Format::Html => Ok(()),
        }
    }

    fn print_settled(&self, format: Format, why: &str, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table | Format::Wide => {
                self.print_queue(out)?;
                match self.decision() {
                    Some(decision) => decided::print(&self.key(), decision, format == Format::Wide, out),
                    None => writeln!(out, "{}: {}, so no node was evaluated\n", printable(&self.key()), printable(why)),
                }
            }
            Format::Json | Format::Yaml => {
                let (pod, scheduler_name) = (self.key(), self.scheduler_name.as_str());
                let settled = Settled { pod, scheduler_name, node: self.node.as_deref(), message: why };
                serialize(format, &LiveAnswer { settled: Some(settled), ..self.answer() }, out)
            }
            Format::Html => {
                let pod = self.key();
                Err(io::Error::other(format!(
                    "pod {pod}: {why}, so there is no page; leave -o html out to see its state"
                )))
            }
        }
    }

    fn answer(&self) -> LiveAnswer<'_> {
        let (nominated_node, queue) = (self.nominated.as_deref(), self.queue.as_ref());
        LiveAnswer { account: None, settled: None, nominated_node, bound_to: None, account_of: None, queue }
    }
}

fn serialize(format: Format, answer: &LiveAnswer<'_>, out: &mut dyn Write) -> io::Result<()> {
    if format == Format::Yaml {
        let text = serde_yaml::to_string(answer).map_err(io::Error::other)?;
        return write!(out, "---\n{text}");
    }
    serde_json::to_writer(&mut *out, answer)?;
    writeln!(out)
}
