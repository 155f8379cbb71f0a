//! A device that stopped working: what was in flight, and what to look at.
//!
//! The first failure is kept with the device; every later call on it fails at once with the same
//! error, so nothing waits for work that will not end.

use std::fmt;

use crate::tuning::{AMD, NVIDIA};

/// What a submission does, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A step of a plan.
    Step {
        /// Index of the plan.
        plan: u32,
        /// Tokens of its largest step.
        tokens: u32,
        /// Rows of logits of its largest step.
        outputs: u32,
    },
    /// Something outside of steps.
    Other(&'static str),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Step { plan, tokens, outputs } => {
                write!(f, "a step of plan {plan} (up to {tokens} tokens, {outputs} rows of logits)")
            }
            Work::Other(what) => f.write_str(what),
        }
    }
}

/// Why a device stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The driver reported `VK_ERROR_DEVICE_LOST`.
    Lost,
    /// The work did not end in this many seconds.
    Timeout(u64),
}

/// A device that stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Device name.
    pub device: String,
    /// PCI vendor.
    pub vendor_id: u32,
    /// Why.
    pub cause: Cause,
    /// The oldest work that had not ended, if any was known, and how many of its parts had: `(work, ended, parts)`.
    pub in_flight: Option<(Work, u32, u32)>,
    /// The driver's own description, if it has one.
    pub fault: Option<String>,
}

impl Lost {
    /// What to look at.
    pub(crate) fn remedy(&self) -> String {
        let log = match self.vendor_id {
            AMD => {
                "`sudo dmesg | grep -i amdgpu` (a line with `ring` and `timeout` is the watchdog ending a long step)"
            }
            NVIDIA => "`sudo dmesg | grep -i xid`",
            _ => "the kernel log (`sudo dmesg`)",
        };
        let smaller = match self.in_flight {
            Some((Work::Step { tokens, .. }, ..)) if tokens > 1 => {
                "; smaller steps are further from the watchdog's limit"
            }
            _ => "",
        };
        format!(
            "see {log}{smaller}; start again with `--trace-steps` to learn which op it was, and run `zinc selftest` on this \
             device"
        )
    }
}

impl std::error::Error for Lost {}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Lost => write!(f, "the driver of {} gave the device up (VK_ERROR_DEVICE_LOST)", self.device)?,
            Cause::Timeout(seconds) => write!(f, "{} did not end its work in {seconds} s", self.device)?,
        }
        if let Some(fault) = &self.fault {
            write!(f, ", saying `{fault}`,")?;
        }
        match self.in_flight {
            None => Ok(()),
            Some((work, _, 1)) => write!(f, " during {work}"),
            Some((work, ended, parts)) => write!(f, " during part {} of {parts} of {work}", (ended + 1).min(parts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_device_says_what_ran_and_where_to_look() {
        let step = Work::Step { plan: 3, tokens: 512, outputs: 1 };
        let lost =
            |vendor_id, cause, in_flight| Lost { device: "card".into(), vendor_id, cause, in_flight, fault: None };
        let cases = [
            (
                lost(AMD, Cause::Lost, Some((step, 2, 4))),
                "the driver of card gave the device up (VK_ERROR_DEVICE_LOST) during part 3 of 4 of a step of plan 3 \
                 (up to 512 tokens, 1 rows of logits)",
                "dmesg | grep -i amdgpu",
            ),
            (
                lost(NVIDIA, Cause::Timeout(600), Some((Work::Other("the upload of weights"), 0, 1))),
                "card did not end its work in 600 s during the upload of weights",
                "grep -i xid",
            ),
            (lost(0, Cause::Timeout(1), None), "card did not end its work in 1 s", "kernel log"),
        ];
        for (lost, sentence, remedy) in cases {
            assert_eq!(lost.to_string(), sentence);
            assert!(lost.remedy().contains(remedy), "{}", lost.remedy());
        }
        let with_words = Lost { fault: Some("page fault".into()), ..lost(AMD, Cause::Lost, Some((step, 0, 1))) };
        assert_eq!(
            with_words.to_string(),
            "the driver of card gave the device up (VK_ERROR_DEVICE_LOST), saying `page fault`, during a step of plan 3 \
             (up to 512 tokens, 1 rows of logits)"
        );
        assert!(lost(AMD, Cause::Lost, Some((step, 0, 1))).remedy().contains("smaller steps"));
    }
}
