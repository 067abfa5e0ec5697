//! A view that no watch has confirmed for long.
//!
//! The API server confirms the view of a watch in a quiet cluster by bookmarks. It sends none with `--watch-cache=false`, and a proxy
//! may drop them. So the source compares its objects with the cluster before the view counts as too old.
//!
//! Knows: what proves that nothing has changed. Must not know: what follows when the view is too old.

use std::{sync::Arc, time::Duration};

use flotilla_encoding::Page;
use kube::{api::ListParams, core::Request};
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{Kind, Listing, PAGE, Source, Trouble};
use crate::watch::{exchange, newest};

/// After how long without a bookmark or a change the objects are compared. A watch that lasts 60 s and [`super::MARGIN`] begins
/// before: 100 + 65 = 165 s, within the 180 s after which nothing is bound.
const QUIET: Duration = Duration::from_secs(100);
/// How long the API server has for each page. The comparison of a quiet cluster takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

impl<K: Kind> Source<K> {
    /// Whether the view has to be confirmed before the next watch.
    pub(super) fn is_quiet(&self) -> bool {
        K::BOUNDS_VIEW && !self.is_looked_at && self.shared.age() >= QUIET
    }

    /// Confirms that the view is as new as the cluster, or makes a list due. With too many objects to compare, it makes a list due too.
    /// That list is in pages, as a list by a watch ends with a bookmark.
    pub(super) async fn confirm(&mut self) -> Result<(), Trouble> {
        let begun = Instant::now();
        // Where this fails, a short watch comes before the next comparison: a change or a bookmark confirms the view as well.
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
                debug!(what = K::WHAT, version = self.version, "no bookmark has come; nothing has changed");
                self.shared.is_told_at(begun);
                self.hurried = false;
                return Ok(());
            }
        }
        debug!(what = K::WHAT, version = self.version, "no bookmark has come; listing anew");
        if self.listing == Listing::Watch {
            self.listing = Listing::PagesOnce;
        }
        self.version.clear();
        self.hurried = false;
        Ok(())
    }

    /// Whether the cluster has exactly the objects of the view, all in the same version. The version of the list proves nothing, as it
    /// grows with writes of any kind.
    async fn is_unchanged(&self) -> Result<bool, Trouble> {
        let mut params = ListParams::default().limit(PAGE);
        params.field_selector = K::FIELDS.map(str::to_owned);
        let mut count = 0;
        loop {
            let request = Request::new(K::PATH).list(&params)?;
            let page = timeout(PATIENCE, exchange::metadata(&self.client, request)).await;
            let Page { version, more, items } = page.map_err(|_| Trouble::Late(PATIENCE))??;
            // An API server that lags behind, or whose etcd was restored from a backup.
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
