//! Weights on their way to the device: threads copy out of the file's map, the device copies at the same time.
//!
//! The arena is cut into blocks, each a stretch of one buffer. Where the host sees the arena, threads
//! copy blocks to where they belong. Elsewhere each block passes through one place of a staging ring:
//! a thread fills it, a copy to the device is submitted together with those of all blocks that are
//! filled by then, and the places are free again once the timeline has passed that submission.

#![allow(clippy::cast_possible_truncation, reason = "sizes of what is mapped into this address space")]

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::{iter, slice};

use ash::vk;
use zinc_graph::backend::WeightData;

use crate::arena::{Arena, Layout};
use crate::commands::Commands;
use crate::device::Gpu;
use crate::error::Error;
use crate::lost::Work;
use crate::memory::{Buffer, Place};
use crate::planes::Planes;

/// Bytes of a block at most: few, so that the blocks of all threads stay in the CPU's caches until the device reads
/// them. On the host of an H200, with 16 cores, 16 threads copy out of the page cache at 91 GB/s into blocks of 1 MiB
/// and at 53 GB/s into blocks of 8 MiB.
const BLOCK_BYTES: usize = 1 << 20;
/// Threads that fill at most. There, 8 reach 55 GB/s.
const THREADS_MAX: usize = 16;
/// Places of the ring for each thread: one to fill, the others filled or on their way, so that no thread waits while
/// copies are submitted.
const PLACES_PER_THREAD: usize = 4;
/// The part of the ring that one submission holds at most: a quarter, so that the threads have places while it runs.
const SUBMIT_PART: usize = 4;

const _: () = assert!(BLOCK_BYTES * THREADS_MAX * PLACES_PER_THREAD <= 64 << 20, "host memory beyond the file's map");

/// Weights, and how each is taken apart, if it is.
type Sources<'a> = (&'a [WeightData], &'a [Option<&'static Planes>]);

/// Called with the bytes that have arrived and the bytes there are.
pub type Progress = dyn FnMut(u64, u64) + Send;

/// Part of a tensor in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    tensor: usize,
    /// First byte in the tensor.
    from: usize,
    /// First byte in the block.
    at: usize,
    bytes: usize,
}

/// A stretch of one buffer of the arena.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    buffer: usize,
    offset: u64,
    bytes: usize,
    pieces: Vec<Piece>,
}

/// Cuts an arena into blocks of at most `block_bytes`, and what is taken apart between groups.
fn blocks(layout: &Layout, (weights, planes): Sources<'_>, block_bytes: usize) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (tensor, (spot, data)) in layout.spots.iter().zip(weights).enumerate() {
        let mut from = 0;
        let whole = planes[tensor].map_or(1, Planes::group_bytes);
        assert!(whole <= block_bytes, "a block has room for a group");
        while from < data.bytes.len() {
            let offset = spot.offset + from as u64;
            let fits = |b: &Block| b.buffer == spot.buffer && offset - b.offset + whole as u64 <= block_bytes as u64;
            if !blocks.last().is_some_and(fits) {
                blocks.push(Block { buffer: spot.buffer, offset, bytes: 0, pieces: Vec::new() });
            }
            let last = blocks.len() - 1;
            let block = &mut blocks[last];
            let at = (offset - block.offset) as usize;
            let bytes = (data.bytes.len() - from).min((block_bytes - at) / whole * whole);
            block.pieces.push(Piece { tensor, from, at, bytes });
            block.bytes = at + bytes;
            from += bytes;
        }
    }
    blocks
}

/// Copies all weights to their places in the arena.
///
/// # Errors
/// Out of memory, or a lost device.
pub(crate) fn upload(
    gpu: &Arc<Gpu>,
    commands: &mut Commands,
    (arena, layout): (&mut Arena, &Layout),
    weights: Sources<'_>,
    progress: &mut Progress,
) -> Result<(), Error> {
    carry(gpu, commands, arena, &blocks(layout, weights, BLOCK_BYTES), weights, progress)
}

