//! Rules that hyperparameters keep, checked in constants and at load.
//!
//! [`Rules`] collects checks and keeps the first [`Broken`] one, which says the key, the value and the rule; the bounds
//! themselves stand where the numbers are declared.

use std::fmt;

use crate::keys::TOKENS_KEY;

/// A hyperparameter that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Broken {
    /// The key, without the architecture's name before it.
    pub key: &'static str,
    /// The value found.
    pub got: Number,
    /// The rule.
    pub rule: Rule,
}

/// A value of a hyperparameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count.
    Count(u32),
    /// A real number.
    Real(f32),
}

/// What a hyperparameter must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Inside bounds, both included.
    Between {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// A divisor of another number.
    Divides {
        /// What the other number is.
        what: &'static str,
        /// The other number.
        of: u32,
    },
    /// A multiple of two.
    Even,
    /// Finite and above zero.
    AboveZero,
    /// Below one.
    BelowOne,
    /// As the sentence says.
    Other(&'static str),
}

impl Broken {
    /// The key as it stands in a file of `architecture`.
    #[must_use]
    pub fn key_in_file(&self, architecture: &str) -> String {
        if self.key == TOKENS_KEY { self.key.to_owned() } else { format!("{architecture}.{}", self.key) }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.got {
            Number::Count(n) => write!(f, "{n}"),
            Number::Real(x) => write!(f, "{x}"),
        }?;
        match self.rule {
            Rule::Between { min, max } => write!(f, " is not from {min} to {max}"),
            Rule::Divides { what, of } => write!(f, " does not divide {what}, {of}"),
            Rule::Even => write!(f, " is not even"),
            Rule::AboveZero => write!(f, " is not a finite number above 0"),
            Rule::BelowOne => write!(f, " is not below 1"),
            Rule::Other(rule) => write!(f, " {rule}"),
        }
    }
}

/// Checks numbers and keeps the first broken rule.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    broken: Option<Broken>,
}

impl Rules {
    /// Nothing broken yet.
    #[expect(clippy::new_without_default, reason = "an empty set of rules is where checking starts, not a value")]
    #[must_use]
    pub const fn new() -> Rules {
        Rules { broken: None }
    }

    /// `min <= got <= max`.
    pub const fn between(&mut self, key: &'static str, got: u32, min: u32, max: u32) {
        self.keep(min <= got && got <= max, key, Number::Count(got), Rule::Between { min, max });
    }

    /// `got` divides `of`, which is `what`.
    pub const fn divides(&mut self, key: &'static str, got: u32, what: &'static str, of: u32) {
        let holds = got != 0 && of.is_multiple_of(got);
        self.keep(holds, key, Number::Count(got), Rule::Divides { what, of });
    }

    /// `got` is even.
    pub const fn divides_two(&mut self, key: &'static str, got: u32) {
        self.keep(got.is_multiple_of(2), key, Number::Count(got), Rule::Even);
    }

    /// `got` is finite and above zero.
    pub const fn above_zero(&mut self, key: &'static str, got: f32) {
        self.keep(got.is_finite() && got > 0.0, key, Number::Real(got), Rule::AboveZero);
    }

    /// `got` is below one.
    pub const fn below_one(&mut self, key: &'static str, got: f32) {
        self.keep(got < 1.0, key, Number::Real(got), Rule::BelowOne);
    }

    /// Any other rule; `rule` follows the value in the message, as in "is not …".
    pub const fn holds(&mut self, holds: bool, key: &'static str, got: u32, rule: &'static str) {
        self.keep(holds, key, Number::Count(got), Rule::Other(rule));
    }

    /// The first broken rule.
    ///
    /// # Errors
    /// If there is one.
    pub const fn finish(self) -> Result<(), Broken> {
        match self.broken {
            Some(broken) => Err(broken),
            None => Ok(()),
        }
    }

    const fn keep(&mut self, holds: bool, key: &'static str, got: Number, rule: Rule) {
        if !holds && self.broken.is_none() {
            self.broken = Some(Broken { key, got, rule });
        }
    }
}
