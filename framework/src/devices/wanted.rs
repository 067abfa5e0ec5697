//! Claims made ready to be searched for, once for however many nodes.
//!
//! Knows: which classes and selectors a request has, and what is wrong with it wherever it is tried. Must not know: any
//! node or device.

use std::sync::Arc;

use super::{
    amount::Amount,
    model::{
        claim::DeviceClaim,
        class::DeviceClass,
        request::{AllocationMode, Ask, ClaimSpec, Constraint, ConstraintKind, RequestKind},
        taint::DeviceToleration,
    },
    selectors::{SelectorNumber, Verdicts},
};

/// The claims of a pod that are to be allocated, in its order.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub(super) claims: Vec<WantedClaim>,
    /// The asks of all claims, in their order.
    pub(super) asks: Vec<WantedAsk>,
}

/// One claim.
#[derive(Debug, Clone)]
pub(super) struct WantedClaim {
    /// `namespace/name`.
    pub(super) label: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) spec: Arc<ClaimSpec>,
    pub(super) requests: Vec<WantedRequest>,
    pub(super) constraints: Vec<WantedConstraint>,
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct WantedRequest {
    pub(super) name: Arc<str>,
    /// Its first ask in [`Wanted::asks`], and how many it has.
    pub(super) first: usize,
    pub(super) len: usize,
    /// Whether one of several is enough.
    pub(super) is_prioritized: bool,
}

/// One way to satisfy a request.
#[derive(Debug, Clone)]
pub(super) struct WantedAsk {
    /// The name of the alternative; the name of the request where there are none.
    pub(super) name: Arc<str>,
    /// As results name it: `request`, or `request/alternative`.
    pub(super) label: Arc<str>,
    /// What is wrong with it, in upstream's words.
    pub(super) error: Option<String>,
    pub(super) class: Option<Arc<DeviceClass>>,
    /// Those of the class, then its own.
    pub(super) selectors: Vec<WantedSelector>,
    /// `None`: all.
    pub(super) count: Option<i64>,
    pub(super) is_admin: bool,
    pub(super) tolerations: Vec<DeviceToleration>,
    pub(super) capacity: Vec<(Arc<str>, Amount)>,
}

/// A selector of a class or a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedSelector {
    pub(super) is_of_class: bool,
    pub(super) index: usize,
    /// `None`: it is of a type that this release does not know.
    pub(super) selector: Option<SelectorNumber>,
}

/// A constraint over the devices of a claim.
#[derive(Debug, Clone)]
pub(super) struct WantedConstraint {
    /// `None`: it is of a kind that this release does not know.
    pub(super) demand: Option<Demand>,
    /// By request and alternative, whether it is under the constraint.
    concerned: Vec<Vec<bool>>,
}

/// What a constraint demands.
#[derive(Debug, Clone)]
pub(super) struct Demand {
    /// No two devices may have the same value; otherwise all must.
    pub(super) is_distinct: bool,
    pub(super) attribute: Arc<str>,
}

// === impl Wanted ===

impl Wanted {
    /// Makes claims ready, given what finds a class by name.
    #[must_use]
    pub fn of<'a>(
        claims: impl IntoIterator<Item = &'a DeviceClaim>,
        classes: &dyn Fn(&str) -> Option<Arc<DeviceClass>>,
        verdicts: &mut Verdicts,
    ) -> Self {
        let mut wanted = Self::default();
        for claim in claims {
            let label = claim.label();
            let mut requests = Vec::with_capacity(claim.spec.requests.len());
            for request in &claim.spec.requests {
                let first = wanted.asks.len();
                let mut add = |ask: &Ask, parent: Option<&Arc<str>>| {
                    wanted.asks.push(WantedAsk::of(ask, &request.name, parent, &label, classes, verdicts));
                };
                let is_prioritized = match &request.kind {
                    RequestKind::Exactly(ask) => {
                        add(ask, None);
                        false
                    }
                    RequestKind::FirstAvailable(asks) => {
                        asks.iter().for_each(|ask| add(ask, Some(&request.name)));
                        true
                    }
                    RequestKind::Unknown => {
                        wanted.asks.push(WantedAsk::unknown(&request.name, &label));
                        false
                    }
                };
                let (name, len) = (Arc::clone(&request.name), wanted.asks.len() - first);
                requests.push(WantedRequest { name, first, len, is_prioritized });
            }
            let constraints = claim.spec.constraints.iter();
            let constraints = constraints.map(|constraint| WantedConstraint::of(constraint, &claim.spec)).collect();
            wanted.claims.push(WantedClaim {
                label: label.into(),
                name: Arc::clone(&claim.name),
                spec: Arc::clone(&claim.spec),
                requests,
                constraints,
            });
        }
        wanted
    }

    /// How many claims there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

