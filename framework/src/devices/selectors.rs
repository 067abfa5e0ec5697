//! Caches the verdicts of selectors on devices.
//!
//! A selector is evaluated once per set of values that it reads: once for thousands of equal GPUs.

#[cfg(test)]
mod tests;

mod derivations;

use std::{fmt, sync::Arc};

use indexmap::{IndexMap, map::Entry};

use super::{
    inventory::Subject,
    model::slice::{Attribute, Device},
    work::{self, Exhausted, Work},
};
use crate::contain::contain;
pub use derivations::DerivationNumber;
use derivations::Derivations;

/// Language of selectors: CEL.
pub trait Language: fmt::Debug + Send + Sync {
    /// Parses an expression.
    ///
    /// # Errors
    /// The expression is invalid. Upstream's text.
    fn compile(&self, expression: &str) -> Result<Box<dyn Selector>, String>;

    /// Parses the expression of a derived attribute.
    ///
    /// # Errors
    /// The expression is invalid. Upstream's text.
    fn compile_derived(&self, _expression: &str) -> Result<Box<dyn Derivation>, String> {
        Err("the language has no derived attributes".to_owned())
    }
}

/// The expression of a derived attribute.
pub trait Derivation: fmt::Debug + Send + Sync {
    /// The attribute of a device of a driver, within a limit of work.
    fn derive(&self, driver: &str, device: &Device, max_work: u64) -> SelectorEvaluation<Attribute>;

    /// Number of nodes of its expression.
    fn nodes(&self) -> usize;

    /// The parts of a device that it can read.
    fn reach(&self) -> &Reach;
}

/// An expression on a device.
pub trait Selector: fmt::Debug + Send + Sync {
    /// Whether a device of a driver matches.
    ///
    /// # Errors
    /// The evaluation failed. Upstream's text.
    fn matches(&self, driver: &str, device: &Device) -> Result<bool, String>;

    /// Like [`Self::matches`], within a limit of work.
    fn judge(&self, driver: &str, device: &Device, _max_work: u64) -> SelectorEvaluation {
        SelectorEvaluation { verdict: self.matches(driver, device), work: 0, is_exhausted: false }
    }

    /// Number of nodes of its expression.
    fn nodes(&self) -> usize {
        0
    }

    /// The parts of a device that it can read.
    fn reach(&self) -> &Reach;
}

/// Result of an evaluation.
#[derive(Debug)]
pub struct SelectorEvaluation<T = bool> {
    /// Whether the selector matches, or the derived attribute.
    pub verdict: Result<T, String>,
    /// Work in units of [`Work`].
    pub work: u64,
    /// Whether the work limit was reached. There is no verdict then.
    pub is_exhausted: bool,
}

/// The parts of a device that a selector can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Everything.
    All,
    /// The driver, `allowMultipleAllocations`, and these attributes and capacities. Names have no domain: `id` covers `id` and `domain/id`.
    Some {
        /// Attributes.
        attributes: Vec<Arc<str>>,
        /// Capacities.
        capacities: Vec<Arc<str>>,
    },
}

/// Number of an expression in [`Verdicts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SelectorNumber(u32);

/// Expressions and their verdicts on devices.
///
/// Bound: one word per selector and device, and one entry per selector and set of values. Entries are never removed; the owner checks
/// [`Self::len`].
#[derive(Debug)]
pub struct Verdicts {
    language: Arc<dyn Language>,
    selectors: IndexMap<Arc<str>, CachedSelector>,
    derivations: Derivations,
    pub(super) work: Work,
    bytes: usize,
}

#[derive(Debug)]
struct CachedSelector {
    selector: Result<Box<dyn Selector>, String>,
    /// By place of a device: its serial number, and a verdict in the last two bits.
    column: Vec<u32>,
    by_values: IndexMap<Values, SelectorResult>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Values {
    driver: Arc<str>,
    allow_multiple: Option<bool>,
    attributes: Vec<(Arc<str>, Attribute)>,
    capacities: Vec<(Arc<str>, Arc<str>)>,
}

type SelectorResult = Result<bool, String>;

/// A value of a device that a selector reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen {
    /// `driver`, or an attribute or capacity with its domain; without a domain if the device has none of this name.
    pub name: Arc<str>,
    /// The value in CEL's notation; `None`: the device has none.
    pub value: Option<String>,
}

