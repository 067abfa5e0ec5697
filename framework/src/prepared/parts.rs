//! The plugins that take part in evaluating a class, for metrics.

use crate::registry::Registry;

/// One bit for each plugin, by its index in the registry, for each extension point that kube-scheduler counts. Source:
/// `plugin_evaluation_total`, which excludes plugins that PreFilter or PreScore skips.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Parts {
    points: [u64; 4],
}

/// An extension point at which plugins are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Once for each class.
    PreFilter,
    /// Node by node.
    Filter,
    /// Once for each class.
    PreScore,
    /// Node by node.
    Score,
}

impl Point {
    /// All points, in execution order.
    pub const ALL: [Self; 4] = [Self::PreFilter, Self::Filter, Self::PreScore, Self::Score];

    /// The value of the label `extension_point`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
        }
    }
}

impl Parts {
    /// Adds a plugin. Plugins after the sixty-fourth of a registry are not counted; there are some twenty.
    pub(super) fn add(&mut self, registry: Registry, point: Point, plugin: &str) {
        let bit = registry.number(plugin).and_then(|place| 1_u64.checked_shl(u32::try_from(place).ok()?));
        self.points[point as usize] |= bit.unwrap_or(0);
    }

    /// Without the points that follow once a node is feasible.
    #[must_use]
    pub const fn unscored(self) -> Self {
        let [pre_filter, filter, ..] = self.points;
        Self { points: [pre_filter, filter, 0, 0] }
    }

    /// The plugins that take part at a point, in the registry's order.
    pub fn of(self, registry: Registry, point: Point) -> impl Iterator<Item = &'static str> {
        let bits = self.points[point as usize];
        registry
            .iter()
            .take(64)
            .enumerate()
            .filter(move |(place, _)| bits & (1 << place) != 0)
            .map(|(_, plugin)| plugin.name())
    }
}
