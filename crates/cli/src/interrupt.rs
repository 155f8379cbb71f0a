//! Ctrl-C: the first one asks the running command to end with what it has, the second one kills.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Set by the first Ctrl-C.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C from now on; once in a program.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        let interrupt = Interrupt::default();
        let flag = interrupt.0.clone();
        let listening = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
        listening.map_err(|e| Failure::failed(format!("cannot listen for Ctrl-C: {e}")))?;
        Ok(interrupt)
    }

    /// Whether Ctrl-C was pressed since the last [`Interrupt::clear`].
    pub(crate) fn pressed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets a Ctrl-C that was dealt with.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// The flag, for work that watches it from another thread.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}
