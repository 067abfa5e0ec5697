//! Caches derived attributes of devices.

use std::sync::Arc;

use indexmap::{IndexMap, map::Entry};

use super::{Derivation, SelectorError, SelectorEvaluation, Values, Verdicts, contained};
use crate::devices::{
    model::slice::{Attribute, Device},
    work::{self, Exhausted},
};

/// Number of the expression of a derived attribute in [`Verdicts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DerivationNumber(u32);

#[derive(Debug, Default)]
pub(super) struct Derivations(IndexMap<Arc<str>, CachedDerivation>);

#[derive(Debug)]
struct CachedDerivation {
    derivation: Result<Box<dyn Derivation>, String>,
    by_values: IndexMap<Values, Result<Attribute, String>>,
}

impl Verdicts {
    /// Number of the expression of a derived attribute. It is parsed on first use; the first value reports syntax errors.
    pub fn derivation(&mut self, expression: &Arc<str>) -> DerivationNumber {
        let at = self.derivations.0.get_index_of(expression).unwrap_or_else(|| {
            let work = (expression.len() as u64).saturating_mul(work::EXPRESSION_BYTE);
            if self.work.add(work) == Err(Exhausted) {
                return usize::MAX;
            }
            let derivation = contained(|| self.language.compile_derived(expression)).unwrap_or_else(Err);
            let nodes = derivation.as_ref().map_or(0, |derivation| derivation.nodes() as u64);
            // If this exceeds the limit, the next operation fails.
            _ = self.work.add(nodes.saturating_mul(work::EXPRESSION_NODE));
            self.bytes += size_of::<CachedDerivation>() + 20 * expression.len();
            let known = CachedDerivation { derivation, by_values: IndexMap::new() };
            self.derivations.0.insert_full(Arc::clone(expression), known).0
        });
        DerivationNumber(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// The derived attribute of a device.
    ///
    /// # Errors
    /// The expression is invalid, its evaluation failed, or the work limit is reached.
    pub fn derived(
        &mut self,
        derivation: DerivationNumber,
        driver: &Arc<str>,
        device: &Device,
    ) -> Result<&Attribute, SelectorError<'_>> {
        let Self { derivations, work, bytes, .. } = self;
        if work.add(work::EVALUATION) == Err(Exhausted) {
            return Err(SelectorError::Exhausted);
        }
        let Some((_, known)) = derivations.0.get_index_mut(derivation.0 as usize) else {
            return Err(SelectorError::Exhausted);
        };
        let derivation = match &known.derivation {
            Ok(derivation) => derivation,
            Err(error) => return Err(SelectorError::Compile(error)),
        };
        let value = match known.by_values.entry(Values::of(derivation.reach(), driver, device)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let left = work.left();
                let failed = |error| SelectorEvaluation { verdict: Err(error), work: 0, is_exhausted: false };
                let derived = contained(|| derivation.derive(driver, device, left)).unwrap_or_else(failed);
                if work.add(derived.work) == Err(Exhausted) || derived.is_exhausted {
                    return Err(SelectorError::Exhausted);
                }
                *bytes += free.key().bytes() + size_of::<Attribute>();
                free.insert(derived.verdict)
            }
        };
        value.as_ref().map_err(|error| SelectorError::Runtime(error))
    }
}
