//! Parses an expression by upstream's grammar, and expands macros.

use std::sync::Arc;

use super::{
    Element, Entry, Expr, Field, Id, Kind,
    lexer::{Token, TokenKind, tokens},
    literals, macros,
};
use crate::{
    source::{Errors, Source},
    value::Value,
};

/// Maximum links of chains like `a.b.c` or `1 + 2 + 3`, summed over nested chains.
const MAX_DEPTH: usize = 250;
/// Maximum nesting of brackets. Upstream allows 250. Parsing a level takes up to 10 kB of stack without optimization. Threads have 2 MB,
/// and half of it is left to the callers.
const MAX_NESTING: usize = 100;
const MAX_CHARACTERS: usize = 100_000;

const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];
const RELATIONS: [&str; 7] = ["<", "<=", ">=", ">", "==", "!=", "in"];

/// Parses a text. The tree is valid only if no errors were reported.
pub(crate) fn parse(text: &str, source: &mut Source, errors: &mut Errors) -> Expr {
    let length = text.chars().count();
    if length > MAX_CHARACTERS {
        let told = format!("expression code point size exceeds limit: size: {length}, limit {MAX_CHARACTERS}");
        errors.nowhere(told);
        return Expr { id: 0, kind: Kind::Broken };
    }
    let tokens = tokens(text, errors);
    let mut parser = Parser { tokens, at: 0, source, errors, depths: Depths::default() };
    match parser.expression() {
        Ok(tree) => {
            if parser.peek().kind != TokenKind::End {
                parser.unexpected();
            }
            tree
        }
        Err(Stop) => Expr { id: 0, kind: Kind::Broken },
    }
}

/// Parsing stopped early; an error was reported.
struct Stop;

type Read<T> = Result<T, Stop>;

#[derive(Default)]
struct Depths {
    expressions: usize,
    relations: usize,
    sums: usize,
    members: usize,
}

