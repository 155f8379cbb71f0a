//! Expressions, written anew so that nothing in them escapes our functions.
//!
//! The engine's operators know neither marks nor a budget for values within values: `a == b` compares nested lists without
//! being charged, `a ~ b` prints them, `a * n` makes a list that is as long as anyone likes. Functions of our own do these
//! things, and Jinja lets a filter stand where an operator does: `a + b` is written as `a|__add(b)`. Precedence is thereby
//! settled here, by the grammar of Jinja, and the engine has no choice left.
//!
//! | in the template | for the engine |
//! |---|---|
//! | `a + b`, `a * b`, `a ~ b` | `a\|__add(b)`, `a\|__multiply(b)`, `a\|__join(b)` |
//! | `a < b`, `a not in b`, `a == b < c` | `a\|__compare('<', b)`, `a\|__compare('not in', b)`, `a\|__compare('==', b, '<', c)` |
//! | `a[b]`, `a[b:c:d]` | `a\|__item(b)`, `a\|__slice(b, c, d)` |
//! | `[a]`, `(a,)`, `{a: b}`, `f(a)`, `a\|f` | the same, then `\|__own` |
//!
//! What remains to the engine is `and`, `or`, `not`, `if`, tests, attributes, and arithmetic that only numbers can do.

use super::Error;
use super::tokens::{Kind, Token, syntax};

/// Names that end an operand.
const KEYWORDS: [&str; 9] = ["if", "else", "and", "or", "not", "in", "is", "recursive", "elif"];
const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

/// Writes the expressions in a tag.
pub(super) struct Writer<'a> {
    source: &'a str,
    tokens: &'a [Token],
    at: usize,
    /// The place up to which the lines of the source are written.
    lines_to: usize,
    /// The place behind the last token, for errors.
    end: usize,
}

/// A part that is written.
struct Piece {
    text: String,
    form: Form,
}

/// How the end of a part binds what may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// An operator is in it: everything that follows would take its last operand alone.
    Open,
    /// A filter is at its end: another filter takes all of it, an attribute or a call would not.
    Filtered,
    /// Whatever follows takes all of it.
    Closed,
}

impl Piece {
    fn closed(text: String) -> Piece {
        Piece { text, form: Form::Closed }
    }

    fn open(text: String) -> Piece {
        Piece { text, form: Form::Open }
    }

    /// Made by an expression that may make containers.
    fn owned(text: String) -> Piece {
        Piece { text: text + "|__own", form: Form::Filtered }
    }

    /// As the operand of something that binds tighter.
    fn operand(self) -> String {
        if self.form == Form::Open { format!("({})", self.text) } else { self.text }
    }

    /// As what an attribute or a call belongs to.
    fn object(self) -> String {
        if self.form == Form::Closed { self.text } else { format!("({})", self.text) }
    }

    /// With a filter of ours behind it.
    fn filtered(self, filter: &str) -> Piece {
        Piece { text: format!("{}|{filter}", self.operand()), form: Form::Filtered }
    }
}

type Written = Result<Piece, Error>;

