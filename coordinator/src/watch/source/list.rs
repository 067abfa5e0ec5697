//! One list, as the beginning of a watch or in pages.
//!
//! A watch that begins with what there is costs the API server no list of all objects in memory, and this process none
//! either. Where the API server does not offer that, or it fails, pages are asked for.
//!
//! Knows: both ways, and when a list is through. Must not know: what follows it.

use std::sync::atomic::Ordering;

use flotilla_encoding::{Change, Page};
use flotilla_planted::planted;
use flotilla_runtime::driver::Stopped;
use kube::{
    api::{ListParams, WatchParams},
    core::Request,
};
use tokio::time::timeout;
use tracing::{info, warn};

use super::{Kind, PAGE_TIMEOUT, SET_BACK, SMALLEST_PAGE, Source, Trouble};
use crate::watch::exchange;

/// The API server ends a watch that begins with a list after this long, seconds: 150,000 pods at 1,000 a second. The
/// client library takes less than 295.
const LIST_S: u32 = 290;

/// How the next list is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// As the beginning of a watch.
    Watch,
    /// In pages, because the last one failed as the beginning of a watch.
    PagesOnce,
    /// In pages, because the API server does not offer the other way.
    Pages,
}

impl<K: Kind> Source<K> {
    /// Reads everything there is, as of now.
    pub(super) async fn list(&mut self) -> Result<(), Trouble> {
        self.known.begin();
        // What the list has not is not noted for ever; what it has is noted again.
        self.excessive.clear();
        self.announce().await?;
        let begun = match self.listing {
            Listing::Watch => self.list_by_watch().await?,
            Listing::PagesOnce | Listing::Pages => None,
        };
        let (version, count) = match begun {
            Some(told) => told,
            None => self.list_by_pages().await?,
        };
        if self.listing == Listing::PagesOnce {
            self.listing = Listing::Watch;
        }
        self.version = version;
        let gone = self.known.finish();
        info!(what = K::WHAT, version = self.version, count, gone = gone.len(), "listed");
        for gone in gone {
            self.tell(K::deleted(gone)).await?;
        }
        if let Some(listed) = K::listed(&self.version) {
            self.tell(listed).await?;
        }
        self.shared.count_objects(self.known.len());
        self.reach();
        self.shared.count_list();
        self.shared.is_told();
        self.shared.listed.cancel();
        Ok(())
    }

    /// Tells the machine that what it will be told is as it is at a moment after it heard this: no request for the list has been sent.
    async fn announce(&self) -> Result<(), Stopped> {
        match K::listed_anew().filter(|_| self.shared.counters.lists.get() > 0) {
            Some(event) if !planted("ignores-restores") => self.handle.tell_applied(event).await,
            _ => Ok(()),
        }
    }

    /// The version and the number of what a watch begins with; `None`: the API server does not offer that.
    async fn list_by_watch(&mut self) -> Result<Option<(String, usize)>, Trouble> {
        let told = self.try_list_by_watch().await;
        match &told {
            Ok(_) | Err(Trouble::Stopped(_)) => {}
            // What does not know the parameters says that they are not valid.
            Err(Trouble::Api(status)) if matches!(status.code, 400 | 405 | 406 | 422) => {
                info!(what = K::WHAT, reason = %status, "the API server does not list by a watch; listing in pages");
                self.listing = Listing::Pages;
                return Ok(None);
            }
            Err(_) => self.listing = Listing::PagesOnce,
        }
        told.map(Some)
    }

    async fn try_list_by_watch(&mut self) -> Result<(String, usize), Trouble> {
        let mut params =
            WatchParams { timeout: Some(LIST_S), bookmarks: true, ..WatchParams::default() }.initial_events();
        params.field_selector = K::FIELDS.map(str::to_owned);
        // As of now: an API server that lags behind catches up with etcd first, or refuses.
        let request = Request::new(K::PATH).watch(&params, "")?;
        let mut stream = exchange::ask(&self.client, request).await?.stream();
        let mut count = 0;
        loop {
            while let Some(frame) = stream.received()? {
                match Change::<K::Object>::decode(stream.encoding(), frame)? {
                    Change::Applied(read) => {
                        count += 1;
                        self.apply(read).await?;
                    }
                    Change::Deleted(metadata) => self.delete(&metadata).await?,
                    Change::Bookmark(mark) if mark.ends_list => {
                        self.believe(mark.version.as_deref()).await?;
                        return Ok((mark.version.ok_or_else(unversioned)?, count));
                    }
                    Change::Bookmark(_) => {}
                    Change::Error(status) => return Err(Self::refused(status)),
                }
            }
            let received = timeout(PAGE_TIMEOUT, stream.receive()).await;
            if !received.map_err(|_| Trouble::Late(PAGE_TIMEOUT))?? {
                return Err(Trouble::Broken("a watch that begins with a list ended within the list".to_owned()));
            }
        }
    }

    /// The version and the number of what is listed in pages.
    async fn list_by_pages(&mut self) -> Result<(String, usize), Trouble> {
        let mut params = ListParams::default().limit(self.page);
        params.field_selector = K::FIELDS.map(str::to_owned);
        let mut count = 0;
        loop {
            let request = Request::new(K::PATH).list(&params)?;
            let page = timeout(PAGE_TIMEOUT, exchange::page(&self.client, request)).await;
            let page = page.map_err(|_| Trouble::Late(PAGE_TIMEOUT))?;
            if matches!(page, Err(Trouble::TooLarge(_))) {
                self.page = (self.page / 4).max(SMALLEST_PAGE);
            }
            let Page { version, more, items } = page?;
            self.believe(version.as_deref()).await?;
            count += items.len();
            for item in items {
                self.apply(item.read()?).await?;
            }
            match more {
                Some(more) => params.continue_token = Some(more),
                None => return Ok((version.ok_or_else(unversioned)?, count)),
            }
        }
    }

    /// Whether a list of this version may be told. The view never goes back in time because an API server that lags
    /// behind was asked; but what is restored from a backup has to be believed in the end.
    async fn believe(&mut self, version: Option<&str>) -> Result<(), Trouble> {
        if !self.is_past(version) {
            self.set_back = 0;
            return Ok(());
        }
        let version = version.unwrap_or_default();
        if self.set_back < SET_BACK {
            self.set_back += 1;
            self.shared.counters.stale.add(1);
            return Err(Trouble::Past(version.to_owned()));
        }
        warn!(what = K::WHAT, version, "the cluster has gone back in time, as after a restored backup; going along");
        self.reached = 0;
        self.shared.reached.send_replace(0);
        self.shared.newest.store(0, Ordering::Relaxed);
        self.go_back().await?;
        if K::went_back().is_none() {
            return Ok(());
        }
        // What a watch that begins with a list has told by now was told too early.
        if self.listing == Listing::Watch { Err(Trouble::Past(version.to_owned())) } else { Ok(()) }
    }
}

fn unversioned() -> Trouble {
    Trouble::Nonsense("the list has no resourceVersion".to_owned())
}
