//! Confirms a cache that no watch has confirmed for long.
//!
//! The API server confirms the state of a watch in a quiet cluster by bookmarks. It sends none with `--watch-cache=false`, and a proxy may
//! drop them. The source therefore compares its objects with the cluster before the cache counts as too old.

use std::{sync::Arc, time::Duration};

use flotilla_encoding::Page;
use kube::{api::ListParams, core::Request};
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{Kind, Listing, PAGE, Source, Trouble};
use crate::watch::{exchange, newest};

/// Time without a bookmark or a change until the objects are compared. A watch that lasts 60 s and [`super::MARGIN`] begins before: 100 +
/// 65 = 165 s, within the 180 s after which binding stops.
const QUIET: Duration = Duration::from_secs(100);
/// Limit of each page. The comparison of a quiet cluster takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

impl<K: Kind> Source<K> {
    /// Whether the cache has to be confirmed before the next watch.
    pub(super) fn is_quiet(&self) -> bool {
        K::BOUNDS_VIEW && !self.is_looked_at && self.shared.age() >= QUIET
    }

    /// Confirms that the cache is current, or schedules a list in pages, because a list by a watch ends with a bookmark.
    pub(super) async fn confirm(&mut self) -> Result<(), Trouble> {
        let begun = Instant::now();
        // After a failure, a short watch precedes the next comparison: a change or a bookmark confirms the cache too.
        (self.is_looked_at, self.hurried) = (true, true);
        if self.known.len() as u64 <= newest::MOST {
            let shared = Arc::clone(&self.shared);
            let is_unchanged = tokio::select! {
                biased;
                is_unchanged = self.is_unchanged() => is_unchanged?,
                // A new leader waits for a watch.
                () = shared.hurry.notified() => return Ok(()),
            };
            if is_unchanged {
                debug!(what = K::WHAT, version = self.version, "no bookmark received; nothing has changed");
                self.shared.is_told_at(begun);
                self.hurried = false;
                return Ok(());
            }
        }
        debug!(what = K::WHAT, version = self.version, "no bookmark received; relisting");
        if self.listing == Listing::Watch {
            self.listing = Listing::PagesOnce;
        }
        self.version.clear();
        self.hurried = false;
        Ok(())
    }

    /// Whether the cluster has the cache's objects in the same versions. The list's version grows with writes of any kind.
    async fn is_unchanged(&self) -> Result<bool, Trouble> {
        let mut params = ListParams::default().limit(PAGE);
        params.field_selector = K::FIELDS.map(str::to_owned);
        let mut count = 0;
        loop {
            let request = Request::new(self.path()).list(&params)?;
            let page = timeout(PATIENCE, exchange::metadata(&self.client, request)).await;
            let Page { version, more, items } = page.map_err(|_| Trouble::Late(PATIENCE))??;
            // An API server that lags behind, or a restored etcd.
            if self.is_past(version.as_deref()) {
                return Ok(false);
            }
            count += items.len();
            for item in items {
                let named = item.named()?;
                let version = named.version().and_then(|version| version.parse().ok()).unwrap_or(0);
                if !self.known.is_current(&named.key(), named.uid(), version) {
                    return Ok(false);
                }
            }
            match more {
                Some(more) => params.continue_token = Some(more),
                None => return Ok(count == self.known.len()),
            }
        }
    }
}
