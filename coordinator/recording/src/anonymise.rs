//! Replaces the names in a recording without changing its decisions.
//!
//! The recording is read twice. The first pass collects all names, the second replaces each consistently. Messages of the scheduler are
//! replaced by the messages that a replay under the new names yields.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use flotilla_machine::event::{Configuration, Event};
use serde::Serialize as _;

mod masked;
mod names;
mod places;

pub use names::Unkept;

use masked::{FieldName, Masked, Texts};
use places::{Kind, kind};

use crate::{
    decision::{Decision, TurnOutcome},
    entry::{Entry, Input},
    read::BadEntry,
};

/// Collects names and then replaces them.
#[derive(Debug, Default)]
pub struct Anonymiser {
    collected: Collected,
    others: BTreeMap<String, String>,
    sentences: RefCell<BTreeMap<String, String>>,
}

#[derive(Debug, Default)]
struct Collected {
    names: RefCell<BTreeSet<String>>,
    words: RefCell<BTreeSet<String>>,
    nodes: BTreeSet<String>,
    workers: BTreeSet<String>,
}

impl Texts for Collected {
    fn text(&self, place: FieldName, text: &str) -> String {
        let set = match kind(place) {
            Kind::Name => &self.names,
            Kind::Word => &self.words,
            Kind::Fixed | Kind::Sentence => return text.to_owned(),
        };
        let mut set = set.borrow_mut();
        if !set.contains(text) {
            set.insert(text.to_owned());
        }
        text.to_owned()
    }
}

impl Texts for Anonymiser {
    fn text(&self, place: FieldName, text: &str) -> String {
        match kind(place) {
            Kind::Name => self.name(text),
            Kind::Word | Kind::Fixed => text.to_owned(),
            Kind::Sentence => self.sentence(text),
        }
    }
}

fn bad(error: impl std::fmt::Display) -> BadEntry {
    BadEntry(error.to_string())
}

fn masked(entry: &Entry<'_>, outcome: Option<&TurnOutcome>, texts: &impl Texts) -> Result<Vec<u8>, BadEntry> {
    let mut bytes = Vec::new();
    let mut write = |value: &dyn Fn(Vec<u8>) -> Result<Vec<u8>, postcard::Error>| {
        bytes = value(std::mem::take(&mut bytes)).map_err(bad)?;
        Ok::<_, BadEntry>(())
    };
    write(&|bytes| with(entry, bytes, texts))?;
    if let Some(outcome) = outcome {
        write(&|bytes| with(outcome, bytes, texts))?;
    }
    Ok(bytes)
}

fn with(value: &impl serde::Serialize, bytes: Vec<u8>, texts: &impl Texts) -> Result<Vec<u8>, postcard::Error> {
    let flavour = postcard::ser_flavors::ExtendFlavor::new(bytes);
    let mut serializer = postcard::Serializer { output: flavour };
    value.serialize(Masked { inner: &mut serializer, texts, place: FieldName::NONE })?;
    postcard::ser_flavors::Flavor::finalize(serializer.output)
}

fn configuration(text: &str, texts: &impl Texts) -> Result<String, BadEntry> {
    let configuration: Configuration = serde_json::from_str(text).map_err(bad)?;
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    configuration.serialize(Masked { inner: &mut serializer, texts, place: FieldName::NONE }).map_err(bad)?;
    String::from_utf8(bytes).map_err(bad)
}

impl Anonymiser {
    /// Collects the names of an entry.
    ///
    /// # Errors
    /// The entry cannot be read.
    pub fn collect(&mut self, entry: &Entry<'_>, outcome: Option<&TurnOutcome>) -> Result<(), BadEntry> {
        match entry {
            Entry::Header(_) | Entry::Module(_) | Entry::Words { .. } => return Ok(()),
            Entry::Turn { input: Input::Configured(text), .. } | Entry::Known(Input::Configured(text)) => {
                configuration(text, &self.collected)?;
            }
            Entry::Turn { input: Input::Event(event), .. } | Entry::Known(Input::Event(event)) => match &**event {
                Event::NodeApplied(node) => {
                    self.collected.nodes.insert(node.name.to_string());
                }
                Event::WorkerJoined { name, .. } => {
                    self.collected.workers.insert(name.to_string());
                }
                _ => {}
            },
            _ => {}
        }
        if !matches!(entry, Entry::Turn { input: Input::Configured(_), .. } | Entry::Known(Input::Configured(_))) {
            masked(entry, outcome, &self.collected)?;
        }
        Ok(())
    }

