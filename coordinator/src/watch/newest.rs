//! The newest current version among the objects of a collection.
//!
//! A watch has the version of an object at once. It has the version of the collection only with a bookmark, which the API server sends
//! within two seconds. The wait for a watch therefore ends with the newest object.

use kube::{api::ListParams, core::Request};

use super::{exchange, trouble::Trouble};

/// Larger collections are not searched. The API server sends some 2 KB of metadata for each object, with managed fields: 20,000 * 2 KB = 40
/// MB, of which one page is held at a time.
pub(super) const MOST: u64 = 20_000;
/// Objects in a page: 1,000 * 2 KB = 2 MB.
const PAGE: u32 = 1_000;

/// The highest version of an object of the collection at `path`, with the field selector `fields`; 0 if there is none.
///
/// All changes of current objects have this version or an older one. Objects may have ended later.
pub(super) async fn newest(client: &kube::Client, path: &str, fields: Option<&str>) -> Result<u64, Trouble> {
    let mut params = ListParams::default().limit(PAGE);
    params.field_selector = fields.map(str::to_owned);
    let mut newest = 0;
    loop {
        let page = exchange::metadata(client, Request::new(path).list(&params)?).await?;
        for item in &page.items {
            let named = item.named()?;
            let version = named.version().unwrap_or_default();
            let number: u64 = version
                .parse()
                .map_err(|_| Trouble::Nonsense(format!("resourceVersion {version:?} is not a number")))?;
            newest = newest.max(number);
        }
        match page.more {
            Some(more) => params.continue_token = Some(more),
            None => return Ok(newest),
        }
    }
}
