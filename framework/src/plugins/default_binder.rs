//! DefaultBinder: binds through the API server's `pods/binding`.
//!
//! Knows: that it binds. Must not know: how; the shell does.

use crate::extension::Plugin;

/// The plugin.
#[derive(Debug)]
pub struct DefaultBinder;

impl Plugin for DefaultBinder {
    fn name(&self) -> &'static str {
        "DefaultBinder"
    }
}
