//! Runs plugin code and converts a panic into an error.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
};

use flotilla_planted::planted;

/// Runs plugin code.
///
/// # Errors
/// The message of a panic. The caller must restore or drop all state that the code changed.
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    if planted("lets-panics-through") {
        return Ok(work());
    }
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| message_of(&*payload))
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
