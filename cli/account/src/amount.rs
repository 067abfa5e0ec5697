//! Amounts of resources as text.

use serde::{Serialize, Serializer};

/// An amount of a resource, in its smallest unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    value: i128,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Thousandths of a core.
    MilliCores,
    Bytes,
    Pieces,
}

fn unit(name: &str) -> Unit {
    match name {
        "cpu" => Unit::MilliCores,
        "memory" | "ephemeral-storage" => Unit::Bytes,
        name if name.starts_with("hugepages-") => Unit::Bytes,
        _ => Unit::Pieces,
    }
}

impl Amount {
    /// An amount of `resource`, in its smallest unit.
    pub fn of(resource: &str, value: i128) -> Self {
        Self { value, unit: unit(resource) }
    }

    /// The amount rounded, for tables.
    #[expect(clippy::cast_precision_loss, reason = "it is rounded anyway")]
    pub fn rounded(self) -> String {
        let decimal = |value: f64| format!("{value:.1}").trim_end_matches(".0").to_owned();
        match self.unit {
            Unit::MilliCores => decimal(self.value as f64 / 1000.0),
            Unit::Bytes => {
                let mut units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"].into_iter();
                let (mut value, mut suffix) = (self.value as f64, units.next().unwrap_or_default());
                for next in units {
                    if value < 1024.0 {
                        break;
                    }
                    (value, suffix) = (value / 1024.0, next);
                }
                format!("{}{suffix}", decimal(value))
            }
            Unit::Pieces => self.value.to_string(),
        }
    }

    /// The exact amount as a Kubernetes quantity.
    pub fn quantity(self) -> String {
        match self.unit {
            Unit::MilliCores if self.value % 1000 != 0 => format!("{}m", self.value),
            Unit::MilliCores => (self.value / 1000).to_string(),
            Unit::Pieces => self.value.to_string(),
            Unit::Bytes => {
                let (mut value, mut suffix) = (self.value, "");
                for next in ["Ki", "Mi", "Gi", "Ti", "Pi"] {
                    if value == 0 || value % 1024 != 0 {
                        break;
                    }
                    (value, suffix) = (value / 1024, next);
                }
                format!("{value}{suffix}")
            }
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.quantity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_for_programs_and_rounded_for_people() {
        let cases = [
            (Unit::MilliCores, 4000, "4", "4"),
            (Unit::MilliCores, 4150, "4150m", "4.2"),
            (Unit::Bytes, 0, "0", "0"),
            (Unit::Bytes, 1000, "1000", "1000"),
            (Unit::Bytes, 3 << 30, "3Gi", "3Gi"),
            (Unit::Bytes, 1500 << 20, "1500Mi", "1.5Gi"),
            (Unit::Bytes, 2048 << 40, "2Pi", "2Pi"),
            (Unit::Pieces, 110, "110", "110"),
        ];
        for (unit, value, quantity, rounded) in cases {
            let amount = Amount { value, unit };
            assert_eq!((amount.quantity().as_str(), amount.rounded().as_str()), (quantity, rounded));
        }
    }
}
