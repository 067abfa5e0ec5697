//! Claims prepared for the search, once for all nodes.

use std::sync::Arc;

use super::{
    amount::Amount,
    model::{
        claim::DeviceClaim,
        class::DeviceClass,
        request::{AllocationMode, Ask, ClaimSpec, Constraint, ConstraintKind, DisabledFeature, Request, RequestKind},
        taint::DeviceToleration,
    },
    selectors::{DerivationNumber, SelectorNumber, Verdicts},
};

/// Claims of a pod that need an allocation, in order.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub(super) claims: Vec<WantedClaim>,
    pub(super) asks: Vec<WantedAsk>,
}

#[derive(Debug, Clone)]
pub(super) struct WantedClaim {
    /// `namespace/name`.
    pub(super) label: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) spec: Arc<ClaimSpec>,
    pub(super) requests: Vec<WantedRequest>,
    pub(super) constraints: Vec<WantedConstraint>,
}

#[derive(Debug, Clone)]
pub(super) struct WantedRequest {
    pub(super) name: Arc<str>,
    /// Index of its first ask in [`Wanted::asks`], and their number.
    pub(super) first: usize,
    pub(super) len: usize,
    /// Whether it has alternatives (`firstAvailable`).
    pub(super) is_prioritized: bool,
}

#[derive(Debug, Clone)]
pub(super) struct WantedAsk {
    /// Name of the alternative, or of a request without alternatives.
    pub(super) name: Arc<str>,
    /// Name in results: `request`, or `request/alternative`.
    pub(super) label: Arc<str>,
    /// Validation error, in upstream's text.
    pub(super) error: Option<String>,
    pub(super) class: Option<Arc<DeviceClass>>,
    /// Selectors of the class, then of the request.
    pub(super) selectors: Vec<WantedSelector>,
    /// `None`: all.
    pub(super) count: Option<i64>,
    pub(super) is_admin: bool,
    pub(super) tolerations: Vec<DeviceToleration>,
    pub(super) capacity: Vec<(Arc<str>, Amount)>,
    /// Derived attributes. They take precedence over those of devices.
    pub(super) derived: Vec<(Arc<str>, DerivationNumber)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct WantedSelector {
    pub(super) is_of_class: bool,
    pub(super) index: usize,
    /// `None`: a type unknown to this release.
    pub(super) selector: Option<SelectorNumber>,
}

#[derive(Debug, Clone)]
pub(super) struct WantedConstraint {
    /// `None`: a kind unknown to this release.
    pub(super) demand: Option<Demand>,
    /// By request and alternative: whether the constraint applies.
    concerned: Vec<Vec<bool>>,
}

#[derive(Debug, Clone)]
pub(super) struct Demand {
    /// Values must differ; otherwise they must be equal.
    pub(super) is_distinct: bool,
    /// Values are compared as sets.
    pub(super) compares_sets: bool,
    pub(super) attribute: Arc<str>,
}

impl Wanted {
    /// Prepares claims. `classes` returns a class by name.
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
                if let Some(error) = capacity_fault(request, &label) {
                    wanted.asks[first].error = Some(error);
                }
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

    /// Number of claims.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether there are no claims.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

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
        let derived = ask.derived.iter().map(|(name, expression)| (Arc::clone(name), verdicts.derivation(expression)));
        Self {
            derived: derived.collect(),
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
            derived: Vec::new(),
        }
    }

    pub(super) fn requested(&self, capacity: &str) -> Option<&Amount> {
        self.capacity.iter().find(|(name, _)| &**name == capacity).map(|(_, amount)| amount)
    }
}

/// Error of the first ask for capacity without DRAConsumableCapacity. It precedes all other errors of the request.
fn capacity_fault(request: &Request, claim: &str) -> Option<String> {
    let is_disabled = |ask: &&Ask| ask.disabled == Some(DisabledFeature::Capacity);
    let (kind, name) = match &request.kind {
        RequestKind::Exactly(ask) => ("request", Some(ask).filter(is_disabled).map(|_| &request.name)?),
        RequestKind::FirstAvailable(asks) => ("subrequest", &asks.iter().find(is_disabled)?.name),
        RequestKind::Unknown => return None,
    };
    Some(format!(
        "claim {claim}, {kind} {name}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
    ))
}

/// Validation error of an ask that does not depend on devices. Source: `validateDeviceRequest`.
fn fault(ask: &Ask, has_class: bool) -> Option<String> {
    if ask.disabled == Some(DisabledFeature::DerivedAttributes) {
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
            demand: demand.map(|(is_distinct, name)| Demand {
                is_distinct,
                compares_sets: constraint.compares_sets,
                attribute: Arc::clone(name),
            }),
            concerned: requests.collect(),
        }
    }

    /// Whether the constraint applies to an alternative of a request.
    pub(super) fn concerns(&self, request: usize, alternative: usize) -> bool {
        self.concerned.get(request).and_then(|asks| asks.get(alternative)) == Some(&true)
    }
}
