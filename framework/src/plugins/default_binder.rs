//! DefaultBinder: binds through the API server's `pods/binding`.

use crate::extension::Plugin;

/// The plugin.
#[derive(Debug)]
pub struct DefaultBinder;

impl Plugin for DefaultBinder {
    fn name(&self) -> &'static str {
        "DefaultBinder"
    }
}
