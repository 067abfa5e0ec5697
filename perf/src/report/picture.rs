//! The report as a picture: pods bound over time.
//!
//! Knows: lines and axes. Must not know: how a figure is computed.

use super::Report;

impl Report {
    /// An SVG.
    pub(crate) fn picture(&self) -> String {
        String::new()
    }
}
