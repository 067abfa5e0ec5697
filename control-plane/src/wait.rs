//! Waits for a condition, with the last observation in the error.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Pauses grow from this one to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Long enough that polling thousands of objects is not the load, and short against any timeout.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Polls until `probe` returns `Ok`, and returns its value. After `timeout` the error contains the last `Err` of the probe, which should
/// name the missing objects ("3 of 10 pods run, web-4 is Pending").
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
