//! Conversions between domain and wire types.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    modules::{self, Digest},
    node::NodeId,
    shard::{Command, FromWorker, Reply, ToWorker, Unable},
};

use crate::{PROTOCOL_VERSION, pb};

mod affinity;
mod change;
mod class;
mod dry_run;
mod evaluation;
mod explanation;
mod facts;
mod mounts;
mod node;
mod profile;
mod volumes;

/// A domain type with a wire form. `decode(encode(x))` equals `x` for every valid value.
pub trait Wire: Sized {
    /// The wire form.
    type Message;

    /// Encodes the value.
    fn encode(&self) -> Self::Message;

    /// Decodes a value.
    ///
    /// # Errors
    /// The first field that is missing or invalid.
    fn decode(message: Self::Message) -> Result<Self, DecodeError>;
}

/// An invalid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct DecodeError {
    /// The field's path from the envelope, as in `snapshot.changes[3].upsert_node.node`.
    pub field: String,
    /// The problem.
    pub problem: Problem,
}

/// A problem of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A required field is absent.
    #[error("is missing")]
    Missing,
    /// A number is out of range.
    #[error("{value} is not within {min}..={max}")]
    OutOfRange {
        /// The number.
        value: i128,
        /// The minimum.
        min: i128,
        /// The maximum.
        max: i128,
    },
    /// A list is not sorted by unique keys.
    #[error("is not sorted, each key once")]
    Unsorted,
    /// A value occurs twice.
    #[error("names the same thing twice")]
    Repeated,
    /// A value does not parse.
    #[error("{0}")]
    Malformed(String),
    /// An unsupported protocol version.
    #[error(
        "is version {0} of the protocol, and here it is version {PROTOCOL_VERSION}; run coordinator and workers of one \
         release"
    )]
    Protocol(u32),
}

impl DecodeError {
    fn new(field: impl Into<String>, problem: Problem) -> Self {
        Self { field: field.into(), problem }
    }

    fn range(field: &str, value: impl Into<i128>, max: impl Into<i128>) -> Self {
        Self::new(field, Problem::OutOfRange { value: value.into(), min: 0, max: max.into() })
    }

    fn within(self, outer: &str) -> Self {
        Self { field: format!("{outer}.{}", self.field), ..self }
    }
}

fn at_most(field: &str, count: usize, max: usize) -> Result<(), DecodeError> {
    if count <= max { Ok(()) } else { Err(DecodeError::range(field, count as i128, max as i128)) }
}

fn narrow(field: &str, value: u32) -> Result<u16, DecodeError> {
    u16::try_from(value).map_err(|_| DecodeError::range(field, value, u16::MAX))
}

fn present<T>(field: &str, value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or_else(|| DecodeError::new(field, Problem::Missing))
}

fn required<T: Wire>(field: &str, message: Option<T::Message>) -> Result<T, DecodeError> {
    T::decode(present(field, message)?).map_err(|error| error.within(field))
}

fn encode_list<T: Wire>(list: &[T]) -> Vec<T::Message> {
    list.iter().map(T::encode).collect()
}

fn decode_list<T: Wire>(field: &str, list: Vec<T::Message>) -> Result<Vec<T>, DecodeError> {
    let list = list.into_iter().enumerate();
    list.map(|(index, item)| T::decode(item).map_err(|error| error.within(&format!("{field}[{index}]")))).collect()
}

/// Decodes a list that the domain searches by key.
fn decode_sorted<K: Ord, T>(field: &str, list: Vec<<(K, T) as Wire>::Message>) -> Result<Vec<(K, T)>, DecodeError>
where
    (K, T): Wire,
{
    let list: Vec<(K, T)> = decode_list(field, list)?;
    let sorted = list.is_sorted_by(|(left, _), (right, _)| left < right);
    if sorted { Ok(list) } else { Err(DecodeError::new(field, Problem::Unsorted)) }
}

fn encode_texts(list: &[Arc<str>]) -> Vec<String> {
    list.iter().map(|text| text.as_ref().to_owned()).collect()
}

fn decode_texts(list: Vec<String>) -> Vec<Arc<str>> {
    list.into_iter().map(Arc::from).collect()
}

impl Wire for ToWorker {
    type Message = pb::ToWorker;

    fn encode(&self) -> pb::ToWorker {
        let Self { epoch, revision, command } = self;
        pb::ToWorker { epoch: *epoch, revision: *revision, command: Some(command.encode()), timed: false }
    }

    fn decode(message: pb::ToWorker) -> Result<Self, DecodeError> {
        let pb::ToWorker { epoch, revision, command, timed: _ } = message;
        let command = Command::decode(present("command", command)?)?;
        Ok(Self { epoch, revision, command })
    }
}

