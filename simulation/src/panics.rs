//! Panics, wherever they are caught: nothing that a coordinator meets may make a part of it panic, but for a plugin that is to.
//!
//! Knows: the hook that every panic runs. Must not know: what panicked.

use std::{cell::RefCell, sync::Once};

use crate::faulty;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Forgets what was seen on this thread; panics are noted from now on.
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

/// What was seen on this thread since the last look.
#[must_use]
pub fn take() -> Vec<String> {
    SEEN.take()
}
