//! What is in a frame.
//!
//! Must not know: what a machine makes of it.

use std::{borrow::Cow, sync::Arc};

use flotilla_framework::{
    extender::{Extender, ExtenderTlsConfig},
    registry::Registry,
};
use flotilla_machine::event::{Configuration, Event, TimeMs};
use serde::{Deserialize, Serialize};

use crate::{decision::Outcome, needs, read::BadEntry};

/// What the first frame of each part says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The same for all parts of one recording: when it began, in nanoseconds since 1970.
    pub run: u64,
    /// Counts the parts from 0.
    pub part: u32,
    /// Nothing is missing between the part before and this one.
    pub follows: bool,
    /// The version of Flotilla that recorded.
    pub version: String,
    /// The plugins of its registry, in order.
    pub plugins: Vec<String>,
    /// Names are replaced.
    pub anonymised: bool,
}

impl Header {
    /// The names of all plugins that are compiled in. Modules are in the recording.
    #[must_use]
    pub fn plugins_of(registry: Registry) -> Vec<String> {
        registry.compiled_in().map(|plugin| plugin.name().to_owned()).collect()
    }
}

/// What a machine is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input<'a> {
    /// Any event but the next.
    Event(Cow<'a, Event>),
    /// A configuration, as JSON, without what is secret in it.
    Configured(Cow<'a, str>),
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Entry<'a> {
    /// The first of a part.
    Header(Header),
    /// The machine was told this at that time. Its [`Outcome`] is written behind.
    Turn {
        /// The time that the machine was told.
        now_ms: TimeMs,
        /// What.
        input: Input<'a>,
    },
    /// What was asked for at one time was asked at another.
    AskedAt {
        /// When it was asked for.
        began_ms: TimeMs,
        /// When it was asked.
        now_ms: TimeMs,
    },
    /// Something that the cluster is when a later part begins: an event that tells of it.
    Known(Input<'a>),
    /// All of that is told.
    Resumed {
        /// How many turns are missing before.
        dropped: u64,
    },
    /// A WebAssembly module that the next configuration names.
    Module(Vec<u8>),
    /// The words that a module had for a verdict in the next answer.
    Words {
        /// The number that the answer has for them.
        number: u64,
        /// The words.
        text: String,
    },
}

// === impl Input ===

impl<'a> Input<'a> {
    /// Of an event. Keys, certificates and user names are left out of a configuration: no machine reads them.
    #[must_use]
    pub fn of(event: &'a Event) -> Self {
        let Event::Configured(configuration) = event else { return Self::Event(Cow::Borrowed(event)) };
        let extenders = configuration.extenders.iter().map(|extender| Arc::new(without_secrets(extender))).collect();
        let bare = Configuration { extenders, ..Configuration::clone(configuration) };
        // What cannot be written is empty, and is told as such when it is read.
        Self::Configured(Cow::Owned(serde_json::to_string(&bare).unwrap_or_default()))
    }

    /// The event. The plugins of a configuration that are modules are found from now on.
    ///
    /// # Errors
    /// The configuration cannot be read, or a module of it cannot be run.
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

/// An extender without what lets somebody else speak in its name or ours.
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

// === impl Entry ===

impl Entry<'_> {
    /// Appends the bytes of the entry; those of the outcome of a turn follow.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn encode(&self, bytes: Vec<u8>) -> Result<Vec<u8>, BadEntry> {
        postcard::to_extend(self, bytes).map_err(|error| BadEntry(error.to_string()))
    }
}

/// An entry, and the outcome of a turn.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Entry<'static>, Option<Outcome>), BadEntry> {
    let bad = |error: postcard::Error| BadEntry(error.to_string());
    let (entry, rest) = postcard::take_from_bytes::<Entry<'static>>(bytes).map_err(bad)?;
    let is_turn = matches!(entry, Entry::Turn { .. });
    let (outcome, rest) = match is_turn {
        true => postcard::take_from_bytes::<Outcome>(rest).map(|(outcome, rest)| (Some(outcome), rest)).map_err(bad)?,
        false => (None, rest),
    };
    if !rest.is_empty() {
        return Err(BadEntry(format!("{} bytes are left over", rest.len())));
    }
    Ok((entry, outcome))
}
