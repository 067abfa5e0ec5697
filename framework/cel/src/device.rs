//! Devices as expressions see them.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    quantity::{Amount, Quantity},
    semver::Semver,
    value::{List, Map, Value, map::Keys},
};

/// Value of an attribute, as in the API. Source: resource.k8s.io/v1 DeviceAttribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// `int`.
    Int(i64),
    /// `bool`.
    Bool(bool),
    /// `string`.
    String(Arc<str>),
    /// `version`, a semantic version.
    Version(Arc<str>),
    /// `ints`.
    Ints(Vec<i64>),
    /// `bools`.
    Bools(Vec<bool>),
    /// `strings`.
    Strings(Vec<Arc<str>>),
    /// `versions`.
    Versions(Vec<Arc<str>>),
    /// None of the fields of Kubernetes 1.37: every selector fails on the device.
    Unknown,
}

/// A capacity that is not a quantity. The API server rejects these.
#[derive(Debug, thiserror::Error)]
#[error("capacity {name} of a device of driver {driver}: {told}; correct the ResourceSlice")]
pub struct CapacityError {
    driver: String,
    name: String,
    told: &'static str,
}

/// A device, ready for evaluation by any number of expressions.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) driver: Arc<str>,
    pub(crate) allow_multiple_allocations: bool,
    /// Attributes and capacities are keyed by domain and identifier.
    pub(crate) attributes: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Attribute>>,
    pub(crate) capacity: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Amount>>,
    pub(crate) unreadable: Option<String>,
    attributes_value: Value,
}

impl Device {
    /// Creates a device from attributes and capacities by qualified name. The driver is the default domain.
    ///
    /// # Errors
    /// A capacity is not a quantity. An unreadable attribute is no error: it fails every selector.
    pub fn new<'names>(
        driver: &str,
        allow_multiple_allocations: bool,
        attributes: impl IntoIterator<Item = (&'names str, Attribute)>,
        capacity: impl IntoIterator<Item = (&'names str, &'names str)>,
    ) -> Result<Self, CapacityError> {
        let mut unreadable: BTreeMap<&str, String> = BTreeMap::new();
        let mut kept: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Attribute>> = BTreeMap::new();
        let mut values: BTreeMap<Arc<str>, Vec<(Arc<str>, Value)>> = BTreeMap::new();
        for (name, attribute) in attributes {
            let (domain, id) = split(name, driver);
            match value(&attribute) {
                Ok(value) => values.entry(Arc::clone(&domain)).or_default().push((Arc::clone(&id), value)),
                Err(told) => {
                    unreadable.insert(name, format!("attribute {name}: {told}"));
                }
            }
            kept.entry(domain).or_default().insert(id, attribute);
        }
        let domain = |(domain, ids)| (domain, Value::Map(Map::of_strings(ids, Keys::Strings)));
        let attributes_value = Value::Map(Map::of_strings(values.into_iter().map(domain), Keys::Domains));
        let mut amounts: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Amount>> = BTreeMap::new();
        for (name, text) in capacity {
            let (domain, id) = split(name, driver);
            let amount = Amount::parse(text).map_err(|told| CapacityError {
                driver: driver.to_owned(),
                name: name.to_owned(),
                told,
            })?;
            amounts.entry(domain).or_default().insert(id, amount);
        }
        Ok(Self {
            driver: driver.into(),
            allow_multiple_allocations,
            attributes: kept,
            capacity: amounts,
            unreadable: unreadable.into_values().next(),
            attributes_value,
        })
    }

    /// The variable `device`. Creates new quantities each time because comparisons change them.
    pub(crate) fn value(&self) -> Value {
        let quantity =
            |(id, amount): (&Arc<str>, &Amount)| (Arc::clone(id), Value::Quantity(Quantity::new(amount.clone())));
        let domain = |(domain, ids): (&Arc<str>, &BTreeMap<Arc<str>, Amount>)| {
            let ids = Map::of_strings(ids.iter().map(quantity), Keys::Strings);
            (Arc::clone(domain), Value::Map(ids))
        };
        let capacity = Map::of_strings(self.capacity.iter().map(domain), Keys::Domains);
        let fields: [(&str, Value); 4] = [
            ("driver", Value::String(Arc::clone(&self.driver))),
            ("allowMultipleAllocations", Value::Bool(self.allow_multiple_allocations)),
            ("attributes", self.attributes_value.clone()),
            ("capacity", Value::Map(capacity)),
        ];
        Value::Map(Map::of_strings(fields.map(|(name, value)| (name.into(), value)), Keys::Strings))
    }
}

fn split(name: &str, driver: &str) -> (Arc<str>, Arc<str>) {
    let (domain, id) = name.split_once('/').unwrap_or((driver, name));
    (domain.into(), id.into())
}

fn value(attribute: &Attribute) -> Result<Value, String> {
    fn list<T>(values: &[T], one: impl Fn(&T) -> Result<Value, String>) -> Result<Value, String> {
        Ok(Value::List(List::new(values.iter().map(one).collect::<Result<_, _>>()?)))
    }
    fn version(text: &Arc<str>) -> Result<Value, String> {
        let parsed = Semver::parse(text).map_err(|told| format!("parse semantic version: {told}"))?;
        Ok(Value::Semver(Arc::new(parsed)))
    }
    match attribute {
        Attribute::Int(value) => Ok(Value::Int(*value)),
        Attribute::Bool(value) => Ok(Value::Bool(*value)),
        Attribute::String(text) => Ok(Value::String(Arc::clone(text))),
        Attribute::Version(text) => version(text),
        Attribute::Ints(values) => list(values, |value| Ok(Value::Int(*value))),
        Attribute::Bools(values) => list(values, |value| Ok(Value::Bool(*value))),
        Attribute::Strings(values) => list(values, |text| Ok(Value::String(Arc::clone(text)))),
        Attribute::Versions(values) => list(values, version),
        Attribute::Unknown => Err("unsupported attribute value".to_owned()),
    }
}
