//! Catches panics while reading one object.
//!
//! A panic would end the process, and the next leader would list the same object and panic again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::DecodeError;

/// Runs `read`, which reads one object.
///
/// # Errors
/// [`DecodeError::Panicked`] if it panics.
pub fn caught<T>(read: impl FnOnce() -> T) -> Result<T, DecodeError> {
    // Unwind-safe: a reader borrows the bytes, and the half-read object is dropped.
    catch_unwind(AssertUnwindSafe(read)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        DecodeError::Panicked(text.unwrap_or("no message").to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_reader_is_an_error_with_its_message() {
        assert_eq!(caught(|| 7).expect("no panic"), 7);
        let number = 3;
        for (error, message) in [(caught(|| panic!("as asked")), "as asked"), (caught(|| panic!("{number}")), "3")] {
            let error: DecodeError = error.expect_err("a panic");
            assert!(error.to_string().ends_with(message), "{error}");
        }
    }
}
