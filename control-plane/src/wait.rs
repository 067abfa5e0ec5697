//! Waiting for something to become true, and saying what was seen where it does not.
//!
//! Knows: time. Must not know: what is waited for.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The first pause between two looks; each pause is longer than the one before, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Long enough that looking at thousands of objects does not become the load, short against any timeout.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Looks again and again until `probe` answers `Ok`, and returns what it answered.
///
/// The probe says what it saw in its `Err`; the last one is in the error when `timeout` has passed, so it should name
/// what is still missing ("3 of 10 pods run, web-4 is Pending").
pub async fn wait_until<T>(
    what: &str,
    timeout: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + timeout;
    let mut pause = FIRST_PAUSE;
    let mut last = String::from("no look was finished");
    loop {
        match timeout_at(deadline, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(status)) => last = status,
            Err(_) => bail!("timed out after {timeout:?} waiting for {what}; the last check hung, before it: {last}"),
        }
        let next = Instant::now() + pause;
        if next >= deadline {
            bail!("timed out after {timeout:?} waiting for {what}; last seen: {last}");
        }
        sleep_until(next).await;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}
