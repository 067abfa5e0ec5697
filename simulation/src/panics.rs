//! Records panics on this thread: coordinators must not panic, except in the defective plugin.

use std::{cell::RefCell, sync::Once};

use crate::faulty;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Clears the recorded panics, and starts recording.
pub fn forget() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload_as_str() == Some(faulty::MESSAGE) {
                return;
            }
            SEEN.with_borrow_mut(|seen| seen.push(info.to_string()));
            before(info);
        }));
    });
    SEEN.take();
}

/// Panics recorded on this thread since the last call.
#[must_use]
pub fn take() -> Vec<String> {
    SEEN.take()
}