    /// Assigns the new names after all entries are collected. Returns the number of replaced names.
    ///
    /// # Errors
    /// No new name keeps the order.
    pub fn settle(&mut self) -> Result<usize, Unkept> {
        let Collected { names, words, nodes, workers } = &self.collected;
        self.others = names::other_names(&names.borrow(), &words.borrow(), nodes, workers)?;
        Ok(self.others.len())
    }

    /// The entry with replaced names.
    ///
    /// # Errors
    /// The entry cannot be read.
    pub fn entry(&self, entry: Entry<'static>) -> Result<Entry<'static>, BadEntry> {
        let configured = |text: &str| configuration(text, self).map(|text| Input::Configured(text.into()));
        match entry {
            entry @ (Entry::Header(_) | Entry::Module(_)) => Ok(entry),
            Entry::Turn { now_ms, input: Input::Configured(text) } => {
                Ok(Entry::Turn { now_ms, input: configured(&text)? })
            }
            Entry::Known(Input::Configured(text)) => Ok(Entry::Known(configured(&text)?)),
            entry => postcard::from_bytes(&masked(&entry, None, self)?).map_err(bad),
        }
    }

    /// The outcome with replaced names.
    ///
    /// # Errors
    /// The outcome cannot be read.
    pub fn outcome(&self, outcome: &TurnOutcome) -> Result<TurnOutcome, BadEntry> {
        postcard::from_bytes(&with(outcome, Vec::new(), self).map_err(bad)?).map_err(bad)
    }

    /// Learns the replayed messages as replacements of the recorded ones. Returns whether the outcomes are equal except for messages.
    pub fn learn(&self, recorded: &TurnOutcome, renamed: &TurnOutcome, replayed: &TurnOutcome) -> bool {
        let bare = |outcome: &TurnOutcome| TurnOutcome {
            decisions: outcome.decisions.iter().map(without_words).collect(),
            ..outcome.clone()
        };
        let is_same = bare(renamed) == bare(replayed);
        if is_same {
            let pairs = recorded.decisions.iter().zip(&replayed.decisions);
            for (before, now) in pairs {
                if let (Some(before), Some(now)) = (words(before), words(now)) {
                    self.sentences.borrow_mut().insert(before.to_owned(), now.to_owned());
                }
            }
        }
        is_same
    }

    fn name(&self, text: &str) -> String {
        self.others.get(text).map_or(text, String::as_str).to_owned()
    }

    /// Replaces a message by its learned replacement, or else each name in it.
    fn sentence(&self, text: &str) -> String {
        if let Some(known) = self.sentences.borrow().get(text) {
            return known.clone();
        }
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-._/:".contains(letter);
        let mut replaced = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            replaced.push_str(&self.word(&rest[..word]));
            let gap = rest[word..].find(is_part).map_or(rest.len(), |gap| word + gap);
            replaced.push_str(&rest[word..gap]);
            rest = &rest[gap..];
        }
        replaced
    }

    /// Replaces a name, a name followed by a full stop, or names between slashes.
    fn word(&self, word: &str) -> String {
        if let Some(other) = self.others.get(word) {
            return other.clone();
        }
        let bare = word.trim_end_matches(['.', ':', ',']);
        if bare.len() < word.len() {
            return self.word(bare) + &word[bare.len()..];
        }
        word.split('/').map(|part| self.name(part)).collect::<Vec<_>>().join("/")
    }
}

fn words(decision: &Decision) -> Option<&str> {
    match decision {
        Decision::Refuse { message, .. } | Decision::Group { message, .. } => Some(message),
        _ => None,
    }
}

fn without_words(decision: &Decision) -> Decision {
    let mut decision = decision.clone();
    if let Decision::Refuse { message, .. } | Decision::Group { message, .. } = &mut decision {
        message.clear();
    }
    decision
}

