//! A thread pool for chains of short parallel phases: a decoded token is some hundred of them.
//!
//! [`Pool::run`] hands out items from one counter to the caller and to whichever workers come in
//! time; it returns when the items are done. A worker that the system has not scheduled yet is not
//! waited for: it finds the phase closed and goes on waiting for the next. So a busy machine slows
//! a phase down, and never stalls it. Idle workers spin for [`SPIN`], then sleep.
//!
//! Work that belongs to no phase is put aside for a worker that waits ([`Pool::aside`]). Whoever wakes a thread of another
//! kind should be a worker: where no core is idle the system likes to let it run on the core of the one that woke it, and a
//! worker's absence slows a phase down, while that of the caller stops it.
//!
//! It does not nest, queue, steal or bind threads to cores.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long a thread with nothing to do spins before it sleeps. Longer than the serial work
/// between two phases of a step, shorter than anything a person or a scheduler notices.
const SPIN: Duration = Duration::from_micros(60);

/// Most threads of a pool.
pub const THREADS_MAX: usize = 256;

/// `state` holds the number of the phase, whether it is open, and how many workers are in it.
const ACTIVE: u64 = (1 << 16) - 1;
const OPEN: u64 = 1 << 16;
const EPOCH: u64 = 1 << 17;
const _: () = assert!((THREADS_MAX as u64) < ACTIVE);

/// Threads that run the items of a phase together.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
}