impl<'a> Writer<'a> {
    /// For the tokens of a tag whose inside begins at `inner` and ends at `end`.
    pub(super) fn new(source: &'a str, tokens: &'a [Token], inner: usize, end: usize) -> Writer<'a> {
        Writer { source, tokens, at: 0, lines_to: inner, end }
    }

    /// The next token, if any.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|token| &self.source[token.range.clone()])
    }

    /// Whether the next token is `text`; strings are never equal to an operator or a name.
    pub(super) fn is_next(&self, text: &str) -> bool {
        self.peek() == Some(text)
    }

    /// Takes the next token, which must be there, with the line breaks before it.
    pub(super) fn take(&mut self) -> Result<String, Error> {
        let Some(token) = self.tokens.get(self.at) else { return Err(self.error("this tag ends too early")) };
        self.at += 1;
        Ok(self.lines_before(token.range.start, token.range.end) + &self.source[token.range.clone()])
    }

    /// Takes the next token if it is `text`.
    pub(super) fn take_if(&mut self, text: &str) -> Result<Option<String>, Error> {
        if self.is_next(text) { self.take().map(Some) } else { Ok(None) }
    }

    /// Takes the next token, which must be `text`.
    pub(super) fn expect(&mut self, text: &str) -> Result<String, Error> {
        if self.is_next(text) { self.take() } else { Err(self.error(&format!("expected {text:?}"))) }
    }

    /// Takes the next token, which must be a name.
    pub(super) fn name(&mut self) -> Result<String, Error> {
        match self.tokens.get(self.at) {
            Some(token) if token.kind == Kind::Name => self.take(),
            _ => Err(self.error("expected a name")),
        }
    }

    /// The line breaks that are left, once every token is taken.
    pub(super) fn finish(&mut self) -> Result<String, Error> {
        if self.at < self.tokens.len() {
            return Err(self.error(&format!("did not expect {:?}", self.peek().unwrap_or_default())));
        }
        Ok(self.lines_before(self.end, self.end))
    }

    pub(super) fn error(&self, reason: &str) -> Error {
        let at = self.tokens.get(self.at).map_or(self.end, |token| token.range.start);
        syntax(self.source, at, reason)
    }

    /// The line breaks between what is written and `to`, after which everything up to `next` counts as written.
    fn lines_before(&mut self, to: usize, next: usize) -> String {
        let n_lines = self.source[self.lines_to..to].matches('\n').count();
        self.lines_to = next;
        "\n".repeat(n_lines)
    }

    /// One expression, or several with commas between: a tuple.
    pub(super) fn tuple(&mut self) -> Result<String, Error> {
        self.items(Self::expression)
    }

    /// The same where an `if` behind it is not a part of it.
    pub(super) fn tuple_without_if(&mut self) -> Result<String, Error> {
        self.items(Self::or)
    }

    fn items(&mut self, item: fn(&mut Self) -> Written) -> Result<String, Error> {
        let first = item(self)?;
        if !self.is_next(",") {
            return Ok(first.text);
        }
        let mut text = format!("({}", first.text);
        while let Some(comma) = self.take_if(",")? {
            text += &comma;
            if self.peek().is_some_and(|next| !["recursive", "if"].contains(&next)) {
                text += &item(self)?.text;
            }
        }
        Ok(text + ")|__own")
    }

    /// One expression.
    pub(super) fn single(&mut self) -> Result<String, Error> {
        self.expression().map(|piece| piece.text)
    }

    /// The call of a `call` block, which the engine wants bare.
    pub(super) fn bare_call(&mut self) -> Result<String, Error> {
        let call = self.postfix()?.text;
        match call.strip_suffix("|__own") {
            Some(call) if call.ends_with(')') => Ok(call.to_owned()),
            _ => Err(self.error("expected a call")),
        }
    }

    /// Filters, with or without a bar before the first.
    pub(super) fn filters(&mut self) -> Result<String, Error> {
        let mut text = self.filter()?;
        while let Some(bar) = self.take_if("|")? {
            text += &bar;
            text += &self.filter()?;
        }
        Ok(text + "|__own")
    }

    /// Arguments in brackets, each with a filter behind it.
    fn arguments(&mut self, filter: &str) -> Result<String, Error> {
        let mut text = self.expect("(")?;
        while !self.is_next(")") {
            if self.is_next("*") || self.is_next("**") {
                text += &self.take()?;
            } else if self.tokens.get(self.at + 1).is_some_and(|token| &self.source[token.range.clone()] == "=") {
                text += &self.name()?;
                text += &self.take()?;
            }
            let argument = self.expression()?;
            text += &if filter.is_empty() { argument.text } else { argument.filtered(filter).text };
            if !self.is_next(")") {
                text += &self.expect(",")?;
            }
        }
        Ok(text + &self.take()?)
    }

    fn expression(&mut self) -> Written {
        let mut piece = self.or()?;
        while let Some(keyword) = self.take_if("if")? {
            let condition = self.or()?.operand();
            let mut text = format!("{} {keyword} {condition}", piece.operand());
            if let Some(keyword) = self.take_if("else")? {
                text += &format!(" {keyword} {}", self.expression()?.operand());
            }
            piece = Piece::open(text);
        }
        Ok(piece)
    }

    fn or(&mut self) -> Written {
        self.chain("or", |writer| writer.chain("and", Self::not))
    }

    /// Operands with a keyword between.
    fn chain(&mut self, keyword: &str, operand: impl Fn(&mut Self) -> Written) -> Written {
        let mut piece = operand(self)?;
        while let Some(keyword) = self.take_if(keyword)? {
            let right = operand(self)?.operand();
            piece = Piece::open(format!("{} {keyword} {right}", piece.operand()));
        }
        Ok(piece)
    }

    fn not(&mut self) -> Written {
        let mut prefix = String::new();
        while let Some(keyword) = self.take_if("not")? {
            prefix += &keyword;
            prefix.push(' ');
        }
        let piece = self.comparison()?;
        Ok(if prefix.is_empty() { piece } else { Piece::open(prefix + &piece.operand()) })
    }

    fn comparison(&mut self) -> Written {
        let left = self.sum()?;
        let mut arguments = String::new();
        loop {
            let operator = match self.peek() {
                Some(operator) if COMPARISONS.contains(&operator) => operator,
                Some("in") => "in",
                Some("not")
                    if self.tokens.get(self.at + 1).is_some_and(|token| &self.source[token.range.clone()] == "in") =>
                {
                    self.take()?;
                    "not in"
                }
                _ => break,
            };
            let lines = self.take()?.matches('\n').map(|_| '\n').collect::<String>();
            let comma = if arguments.is_empty() { "" } else { ", " };
            let right = self.sum()?.text;
            arguments += &format!("{comma}{lines}'{operator}', {right}");
        }
        Ok(if arguments.is_empty() { left } else { left.filtered(&format!("__compare({arguments})")) })
    }

    fn sum(&mut self) -> Written {
        let mut piece = self.joined()?;
        loop {
            if let Some(lines) = self.take_lines("+")? {
                let right = self.joined()?.text;
                piece = piece.filtered(&format!("__add({lines}{right})"));
            } else if let Some(operator) = self.take_if("-")? {
                let right = self.joined()?.operand();
                piece = Piece::open(format!("{} {operator} {right}", piece.operand()));
            } else {
                return Ok(piece);
            }
        }
    }

    fn joined(&mut self) -> Written {
        let mut piece = self.product()?;
        while let Some(lines) = self.take_lines("~")? {
            let right = self.product()?.text;
            piece = piece.filtered(&format!("__join({lines}{right})"));
        }
        Ok(piece)
    }

    fn product(&mut self) -> Written {
        let mut piece = self.power()?;
        loop {
            if let Some(lines) = self.take_lines("*")? {
                let right = self.power()?.text;
                piece = piece.filtered(&format!("__multiply({lines}{right})"));
            } else if let Some(operator) = self.peek().filter(|next| ["/", "//", "%"].contains(next)) {
                let operator = self.expect(operator)?;
                let right = self.power()?.operand();
                piece = Piece::open(format!("{} {operator} {right}", piece.operand()));
            } else {
                return Ok(piece);
            }
        }
    }

    fn power(&mut self) -> Written {
        let mut piece = self.unary()?;
        while let Some(operator) = self.take_if("**")? {
            let right = self.unary()?.operand();
            piece = Piece::open(format!("{} {operator} {right}", piece.operand()));
        }
        Ok(piece)
    }

    fn unary(&mut self) -> Written {
        let mut signs = String::new();
        while self.is_next("-") || self.is_next("+") {
            let sign = self.take()?;
            // The engine has no plus; it changes nothing that a minus could follow.
            signs += &sign.replace('+', "");
            if sign.ends_with('-') {
                signs.push(' ');
            }
        }
        let piece = if signs.contains('-') {
            let operand = self.primary()?;
            let operand = self.subscripts(operand)?.operand();
            Piece::open(signs + &operand)
        } else {
            let mut piece = self.postfix_without_filters()?;
            piece.text.insert_str(0, &signs);
            piece
        };
        self.filters_and_tests(piece)
    }

    fn postfix(&mut self) -> Written {
        let piece = self.postfix_without_filters()?;
        self.filters_and_tests(piece)
    }

    fn postfix_without_filters(&mut self) -> Written {
        let piece = self.primary()?;
        self.subscripts(piece)
    }

    fn primary(&mut self) -> Written {
        let Some(token) = self.tokens.get(self.at) else { return Err(self.error("expected a value")) };
        match token.kind {
            Kind::Name if KEYWORDS.contains(&&self.source[token.range.clone()]) => Err(self.error("expected a value")),
            Kind::Name | Kind::Number => self.take().map(Piece::closed),
            Kind::Text => {
                let mut text = self.take()?;
                while self.tokens.get(self.at).is_some_and(|token| token.kind == Kind::Text) {
                    text.push(' ');
                    text += &self.take()?;
                }
                Ok(Piece::closed(text))
            }
            Kind::Operator => match &self.source[token.range.clone()] {
                "(" => self.group(),
                "[" => {
                    let mut text = self.take()?;
                    while !self.is_next("]") {
                        text += &self.expression()?.text;
                        if !self.is_next("]") {
                            text += &self.expect(",")?;
                        }
                    }
                    Ok(Piece::owned(text + &self.take()?))
                }
                "{" => {
                    let mut text = self.take()?;
                    while !self.is_next("}") {
                        text += &self.expression()?.text;
                        text += &self.expect(":")?;
                        text += &self.expression()?.text;
                        if !self.is_next("}") {
                            text += &self.expect(",")?;
                        }
                    }
                    // A brace before the brace would end the tag for the engine.
                    Ok(Piece::owned(text + " " + &self.take()?))
                }
                _ => Err(self.error("expected a value")),
            },
        }
    }

    /// An expression in brackets, or a tuple.
    fn group(&mut self) -> Written {
        let mut text = self.take()?;
        let mut is_tuple = self.is_next(")");
        while !self.is_next(")") {
            text += &self.expression()?.text;
            if !self.is_next(")") {
                text += &self.expect(",")?;
                is_tuple = true;
            }
        }
        text += &self.take()?;
        Ok(if is_tuple { Piece::owned(text) } else { Piece::closed(text) })
    }

    /// Attributes, items and calls.
    fn subscripts(&mut self, mut piece: Piece) -> Written {
        loop {
            match self.peek() {
                Some(".") => {
                    let dot = self.take()?;
                    match self.tokens.get(self.at).map(|token| token.kind) {
                        Some(Kind::Number) => {
                            let number = self.take()?;
                            piece = piece.filtered(&format!("__item({number})"));
                        }
                        _ => {
                            let object = piece.object();
                            piece = Piece::closed(object + &dot + &self.name()?);
                        }
                    }
                }
                Some("[") => {
                    let lines = self.take()?.replace('[', "");
                    piece = self.item(piece, lines)?;
                }
                Some("(") => {
                    let callee = piece.object();
                    // The engine compares what `loop.changed` is given with what it was given before.
                    let is_comparing = callee.trim_end_matches(')').ends_with(".changed");
                    let arguments = self.arguments(if is_comparing { "__weighed" } else { "" })?;
                    piece = Piece::owned(callee + &arguments);
                }
                _ => return Ok(piece),
            }
        }
    }

    /// An item or a slice, whose bracket is taken, after these line breaks.
    fn item(&mut self, piece: Piece, mut lines: String) -> Written {
        let mut bounds = vec![];
        loop {
            let is_empty = self.is_next(":") || self.is_next("]");
            bounds.push(if is_empty { "none".to_owned() } else { self.expression()?.text });
            match self.take_lines(":")? {
                Some(more) if bounds.len() < 3 => lines += &more,
                Some(_) => return Err(self.error("expected \"]\"")),
                None => break,
            }
        }
        // A tuple as a key is nothing that a template has.
        lines += &self.expect("]")?.replace(']', "");
        match &bounds[..] {
            [key] if key == "none" => Err(self.error("expected a value")),
            [key] => Ok(piece.filtered(&format!("__item({key}{lines})"))),
            bounds => Ok(piece.filtered(&format!("__slice({}{lines})", bounds.join(", ")))),
        }
    }

    fn filters_and_tests(&mut self, mut piece: Piece) -> Written {
        loop {
            match self.peek() {
                Some("|") => {
                    let bar = self.take()?;
                    let filter = self.filter()?;
                    piece = Piece::owned(format!("{}{bar}{filter}", piece.operand()));
                }
                Some("is") => {
                    let keyword = self.take()?;
                    let negation = self.take_if("not")?.map(|not| not + " ").unwrap_or_default();
                    let test = self.test()?;
                    piece = Piece::closed(format!("({} {keyword} {negation}{test})", piece.operand()));
                }
                Some("(") => {
                    piece = Piece::owned(piece.object() + &self.arguments("")?);
                }
                _ => return Ok(piece),
            }
        }
    }

    /// A filter's name and arguments.
    fn filter(&mut self) -> Result<String, Error> {
        let name = self.name()?;
        Ok(if self.is_next("(") { name + &self.arguments("")? } else { name })
    }

    /// A test's name and arguments; a single one may stand without brackets.
    fn test(&mut self) -> Result<String, Error> {
        let name = self.name()?;
        if self.is_next("(") {
            return Ok(name + &self.arguments("")?);
        }
        let has_argument = self.tokens.get(self.at).is_some_and(|token| match token.kind {
            Kind::Name => !KEYWORDS.contains(&&self.source[token.range.clone()]),
            Kind::Number | Kind::Text => true,
            Kind::Operator => ["[", "{"].contains(&&self.source[token.range.clone()]),
        });
        Ok(if has_argument { format!("{name}({})", self.postfix_without_filters()?.text) } else { name })
    }

    /// Takes an operator that is not written, and gives the line breaks before it.
    fn take_lines(&mut self, operator: &str) -> Result<Option<String>, Error> {
        Ok(self.take_if(operator)?.map(|text| text.trim_end_matches(|c| c != '\n').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::Writer;
    use crate::chat_template::Error;
    use crate::chat_template::tokens;

    fn written(source: &str) -> Result<String, Error> {
        let source = format!("{source}}}}}");
        let tag = tokens::read(&source, 0, "}}")?;
        let mut writer = Writer::new(&source, &tag.tokens, 0, tag.end);
        let text = writer.tuple()?;
        Ok(text + &writer.finish()?)
    }

    #[test]
    fn operators_become_filters_by_their_precedence() {
        for (source, expected) in [
            ("a + b * c", "a|__add(b|__multiply(c))"),
            ("a * b + c ~ d", "a|__multiply(b)|__add(c|__join(d))"),
            ("a - b + c", "(a - b)|__add(c)"),
            ("-a + -b[0]", "(- a)|__add(- b|__item(0))"),
            ("a / b * c % d", "(a / b)|__multiply(c) % d"),
            ("2 ** a * b", "(2 ** a)|__multiply(b)"),
            ("not a == b and c", "(not a|__compare('==', b)) and c"),
            ("a < b <= c not in d", "a|__compare('<', b, '<=', c, 'not in', d)"),
            ("a or b and not not c", "a or (b and (not not c))"),
            ("a if b else c if d", "a if b else (c if d)"),
            ("a + b if c == d else e", "a|__add(b) if c|__compare('==', d) else e"),
            ("-a|f + b|g(c + 1, k=d ~ e)", "(- a)|f|__own|__add(b|g(c|__add(1),k=d|__join(e))|__own)"),
            ("a is defined and b is not in(c) or d is eq e", "((a is defined) and (b is not in(c))) or (d is eq(e))"),
            ("a.b[c].d(e)[1:]['x']", "(a.b|__item(c)).d(e)|__own|__slice(1, none)|__item('x')"),
            ("a[::-1][b:c:d]", "a|__slice(none, none, - 1)|__slice(b, c, d)"),
            ("[a, (b), (), (c,), {'d': e + f,}]", "[a,(b),()|__own,(c,)|__own,{'d':e|__add(f), }|__own]|__own"),
            ("a, b", "(a,b)|__own"),
            ("(a if b else c) + d", "(a if b else c)|__add(d)"),
            ("'a' \"b\" ~ c.0.1", "'a' \"b\"|__join(c|__item(0)|__item(1))"),
            ("f(*a, **b)(c).d", "((f(*a,**b)|__own)(c)|__own).d"),
            ("a[0](b)", "(a|__item(0))(b)|__own"),
            (
                "loop.changed(a + b, c) or (loop.changed)(d)",
                "loop.changed(a|__add(b)|__weighed,c|__weighed)|__own or (loop.changed)(d|__weighed)|__own",
            ),
            ("a|f is g", "(a|f|__own is g)"),
            ("+a", "a"),
        ] {
            assert_eq!(written(source).unwrap(), expected, "{source}");
        }
    }

    #[test]
    fn lines_stay_where_they_are() {
        for source in [
            "a\n+\nb",
            "f(\na,\n\nb)\n",
            "a[\n1\n]",
            "'x\ny' ~\nz\n",
            "a\nif b\nelse\nc",
            "a\n==\nb",
            "-\na",
            "[\n]",
            "a\n[b\n:c]",
        ] {
            let text = written(source).unwrap();
            assert_eq!(text.matches('\n').count(), source.matches('\n').count(), "{source:?} {text:?}");
        }
    }

    #[test]
    fn what_is_no_expression_is_named() {
        for source in [
            "",
            "a b",
            "a *",
            "(a",
            "a[",
            "a[]",
            "a.",
            "a|",
            "a|1",
            "a is",
            "{a}",
            "f(a b)",
            "if",
            "a[1:2:3:4]",
            "not",
            "a = b",
            "f(1=2)",
        ] {
            assert!(matches!(written(source), Err(Error::Syntax { .. })), "{source}");
        }
    }
}
