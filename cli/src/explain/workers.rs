//! Sessions with the workers that evaluate classes.

use std::{collections::HashSet, sync::Arc, time::Duration};

use anyhow::{Context as _, bail, ensure};
use flotilla_account::world::{Subject, World};
use flotilla_framework::{
    class::ClassId,
    explain::shard::{MAX_PAGE_NODES, Page},
    node::NodeId,
    profile::Profile,
    registry::Registry,
    shard::{Command, Reply, RequestId, Unable},
};
use flotilla_proto::bounds::chunk_changes;
use flotilla_runtime::conversation::{Connection, Conversation};
use flotilla_simulate::workers;
use flotilla_worker_service::ServeError;
use tokio::task::JoinSet;

/// The time limit of one answer from a worker in this process; the largest page takes milliseconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// There is one leader and one configuration.
const EPOCH: u64 = 1;
const GENERATION: u64 = 1;

/// Running workers and connections to them. Dropping it stops them.
#[derive(Debug)]
pub(super) struct Workers {
    registry: Registry,
    connections: Vec<Connection>,
    _running: JoinSet<Result<(), ServeError>>,
}

#[derive(Debug)]
pub(super) struct AttachedWorkers {
    members: Vec<Member>,
    registered: HashSet<ClassId>,
    next_request: RequestId,
}

#[derive(Debug)]
struct Member {
    conversation: Conversation,
    /// The worker's nodes, and the nodes of one page.
    nodes: usize,
    limit: usize,
}

impl Workers {
    /// Starts workers with these plugins and connects to them.
    ///
    /// # Errors
    /// A worker cannot be started or reached.
    pub(super) async fn start(count: u16, registry: Registry) -> anyhow::Result<Self> {
        let (addresses, running) = workers::start(count, registry).await?;
        let mut connections = Vec::with_capacity(addresses.len());
        for address in addresses {
            connections.push(Connection::open(&address).await?);
        }
        Ok(Self { registry, connections, _running: running })
    }

    /// The registry is needed to decode accounts.
    pub(super) const fn registry(&self) -> Registry {
        self.registry
    }
}

impl AttachedWorkers {
    /// Opens a session with each worker. The worker ends the session of the previous leader.
    ///
    /// # Errors
    /// A worker does not answer the handshake.
    pub(super) async fn attach(workers: &Workers) -> anyhow::Result<Self> {
        let mut members = Vec::with_capacity(workers.connections.len());
        for (place, connection) in workers.connections.iter().enumerate() {
            members.push(Member::attach(connection).await.with_context(|| format!("no stream to worker {place}"))?);
        }
        Ok(Self { members, registered: HashSet::new(), next_request: 0 })
    }

    /// Sends each worker the profiles and its shard, and waits for the acknowledgements.
    ///
    /// # Errors
    /// A worker is lost.
    pub(super) async fn lay_out(&mut self, world: &World, profiles: &[Profile]) -> anyhow::Result<()> {
        let profiles: Arc<[Profile]> = profiles.into();
        self.registered.extend(world.classes().map(|(id, _)| id));
        let shards = self.members.len();
        for (shard, member) in self.members.iter_mut().enumerate() {
            let profiles = Arc::clone(&profiles);
            member.say(Command::Configure { generation: GENERATION, tie_break_seed: 0, profiles }).await?;
            member.expect_applied().await?;
            for (id, class) in world.classes() {
                member.say(Command::RegisterClass { id, class: Arc::clone(class) }).await?;
            }
            let mut chunks = chunk_changes(world.shard(shard, shards));
            if chunks.is_empty() {
                chunks.push(Vec::new());
            }
            let last = chunks.len() - 1;
            for (chunk, changes) in chunks.into_iter().enumerate() {
                member.say(Command::Snapshot { first: chunk == 0, last: chunk == last, changes }).await?;
            }
            member.nodes = member.expect_applied().await?;
        }
        Ok(())
    }

    /// The account of a class under a profile: all pages of all workers.
    ///
    /// # Errors
    /// A worker is lost, or even one node exceeds the page size.
    pub(super) async fn ask(&mut self, profile: &Arc<str>, subject: &Subject) -> anyhow::Result<Vec<Page>> {
        let is_new = self.registered.insert(subject.id);
        // All requests are sent first, so that the workers compute in parallel.
        for member in &self.members {
            if is_new {
                let class = Arc::clone(&subject.class);
                member.say(Command::RegisterClass { id: subject.id, class }).await?;
            }
            self.next_request += 1;
            member.ask(self.next_request, profile, subject, None).await?;
        }
        let mut pages = Vec::new();
        for member in &mut self.members {
            let mut told = 0;
            loop {
                let after = match member.page().await? {
                    Some(page) => {
                        told += page.nodes.len();
                        let after = page.nodes.last().map(|account| account.node).filter(|_| page.more);
                        pages.push(page);
                        match after {
                            Some(after) => Some(after),
                            None => break,
                        }
                    }
                    // The page was too large; earlier pages stay.
                    None => pages.last().filter(|_| told > 0).and_then(|page| Some(page.nodes.last()?.node)),
                };
                self.next_request += 1;
                member.ask(self.next_request, profile, subject, after).await?;
            }
            ensure!(told == member.nodes, "a worker reported {told} nodes and holds {}", member.nodes);
        }
        Ok(pages)
    }
}

impl Member {
    async fn attach(connection: &Connection) -> anyhow::Result<Self> {
        let conversation = Conversation::begin(connection, ANSWER_LIMIT).await?;
        let mut member = Self { conversation, nodes: 0, limit: MAX_PAGE_NODES };
        match member.conversation.receive().await? {
            Reply::Hello { .. } => Ok(member),
            other => bail!("a worker's first message is not Hello but {other:?}"),
        }
    }

    async fn say(&self, command: Command) -> anyhow::Result<()> {
        self.conversation.send(EPOCH, 1, command).await
    }

    /// Waits for the acknowledgement; returns the number of nodes.
    async fn expect_applied(&mut self) -> anyhow::Result<usize> {
        match self.conversation.receive().await? {
            Reply::Applied { nodes, .. } => Ok(nodes as usize),
            other => bail!("expected an acknowledgement from a worker, got {other:?}"),
        }
    }

    async fn ask(
        &self,
        request: RequestId,
        profile: &Arc<str>,
        subject: &Subject,
        after: Option<NodeId>,
    ) -> anyhow::Result<()> {
        let command = Command::Explain {
            request,
            generation: GENERATION,
            profile: Arc::clone(profile),
            class: subject.id,
            facts: Arc::clone(&subject.facts),
            after,
            limit: u32::try_from(self.limit).unwrap_or(u32::MAX),
            trace: Arc::default(),
        };
        self.say(command).await
    }

    /// The next page; `None` if it would be too large, so that fewer nodes must be requested.
    async fn page(&mut self) -> anyhow::Result<Option<Page>> {
        match self.conversation.receive().await? {
            Reply::Explained { page, .. } => Ok(Some(page)),
            Reply::Unable { why: Unable::TooLarge, .. } if self.limit > 1 => {
                self.limit = self.limit.min(self.nodes).div_ceil(2);
                Ok(None)
            }
            Reply::Unable { why, .. } => bail!("a worker cannot evaluate: {why}"),
            other => bail!("expected an account from a worker, got {other:?}"),
        }
    }
}
