//! Entries of a recording.

use std::{borrow::Cow, sync::Arc};

use flotilla_framework::{
    extender::{Extender, ExtenderTlsConfig},
    registry::Registry,
};
use flotilla_machine::event::{Configuration, Event, TimeMs};
use serde::{Deserialize, Serialize};

use crate::{decision::TurnOutcome, needs, read::BadEntry};

/// The first frame of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Identity of the recording, equal in all parts: its start in nanoseconds since 1970.
    pub run: u64,
    /// Number of the part, from 0.
    pub part: u32,
    /// Whether the part continues the previous one without a gap.
    pub follows: bool,
    /// Version of the recording Flotilla.
    pub version: String,
    /// Plugins of the registry, in order.
    pub plugins: Vec<String>,
    /// Whether names are replaced.
    pub anonymised: bool,
}

impl Header {
    /// Names of all compiled-in plugins. Modules are part of the recording.
    #[must_use]
    pub fn plugins_of(registry: Registry) -> Vec<String> {
        registry.compiled_in().map(|plugin| plugin.name().to_owned()).collect()
    }
}

/// An input of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input<'a> {
    /// Any event except `Configured`.
    Event(Cow<'a, Event>),
    /// A configuration as JSON, without secrets.
    Configured(Cow<'a, str>),
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Entry<'a> {
    /// The first entry of a part.
    Header(Header),
    /// An input and its time. Its [`TurnOutcome`](crate::TurnOutcome) follows.
    Turn {
        /// Time of the input.
        now_ms: TimeMs,
        /// The input.
        input: Input<'a>,
    },
    /// Requests of a slow turn were sent after the turn began.
    AskedAt {
        /// Start of the turn.
        began_ms: TimeMs,
        /// Time of sending.
        now_ms: TimeMs,
    },
    /// Part of the cluster state at the beginning of a later part.
    Known(Input<'a>),
    /// End of that cluster state.
    Resumed {
        /// Number of turns lost before.
        dropped: u64,
    },
    /// A WebAssembly module of the next configuration.
    Module(Vec<u8>),
    /// A module's messages for a status in the next answer.
    Words {
        /// The number of the messages in the answer.
        number: u64,
        /// The messages.
        text: String,
    },
}

impl<'a> Input<'a> {
    /// The input of an event. Keys, certificates and user names are removed from a configuration: no machine reads them.
    #[must_use]
    pub fn of(event: &'a Event) -> Self {
        let Event::Configured(configuration) = event else { return Self::Event(Cow::Borrowed(event)) };
        let extenders = configuration.extenders.iter().map(|extender| Arc::new(without_secrets(extender))).collect();
        let bare = Configuration { extenders, ..Configuration::clone(configuration) };
        // A configuration that cannot be encoded becomes empty, which reading reports.
        Self::Configured(Cow::Owned(serde_json::to_string(&bare).unwrap_or_default()))
    }

    /// The event. Registers the modules of a configuration.
    ///
    /// # Errors
    /// The configuration cannot be read, or one of its modules cannot run.
    pub fn into_event(self, registry: Registry) -> Result<Event, BadEntry> {
        match self {
            Self::Event(event) => Ok(event.into_owned()),
            Self::Configured(text) => {
                let configuration = serde_json::from_str(&text).map_err(|error| BadEntry(error.to_string()))?;
                needs::adopt(&configuration, registry)?;
                Ok(Event::Configured(Arc::new(configuration)))
            }
        }
    }
}

/// The extender without credentials.
fn without_secrets(extender: &Extender) -> Extender {
    let bare = |tls: &ExtenderTlsConfig| ExtenderTlsConfig {
        insecure: tls.insecure,
        server_name: tls.server_name.clone(),
        ..ExtenderTlsConfig::default()
    };
    let (scheme, rest) = extender.url_prefix.split_once("://").unwrap_or(("", &extender.url_prefix));
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let path = path.map(|path| format!("/{path}")).unwrap_or_default();
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    Extender {
        url_prefix: format!("{scheme}{host}{path}"),
        tls_config: extender.tls_config.as_ref().map(bare),
        ..extender.clone()
    }
}

impl Entry<'_> {
    /// Appends the encoded entry; the outcome of a turn follows.
    ///
    /// # Errors
    /// Encoding fails.
    pub fn encode(&self, bytes: Vec<u8>) -> Result<Vec<u8>, BadEntry> {
        postcard::to_extend(self, bytes).map_err(|error| BadEntry(error.to_string()))
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Result<(Entry<'static>, Option<TurnOutcome>), BadEntry> {
    let bad = |error: postcard::Error| BadEntry(error.to_string());
    let (entry, rest) = postcard::take_from_bytes::<Entry<'static>>(bytes).map_err(bad)?;
    let is_turn = matches!(entry, Entry::Turn { .. });
    let (outcome, rest) = match is_turn {
        true => {
            postcard::take_from_bytes::<TurnOutcome>(rest).map(|(outcome, rest)| (Some(outcome), rest)).map_err(bad)?
        }
        false => (None, rest),
    };
    if !rest.is_empty() {
        return Err(BadEntry(format!("{} bytes are left over", rest.len())));
    }
    Ok((entry, outcome))
}
