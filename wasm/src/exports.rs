//! Exports of the ABI of kube-scheduler-wasm-extension v0.1, and of Flotilla's ABI for batches.
//!
//! Source: `detectInterfaces` in `scheduler/plugin/guest.go` of kubernetes-sigs/kube-scheduler-wasm-extension.

use std::collections::BTreeSet;

use wasmtime::{ExternType, FuncType, ValType};

use crate::error::LoadError;

/// A function of the ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Export {
    /// `enqueue`.
    Enqueue,
    /// `prefilter`.
    PreFilter,
    /// `filter`.
    Filter,
    /// `prescore`.
    PreScore,
    /// `score`.
    Score,
    /// `normalizescore`.
    NormalizeScore,
    /// `flotilla_abi`: the module processes batches of nodes.
    Abi,
    /// `flotilla_describe`.
    Describe,
    /// `flotilla_alloc`.
    Alloc,
    /// `flotilla_filter`.
    FilterBatch,
    /// `flotilla_score`.
    ScoreBatch,
    /// `postfilter`, which is not run.
    PostFilter,
    /// `reserve`, which is not run.
    Reserve,
    /// `unreserve`, which is not run.
    Unreserve,
    /// `permit`, which is not run.
    Permit,
    /// `prebind`, which is not run.
    PreBind,
    /// `bind`, which is not run.
    Bind,
    /// `postbind`, which is not run.
    PostBind,
    /// `addpod`, which is not run.
    AddPod,
    /// `removepod`, which is not run.
    RemovePod,
}

impl Export {
    /// All functions.
    pub const ALL: [Self; 20] = [
        Self::Enqueue,
        Self::PreFilter,
        Self::Filter,
        Self::PreScore,
        Self::Score,
        Self::NormalizeScore,
        Self::Abi,
        Self::Describe,
        Self::Alloc,
        Self::FilterBatch,
        Self::ScoreBatch,
        Self::PostFilter,
        Self::Reserve,
        Self::Unreserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::AddPod,
        Self::RemovePod,
    ];

    /// Name in a module.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::PreFilter => "prefilter",
            Self::Filter => "filter",
            Self::PreScore => "prescore",
            Self::Score => "score",
            Self::NormalizeScore => "normalizescore",
            Self::Abi => "flotilla_abi",
            Self::Describe => "flotilla_describe",
            Self::Alloc => "flotilla_alloc",
            Self::FilterBatch => "flotilla_filter",
            Self::ScoreBatch => "flotilla_score",
            Self::PostFilter => "postfilter",
            Self::Reserve => "reserve",
            Self::Unreserve => "unreserve",
            Self::Permit => "permit",
            Self::PreBind => "prebind",
            Self::Bind => "bind",
            Self::PostBind => "postbind",
            Self::AddPod => "addpod",
            Self::RemovePod => "removepod",
        }
    }

    /// Type: parameters, results, and both as shown in messages.
    const fn signature(self) -> (&'static [Type], &'static [Type], &'static str) {
        match self {
            Self::Enqueue | Self::Unreserve | Self::PostBind => (&[], &[], "() -> ()"),
            Self::Score | Self::PostFilter | Self::Permit | Self::Describe => (&[], &[Type::I64], "() -> (i64)"),
            Self::Alloc | Self::FilterBatch | Self::ScoreBatch => (&[Type::I32], &[Type::I32], "(i32) -> (i32)"),
            Self::PreFilter
            | Self::Filter
            | Self::PreScore
            | Self::NormalizeScore
            | Self::Abi
            | Self::Reserve
            | Self::PreBind
            | Self::Bind
            | Self::AddPod
            | Self::RemovePod => (&[], &[Type::I32], "() -> (i32)"),
        }
    }

    /// The reason that it is not run, with an alternative; `None` if it is run.
    #[must_use]
    pub const fn instead(self) -> Option<&'static str> {
        match self {
            Self::PostFilter => Some("preemption is Flotilla's own; nothing replaces it"),
            Self::Reserve | Self::Unreserve => {
                Some("a module keeps no state between pods: keep it in a service behind an HTTP extender")
            }
            Self::Permit => Some("pods do not wait for modules: use spec.schedulingGates, or a pod group"),
            Self::PreBind | Self::PostBind => Some("write with a controller that watches pods"),
            Self::Bind => Some("pods are bound by Flotilla; a bind verb of an HTTP extender can do it"),
            Self::AddPod | Self::RemovePod => {
                Some("a module does not see the pods of nodes, so that their removal changes no verdict")
            }
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    I32,
    I64,
}

