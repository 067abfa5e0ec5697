//! Shapes of the load; perf/load/shapes.go defines their objects.

use serde::{Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Basic,
    Spread,
    AntiAffinity,
    Affinity,
    Mixed,
    Preemption,
    Unschedulable,
    Volumes,
    StatefulSet,
    Job,
    Steady50,
    Steady200,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Size {
    pub(crate) nodes: u32,
    pub(crate) standing: u32,
    pub(crate) pods: u32,
    /// Pods created per second; 0 is unlimited.
    pub(crate) rate: u32,
}

impl Shape {
    pub(crate) const ALL: [Self; 12] = [
        Self::Basic,
        Self::Spread,
        Self::AntiAffinity,
        Self::Affinity,
        Self::Mixed,
        Self::Preemption,
        Self::Unschedulable,
        Self::Volumes,
        Self::StatefulSet,
        Self::Job,
        Self::Steady50,
        Self::Steady200,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Spread => "spread",
            Self::AntiAffinity => "anti-affinity",
            Self::Affinity => "affinity",
            Self::Mixed => "mixed",
            Self::Preemption => "preemption",
            Self::Unschedulable => "unschedulable",
            Self::Volumes => "volumes",
            Self::StatefulSet => "statefulset",
            Self::Job => "job",
            Self::Steady50 => "steady-50",
            Self::Steady200 => "steady-200",
        }
    }

    /// Sizes of the workload in scheduler_perf. The steady loads last 30 seconds.
    pub(crate) const fn size(self) -> Size {
        const fn size(nodes: u32, standing: u32, pods: u32, rate: u32) -> Size {
            Size { nodes, standing, pods, rate }
        }
        match self {
            Self::Basic => size(5_000, 1_000, 10_000, 0),
            Self::Spread => size(5_000, 5_000, 10_000, 0),
            Self::AntiAffinity => size(5_000, 1_000, 2_000, 0),
            Self::Affinity => size(5_000, 5_000, 5_000, 0),
            Self::Mixed => size(5_000, 10_000, 5_000, 0),
            Self::Preemption => size(1_000, 4_000, 1_000, 0),
            Self::Unschedulable => size(5_000, 100, 10_000, 0),
            Self::Volumes => size(5_000, 5_000, 5_000, 0),
            Self::StatefulSet | Self::Job => size(5_000, 1_000, 5_000, 0),
            Self::Steady50 => size(5_000, 5_000, 1_500, 50),
            Self::Steady200 => size(5_000, 5_000, 6_000, 200),
        }
    }

    pub(crate) const fn needs_controllers(self) -> bool {
        matches!(self, Self::StatefulSet | Self::Job)
    }
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_knows_every_shape() {
        let source = include_str!("../load/shapes.go");
        for shape in Shape::ALL {
            assert!(source.contains(&format!("{:?}", shape.name())), "perf/load/shapes.go has no {}", shape.name());
        }
    }

    #[test]
    fn a_steady_load_lasts_thirty_seconds() {
        for shape in Shape::ALL.into_iter().filter(|shape| shape.size().rate > 0) {
            assert_eq!(shape.size().pods, shape.size().rate * 30, "{}", shape.name());
        }
    }
}
