//! What the pods that stand on nodes hold of storage.
//!
//! Knows: which claims are in use, and whose volumes cannot be counted. Must not know: on which node a pod stands.

use std::{collections::BTreeMap, sync::Arc};

use crate::class::{Class, ClassId};

/// What all pods on nodes hold, pods on their way to a node among them.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    claims: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u32>>,
    uncountable: BTreeMap<ClassId, Arc<str>>,
}

// === impl Standing ===

impl Standing {
    /// A pod of a class came to a node. Whether that changes what is in use.
    ///
    /// Source: `NodeInfo.updatePVCRefCounts`: claims of ephemeral volumes do not count.
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

    /// A pod of a class left its node. Whether that changes what is in use.
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

    /// The volumes of a class that stands on nodes cannot be counted, or they can again. Whether that is news.
    pub fn set_uncountable(&mut self, class: ClassId, error: Option<Arc<str>>) -> bool {
        match error {
            Some(error) => self.uncountable.insert(class, Arc::clone(&error)) != Some(error),
            None => self.uncountable.remove(&class).is_some(),
        }
    }

    /// Whether a pod on a node names a claim.
    #[must_use]
    pub fn is_used(&self, namespace: &str, claim: &str) -> bool {
        self.claims.get(namespace).is_some_and(|claims| claims.contains_key(claim))
    }

    /// The classes whose volumes cannot be counted, with the error.
    pub fn uncountable(&self) -> impl Iterator<Item = (ClassId, &Arc<str>)> {
        self.uncountable.iter().map(|(class, error)| (*class, error))
    }
}
