//! Splits the text of an expression into tokens.

use crate::source::Errors;

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) text: String,
    pub(crate) offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An operator, a bracket, `in`, `true`, `false` or `null`.
    Fixed,
    Ident,
    /// A name in backticks.
    Escaped,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    End,
}

const WORDS: [&str; 4] = ["in", "true", "false", "null"];
const TWO: [&str; 6] = ["==", "!=", "<=", ">=", "&&", "||"];
const ONE: &str = "<>[]{}().,-!?:+*/%";

pub(crate) fn tokens(text: &str, errors: &mut Errors) -> Vec<Token> {
    let characters: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        if is_blank(rest[0]) {
            at += 1;
        } else if rest.starts_with(&['/', '/']) {
            at += rest.iter().position(|one| *one == '\n').unwrap_or(rest.len());
        } else if let Some((kind, length)) = token(rest) {
            found.push(Token { kind, text: rest[..length].iter().collect(), offset: at });
            at += length;
        } else {
            errors.at(at, format!("Syntax error: token recognition error at: '{}'", rest[0]));
            at += 1;
        }
    }
    found.push(Token { kind: TokenKind::End, text: "<EOF>".to_owned(), offset: characters.len() });
    found
}

fn is_blank(one: char) -> bool {
    matches!(one, '\t' | ' ' | '\r' | '\n' | '\u{c}')
}

fn token(rest: &[char]) -> Option<(TokenKind, usize)> {
    if let Some(length) = string(rest) {
        return Some((TokenKind::String, length));
    }
    if matches!(rest[0], 'b' | 'B')
        && let Some(length) = string(&rest[1..])
    {
        return Some((TokenKind::Bytes, length + 1));
    }
    if let Some(found) = number(rest) {
        return Some(found);
    }
    let first = rest[0];
    if first.is_ascii_alphabetic() || first == '_' {
        let length = rest.iter().take_while(|one| one.is_ascii_alphanumeric() || **one == '_').count();
        let word: String = rest[..length].iter().collect();
        let kind = if WORDS.contains(&word.as_str()) { TokenKind::Fixed } else { TokenKind::Ident };
        return Some((kind, length));
    }
    if first == '`' {
        let is_inside = |one: &&char| one.is_ascii_alphanumeric() || matches!(one, '_' | '.' | '-' | '/' | ' ');
        let inside = rest[1..].iter().take_while(is_inside).count();
        return (inside > 0 && rest.get(inside + 1) == Some(&'`')).then_some((TokenKind::Escaped, inside + 2));
    }
    let pair: String = rest.iter().take(2).collect();
    if TWO.contains(&pair.as_str()) {
        return Some((TokenKind::Fixed, 2));
    }
    ONE.contains(first).then_some((TokenKind::Fixed, 1))
}

fn digits(rest: &[char]) -> usize {
    rest.iter().take_while(|one| one.is_ascii_digit()).count()
}

fn number(rest: &[char]) -> Option<(TokenKind, usize)> {
    if rest.starts_with(&['0', 'x']) {
        let hex = rest[2..].iter().take_while(|one| one.is_ascii_hexdigit()).count();
        if hex > 0 {
            return Some(suffixed(rest, hex + 2));
        }
    }
    let whole = digits(rest);
    let mut length = whole;
    if rest.get(whole) == Some(&'.') {
        let fraction = digits(&rest[whole + 1..]);
        if fraction > 0 {
            length += 1 + fraction;
        }
    }
    if length == 0 {
        return None;
    }
    let with_exponent = length + exponent(&rest[length..]);
    if with_exponent > whole {
        return Some((TokenKind::Double, with_exponent));
    }
    Some(suffixed(rest, whole))
}

fn exponent(rest: &[char]) -> usize {
    if !matches!(rest.first(), Some('e' | 'E')) {
        return 0;
    }
    let signed = 1 + usize::from(matches!(rest.get(1), Some('+' | '-')));
    let figures = rest.get(signed..).map_or(0, digits);
    if figures == 0 { 0 } else { signed + figures }
}

fn suffixed(rest: &[char], length: usize) -> (TokenKind, usize) {
    match rest.get(length) {
        Some('u' | 'U') => (TokenKind::Uint, length + 1),
        _ => (TokenKind::Int, length),
    }
}

/// Length of the longest string literal at the start.
fn string(rest: &[char]) -> Option<usize> {
    let raw = usize::from(matches!(rest.first(), Some('r' | 'R')));
    let body = rest.get(raw..)?;
    let quote = *body.first().filter(|one| matches!(one, '"' | '\''))?;
    let triple = body.starts_with(&[quote, quote, quote]).then(|| closed(body, quote, 3, raw == 1)).flatten();
    triple.or_else(|| closed(body, quote, 1, raw == 1)).map(|length| length + raw)
}

fn closed(body: &[char], quote: char, quotes: usize, raw: bool) -> Option<usize> {
    let mut at = quotes;
    loop {
        let one = *body.get(at)?;
        if one == quote && body[at..].iter().take(quotes).filter(|next| **next == quote).count() == quotes {
            return Some(at + quotes);
        }
        match one {
            '\n' | '\r' if quotes == 1 => return None,
            '\\' if !raw => at += escape(&body[at + 1..])? + 1,
            _ => at += 1,
        }
    }
}

/// Length of an escape sequence after its backslash.
fn escape(rest: &[char]) -> Option<usize> {
    let all = |from: usize, count: usize, is: fn(&char) -> bool| {
        rest.get(from..from + count).filter(|taken| taken.iter().all(is)).map(|_| from + count)
    };
    match rest.first()? {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(1),
        'x' | 'X' => all(1, 2, char::is_ascii_hexdigit),
        'u' => all(1, 4, char::is_ascii_hexdigit),
        'U' => all(1, 8, char::is_ascii_hexdigit),
        '0'..='3' => all(1, 2, |one| ('0'..='7').contains(one)),
        _ => None,
    }
}
