//! What every kernel needs: threads, the chosen instruction set, and working memory per thread.

use crate::error::Error;
use crate::isa::Isa;
use crate::isa::entry::EntryPoints;
use crate::pool::Pool;

/// Threads, instruction set and working memory. Kernels take it by `&mut`: one runs at a time.
#[derive(Debug)]
pub struct Context {
    pub(crate) pool: Pool,
    isa: Isa,
    pub(crate) scratch: Scratch,
    /// Row pointers, padded inputs and partial results of the running kernel; kept to be reused.
    pub(crate) buffers: Buffers,
}

/// Memory that a kernel call uses and leaves to the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) padded: Vec<f32>,
    pub(crate) x_rows: Vec<Row>,
    pub(crate) y_rows: Vec<RowMut>,
    pub(crate) counts: Vec<u32>,
    pub(crate) partials: Vec<f32>,
}

/// First element of a row that threads read. Those who make one vouch for it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Row(pub(crate) *const f32);
// SAFETY: rows are read only while the call that made them borrows the memory.
unsafe impl Send for Row {}
// SAFETY: as above.
unsafe impl Sync for Row {}

/// First element of a row of which each thread writes its own columns.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct RowMut(pub(crate) *mut f32);
// SAFETY: the call that made it borrows the memory, and hands out disjoint columns.
unsafe impl Send for RowMut {}
// SAFETY: as above.
unsafe impl Sync for RowMut {}

impl Context {
    /// `n_threads` threads (the caller's included) on the best instruction set there is.
    ///
    /// # Errors
    /// The system refuses threads.
    pub fn new(n_threads: usize) -> Result<Context, Error> {
        Context::with_isa(n_threads, Isa::best())
    }

    /// The same on a given instruction set.
    ///
    /// # Errors
    /// The processor does not have it, or the system refuses threads.
    pub fn with_isa(n_threads: usize, isa: Isa) -> Result<Context, Error> {
        if !isa.is_available() {
            return Err(Error::NoIsa(isa));
        }
        let pool = Pool::new(n_threads).map_err(|source| Error::Threads { n_threads, source })?;
        let scratch = Scratch::new(pool.n_threads());
        Ok(Context { pool, isa, scratch, buffers: Buffers::default() })
    }

    /// Threads, the caller's included.
    #[must_use]
    pub fn n_threads(&self) -> usize {
        self.pool.n_threads()
    }

    /// The instruction set in use.
    #[must_use]
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// Calls `body(slot, item)` for each item on the pool, see [`Pool::run`].
    pub fn run(&mut self, n_items: usize, body: impl Fn(usize, usize) + Sync) {
        self.pool.run(n_items, body);
    }

    /// The kernels for this processor.
    pub(crate) fn kernels(&self) -> &'static EntryPoints {
        self.isa.entry_points().expect("the instruction set was found available when the context was made")
    }
}

/// f32 of working memory for each thread: the panel and sums of a product, or the keys, values,
/// scores and sums of a block of queries.
pub(crate) const SCRATCH_LEN: usize = 160 * 1024;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "memory that kernels address by pointer")] [f32; 16]);

/// Working memory per thread, aligned to cache lines.
#[derive(Debug)]
pub(crate) struct Scratch {
    lines: Box<[Line]>,
}

impl Scratch {
    fn new(n_threads: usize) -> Scratch {
        Scratch { lines: vec![Line([0.0; 16]); n_threads * SCRATCH_LEN / 16].into_boxed_slice() }
    }

    /// What threads take their part from.
    pub(crate) fn slots(&mut self) -> ScratchSlots {
        ScratchSlots { base: RowMut(self.lines.as_mut_ptr().cast()), n_slots: self.lines.len() * 16 / SCRATCH_LEN }
    }
}

/// Hands a thread its working memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchSlots {
    base: RowMut,
    n_slots: usize,
}

impl ScratchSlots {
    /// [`SCRATCH_LEN`] f32 at 64 bytes, the thread's own while it runs an item of a phase as
    /// `slot`; a thread asks once per item.
    pub(crate) fn get(&self, slot: usize) -> *mut f32 {
        assert!(slot < self.n_slots, "the pool numbers its threads");
        // SAFETY: the slots lie in one allocation.
        unsafe { self.base.0.add(slot * SCRATCH_LEN) }
    }
}
