//! One list, as the start of a watch or in pages.
//!
//! A watch that starts with a list needs no list of all objects in memory, in the API server or here. If the API server does not support
//! it, or it fails, the list is requested in pages.

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

/// The API server ends a watch that starts with a list after this many seconds: 150,000 pods at 1,000 a second. kube's limit is 295.
const LIST_S: u32 = 290;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// As the start of a watch.
    Watch,
    /// In pages, because the last one failed as the start of a watch.
    PagesOnce,
    /// In pages, because the API server does not support the other method.
    Pages,
}

impl<K: Kind> Source<K> {
    pub(super) async fn list(&mut self) -> Result<(), Trouble> {
        self.known.begin();
        // Objects that are not in the list are removed; others are added again.
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
        self.unserved = 0;
        let gone = self.known.finish();
        let path = self.path();
        info!(what = K::WHAT, %path, version = self.version, count, gone = gone.len(), "listed");
        for gone in gone {
            self.send_event(K::deleted(gone)).await?;
        }
        if let Some(listed) = K::listed(&self.version) {
            self.send_event(listed).await?;
        }
        self.shared.count_objects(self.known.len());
        self.reach();
        self.shared.count_list();
        self.shared.is_told();
        self.shared.listed.cancel();
        Ok(())
    }

    /// Sends the machine the start of a relist, before any request of the list.
    async fn announce(&self) -> Result<(), Stopped> {
        match K::relisted().filter(|_| self.shared.counters.lists.get() > 0) {
            Some(event) if !planted("ignores-restores") => self.handle.send_event_applied(event).await,
            _ => Ok(()),
        }
    }

    /// Version and length of the list at the start of a watch; `None`: the API server does not support it.
    async fn list_by_watch(&mut self) -> Result<Option<(String, usize)>, Trouble> {
        let told = self.try_list_by_watch().await;
        match &told {
            Ok(_) | Err(Trouble::Stopped(_)) => {}
            // An API server without the parameters rejects them as invalid.
            Err(Trouble::Api(status)) if matches!(status.code, 400 | 405 | 406 | 422) => {
                info!(what = K::WHAT, reason = %status, "the API server does not support watch lists; listing in pages");
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
        // The current state: an API server that lags behind catches up with etcd first, or refuses.
        let request = Request::new(self.path()).watch(&params, "")?;
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

    /// Version and length of the list in pages.
    async fn list_by_pages(&mut self) -> Result<(String, usize), Trouble> {
        let mut params = ListParams::default().limit(self.page);
        params.field_selector = K::FIELDS.map(str::to_owned);
        let mut count = 0;
        loop {
            let request = Request::new(self.path()).list(&params)?;
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

    /// Whether a list of this version may be applied. The cache must not go back in time because an API server lags behind; but a cluster
    /// restored from a backup has to be accepted in the end.
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
        warn!(
            what = K::WHAT,
            version, "the cluster was reverted to an earlier state, as by a restored etcd backup; accepting it"
        );
        self.reached = 0;
        self.shared.reached.send_replace(0);
        self.shared.newest.store(0, Ordering::Relaxed);
        self.go_back().await?;
        if K::went_back().is_none() {
            return Ok(());
        }
        // The events of a watch that starts with a list have been sent too early.
        if self.listing == Listing::Watch { Err(Trouble::Past(version.to_owned())) } else { Ok(()) }
    }
}

fn unversioned() -> Trouble {
    Trouble::Nonsense("the list has no resourceVersion".to_owned())
}