struct Worker {
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

/// A phase's body: called with the slot of the thread and the item.
type Body = dyn Fn(usize, usize) + Sync;

struct Shared {
    state: AtomicU64,
    next_item: AtomicUsize,
    phase: UnsafeCell<Option<Phase>>,
    stop: AtomicBool,
    n_asleep: AtomicUsize,
    asleep: Box<[AtomicBool]>,
    caller_waits: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    has_aside: AtomicBool,
    aside: Mutex<Option<Aside>>,
}

/// Work that belongs to no phase.
type Aside = Box<dyn FnOnce() + Send>;

struct Phase {
    body: *const Body,
    n_items: usize,
    caller: Thread,
}

// SAFETY: `phase` is written by the caller only while the phase is closed and no worker is in it,
// and read by workers only after they have entered an open phase; `state` orders the two. The body
// it points at is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool of `n_threads` (1 to [`THREADS_MAX`]), the calling thread included.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(n_threads: usize) -> std::io::Result<Pool> {
        let n_workers = n_threads.clamp(1, THREADS_MAX) - 1;
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            next_item: AtomicUsize::new(0),
            phase: UnsafeCell::new(None),
            stop: AtomicBool::new(false),
            n_asleep: AtomicUsize::new(0),
            asleep: (0..n_workers).map(|_| AtomicBool::new(false)).collect(),
            caller_waits: AtomicBool::new(false),
            panic: Mutex::new(None),
            has_aside: AtomicBool::new(false),
            aside: Mutex::new(None),
        });
        let mut pool = Pool { shared, workers: Vec::with_capacity(n_workers) };
        for index in 0..n_workers {
            let shared = Arc::clone(&pool.shared);
            let handle =
                thread::Builder::new().name(format!("zinc-cpu-{}", index + 1)).spawn(move || work(&shared, index))?;
            pool.workers.push(Worker { thread: handle.thread().clone(), handle: Some(handle) });
        }
        Ok(pool)
    }

    /// Threads of the pool, the caller included.
    #[must_use]
    pub fn n_threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `body(slot, item)` once for each `item` in `0..n_items`. `slot` is below
    /// [`Pool::n_threads`] and is the caller's (0) or a worker's alone while the phase lasts.
    ///
    /// # Panics
    /// When a call of `body` panicked, with its payload; the other items may be left out. When work that was put aside has
    /// panicked on a worker, with that one's.
    pub fn run(&mut self, n_items: usize, body: impl Fn(usize, usize) + Sync) {
        if n_items <= 1 || self.workers.is_empty() {
            (0..n_items).for_each(|item| body(0, item));
            return;
        }
        self.open(n_items, &body);
        // Closes the phase and waits, also when the caller's own items panic.
        let closing = Closing { shared: &self.shared };
        take_items(&self.shared, n_items, 0, &body);
        drop(closing);
        let panic = self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// Lets a worker that waits for a phase do `work`, and does not wait for it. What no worker has begun since the last
    /// time is done first.
    pub fn aside(&mut self, work: Aside) {
        self.end_aside();
        if self.workers.is_empty() {
            return work();
        }
        let shared = &*self.shared;
        {
            let mut aside = shared.aside.lock().unwrap_or_else(PoisonError::into_inner);
            *aside = Some(work);
            shared.has_aside.store(true, Ordering::SeqCst);
        }
        // One that is awake looks before it sleeps.
        if shared.n_asleep.load(Ordering::SeqCst) == self.workers.len() {
            self.wake(1);
        }
    }

    /// Does what was put [aside](Pool::aside), unless a worker has begun it.
    pub fn end_aside(&mut self) {
        if let Some(work) = self.shared.take_aside() {
            work();
        }
    }

    /// Wakes workers that sleep, so many at most.
    fn wake(&self, n_max: usize) {
        let mut left = n_max;
        for (worker, asleep) in self.workers.iter().zip(&self.shared.asleep) {
            if left > 0 && asleep.swap(false, Ordering::SeqCst) {
                worker.thread.unpark();
                left -= 1;
            }
        }
    }

    fn open(&mut self, n_items: usize, body: &(dyn Fn(usize, usize) + Sync)) {
        let shared = &*self.shared;
        // SAFETY: the lifetime is erased only until `Closing` is dropped in `run`, which waits
        // for every worker that could hold the pointer.
        let body: *const Body =
            unsafe { std::mem::transmute::<*const (dyn Fn(usize, usize) + Sync + '_), *const Body>(body) };
        // SAFETY: `&mut self`, and the last phase was closed with no worker in it.
        unsafe { *shared.phase.get() = Some(Phase { body, n_items, caller: thread::current() }) };
        shared.next_item.store(0, Ordering::Relaxed);
        let epoch = shared.state.load(Ordering::Relaxed) & !(EPOCH - 1);
        shared.state.store(epoch.wrapping_add(EPOCH) | OPEN, Ordering::SeqCst);
        if shared.n_asleep.load(Ordering::SeqCst) > 0 {
            self.wake(self.workers.len());
        }
    }
}

impl Shared {
    fn take_aside(&self) -> Option<Aside> {
        // Spinning workers look here all the time, so they only read.
        if !self.has_aside.load(Ordering::Relaxed) {
            return None;
        }
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_aside.store(false, Ordering::SeqCst);
        aside.take()
    }

    /// A panic of a worker's, for the caller.
    fn keep(&self, panic: Box<dyn Any + Send>) {
        *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in &mut self.workers {
            worker.thread.unpark();
            if let Some(handle) = worker.handle.take() {
                // A worker catches what its items throw, so there is no payload to pass on.
                let _ = handle.join();
            }
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("n_threads", &self.n_threads()).finish()
    }
}

struct Closing<'a> {
    shared: &'a Shared,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let shared = self.shared;
        let mut state = shared.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spin = Spin::new();
        while state & ACTIVE != 0 {
            if spin.goes_on() {
                state = shared.state.load(Ordering::Acquire);
                continue;
            }
            shared.caller_waits.store(true, Ordering::SeqCst);
            state = shared.state.load(Ordering::SeqCst);
            if state & ACTIVE != 0 {
                thread::park();
                state = shared.state.load(Ordering::Acquire);
            }
        }
        shared.caller_waits.store(false, Ordering::Relaxed);
        if thread::panicking() {
            // The caller's own panic is the one that goes on.
            *shared.panic.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

fn take_items(shared: &Shared, n_items: usize, slot: usize, body: &(dyn Fn(usize, usize) + Sync)) {
    loop {
        let item = shared.next_item.fetch_add(1, Ordering::Relaxed);
        if item >= n_items {
            break;
        }
        body(slot, item);
    }
}

/// A worker's life: wait for an open phase, enter it, take items, leave.
fn work(shared: &Shared, index: usize) {
    let mut seen = 0;
    while let Some(state) = wait_for_phase(shared, index, seen) {
        let entered = shared.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed);
        if entered.is_err() {
            // Another worker came or left, or the phase closed: look again.
            continue;
        }
        seen = state & !(EPOCH - 1);
        // SAFETY: the phase was open and now counts this worker, so the caller neither changes it
        // nor lets its body go before the decrement below.
        let phase = unsafe { (*shared.phase.get()).as_ref() }.expect("an open phase has been written");
        let caller = phase.caller.clone();
        // SAFETY: as above.
        let body = unsafe { &*phase.body };
        let n_items = phase.n_items;
        let result = catch_unwind(AssertUnwindSafe(|| take_items(shared, n_items, index + 1, body)));
        if let Err(payload) = result {
            shared.next_item.store(n_items, Ordering::Relaxed);
            shared.keep(payload);
        }
        let left = shared.state.fetch_sub(1, Ordering::SeqCst);
        if left & ACTIVE == 1 && shared.caller_waits.load(Ordering::SeqCst) {
            caller.unpark();
        }
    }
}

/// The state of an open phase later than `seen`; `None` when the pool ends.
fn wait_for_phase(shared: &Shared, index: usize, seen: u64) -> Option<u64> {
    let is_new = |state: u64| state & OPEN != 0 && state & !(EPOCH - 1) != seen;
    let mut spin = Spin::new();
    loop {
        if shared.stop.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(work) = shared.take_aside() {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
                shared.keep(payload);
            }
            // A phase may have begun meanwhile, and the next one will soon.
            spin = Spin::new();
        }
        let state = shared.state.load(Ordering::Acquire);
        if is_new(state) {
            return Some(state);
        }
        if spin.goes_on() {
            continue;
        }
        shared.asleep[index].store(true, Ordering::SeqCst);
        shared.n_asleep.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let has_work = is_new(shared.state.load(Ordering::SeqCst)) || shared.has_aside.load(Ordering::SeqCst);
        if !has_work && !shared.stop.load(Ordering::SeqCst) {
            thread::park();
        }
        shared.n_asleep.fetch_sub(1, Ordering::SeqCst);
        shared.asleep[index].store(false, Ordering::SeqCst);
        spin = Spin::new();
    }
}

/// Busy waiting with an end.
struct Spin {
    n: u32,
    since: Option<Instant>,
}

impl Spin {
    const fn new() -> Spin {
        Spin { n: 0, since: None }
    }

    /// Waits a little; false once [`SPIN`] has passed.
    fn goes_on(&mut self) -> bool {
        std::hint::spin_loop();
        self.n += 1;
        if !self.n.is_multiple_of(64) {
            return true;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        since.elapsed() < SPIN
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn every_item_runs_once_in_thousands_of_phases() {
        for n_threads in [1, 2, 3, 8] {
            let mut pool = Pool::new(n_threads).unwrap();
            assert_eq!(pool.n_threads(), n_threads);
            for phase in 0..3000 {
                let n_items = phase % 23;
                let counts: Vec<AtomicUsize> = (0..n_items).map(|_| AtomicUsize::new(0)).collect();
                pool.run(n_items, |slot, item| {
                    assert!(slot < n_threads);
                    counts[item].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1), "threads {n_threads}, phase {phase}");
            }
        }
    }

    #[test]
    fn a_thread_that_is_held_up_holds_up_its_own_item_alone() {
        for n_threads in [2, 3, 7] {
            let mut pool = Pool::new(n_threads).unwrap();
            for held in [0, 3, 39] {
                let done = AtomicUsize::new(0);
                pool.run(40, |_, item| {
                    // With a fixed division nobody would take the items behind this one.
                    while item == held && done.load(Ordering::Relaxed) < 39 {
                        thread::yield_now();
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(done.into_inner(), 40);
            }
        }
    }

    #[test]
    fn slots_are_never_shared() {
        let mut pool = Pool::new(4).unwrap();
        let busy: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
        pool.run(5000, |slot, _| {
            assert_eq!(busy[slot].fetch_add(1, Ordering::SeqCst), 0);
            busy[slot].fetch_sub(1, Ordering::SeqCst);
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        for n_threads in [1, 2, 3] {
            let mut pool = Pool::new(n_threads).unwrap();
            for round in 0..50 {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    pool.run(40, |_, item| assert!(item != round % 40, "item {item} fails"));
                }));
                let payload = result.expect_err("the item's panic is passed on");
                let text = payload.downcast_ref::<String>().expect("a formatted message");
                assert_eq!(*text, format!("item {} fails", round % 40));
                let done = AtomicUsize::new(0);
                pool.run(10, |_, _| {
                    done.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(done.into_inner(), 10);
            }
        }
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < end, "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn work_aside_is_done_once_and_no_later_than_asked_for() {
        for n_threads in [1, 2, 3, 8] {
            let mut pool = Pool::new(n_threads).unwrap();
            let done: Arc<Vec<AtomicUsize>> = Arc::new((0..1000).map(|_| AtomicUsize::new(0)).collect());
            for round in 0..done.len() {
                let in_it = Arc::clone(&done);
                pool.aside(Box::new(move || {
                    in_it[round].fetch_add(1, Ordering::SeqCst);
                }));
                for n_items in 0..round % 7 {
                    pool.run(n_items, |_, _| {});
                }
                pool.end_aside();
            }
            wait_until("the last one is done", || done.iter().all(|n| n.load(Ordering::SeqCst) == 1));
        }
    }

    #[test]
    fn a_sleeping_worker_is_woken_for_work_aside() {
        let mut pool = Pool::new(3).unwrap();
        let (sender, names) = mpsc::channel();
        for _ in 0..20 {
            wait_until("all sleep", || pool.shared.n_asleep.load(Ordering::SeqCst) == 2);
            let sender = sender.clone();
            pool.aside(Box::new(move || sender.send(thread::current().name().map(str::to_owned)).unwrap()));
            let name = names.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
            assert!(name.starts_with("zinc-cpu-"), "{name}");
        }
    }

    #[test]
    fn the_caller_does_what_no_worker_comes_to() {
        let mut pool = Pool::new(2).unwrap();
        let ((begun, has_begun), (release, released)) = (mpsc::channel(), mpsc::channel());
        pool.aside(Box::new(move || {
            begun.send(()).unwrap();
            released.recv().unwrap();
        }));
        has_begun.recv().unwrap();
        let (sender, threads) = mpsc::channel();
        pool.aside(Box::new(move || sender.send(thread::current().id()).unwrap()));
        let done = AtomicUsize::new(0);
        pool.run(10, |slot, _| {
            assert_eq!(slot, 0, "the worker is held up");
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 10);
        assert!(threads.try_recv().is_err());
        pool.end_aside();
        assert_eq!(threads.try_recv(), Ok(thread::current().id()));
        release.send(()).unwrap();
    }

    #[test]
    fn a_panic_of_work_aside_reaches_the_next_phase_and_the_worker_lives_on() {
        let mut pool = Pool::new(2).unwrap();
        for _ in 0..20 {
            pool.aside(Box::new(|| panic!("aside")));
            wait_until("it was begun", || !pool.shared.has_aside.load(Ordering::SeqCst));
            wait_until("it has ended", || pool.shared.panic.lock().unwrap().is_some());
            let payload = catch_unwind(AssertUnwindSafe(|| pool.run(2, |_, _| {}))).expect_err("it is passed on");
            assert_eq!(payload.downcast_ref(), Some(&"aside"));
        }
        wait_until("it sleeps", || pool.shared.n_asleep.load(Ordering::SeqCst) == 1);
    }

    #[test]
    fn results_of_workers_are_visible_to_the_caller() {
        let mut pool = Pool::new(3).unwrap();
        for _ in 0..500 {
            let cells: Vec<AtomicUsize> = (0..64).map(|_| AtomicUsize::new(0)).collect();
            pool.run(64, |_, item| cells[item].store(item + 1, Ordering::Relaxed));
            for (item, cell) in cells.iter().enumerate() {
                assert_eq!(cell.load(Ordering::Relaxed), item + 1);
            }
        }
    }
}