fn carry(
    gpu: &Arc<Gpu>,
    commands: &mut Commands,
    arena: &mut Arena,
    blocks: &[Block],
    weights: Sources<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let n_threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(blocks.len());
    let mut counter = Counter { done: 0, total: blocks.iter().map(|b| b.bytes as u64).sum(), progress };
    let mapped: Option<Vec<NonNull<u8>>> = arena.buffers.iter().map(Buffer::mapped).collect();
    match mapped {
        Some(mapped) => {
            with_fillers(n_threads, blocks, weights, |jobs, filled| {
                write(blocks, &mapped, &jobs, &filled, &mut counter)
            });
            Ok(())
        }
        None => {
            let n_places = (n_threads * PLACES_PER_THREAD).min(blocks.len());
            let place_bytes = blocks.iter().map(|b| b.bytes).max().unwrap_or(0).next_multiple_of(256);
            let mut ring = Ring::new(gpu, n_places, place_bytes)?;
            let stage = |jobs, filled| ring.stage(commands, arena, blocks, (jobs, filled), &mut counter);
            let staged = with_fillers(n_threads, blocks, weights, stage);
            // No two copies touch the same bytes, so one barrier after all of them is enough.
            let staged = staged.and_then(|()| commands.run(|commands, b| commands.barrier(b)));
            // The ring is freed next: after an error copies may still read from it.
            staged.and(commands.wait_for_all())
        }
    }
}

struct Counter<'a> {
    done: u64,
    total: u64,
    progress: &'a mut (dyn FnMut(u64, u64) + 'a),
}

impl Counter<'_> {
    fn add(&mut self, bytes: usize) {
        self.done += bytes as u64;
        (self.progress)(self.done, self.total);
    }
}

/// A block to be copied to where the host sees its place.
struct Job {
    block: usize,
    place: usize,
    to: Target,
}

struct Target(NonNull<u8>);

// SAFETY: whoever makes a job sees to it that its target is written by that job alone until the job is reported done.
unsafe impl Send for Target {}

/// A job that is done: its block and its place.
type Filled = (usize, usize);