impl Wire for FromWorker {
    type Message = pb::FromWorker;

    fn encode(&self) -> pb::FromWorker {
        let Self { epoch, revision, reply } = self;
        pb::FromWorker {
            epoch: *epoch,
            revision: *revision,
            reply: Some(reply.encode()),
            laps: Vec::new(),
            words: Vec::new(),
        }
    }

    fn decode(message: pb::FromWorker) -> Result<Self, DecodeError> {
        let pb::FromWorker { epoch, revision, reply, laps: _, words: _ } = message;
        let reply = Reply::decode(present("reply", reply)?)?;
        Ok(Self { epoch, revision, reply })
    }
}

impl Wire for Command {
    type Message = pb::to_worker::Command;

    fn encode(&self) -> pb::to_worker::Command {
        use pb::to_worker::Command as Message;
        match self {
            Self::Configure { generation, tie_break_seed, profiles } => Message::Configure(pb::Configure {
                generation: *generation,
                tie_break_seed: *tie_break_seed,
                profiles: encode_list(profiles),
            }),
            Self::Module { digest, size, part } => {
                Message::Module(pb::Module { digest: digest.0.to_vec(), size: *size, part: part.to_vec() })
            }
            Self::Snapshot { first, last, changes } => {
                Message::Snapshot(pb::Snapshot { first: *first, last: *last, changes: encode_list(changes) })
            }
            Self::Delta { changes } => Message::Delta(pb::Delta { changes: encode_list(changes) }),
            Self::RegisterClass { id, class } => {
                Message::RegisterClass(pb::RegisterClass { id: id.0, class: Some(class.encode()) })
            }
            Self::ForgetClass { id } => Message::ForgetClass(pb::ForgetClass { id: id.0 }),
            Self::Evaluate { request, generation, profile, class, facts, k, trace } => {
                Message::Evaluate(pb::Evaluate {
                    request: *request,
                    generation: *generation,
                    profile: profile.as_ref().to_owned(),
                    class: class.0,
                    facts: Some(facts.encode()),
                    k: *k,
                    trace: trace.as_ref().to_owned(),
                })
            }
            Self::DryRun { request, generation, profile, class, facts, trials } => Message::DryRun(pb::DryRun {
                request: *request,
                generation: *generation,
                profile: profile.as_ref().to_owned(),
                class: class.0,
                facts: Some(facts.encode()),
                trials: dry_run::encode_trials(trials),
            }),
            Self::Explain { request, generation, profile, class, facts, after, limit, trace } => {
                Message::Explain(pb::Explain {
                    request: *request,
                    generation: *generation,
                    profile: profile.as_ref().to_owned(),
                    class: class.0,
                    facts: Some(facts.encode()),
                    after: after.map(|node| node.0),
                    limit: *limit,
                    trace: trace.as_ref().to_owned(),
                })
            }
        }
    }

    fn decode(message: pb::to_worker::Command) -> Result<Self, DecodeError> {
        use pb::to_worker::Command as Message;
        match message {
            Message::Configure(pb::Configure { generation, tie_break_seed, profiles }) => {
                let profiles = decode_list("configure.profiles", profiles)?.into();
                Ok(Self::Configure { generation, tie_break_seed, profiles })
            }
            Message::Module(pb::Module { digest, size, part }) => {
                let digest = digest.try_into().map_err(|_| {
                    DecodeError::new("module.digest", Problem::Malformed("is not of 32 bytes".to_owned()))
                })?;
                if size as usize > modules::MAX_BYTES || part.len() > size as usize {
                    let range = (part.len() as i128, modules::MAX_BYTES as i128);
                    return Err(DecodeError::new(
                        "module.size",
                        Problem::OutOfRange { value: size.into(), min: range.0, max: range.1 },
                    ));
                }
                Ok(Self::Module { digest: Digest(digest), size, part: part.into() })
            }
            Message::Snapshot(pb::Snapshot { first, last, changes }) => {
                Ok(Self::Snapshot { first, last, changes: decode_list("snapshot.changes", changes)? })
            }
            Message::Delta(pb::Delta { changes }) => {
                Ok(Self::Delta { changes: decode_list("delta.changes", changes)? })
            }
            Message::RegisterClass(pb::RegisterClass { id, class }) => {
                Ok(Self::RegisterClass { id: ClassId(id), class: Arc::new(required("register_class.class", class)?) })
            }
            Message::ForgetClass(pb::ForgetClass { id }) => Ok(Self::ForgetClass { id: ClassId(id) }),
            Message::Evaluate(pb::Evaluate { request, generation, profile, class, facts, k, trace }) => {
                Ok(Self::Evaluate {
                    request,
                    generation,
                    profile: profile.into(),
                    class: ClassId(class),
                    facts: required("evaluate.facts", facts).map(Arc::new)?,
                    k,
                    trace: trace.into(),
                })
            }
            Message::DryRun(pb::DryRun { request, generation, profile, class, facts, trials }) => Ok(Self::DryRun {
                request,
                generation,
                profile: profile.into(),
                class: ClassId(class),
                facts: required("dry_run.facts", facts).map(Arc::new)?,
                trials: dry_run::decode_trials(trials).map_err(|error| error.within("dry_run"))?.into(),
            }),
            Message::Explain(pb::Explain { request, generation, profile, class, facts, after, limit, trace }) => {
                Ok(Self::Explain {
                    request,
                    generation,
                    profile: profile.into(),
                    class: ClassId(class),
                    facts: required("explain.facts", facts).map(Arc::new)?,
                    after: after.map(NodeId),
                    limit,
                    trace: trace.into(),
                })
            }
        }
    }
}