#[cfg(test)]
impl Anonymiser {
    fn others(&self) -> &BTreeMap<String, String> {
        &self.others
    }
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, sync::Arc};

    use flotilla_framework::testing::{node, pod};

    use super::*;
    use crate::decision::PodId;

    fn turn(event: Event) -> Entry<'static> {
        Entry::Turn { now_ms: 1, input: Input::Event(Cow::Owned(event)) }
    }

    fn entries() -> Vec<(Entry<'static>, Option<TurnOutcome>)> {
        let zone = "topology.kubernetes.io/zone";
        let node = node("secret-node").label(zone, "eu-secret-1").taint("acme.example/team", "blue", "NoSchedule");
        let pod = pod("secret-pod").label("app", "secret-shop").request("cpu", "1");
        let refuse = Decision::Refuse {
            pod: PodId { uid: "secret-pod".into(), namespace: "default".into(), name: "secret-pod".into() },
            is_unschedulable: true,
            message: "default/secret-pod does not fit on secret-node.".to_owned(),
            nomination: None,
            ends_attempt: true,
        };
        let outcome = TurnOutcome { heard_ms: 1, decisions: vec![refuse], rest: 0 };
        vec![
            (turn(Event::NodeApplied(Arc::new(node.build()))), Some(outcome)),
            (
                turn(Event::PodApplied(Arc::new(pod.build()))),
                Some(TurnOutcome { heard_ms: 1, decisions: Vec::new(), rest: 0 }),
            ),
        ]
    }

    fn settled() -> Anonymiser {
        let mut anonymiser = Anonymiser::default();
        for (entry, outcome) in entries() {
            anonymiser.collect(&entry, outcome.as_ref()).expect("it can be read");
        }
        anonymiser.settle().expect("each has another name");
        anonymiser
    }

    #[test]
    fn no_name_is_left_and_what_everybody_knows_is() {
        let anonymiser = settled();
        let mut text = String::new();
        for (entry, outcome) in entries() {
            let entry = anonymiser.entry(entry).expect("it can be read");
            let outcome = anonymiser.outcome(&outcome.expect("it is a turn")).expect("it can be read");
            text += &format!("{entry:?} {outcome:?}");
        }
        assert!(!text.contains("secret") && !text.contains("acme") && !text.contains("blue"), "{text}");
        for known in ["topology.kubernetes.io/zone", "NoSchedule", "does not fit on"] {
            assert!(text.contains(known), "{known}: {text}");
        }
    }

    #[test]
    fn the_same_name_is_the_same_everywhere() {
        let anonymiser = settled();
        let other = anonymiser.others()["secret-pod"].clone();
        let node = anonymiser.others()["secret-node"].clone();
        let namespace = anonymiser.others()["default"].clone();
        let (_, outcome) = entries().remove(0);
        let outcome = anonymiser.outcome(&outcome.expect("it is a turn")).expect("it can be read");
        let [Decision::Refuse { pod, message, .. }] = &outcome.decisions[..] else { panic!("{outcome:?}") };
        assert_eq!((&*pod.name, &*pod.uid), (&*other, &*other));
        assert_eq!(*message, format!("{namespace}/{other} does not fit on {node}."));
    }

    #[test]
    fn what_is_said_now_comes_in_the_place_of_what_was_said() {
        let anonymiser = settled();
        let (_, recorded) = entries().remove(0);
        let recorded = recorded.expect("it is a turn");
        let renamed = anonymiser.outcome(&recorded).expect("it can be read");
        let mut replayed = renamed.clone();
        let [Decision::Refuse { message, .. }] = &mut replayed.decisions[..] else { panic!("{replayed:?}") };
        "other words".clone_into(message);
        assert!(anonymiser.learn(&recorded, &renamed, &replayed));
        let again = anonymiser.outcome(&recorded).expect("it can be read");
        assert_eq!(again, replayed);
        let moved = TurnOutcome { decisions: Vec::new(), ..replayed };
        assert!(!anonymiser.learn(&recorded, &renamed, &moved));
    }
}