/// Runs `drive`, which sends jobs and hears of those that are done, beside threads that do them.
fn with_fillers<R>(
    n_threads: usize,
    blocks: &[Block],
    weights: Sources<'_>,
    drive: impl FnOnce(Sender<Job>, Receiver<Filled>) -> R,
) -> R {
    let (jobs, todo) = mpsc::channel::<Job>();
    let (done, filled) = mpsc::channel();
    let todo = Mutex::new(todo);
    let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
    thread::scope(|scope| {
        for _ in 0..n_threads {
            let done = done.clone();
            scope.spawn(move || {
                while let Some(job) = next() {
                    fill(&blocks[job.block], weights, &job.to);
                    if done.send((job.block, job.place)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        drive(jobs, filled)
    })
}

fn fill(block: &Block, (weights, planes): Sources<'_>, to: &Target) {
    for piece in &block.pieces {
        let from = &weights[piece.tensor].bytes[piece.from..piece.from + piece.bytes];
        // SAFETY: the target is mapped for the whole block, `blocks` keeps pieces inside it, no one else touches it.
        let to = unsafe { slice::from_raw_parts_mut(to.0.add(piece.at).as_ptr(), piece.bytes) };
        match planes[piece.tensor] {
            Some(planes) => planes.take_apart(from, to),
            None => to.copy_from_slice(from),
        }
    }
}

/// Copies every block straight to its place in mapped buffers.
fn write(
    blocks: &[Block],
    mapped: &[NonNull<u8>],
    jobs: &Sender<Job>,
    filled: &Receiver<Filled>,
    counter: &mut Counter<'_>,
) {
    for (index, block) in blocks.iter().enumerate() {
        // SAFETY: the block lies inside its buffer.
        let to = unsafe { mapped[block.buffer].add(block.offset as usize) };
        // A send fails only where every thread has panicked, which the scope passes on.
        let _ = jobs.send(Job { block: index, place: 0, to: Target(to) });
    }
    for _ in blocks {
        let Ok((block, _)) = filled.recv() else { return };
        counter.add(blocks[block].bytes);
    }
}

/// The staging ring.
struct Ring {
    buffer: Buffer,
    mapped: NonNull<u8>,
    place_bytes: usize,
    free: Vec<usize>,
    /// Submissions on their way, oldest first.
    on_their_way: VecDeque<Copies>,
}

/// One submission: the copies of a few blocks.
struct Copies {
    ticket: u64,
    commands: vk::CommandBuffer,
    filled: Vec<Filled>,
}

impl Ring {
    fn new(gpu: &Arc<Gpu>, n_places: usize, place_bytes: usize) -> Result<Ring, Error> {
        let buffer = Buffer::new(gpu, (n_places * place_bytes) as u64, Place::Staging)?;
        let missing =
            || Error::Missing { device: gpu.candidate.name.clone(), missing: "memory that the host can write" };
        let mapped = buffer.mapped().ok_or_else(missing)?;
        Ok(Ring { buffer, mapped, place_bytes, free: (0..n_places).collect(), on_their_way: VecDeque::new() })
    }

    fn stage(
        &mut self,
        commands: &mut Commands,
        arena: &Arena,
        blocks: &[Block],
        (jobs, filled): (Sender<Job>, Receiver<Filled>),
        counter: &mut Counter<'_>,
    ) -> Result<(), Error> {
        let blocks_max = self.free.len().div_ceil(SUBMIT_PART);
        let (mut n_sent, mut n_filled) = (0, 0);
        loop {
            while n_sent < blocks.len()
                && let Some(place) = self.free.pop()
            {
                // SAFETY: the place lies inside the ring. It is free: no thread writes it and no copy reads it.
                let to = unsafe { self.mapped.add(place * self.place_bytes) };
                let _ = jobs.send(Job { block: n_sent, place, to: Target(to) });
                n_sent += 1;
            }
            if n_filled < n_sent {
                let Ok(first) = filled.recv() else { return Ok(()) };
                let batch: Vec<Filled> = iter::once(first).chain(filled.try_iter()).take(blocks_max).collect();
                n_filled += batch.len();
                let copies = self.copy(commands, arena, blocks, batch)?;
                self.on_their_way.push_back(copies);
            } else if let Some(oldest) = self.on_their_way.front() {
                commands.wait(oldest.ticket)?;
            } else {
                return Ok(());
            }
            while let Some(oldest) = self.on_their_way.front()
                && commands.has_reached(oldest.ticket)?
                && let Some(ended) = self.on_their_way.pop_front()
            {
                commands.free(ended.commands);
                self.free.extend(ended.filled.iter().map(|&(_, place)| place));
                counter.add(ended.filled.iter().map(|&(block, _)| blocks[block].bytes).sum());
            }
        }
    }

    /// Submits the copies of filled places to the arena. There are no barriers: no two write the same bytes.
    fn copy(
        &self,
        commands: &mut Commands,
        arena: &Arena,
        blocks: &[Block],
        filled: Vec<Filled>,
    ) -> Result<Copies, Error> {
        let recorded = commands.record(|commands, b| {
            for &(block, place) in &filled {
                let block = &blocks[block];
                let from = (self.buffer.handle, (place * self.place_bytes) as u64);
                let to = (arena.buffers[block.buffer].handle, block.offset);
                commands.copy(b, from, to, block.bytes as u64);
            }
        })?;
        let ticket = commands.submit_parts(&[recorded], Work::Other("the upload of weights"))?;
        Ok(Copies { ticket, commands: recorded, filled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_gguf::{Bytes, DType};

    fn weights(sizes: &[usize]) -> Vec<WeightData> {
        let bytes = |(i, &n): (usize, &usize)| (0..n).map(|j| (i * 31 + j * 7) as u8).collect::<Vec<u8>>();
        sizes.iter().enumerate().map(bytes).map(|b| WeightData { dtype: DType::F32, bytes: Bytes::from(b) }).collect()
    }

    #[test]
    fn blocks_carry_every_byte_to_its_place_once() {
        for (sizes, allocation, block_bytes, n_blocks) in [
            (&[1000, 0, 24, 5000][..], 1 << 20, 1024, 7),
            (&[10, 10, 10], 256, 1024, 3),
            (&[300, 300], 1 << 20, 1 << 20, 1),
            (&[], 1 << 20, 1 << 20, 0),
        ] {
            let weights = weights(sizes);
            let lengths: Vec<u64> = sizes.iter().map(|&n| n as u64).collect();
            let layout = Layout::new(&lengths, allocation);
            let sources = (&weights[..], &vec![None; weights.len()][..]);
            let blocks = blocks(&layout, sources, block_bytes);
            assert_eq!(blocks.len(), n_blocks, "{sizes:?}");
            let mut buffers: Vec<Vec<u8>> = layout.buffers.iter().map(|&n| vec![0; n as usize]).collect();
            let mapped: Vec<_> = buffers.iter_mut().map(|b| NonNull::new(b.as_mut_ptr()).unwrap()).collect();
            let mut reports = Vec::new();
            let mut progress = |done, total| reports.push((done, total));
            let total = blocks.iter().map(|b| b.bytes as u64).sum();
            let mut counter = Counter { done: 0, total, progress: &mut progress };
            with_fillers(3, &blocks, sources, |jobs, filled| write(&blocks, &mapped, &jobs, &filled, &mut counter));
            assert!(blocks.iter().all(|b| b.bytes <= block_bytes));
            assert_eq!(reports.last().copied().unwrap_or((0, 0)), (total, total));
            for (spot, data) in layout.spots.iter().zip(&weights) {
                let at = spot.offset as usize;
                assert_eq!(buffers[spot.buffer][at..at + data.bytes.len()], data.bytes[..]);
            }
        }
    }

    /// Groups of 272 bytes in blocks of 1,024: three each, and what is left of the tensor behind it.
    #[test]
    fn what_is_taken_apart_is_cut_between_groups_alone() {
        let weights = weights(&[100, 10 * 272, 500]);
        let planes = [None, Planes::of(DType::Q8_0, [256, 10, 1]), None];
        let layout = Layout::new(&[100, 10 * 272, 500], 1 << 20);
        let blocks = blocks(&layout, (&weights, &planes), 1024);
        assert!(blocks.iter().all(|b| b.bytes <= 1024));
        let pieces = || blocks.iter().flat_map(|b| &b.pieces).filter(|piece| piece.tensor == 1);
        assert!(pieces().all(|piece| piece.from % 272 == 0 && piece.bytes % 272 == 0), "{blocks:?}");
        assert_eq!(pieces().map(|piece| piece.bytes).sum::<usize>(), 10 * 272);
        let mut arena = vec![0; layout.buffers[0] as usize];
        for block in &blocks {
            let to = NonNull::new(arena[block.offset as usize..][..block.bytes].as_mut_ptr()).unwrap();
            fill(block, (&weights, &planes), &Target(to));
        }
        let mut expected = vec![0; 10 * 272];
        planes[1].unwrap().take_apart(&weights[1].bytes, &mut expected);
        let of = |tensor: usize| &arena[layout.spots[tensor].offset as usize..][..weights[tensor].bytes.len()];
        assert_eq!((of(0), of(1), of(2)), (&weights[0].bytes[..], &expected[..], &weights[2].bytes[..]));
    }

    /// A device that the host cannot write, and an arena of two buffers on it; nothing without a device.
    fn device(weights: &[WeightData]) -> Option<(Arc<Gpu>, Commands, Layout, Arena)> {
        let Ok(mut gpu) = Gpu::open("vulkan:0") else {
            eprintln!("SKIP: no Vulkan device");
            return None;
        };
        gpu.traits.is_host_writable = false;
        let gpu = Arc::new(gpu);
        let commands = Commands::new(&gpu).unwrap();
        let layout = Layout::new(&weights.iter().map(|w| w.bytes.len() as u64).collect::<Vec<_>>(), 400_000);
        let arena = Arena::new(&gpu, &layout).unwrap();
        assert!(arena.buffers.len() == 2 && arena.buffers.iter().all(|b| b.mapped().is_none()));
        Some((gpu, commands, layout, arena))
    }

    fn check_arrived(
        gpu: &Arc<Gpu>,
        commands: &mut Commands,
        (arena, layout): (&Arena, &Layout),
        weights: &[WeightData],
    ) {
        for (spot, data) in layout.spots.iter().zip(weights) {
            let back = Buffer::new(gpu, data.bytes.len() as u64, Place::Readback).unwrap();
            let from = (arena.buffers[spot.buffer].handle, spot.offset);
            let n = data.bytes.len();
            if n > 0 {
                let copy = |commands: &Commands, b| {
                    commands.copy(b, from, (back.handle, 0), n as u64);
                    commands.host_barrier(b);
                };
                commands.run(copy).unwrap();
            }
            assert_eq!(back.bytes().unwrap()[..n], data.bytes[..]);
        }
    }

    /// Everything through the staging ring, which needs a device: more blocks than the ring has places.
    #[test]
    fn the_ring_brings_every_byte_to_a_device_that_the_host_cannot_write() {
        let weights = weights(&[300_001, 7, 0, 150_000, 64]);
        let Some((gpu, mut commands, layout, mut arena)) = device(&weights) else { return };
        let sources = (&weights[..], &vec![None; weights.len()][..]);
        let blocks = blocks(&layout, sources, 4096);
        assert!(blocks.len() > THREADS_MAX * PLACES_PER_THREAD);
        let mut reports = Vec::new();
        let mut note = |done, total| reports.push((done, total));
        carry(&gpu, &mut commands, &mut arena, &blocks, sources, &mut note).unwrap();
        let total = blocks.iter().map(|b| b.bytes as u64).sum();
        assert!(reports.is_sorted() && reports.last() == Some(&(total, total)), "{reports:?}");
        check_arrived(&gpu, &mut commands, (&arena, &layout), &weights);
    }

    /// Submissions of 1, 2, 3, ... blocks, some with blocks of both buffers, in places that are in no order.
    #[test]
    fn one_submission_copies_several_blocks() {
        let weights = weights(&[300_001, 7, 0, 150_000, 64]);
        let Some((gpu, mut commands, layout, arena)) = device(&weights) else { return };
        let sources = (&weights[..], &vec![None; weights.len()][..]);
        let blocks = blocks(&layout, sources, 36 << 10);
        let n_places = blocks.len();
        let ring = Ring::new(&gpu, n_places, 36 << 10).unwrap();
        let mut filled: Vec<Filled> = (0..n_places).map(|block| (block, block * 5 % n_places)).collect();
        assert_ne!(n_places % 5, 0, "each block has a place of its own");
        for &(block, place) in &filled {
            // SAFETY: the place lies inside the ring.
            let to = unsafe { ring.mapped.add(place * ring.place_bytes) };
            fill(&blocks[block], sources, &Target(to));
        }
        let mut has_both = false;
        for n in 1.. {
            let batch: Vec<Filled> = filled.drain(..filled.len().min(n)).collect();
            let Some(&(last, _)) = batch.last() else { break };
            has_both |= blocks[batch[0].0].buffer != blocks[last].buffer;
            let copies = ring.copy(&mut commands, &arena, &blocks, batch.clone()).unwrap();
            assert_eq!(copies.filled, batch);
            commands.wait(copies.ticket).unwrap();
        }
        assert!(has_both);
        commands.run(|commands, b| commands.barrier(b)).unwrap();
        check_arrived(&gpu, &mut commands, (&arena, &layout), &weights);
    }
}
