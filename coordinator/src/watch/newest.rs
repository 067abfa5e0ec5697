//! The newest version among the objects of a collection, as of now.
//!
//! A watch tells the version of an object as soon as it has come to it, and the version of the whole collection only with a
//! bookmark, for which the API server takes up to two seconds. So who waits for a watch to catch up waits for the newest object.
//!
//! Knows: lists of metadata. Must not know: who waits for what.

use kube::{api::ListParams, core::Request};

use super::{exchange, trouble::Trouble};

/// In collections of more objects it is not looked for. The API server sends some 2 KB of metadata for each, managed fields among
/// them: 20,000 * 2 KB = 40 MB, of which one page is held at a time.
pub(super) const MOST: u64 = 20_000;
/// Objects in a page: 1,000 * 2 KB = 2 MB.
const PAGE: u32 = 1_000;

/// The highest version of an object of the collection at `path`, of those that the field selector `fields` selects; 0 where there
/// is none.
///
/// All that has happened to objects that are there is of this version or of an older one. What has ended may have ended since.
pub(super) async fn newest(client: &kube::Client, path: &str, fields: Option<&str>) -> Result<u64, Trouble> {
    let mut params = ListParams::default().limit(PAGE);
    params.field_selector = fields.map(str::to_owned);
    let mut newest = 0;
    loop {
        let page = exchange::metadata(client, Request::new(path).list(&params)?).await?;
        for item in &page.items {
            let named = item.named()?;
            let version = named.version().unwrap_or_default();
            let number: u64 =
                version.parse().map_err(|_| Trouble::Nonsense(format!("resourceVersion {version:?} is no number")))?;
            newest = newest.max(number);
        }
        match page.more {
            Some(more) => params.continue_token = Some(more),
            None => return Ok(newest),
        }
    }
}