impl Type {
    const fn is(self, of: &ValType) -> bool {
        matches!((self, of), (Self::I32, ValType::I32) | (Self::I64, ValType::I64))
    }
}

/// The ABI functions that a module exports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exports(BTreeSet<Export>);

impl Exports {
    /// Reads the exports of a module. Fails if a memory or function is missing, or has another type.
    pub(crate) fn read(module: &wasmtime::Module) -> Result<Self, LoadError> {
        if !matches!(module.get_export("memory"), Some(ExternType::Memory(_))) {
            return Err(LoadError::NoMemory);
        }
        let mut found = BTreeSet::new();
        for export in Export::ALL {
            let Some(ExternType::Func(function)) = module.get_export(export.name()) else { continue };
            let (params, results, wanted) = export.signature();
            let same = |types: &[Type], of: &mut dyn ExactSizeIterator<Item = ValType>| {
                of.len() == types.len() && types.iter().zip(of).all(|(wanted, found)| wanted.is(&found))
            };
            if !same(params, &mut function.params()) || !same(results, &mut function.results()) {
                return Err(LoadError::Signature { export: export.name(), wanted, found: shown(&function) });
            }
            found.insert(export);
        }
        let found = Self(found);
        if !found.filters() && !found.scores() {
            let names = module.exports().filter(|export| matches!(export.ty(), ExternType::Func(_)));
            let names: Vec<_> = names.map(|export| export.name().to_owned()).take(20).collect();
            let names = if names.is_empty() { "no function".to_owned() } else { names.join(", ") };
            return Err(LoadError::NothingToRun { found: names });
        }
        if found.is_batched() {
            for wanted in [Export::Alloc, Export::Describe] {
                if !found.has(wanted) {
                    let (.., signature) = wanted.signature();
                    let found = "not exported, though flotilla_abi is".to_owned();
                    return Err(LoadError::Signature { export: wanted.name(), wanted: signature, found });
                }
            }
        }
        Ok(found)
    }

    /// Whether a function is exported.
    #[must_use]
    pub fn has(&self, export: Export) -> bool {
        self.0.contains(&export)
    }

    /// All exports, in order.
    pub fn iter(&self) -> impl Iterator<Item = Export> {
        self.0.iter().copied()
    }

    /// Whether the module processes batches.
    #[must_use]
    pub fn is_batched(&self) -> bool {
        self.has(Export::Abi) && (self.has(Export::FilterBatch) || self.has(Export::ScoreBatch))
    }

    /// Whether the module filters.
    #[must_use]
    pub fn filters(&self) -> bool {
        if self.is_batched() { self.has(Export::FilterBatch) } else { self.has(Export::Filter) }
    }

    /// Whether the module scores.
    #[must_use]
    pub fn scores(&self) -> bool {
        if self.is_batched() { self.has(Export::ScoreBatch) } else { self.has(Export::Score) }
    }
}

pub(crate) fn shown(function: &FuncType) -> String {
    let list = |types: &mut dyn Iterator<Item = ValType>| types.map(|of| of.to_string()).collect::<Vec<_>>().join(", ");
    format!("({}) -> ({})", list(&mut function.params()), list(&mut function.results()))
}