impl Wire for Reply {
    type Message = pb::from_worker::Reply;

    fn encode(&self) -> pb::from_worker::Reply {
        use pb::from_worker::Reply as Message;
        match self {
            Self::Hello { version, nonce, plugins } => Message::Hello(pb::Hello {
                version: version.as_ref().to_owned(),
                nonce: *nonce,
                protocol: PROTOCOL_VERSION,
                plugins: encode_texts(plugins),
            }),
            Self::Applied { generation, nodes } => {
                Message::Applied(pb::Applied { generation: *generation, nodes: *nodes })
            }
            Self::Evaluated { request, evaluation } => Message::Evaluated(evaluation::encode(*request, evaluation)),
            Self::DryRunResults { request, outcomes } => Message::DryRunResults(dry_run::encode(*request, outcomes)),
            Self::Explained { request, page } => Message::Explained(explanation::encode(*request, page)),
            Self::Unable { request, why } => {
                Message::Unable(pb::Unable { request: *request, reason: reason(*why).into() })
            }
        }
    }

    fn decode(message: pb::from_worker::Reply) -> Result<Self, DecodeError> {
        use pb::from_worker::Reply as Message;
        match message {
            Message::Hello(pb::Hello { version, nonce, protocol, plugins }) => {
                if protocol != PROTOCOL_VERSION {
                    return Err(DecodeError::new("hello.protocol", Problem::Protocol(protocol)));
                }
                Ok(Self::Hello { version: version.into(), nonce, plugins: decode_texts(plugins) })
            }
            Message::Applied(pb::Applied { generation, nodes }) => Ok(Self::Applied { generation, nodes }),
            Message::Evaluated(evaluated) => {
                let request = evaluated.request;
                let evaluation = evaluation::decode(evaluated).map_err(|error| error.within("evaluated"))?;
                Ok(Self::Evaluated { request, evaluation })
            }
            Message::DryRunResults(dry_run_results) => {
                let request = dry_run_results.request;
                let outcomes = dry_run::decode(dry_run_results).map_err(|error| error.within("dry_run_results"))?;
                Ok(Self::DryRunResults { request, outcomes })
            }
            Message::Explained(explained) => {
                let request = explained.request;
                let page = explanation::decode(explained).map_err(|error| error.within("explained"))?;
                Ok(Self::Explained { request, page })
            }
            Message::Unable(unable) => {
                let why = why(&unable).map_err(|error| error.within("unable"))?;
                Ok(Self::Unable { request: unable.request, why })
            }
        }
    }
}

const fn reason(why: Unable) -> pb::UnableReason {
    match why {
        Unable::Generation => pb::UnableReason::Generation,
        Unable::Profile => pb::UnableReason::Profile,
        Unable::Class => pb::UnableReason::Class,
        Unable::TooManyStrata => pb::UnableReason::TooManyStrata,
        Unable::TooLarge => pb::UnableReason::TooLarge,
        Unable::Panicked => pb::UnableReason::Panicked,
    }
}

fn why(unable: &pb::Unable) -> Result<Unable, DecodeError> {
    match pb::UnableReason::try_from(unable.reason) {
        Ok(pb::UnableReason::Generation) => Ok(Unable::Generation),
        Ok(pb::UnableReason::Profile) => Ok(Unable::Profile),
        Ok(pb::UnableReason::Class) => Ok(Unable::Class),
        Ok(pb::UnableReason::TooManyStrata) => Ok(Unable::TooManyStrata),
        Ok(pb::UnableReason::TooLarge) => Ok(Unable::TooLarge),
        Ok(pb::UnableReason::Panicked) => Ok(Unable::Panicked),
        Ok(pb::UnableReason::Unspecified) => Err(DecodeError::new("reason", Problem::Missing)),
        Err(_) => Err(DecodeError::range("reason", unable.reason, pb::UnableReason::Panicked as i32)),
    }
}
