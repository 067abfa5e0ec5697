//! A test plugin with objects, for Reserve and PreBind: each pod with volumes takes one licence.
//!
//! A licence is a claim in the plugin's namespace: taken if its annotation names a node, valid if bound. The plugin logs its calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    class::PodInfo,
    extension::{
        Kind, Plugin,
        objects::{
            Awaited, Changes, Object, ObjectCache, ObjectKey, Patch, Plan, PreBindError, Undone, Write, Written,
        },
    },
    node::NodeInfo,
    profile::{Args, Profile},
    volumes::objects::{Claim, StorageKey, StorageKind, StorageObject},
};

/// The calls of plugins, in order, such as `First reserves a`.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

/// The plugin. Its namespace is its name in lower case.
#[derive(Debug)]
pub struct Licences {
    /// The plugin's name.
    pub name: &'static str,
    /// The maximum wait of PreBind, in milliseconds.
    pub timeout_ms: u64,
    /// The log of its calls.
    pub log: Log,
}

#[derive(Debug)]
struct Cache {
    plugin: &'static str,
    namespace: Arc<str>,
    timeout_ms: u64,
    log: Log,
    licences: BTreeMap<Arc<str>, Claim>,
    assumed: BTreeMap<Arc<str>, Arc<str>>,
    version: u64,
}

#[derive(Debug)]
struct Licence {
    key: StorageKey,
    node: Arc<str>,
}

impl Log {
    /// The entries since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl Plugin for Licences {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reads(&self, _: &Args) -> &'static [Kind] {
        &[Kind::PersistentVolumeClaim]
    }

    fn objects(&self) -> Option<Box<dyn ObjectCache>> {
        Some(Box::new(Cache {
            plugin: self.name,
            namespace: self.name.to_lowercase().into(),
            timeout_ms: self.timeout_ms,
            log: self.log.clone(),
            licences: BTreeMap::new(),
            assumed: BTreeMap::new(),
            version: 0,
        }))
    }
}

impl Plan for Licence {
    fn objects(&self) -> Vec<ObjectKey> {
        vec![self.key.clone().into()]
    }
}

impl Cache {
    fn key(&self, name: &Arc<str>) -> StorageKey {
        StorageKey { kind: StorageKind::Claim, namespace: Arc::clone(&self.namespace), name: Arc::clone(name) }
    }

    fn write(&self, licence: &Licence, node: &Arc<str>) -> Option<Write> {
        let known = self.licences.get(&licence.key.name)?;
        Some(Write {
            object: licence.key.clone().into(),
            uid: Arc::clone(&known.uid),
            resource_version: Arc::clone(&known.resource_version),
            patch: Patch::SelectNode(Arc::clone(node)),
        })
    }

    fn changes(&mut self, old: Option<Claim>) -> Changes {
        self.version += 1;
        Changes { old: old.map(|old| StorageObject::Claim(old).into()), ..Changes::default() }
    }
}

impl ObjectCache for Cache {
    fn apply(&mut self, object: &Object) -> Option<Changes> {
        let Object::Storage(object) = object else { return None };
        let StorageObject::Claim(claim) = &**object else { return None };
        if claim.namespace != self.namespace {
            return None;
        }
        self.assumed.remove(&claim.name);
        let old = self.licences.insert(Arc::clone(&claim.name), claim.clone());
        (old.as_ref() != Some(claim)).then(|| self.changes(old))
    }

    fn delete(&mut self, key: &ObjectKey) -> Option<Changes> {
        let ObjectKey::Storage(StorageKey { kind: StorageKind::Claim, namespace, name }) = key else { return None };
        if *namespace != self.namespace {
            return None;
        }
        let old = self.licences.remove(name)?;
        Some(self.changes(Some(old)))
    }

    fn get(&self, key: &ObjectKey) -> Option<Object> {
        let known = self.licences.get(key.name()).filter(|_| *key == self.key(key.name()).into())?;
        let assumed = self.assumed.get(&known.name).or(known.selected_node.as_ref());
        Some(StorageObject::Claim(Claim { selected_node: assumed.cloned(), ..known.clone() }).into())
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn plan(&self, pod: &PodInfo, node: &NodeInfo, _: &Profile) -> Result<Option<Box<dyn Plan>>, String> {
        self.log.note(format!("{} plans for {}", self.plugin, pod.name));
        let is_free = |known: &&Claim| known.selected_node.is_none() && !self.assumed.contains_key(&known.name);
        let free = self.licences.values().find(is_free).ok_or("no licence is left")?;
        Ok(Some(Box::new(Licence { key: self.key(&free.name), node: Arc::clone(&node.name) })))
    }

    fn reserve(&mut self, plan: &dyn Plan) -> BTreeSet<Arc<str>> {
        let Some(Licence { key, node }) = plan.of() else { return BTreeSet::new() };
        self.log.note(format!("{} reserves {}", self.plugin, key.name));
        self.version += 1;
        self.assumed.insert(Arc::clone(&key.name), Arc::clone(node));
        BTreeSet::new()
    }

    /// Written parts are undone by another write.
    fn unreserve(&mut self, plan: &dyn Plan, written: &Written) -> Undone {
        let Some(licence) = plan.of::<Licence>() else { return Undone::default() };
        self.log.note(format!("{} unreserves {}", self.plugin, licence.key.name));
        self.version += 1;
        let Some(version) = written.get(&licence.key.clone().into()) else {
            self.assumed.remove(&licence.key.name);
            return Undone::default();
        };
        let write = self.write(licence, &Arc::default());
        let write = write.map(|write| Write { resource_version: Arc::clone(version), ..write });
        Undone { writes: write.into_iter().collect(), ..Undone::default() }
    }

    fn writes(&self, plan: &dyn Plan) -> Vec<Write> {
        plan.of().and_then(|licence: &Licence| self.write(licence, &licence.node)).into_iter().collect()
    }

    fn is_bound(&self, plan: &dyn Plan, _: &Written, node: Option<&NodeInfo>) -> Result<bool, PreBindError> {
        let licence = plan.of::<Licence>().filter(|_| node.is_some()).ok_or_else(|| "the node is gone".to_owned())?;
        let known = self.licences.get(&licence.key.name).ok_or_else(|| "the licence is gone".to_owned())?;
        Ok(known.bind_completed)
    }

    fn timeout_ms(&self, _: &Args) -> u64 {
        self.timeout_ms
    }

    fn time_out(&mut self, plan: &dyn Plan) -> String {
        let name = plan.of().map(|licence: &Licence| Arc::clone(&licence.key.name)).unwrap_or_default();
        format!("licence {name} is not good yet")
    }

    fn awaited(&self) -> Awaited {
        Awaited { what: "their licences", see: "the office that gives them out" }
    }
}