/// Why a selector has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorError<'a> {
    /// The expression is invalid.
    Compile(&'a str),
    /// The evaluation failed for this device.
    Runtime(&'a str),
    /// The work limit is reached.
    Exhausted,
}

const NO: u32 = 1;
const YES: u32 = 2;
const FAILED: u32 = 3;

impl Verdicts {
    /// An empty cache.
    #[must_use]
    pub fn new(language: Arc<dyn Language>) -> Self {
        Self {
            language,
            selectors: IndexMap::new(),
            derivations: Derivations::default(),
            work: Work::default(),
            bytes: 0,
        }
    }

    /// Work done so far.
    #[must_use]
    pub const fn work(&self) -> Work {
        self.work
    }

    /// Replaces the work counter, and returns the previous one.
    pub const fn replace_work(&mut self, work: Work) -> Work {
        std::mem::replace(&mut self.work, work)
    }

    /// Approximate bytes of the verdicts.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of an expression. It is parsed on first use; the first verdict reports syntax errors.
    pub fn selector(&mut self, expression: &Arc<str>) -> SelectorNumber {
        let at = self.selectors.get_index_of(expression).unwrap_or_else(|| {
            // Not stored, because the work limit is no error of the expression. Its verdict reports `Exhausted`.
            let Ok(selector) = self.compile(expression) else { return usize::MAX };
            // A parsed expression takes about 20 times its text.
            self.bytes += size_of::<CachedSelector>() + 20 * expression.len();
            let known = CachedSelector { selector, column: Vec::new(), by_values: IndexMap::new() };
            self.selectors.insert_full(Arc::clone(expression), known).0
        });
        SelectorNumber(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn compile(&mut self, expression: &str) -> Result<Result<Box<dyn Selector>, String>, Exhausted> {
        self.work.add((expression.len() as u64).saturating_mul(work::EXPRESSION_BYTE))?;
        let selector = contained(|| self.language.compile(expression)).unwrap_or_else(Err);
        let nodes = selector.as_ref().map_or(0, |selector| selector.nodes() as u64);
        // If this exceeds the limit, the next operation fails.
        _ = self.work.add(nodes.saturating_mul(work::EXPRESSION_NODE));
        Ok(selector)
    }

    /// The expression with this number.
    #[must_use]
    pub fn expression(&self, selector: SelectorNumber) -> Option<&Arc<str>> {
        self.selectors.get_index(selector.0 as usize).map(|(expression, _)| expression)
    }

    /// The values that a selector reads of a device; all values if unknown. Empty for an invalid expression.
    #[must_use]
    pub fn seen(&self, selector: SelectorNumber, driver: &Arc<str>, device: &Device) -> Vec<Seen> {
        let Some((expression, known)) = self.selectors.get_index(selector.0 as usize) else { return Vec::new() };
        let Ok(selector) = &known.selector else { return Vec::new() };
        let reach = selector.reach();
        let mut seen = Vec::new();
        let mut add = |name: &Arc<str>, value: Option<String>| seen.push(Seen { name: Arc::clone(name), value });
        if expression.contains("driver") || matches!(reach, Reach::All) {
            add(&"driver".into(), Some(format!("{driver:?}")));
        }
        let is_read = |ids: &[Arc<str>], name: &str| ids.iter().any(|id| **id == *id_of(name));
        let (attributes, capacities) = match reach {
            Reach::All => (None, None),
            Reach::Some { attributes, capacities } => (Some(attributes), Some(capacities)),
        };
        let read = device.attributes.iter().filter(|(name, _)| attributes.is_none_or(|ids| is_read(ids, name)));
        read.for_each(|(name, value)| add(name, Some(value.to_string())));
        let missing = |id: &&Arc<str>| !device.attributes.iter().any(|(name, _)| *id_of(name) == ***id);
        attributes.into_iter().flatten().filter(missing).for_each(|id| add(id, None));
        let read = device.capacity.iter().filter(|(name, _)| capacities.is_none_or(|ids| is_read(ids, name)));
        read.for_each(|(name, capacity)| add(name, Some(capacity.value.text().to_string())));
        let missing = |id: &&Arc<str>| !device.capacity.iter().any(|(name, _)| *id_of(name) == ***id);
        capacities.into_iter().flatten().filter(missing).for_each(|id| add(id, None));
        seen
    }

    /// Number of expressions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.selectors.len()
    }

    /// Whether there are no expressions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.selectors.is_empty()
    }

    /// Number of evaluations, over all expressions.
    #[must_use]
    pub fn evaluations(&self) -> usize {
        self.selectors.values().map(|known| known.by_values.len()).sum()
    }

    /// Whether a selector matches a device.
    ///
    /// # Errors
    /// The expression is invalid, its evaluation failed, or the work limit is reached.
    pub fn matches(
        &mut self,
        selector: SelectorNumber,
        subject: Subject,
        driver: &Arc<str>,
        device: &Device,
    ) -> Result<bool, SelectorError<'_>> {
        let Self { selectors, work, bytes, .. } = self;
        if work.add(1) == Err(Exhausted) {
            return Err(SelectorError::Exhausted);
        }
        let Some((_, known)) = selectors.get_index_mut(selector.0 as usize) else {
            return Err(SelectorError::Compile("internal error: no such selector"));
        };
        let entry = known.column.get(subject.place as usize).copied().unwrap_or(0);
        if entry >> 2 == subject.serial {
            match entry & 3 {
                NO => return Ok(false),
                YES => return Ok(true),
                _ => {}
            }
        }
        known.judge(subject, (driver, device), work, bytes)
    }
}

