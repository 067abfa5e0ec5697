//! Formats errors for the log.

/// An error with its causes. The text of many errors names only their origin, such as `transport error`.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        // Some errors already include their cause.
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_written_with_its_causes_and_each_of_them_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot connect")]
        struct Outer(#[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("no route: {0}")]
        struct Inner(#[source] std::fmt::Error);

        let inner = std::fmt::Error;
        assert_eq!(chain(&Outer(Inner(inner))), format!("cannot connect: no route: {inner}"));
    }
}
