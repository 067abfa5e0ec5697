//! The extension points that a configuration can name.

use Point::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PodGroupPostFilter, PostBind, PostFilter, PreBind,
    PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score,
};

/// An extension point of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// `preEnqueue`.
    PreEnqueue,
    /// `queueSort`.
    QueueSort,
    /// `preFilter`.
    PreFilter,
    /// `filter`.
    Filter,
    /// `postFilter`.
    PostFilter,
    /// `preScore`.
    PreScore,
    /// `score`.
    Score,
    /// `reserve`.
    Reserve,
    /// `permit`.
    Permit,
    /// `preBind`.
    PreBind,
    /// `bind`.
    Bind,
    /// `postBind`.
    PostBind,
    /// `placementGenerate`, which only runs for pod groups.
    PlacementGenerate,
    /// `placementScore`, which only runs for pod groups.
    PlacementScore,
    /// `podGroupPostFilter`, which only runs for pod groups.
    PodGroupPostFilter,
}

impl Point {
    /// Every extension point that a configuration can name, in execution order.
    pub const ALL: [Self; 15] = [
        PreEnqueue,
        QueueSort,
        PreFilter,
        Filter,
        PostFilter,
        PreScore,
        Score,
        Reserve,
        Permit,
        PreBind,
        Bind,
        PostBind,
        PlacementGenerate,
        PlacementScore,
        PodGroupPostFilter,
    ];

    /// The key under `plugins` in a configuration.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            PreEnqueue => "preEnqueue",
            QueueSort => "queueSort",
            PreFilter => "preFilter",
            Filter => "filter",
            PostFilter => "postFilter",
            PreScore => "preScore",
            Score => "score",
            Reserve => "reserve",
            Permit => "permit",
            PreBind => "preBind",
            Bind => "bind",
            PostBind => "postBind",
            PlacementGenerate => "placementGenerate",
            PlacementScore => "placementScore",
            PodGroupPostFilter => "podGroupPostFilter",
        }
    }
}
