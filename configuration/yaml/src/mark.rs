//! Positions in texts.

use saphyr_parser::Span;

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
}

impl Mark {
    /// The start of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Converts a position relative to `start` into one relative to the text.
    #[must_use]
    pub fn after(self, start: Self) -> Self {
        let column = if self.line == 1 { self.column + start.column - 1 } else { self.column };
        Self { line: self.line + start.line - 1, column }
    }

    /// The position of a byte.
    #[must_use]
    pub fn at(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column }
    }

    /// The start of a parser's span.
    #[must_use]
    pub fn of(span: Span) -> Self {
        Self { line: span.start.line(), column: span.start.col() + 1 }
    }
}
