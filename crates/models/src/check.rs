//! Compile-time validation of published models.
//!
//! [`check`] runs in a constant: a model whose numbers do not fit together, or whose tensors do not add up to the
//! published number of parameters, stops the build with a sentence that names the model, the rule and the numbers.

use crate::declaration::{Declaration, Fault};
use crate::rules::{Number, Rule};

/// Stops the build unless `declared` is sound and has `n_parameters` of them.
///
/// # Panics
/// In a constant that is a compile error, which is the point.
#[track_caller]
pub const fn check(model: &str, declared: &Result<Declaration, Fault>, n_parameters: u64) {
    let message = match declared {
        Ok(declared) if declared.n_parameters() == n_parameters => return,
        Ok(declared) => Message::new(model)
            .text("the tensors have ")
            .number(declared.n_parameters())
            .text(" parameters, the published model has ")
            .number(n_parameters),
        Err(fault) => Message::new(model).fault(fault),
    };
    panic!("{}", message.as_str())
}

/// A sentence put together in a constant.
struct Message {
    bytes: [u8; Message::LEN_MAX],
    len: usize,
}

impl Message {
    /// Longer sentences are cut.
    const LEN_MAX: usize = 256;

    const fn new(model: &str) -> Message {
        Message { bytes: [0; Message::LEN_MAX], len: 0 }.text(model).text(": ")
    }

    const fn fault(self, fault: &Fault) -> Message {
        match fault {
            Fault::Hparam(broken) => {
                let named = self.text(broken.key).text(" ");
                let valued = match broken.got {
                    Number::Count(n) => named.number(n as u64),
                    Number::Real(_) => named.text("(a real number)"),
                };
                match broken.rule {
                    Rule::Between { min, max } => {
                        valued.text(" is not from ").number(min as u64).text(" to ").number(max as u64)
                    }
                    Rule::Divides { what, of } => {
                        valued.text(" does not divide ").text(what).text(", ").number(of as u64)
                    }
                    Rule::Even => valued.text(" is not even"),
                    Rule::AboveZero => valued.text(" is not a finite number above 0"),
                    Rule::BelowOne => valued.text(" is not below 1"),
                    Rule::Other(rule) => valued.text(" ").text(rule),
                }
            }
            Fault::Shape(error) => self
                .text(error.op)
                .text(": ")
                .text(error.rule)
                .text(" (expected ")
                .number(error.expected as u64)
                .text(", got ")
                .number(error.got as u64)
                .text(")"),
        }
    }

    const fn text(mut self, text: &str) -> Message {
        let (text, mut i) = (text.as_bytes(), 0);
        while i < text.len() && self.len < Message::LEN_MAX {
            // A byte that is not ASCII could be cut in half.
            self.bytes[self.len] = if text[i].is_ascii() { text[i] } else { b'?' };
            self.len += 1;
            i += 1;
        }
        self
    }

    const fn number(mut self, number: u64) -> Message {
        let mut power = 1;
        while number / power >= 10 {
            power *= 10;
        }
        while power > 0 && self.len < Message::LEN_MAX {
            self.bytes[self.len] = b'0' + (number / power % 10) as u8;
            self.len += 1;
            power /= 10;
        }
        self
    }

    const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => "the message is not ASCII",
        }
    }
}
