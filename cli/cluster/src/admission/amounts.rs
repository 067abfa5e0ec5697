//! Amounts that print as the API server prints them, and their sums over pods.

use std::{collections::BTreeMap, fmt};

use flotilla_framework::quantity::Quantity;
use k8s_openapi::{api::core::v1 as api, apimachinery::pkg::api::resource::Quantity as ApiQuantity};
use serde::{Deserialize, Serialize};

/// Amounts by resource name.
pub(crate) type Amounts = BTreeMap<String, Amount>;

/// A quantity with its format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Amount {
    pub(crate) value: Quantity,
    /// It prints with a binary suffix, such as Mi.
    is_binary: bool,
}

impl Amount {
    pub(crate) const ONE: Self = Self { value: Quantity::from_units(1), is_binary: false };

    /// `None` if the text is no quantity.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(Self { value: Quantity::parse(text).ok()?, is_binary: text.ends_with('i') })
    }

    pub(crate) const fn bytes(value: Quantity) -> Self {
        Self { value, is_binary: true }
    }

    /// Another value in the same format.
    pub(crate) const fn with(self, value: Quantity) -> Self {
        Self { value, ..self }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.value == Quantity::default()
    }

    /// Source: `Quantity.Add`. Zero takes the format of the other amount.
    pub(crate) fn plus(self, other: Self) -> Self {
        let is_binary = if self.is_zero() { other.is_binary } else { self.is_binary };
        Self { value: self.value.plus(other.value), is_binary }
    }

    /// The negative amount, in thousandths.
    fn negative(self) -> Self {
        self.with(Quantity::parse(&format!("{}m", self.value.milli().saturating_neg())).unwrap_or_default())
    }

    /// Whole units, for storage.
    pub(crate) fn rounded_up(self) -> Self {
        Self { value: Quantity::from_units(self.value.units()), ..self }
    }
}

/// Source: `Quantity.CanonicalizeBytes`.
impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut number = self.value.units();
        if Quantity::from_units(number) != self.value {
            return write!(out, "{}m", self.value.milli());
        }
        let (base, mut suffixes) = match self.is_binary && number.unsigned_abs() >= 1024 {
            true => (1024, ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter()),
            false => (1000, ["k", "M", "G", "T", "P", "E"].iter()),
        };
        let mut suffix = "";
        while number != 0 && number % base == 0 {
            let Some(next) = suffixes.next() else { break };
            (number, suffix) = (number / base, next);
        }
        write!(out, "{number}{suffix}")
    }
}

/// The amounts of a list; those that are no quantities are left out.
pub(crate) fn list(list: Option<&BTreeMap<String, ApiQuantity>>) -> Amounts {
    let amount = |(name, text): (&String, &ApiQuantity)| Some((name.clone(), Amount::parse(&text.0)?));
    list.into_iter().flatten().filter_map(amount).collect()
}

/// `cpu=1,memory=2Gi`. Source: `prettyPrint` of the plugin ResourceQuota.
pub(crate) fn print(list: &Amounts) -> String {
    let parts: Vec<String> = list.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    parts.join(",")
}

/// Which amounts of containers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Requests,
    Limits,
}

impl Side {
    pub(crate) fn of(self, resources: Option<&api::ResourceRequirements>) -> Amounts {
        let Some(resources) = resources else { return Amounts::new() };
        list(match self {
            Self::Requests => resources.requests.as_ref(),
            Self::Limits => resources.limits.as_ref(),
        })
    }
}

/// The sum over all containers, with pod-level resources as far as `is_pod_level` admits them.
///
/// Source: `PodRequests` and `PodLimits` in component-helpers.
pub(crate) fn pod(spec: &api::PodSpec, side: Side, is_pod_level: fn(&str) -> bool) -> Amounts {
    let mut sum = Amounts::new();
    spec.containers.iter().for_each(|container| add(&mut sum, &side.of(container.resources.as_ref())));
    let (mut sidecars, mut highest) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut own = side.of(container.resources.as_ref());
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            raise(&mut highest, &sidecars);
        } else {
            add(&mut own, &sidecars);
            raise(&mut highest, &own);
        }
    }
    raise(&mut sum, &highest);
    sum.extend(side.of(spec.resources.as_ref()).into_iter().filter(|(name, _)| is_pod_level(name)));
    sum
}

pub(crate) fn add(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = sum.entry(name.clone()).or_default();
        *known = known.plus(*amount);
    }
}

pub(crate) fn subtract(sum: &mut Amounts, other: &Amounts) {
    let negative = other.iter().map(|(name, amount)| (name.clone(), amount.negative()));
    add(sum, &negative.collect());
}

pub(crate) fn raise(highest: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = highest.entry(name.clone()).or_insert(*amount);
        if amount.value > known.value {
            *known = *amount;
        }
    }
}
