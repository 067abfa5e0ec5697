//! Claims in use by assigned pods, and classes with volumes that cannot be counted.

use std::{collections::BTreeMap, sync::Arc};

use crate::class::{Class, ClassId};

/// Storage in use by assigned and assumed pods.
#[derive(Debug, Clone, Default)]
pub struct StorageInUse {
    claims: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u32>>,
    uncountable: BTreeMap<ClassId, Arc<str>>,
}

impl StorageInUse {
    /// Counts an assigned pod. Returns whether the claims in use changed. Source: `NodeInfo.updatePVCRefCounts`, which ignores claims of
    /// ephemeral volumes.
    pub fn add(&mut self, class: &Class) -> bool {
        let mut is_news = false;
        for name in class.volumes.iter().flat_map(|volumes| volumes.named_claims()) {
            let users = self.claims.entry(Arc::clone(&class.namespace)).or_default().entry(Arc::clone(name));
            let users = users.or_default();
            *users += 1;
            is_news |= *users == 1;
        }
        is_news
    }

    /// Removes an assigned pod. Returns whether the claims in use changed.
    pub fn remove(&mut self, class: &Class) -> bool {
        let mut is_news = false;
        for name in class.volumes.iter().flat_map(|volumes| volumes.named_claims()) {
            let Some(claims) = self.claims.get_mut(&class.namespace) else { continue };
            let Some(users) = claims.get_mut(name) else { continue };
            *users = users.saturating_sub(1);
            if *users == 0 {
                is_news = true;
                claims.remove(name);
            }
            if claims.is_empty() {
                self.claims.remove(&class.namespace);
            }
        }
        is_news
    }

    /// Sets or clears the error of a class with assigned pods. Returns whether it changed.
    pub fn set_uncountable(&mut self, class: ClassId, error: Option<Arc<str>>) -> bool {
        match error {
            Some(error) => self.uncountable.insert(class, Arc::clone(&error)) != Some(error),
            None => self.uncountable.remove(&class).is_some(),
        }
    }

    /// Whether an assigned pod uses a claim.
    #[must_use]
    pub fn is_used(&self, namespace: &str, claim: &str) -> bool {
        self.claims.get(namespace).is_some_and(|claims| claims.contains_key(claim))
    }

    /// Classes with volumes that cannot be counted, with the error.
    pub fn uncountable(&self) -> impl Iterator<Item = (ClassId, &Arc<str>)> {
        self.uncountable.iter().map(|(class, error)| (*class, error))
    }
}