pub(super) struct Parser<'text> {
    tokens: Vec<Token>,
    at: usize,
    pub(super) source: &'text mut Source,
    pub(super) errors: &'text mut Errors,
    depths: Depths,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn is(&self, text: &str) -> bool {
        self.is_ahead(0, text)
    }

    fn is_ahead(&self, by: usize, text: &str) -> bool {
        self.tokens.get(self.at + by).is_some_and(|token| token.kind == TokenKind::Fixed && token.text == text)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.is(text);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, text: &str) -> Read<Token> {
        if self.is(text) { Ok(self.next()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&mut self) -> Stop {
        let token = self.peek().clone();
        self.errors.at(token.offset, format!("Syntax error: unexpected '{}'", token.text));
        Stop
    }

    pub(super) fn node(&mut self, offset: usize, kind: Kind) -> Expr {
        Expr { id: self.source.node(offset), kind }
    }

    fn deeper(&mut self, depth: fn(&mut Depths) -> &mut usize) -> Read<()> {
        let depth = depth(&mut self.depths);
        *depth += 1;
        if *depth <= MAX_DEPTH && self.depths.expressions <= MAX_NESTING {
            return Ok(());
        }
        self.errors.nowhere(if self.depths.expressions > MAX_NESTING {
            format!("expression recursion limit exceeded: {MAX_DEPTH}")
        } else {
            "max recursion depth exceeded".to_owned()
        });
        Err(Stop)
    }

    fn expression(&mut self) -> Read<Expr> {
        self.deeper(|depths| &mut depths.expressions)?;
        let condition = self.either()?;
        let read = if self.is("?") {
            let operator = self.next();
            let id = self.source.node(operator.offset);
            let yes = self.either()?;
            self.expect(":")?;
            let no = self.expression()?;
            call(id, "_?_:_", vec![condition, yes, no])
        } else {
            condition
        };
        self.depths.expressions -= 1;
        Ok(read)
    }

    fn either(&mut self) -> Read<Expr> {
        self.logic("||", "_||_", Self::both)
    }

    fn both(&mut self) -> Read<Expr> {
        self.logic("&&", "_&&_", Self::relation)
    }

    fn logic(&mut self, symbol: &str, function: &str, operand: fn(&mut Self) -> Read<Expr>) -> Read<Expr> {
        let mut terms = vec![operand(self)?];
        let mut operators = Vec::new();
        while self.is(symbol) {
            let offset = self.next().offset;
            terms.push(operand(self)?);
            operators.push(self.source.node(offset));
        }
        Ok(balanced(function, &mut terms.into_iter(), &operators))
    }

    fn relation(&mut self) -> Read<Expr> {
        let outer = self.depths.relations;
        self.deeper(|depths| &mut depths.relations)?;
        let mut left = self.sum(0)?;
        while self.peek().kind == TokenKind::Fixed && RELATIONS.contains(&self.peek().text.as_str()) {
            let operator = self.next();
            let id = self.source.node(operator.offset);
            self.deeper(|depths| &mut depths.relations)?;
            let right = self.sum(0)?;
            let function = if operator.text == "in" { "@in".to_owned() } else { format!("_{}_", operator.text) };
            left = call(id, &function, vec![left, right]);
        }
        self.depths.relations = outer;
        Ok(left)
    }

    /// Parses sums, level 0, and products, level 1.
    fn sum(&mut self, level: usize) -> Read<Expr> {
        const SYMBOLS: [&[&str]; 2] = [&["+", "-"], &["*", "/", "%"]];
        let outer = self.depths.sums;
        if level == 0 {
            self.deeper(|depths| &mut depths.sums)?;
        }
        let operand = |parser: &mut Self| if level == 0 { parser.sum(1) } else { parser.unary() };
        let mut left = operand(self)?;
        while self.peek().kind == TokenKind::Fixed && SYMBOLS[level].contains(&self.peek().text.as_str()) {
            let operator = self.next();
            let id = self.source.node(operator.offset);
            self.deeper(|depths| &mut depths.sums)?;
            let right = operand(self)?;
            left = call(id, &format!("_{}_", operator.text), vec![left, right]);
        }
        self.depths.sums = outer;
        Ok(left)
    }

    fn unary(&mut self) -> Read<Expr> {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            if !self.is(symbol) || (symbol == "-" && self.is_signed_literal()) {
                continue;
            }
            let offset = self.peek().offset;
            let mut count = 0;
            while self.take(symbol) {
                count += 1;
            }
            let id = (count % 2 == 1).then(|| self.source.node(offset));
            let operand = self.member()?;
            return Ok(match id {
                Some(id) => call(id, function, vec![operand]),
                None => operand,
            });
        }
        self.member()
    }

    fn is_signed_literal(&self) -> bool {
        let next = self.tokens.get(self.at + 1).map(|token| token.kind);
        matches!(next, Some(TokenKind::Int | TokenKind::Double))
    }

    fn member(&mut self) -> Read<Expr> {
        let outer = self.depths.members;
        self.deeper(|depths| &mut depths.members)?;
        let mut operand = self.primary()?;
        loop {
            if self.is(".") {
                self.deeper(|depths| &mut depths.members)?;
                operand = self.select(operand)?;
            } else if self.is("[") {
                self.deeper(|depths| &mut depths.members)?;
                let offset = self.next().offset;
                let function = if self.take("?") { "_[?_]" } else { "_[_]" };
                let id = self.source.node(offset);
                let index = self.expression()?;
                self.expect("]")?;
                operand = call(id, function, vec![operand, index]);
            } else {
                self.depths.members = outer;
                return Ok(operand);
            }
        }
    }

    fn select(&mut self, operand: Expr) -> Read<Expr> {
        let dot = self.expect(".")?.offset;
        let optional = self.take("?");
        let name = self.name()?;
        if optional {
            let literal = self.node(name.offset, Kind::Literal(Value::string(&plain(&name))));
            let id = self.source.node(dot);
            return Ok(call(id, "_?._", vec![operand, literal]));
        }
        if name.kind == TokenKind::Ident && self.is("(") {
            let id = self.source.node(self.peek().offset);
            let arguments = self.arguments()?;
            return Ok(self.expand(id, name.text, Some(operand), arguments));
        }
        let kind = Kind::Select { operand: Box::new(operand), field: plain(&name), test_only: false };
        Ok(self.node(dot, kind))
    }

    fn name(&mut self) -> Read<Token> {
        match self.peek().kind {
            TokenKind::Ident | TokenKind::Escaped => Ok(self.next()),
            _ => Err(self.unexpected()),
        }
    }

    fn arguments(&mut self) -> Read<Vec<Expr>> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        if self.take(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.take(",") {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Read<Expr> {
        let first = self.peek().clone();
        match first.kind {
            TokenKind::Ident => self.named(),
            TokenKind::Fixed => match first.text.as_str() {
                "." if self.tokens.get(self.at + 1).is_some_and(|next| next.kind == TokenKind::Ident) => self.named(),
                "(" => {
                    self.next();
                    let inner = self.expression()?;
                    self.expect(")")?;
                    Ok(inner)
                }
                "[" => self.list(),
                "{" => self.map(),
                "-" if self.is_signed_literal() => self.literal(),
                "true" | "false" | "null" => self.literal(),
                _ => Err(self.unexpected()),
            },
            TokenKind::Escaped | TokenKind::End => Err(self.unexpected()),
            _ => self.literal(),
        }
    }

    /// Parses a variable, a call without receiver, or a message.
    fn named(&mut self) -> Read<Expr> {
        let start = self.peek().offset;
        let dot = if self.take(".") { "." } else { "" };
        let name = self.next();
        if let Some(message) = self.message(dot, &name.text) {
            return message;
        }
        if RESERVED.contains(&name.text.as_str()) {
            self.errors.at(start, format!("reserved identifier: {}", name.text));
            if self.is("(") {
                self.arguments()?;
            }
            return Ok(self.node(start, Kind::Broken));
        }
        if self.is("(") {
            let id = self.source.node(self.peek().offset);
            let arguments = self.arguments()?;
            return Ok(self.expand(id, format!("{dot}{}", name.text), None, arguments));
        }
        Ok(self.node(name.offset, Kind::Ident(format!("{dot}{}", name.text))))
    }

    /// Parses `a.b{...}`.
    fn message(&mut self, dot: &str, first: &str) -> Option<Read<Expr>> {
        let mut name = format!("{dot}{first}");
        let mut ahead = 0;
        while self.is_ahead(ahead, ".") {
            let next = self.tokens.get(self.at + ahead + 1).filter(|next| next.kind == TokenKind::Ident)?;
            name = format!("{name}.{}", next.text);
            ahead += 2;
        }
        if !self.is_ahead(ahead, "{") {
            return None;
        }
        self.at += ahead;
        Some(self.fields(name))
    }

    fn fields(&mut self, name: String) -> Read<Expr> {
        let offset = self.expect("{")?.offset;
        let id = self.source.node(offset);
        let mut fields = Vec::new();
        while !(self.is("}") || self.is(",") && self.is_ahead(1, "}")) {
            let optional = self.take("?");
            let field = self.name()?;
            let colon = self.expect(":")?.offset;
            let field_id = self.source.node(colon);
            let value = self.expression()?;
            fields.push(Field { id: field_id, name: plain(&field), value, optional });
            if !self.is("}") {
                self.expect(",")?;
                if self.is("}") {
                    break;
                }
            }
        }
        self.take(",");
        self.expect("}")?;
        Ok(Expr { id, kind: Kind::Struct { name, fields } })
    }

    fn list(&mut self) -> Read<Expr> {
        let offset = self.expect("[")?.offset;
        let id = self.source.node(offset);
        let mut elements = Vec::new();
        while !(self.is("]") || elements.is_empty() && self.is(",")) {
            let optional = self.take("?");
            elements.push(Element { value: self.expression()?, optional });
            if !self.is("]") {
                self.expect(",")?;
                if self.is("]") {
                    break;
                }
            }
        }
        if elements.is_empty() {
            self.take(",");
        }
        self.expect("]")?;
        Ok(Expr { id, kind: Kind::List(elements) })
    }

    fn map(&mut self) -> Read<Expr> {
        let offset = self.expect("{")?.offset;
        let id = self.source.node(offset);
        let mut entries = Vec::new();
        while !(self.is("}") || entries.is_empty() && self.is(",")) {
            let optional = self.take("?");
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            entries.push(Entry { key, value, optional });
            if !self.is("}") {
                self.expect(",")?;
                if self.is("}") {
                    break;
                }
            }
        }
        if entries.is_empty() {
            self.take(",");
        }
        self.expect("}")?;
        Ok(Expr { id, kind: Kind::Map(entries) })
    }

    fn literal(&mut self) -> Read<Expr> {
        let offset = self.peek().offset;
        let sign = if self.take("-") { "-" } else { "" };
        let token = self.next();
        let value = match token.kind {
            TokenKind::Int => literals::int(sign, &token.text).map(Value::Int).ok_or("invalid int literal"),
            TokenKind::Uint => literals::uint(&token.text).map(Value::Uint).ok_or("invalid uint literal"),
            TokenKind::Double => match format!("{sign}{}", token.text).parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Value::Double(value)),
                _ => Err("invalid double literal"),
            },
            TokenKind::String => literals::string(&token.text).map(|text| Value::string(&text)),
            TokenKind::Bytes => literals::bytes(&token.text[1..]).map(|bytes| Value::Bytes(Arc::from(bytes))),
            _ => Ok(match token.text.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => Value::Null,
            }),
        };
        Ok(match value {
            Ok(value) => self.node(offset, Kind::Literal(value)),
            Err(told) => {
                self.errors.at(offset, told.to_owned());
                self.node(offset, Kind::Broken)
            }
        })
    }

    fn expand(&mut self, id: Id, function: String, target: Option<Expr>, arguments: Vec<Expr>) -> Expr {
        match macros::expand(self, id, &function, target.as_ref(), &arguments) {
            Ok(Some(expanded)) => expanded,
            Ok(None) => Expr { id, kind: Kind::Call { function, target: target.map(Box::new), arguments } },
            Err(macros::Refused { node, told }) => {
                let offset = self.source.offset(node);
                self.errors.at(offset, told);
                self.node(offset, Kind::Broken)
            }
        }
    }
}

fn call(id: Id, function: &str, arguments: Vec<Expr>) -> Expr {
    Expr { id, kind: Kind::Call { function: function.to_owned(), target: None, arguments } }
}

/// A balanced tree of the terms, so that long chains are not deep.
fn balanced(function: &str, terms: &mut impl Iterator<Item = Expr>, operators: &[Id]) -> Expr {
    let Some(top) = operators.len().checked_sub(1).map(|last| last.div_ceil(2)) else {
        return terms.next().unwrap_or(Expr { id: 0, kind: Kind::Broken });
    };
    let left = balanced(function, terms, &operators[..top]);
    let right = balanced(function, terms, &operators[top + 1..]);
    call(operators[top], function, vec![left, right])
}

fn plain(name: &Token) -> String {
    name.text.trim_matches('`').to_owned()
}
