//! Counters that tasks increment while others read them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with relaxed ordering: no decision depends on it.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The current count.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares counters, and the struct with their values and gauges at one moment.
#[macro_export]
macro_rules! tally {
    (
        $(#[$doc:meta])* $tally:ident of $vis:vis $counters:ident { $($(#[$counted_doc:meta])* $counted:ident,)* }
        measured { $($(#[$measured_doc:meta])* $measured:ident: $type:ty,)* }
    ) => {
        #[derive(Debug, Default)]
        $vis struct $counters {
            $($vis $counted: $crate::count::Count,)*
        }

        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $tally {
            $($(#[$counted_doc])* pub $counted: u64,)*
            $($(#[$measured_doc])* pub $measured: $type,)*
        }

        impl $counters {
            $vis fn read(&self, $($measured: $type),*) -> $tally {
                $tally { $($counted: self.$counted.get(),)* $($measured),* }
            }
        }
    };
}