/// Converts a panic into an error, as upstream does. With `panic = "abort"` the process still ends.
fn contained<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    // After a panic in a selector, the lock is recovered, and patterns are complete or absent.
    contain(call).map_err(|panic| format!("internal error: {panic}"))
}

impl CachedSelector {
    fn judge(
        &mut self,
        subject: Subject,
        (driver, device): (&Arc<str>, &Device),
        work: &mut Work,
        bytes: &mut usize,
    ) -> Result<bool, SelectorError<'_>> {
        let selector = match &self.selector {
            Ok(selector) => selector,
            Err(error) => return Err(SelectorError::Compile(error)),
        };
        if work.add(work::EVALUATION) == Err(Exhausted) {
            return Err(SelectorError::Exhausted);
        }
        let values = Values::of(selector.reach(), driver, device);
        let verdict = match self.by_values.entry(values) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let left = work.left();
                let judged = contained(|| selector.judge(driver, device, left));
                let judged = judged.unwrap_or_else(|error| SelectorEvaluation {
                    verdict: Err(error),
                    work: 0,
                    is_exhausted: false,
                });
                if work.add(judged.work) == Err(Exhausted) || judged.is_exhausted {
                    return Err(SelectorError::Exhausted);
                }
                *bytes += free.key().bytes() + judged.verdict.as_ref().map_or_else(String::len, |_| 0);
                free.insert(judged.verdict)
            }
        };
        let code = match verdict {
            Ok(false) => NO,
            Ok(true) => YES,
            Err(_) => FAILED,
        };
        let place = subject.place as usize;
        if self.column.len() <= place {
            *bytes += (place + 1 - self.column.len()) * size_of::<u32>();
            self.column.resize(place + 1, 0);
        }
        self.column[place] = subject.serial << 2 | code;
        verdict.as_ref().map(|verdict| *verdict).map_err(|error| SelectorError::Runtime(error))
    }
}

impl Values {
    /// Approximate bytes with the verdict.
    fn bytes(&self) -> usize {
        let attributes = self.attributes.len() * size_of::<(Arc<str>, Attribute)>();
        let capacities = self.capacities.len() * size_of::<(Arc<str>, Arc<str>)>();
        // Texts are shared with the devices. The hash table takes another 16 bytes.
        size_of::<(Self, SelectorResult)>() + attributes + capacities + 16
    }

    fn of(reach: &Reach, driver: &Arc<str>, device: &Device) -> Self {
        // An attribute of an unknown type or an invalid version fails every selector, whatever it reads.
        let is_reached = |name: &str, value: &Attribute| match reach {
            Reach::All => true,
            Reach::Some { attributes, .. } => {
                matches!(value, Attribute::Unknown | Attribute::Version(_) | Attribute::Versions(_))
                    || attributes.iter().any(|id| **id == *id_of(name))
            }
        };
        let is_measured = |name: &str| match reach {
            Reach::All => true,
            Reach::Some { capacities, .. } => capacities.iter().any(|id| **id == *id_of(name)),
        };
        let attributes = device.attributes.iter().filter(|(name, value)| is_reached(name, value)).cloned().collect();
        let capacities = device.capacity.iter().filter(|(name, _)| is_measured(name));
        let capacities = capacities.map(|(name, value)| (Arc::clone(name), Arc::clone(value.value.text()))).collect();
        Self { driver: Arc::clone(driver), allow_multiple: device.allow_multiple, attributes, capacities }
    }
}

fn id_of(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, id)| id)
}
