//! Quotas whose usage changes as pods are created and deleted.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{class::PodInfo, map::Map};

use super::{Quota, scope::Facts};
use crate::admission::amounts::{self, Amounts};

/// The charges of pods by UID.
pub(crate) type Charges = Map<Arc<str>, Charge>;

/// The amounts that one object takes from the quotas of its namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Charge(Vec<(usize, Amounts)>);

impl Charge {
    /// The charge to all quotas that the object matches.
    pub(super) fn new(quotas: &[Quota], facts: &Facts<'_>, usage: &Amounts, is_read: fn(&str) -> bool) -> Self {
        let matching = quotas.iter().enumerate().filter(|(_, quota)| quota.matches(facts, is_read));
        Self(matching.map(|(index, quota)| (index, quota.of(usage))).collect())
    }

    /// Charges the object to all quotas that it matches, or to none.
    ///
    /// # Errors
    /// A quota is exceeded.
    pub(crate) fn make(&self, quotas: &mut [Quota]) -> Result<(), String> {
        for (index, usage) in &self.0 {
            quotas.get(*index).map_or(Ok(()), |quota| quota.check(usage))?;
        }
        for (index, usage) in &self.0 {
            quotas.get_mut(*index).into_iter().for_each(|quota| amounts::add(&mut quota.used, usage));
        }
        Ok(())
    }

    fn release(&self, quotas: &mut [Quota]) {
        for (index, usage) in &self.0 {
            quotas.get_mut(*index).into_iter().for_each(|quota| amounts::subtract(&mut quota.used, usage));
        }
    }
}

/// The quotas of a cluster, with the charges of its pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quotas {
    by_namespace: BTreeMap<String, Vec<Quota>>,
    charges: Charges,
}

impl Quotas {
    pub(crate) const fn new(by_namespace: BTreeMap<String, Vec<Quota>>, charges: Charges) -> Self {
        Self { by_namespace, charges }
    }

    /// Charges a pod that is created.
    ///
    /// # Errors
    /// The message of the API server: a quota is exceeded.
    pub fn charge(&mut self, pod: &PodInfo) -> Result<(), String> {
        let Some(charge) = self.charges.get(&pod.uid) else { return Ok(()) };
        self.by_namespace.get_mut(&*pod.class.namespace).map_or(Ok(()), |quotas| charge.make(quotas))
    }

    /// Releases the charge of a pod that is deleted, or not created yet.
    pub fn release(&mut self, pod: &PodInfo) {
        let charge = self.charges.get(&pod.uid).zip(self.by_namespace.get_mut(&*pod.class.namespace));
        charge.into_iter().for_each(|(charge, quotas)| charge.release(quotas));
    }

    /// Gives a new pod the charge of an equal one.
    pub fn copy(&mut self, from: &Arc<str>, to: &Arc<str>) {
        if let Some(charge) = self.charges.get(from).cloned() {
            self.charges.insert(Arc::clone(to), charge);
        }
    }
}