// === impl WantedAsk ===

impl WantedAsk {
    fn of(
        ask: &Ask,
        request: &Arc<str>,
        parent: Option<&Arc<str>>,
        claim: &str,
        classes: &dyn Fn(&str) -> Option<Arc<DeviceClass>>,
        verdicts: &mut Verdicts,
    ) -> Self {
        let name = if parent.is_some() { &ask.name } else { request };
        let label = parent.map_or_else(|| Arc::clone(name), |parent| format!("{parent}/{name}").into());
        let class = classes(&ask.class);
        let error = fault(ask, class.is_some()).map(|fault| format!("claim {claim}, request {name}{fault}"));
        let mut selectors = Vec::new();
        let mut add = |is_of_class: bool, expressions: &[Option<Arc<str>>]| {
            for (index, expression) in expressions.iter().enumerate() {
                let selector = expression.as_ref().map(|expression| verdicts.selector(expression));
                selectors.push(WantedSelector { is_of_class, index, selector });
            }
        };
        add(true, class.as_ref().map_or(&[], |class| &class.selectors));
        add(false, &ask.selectors);
        Self {
            name: Arc::clone(name),
            label,
            error,
            class,
            selectors,
            count: if let AllocationMode::Count(count) = ask.mode { Some(count) } else { None },
            is_admin: ask.admin_access == Some(true),
            tolerations: ask.tolerations.clone(),
            capacity: ask.capacity.clone(),
        }
    }

    fn unknown(request: &Arc<str>, claim: &str) -> Self {
        let error = Some(format!("claim {claim}, request {request}: unknown request type"));
        Self {
            name: Arc::clone(request),
            label: Arc::clone(request),
            error,
            class: None,
            selectors: Vec::new(),
            count: Some(0),
            is_admin: false,
            tolerations: Vec::new(),
            capacity: Vec::new(),
        }
    }

    /// How much of a capacity is asked for.
    pub(super) fn requested(&self, capacity: &str) -> Option<&Amount> {
        self.capacity.iter().find(|(name, _)| &**name == capacity).map(|(_, amount)| amount)
    }
}

/// What is wrong with an ask, whatever devices there are.
///
/// Source: `validateDeviceRequest`.
fn fault(ask: &Ask, has_class: bool) -> Option<String> {
    if ask.has_derived_attributes {
        return Some(": cannot handle request with derived attributes, the feature is disabled".to_owned());
    }
    if let Some(index) = ask.selectors.iter().position(Option::is_none) {
        return Some(format!(", selector #{index}: CEL expression empty (unsupported selector type?)"));
    }
    if ask.class.is_empty() {
        return Some(": missing device class name (unsupported request type?)".to_owned());
    }
    if !has_class {
        let class = &ask.class;
        return Some(format!(
            ": could not retrieve device class {class}: deviceclass.resource.k8s.io \"{class}\" not found"
        ));
    }
    match &ask.mode {
        AllocationMode::Other(mode) => Some(format!(": unsupported count mode {mode}")),
        _ => None,
    }
}

// === impl WantedConstraint ===

impl WantedConstraint {
    fn of(constraint: &Constraint, spec: &ClaimSpec) -> Self {
        let demand = match &constraint.kind {
            ConstraintKind::Match(attribute) => Some((false, attribute)),
            ConstraintKind::Distinct(attribute) => Some((true, attribute)),
            ConstraintKind::Unknown => None,
        };
        let named = &constraint.requests;
        let is_named = |request: &str| named.is_empty() || named.iter().any(|name| **name == *request);
        let requests = spec.requests.iter().map(|request| match &request.kind {
            RequestKind::FirstAvailable(asks) => asks
                .iter()
                .map(|ask| is_named(&request.name) || is_named(&format!("{}/{}", request.name, ask.name)))
                .collect(),
            _ => vec![is_named(&request.name)],
        });
        Self {
            demand: demand.map(|(is_distinct, name)| Demand { is_distinct, attribute: Arc::clone(name) }),
            concerned: requests.collect(),
        }
    }

    /// Whether an alternative of a request is under the constraint.
    pub(super) fn concerns(&self, request: usize, alternative: usize) -> bool {
        self.concerned.get(request).and_then(|asks| asks.get(alternative)) == Some(&true)
    }
}
