//! Fragments: which elements of a cooperative matrix a lane has.
//!
//! Vulkan leaves that to the driver and has no call that tells. A kernel that makes a matrix's elements in the lanes that hold
//! them (`shaders/gemm_direct.comp`) must know, so a small kernel writes it down when a device is opened, and what it wrote is
//! compared with one pattern: a lane has some neighbouring elements of a row of A, of one row or of several the same number of rows
//! apart, and the same elements of columns of B. Where the pattern does not fit, that kernel is not used.
//!
//! Seen: NVIDIA (580.159.04, 16 x 16 and 16 x 8): 4 elements of each of two rows 8 apart, 4 neighbouring lanes a row. Lavapipe (Mesa
//! 26.1, 8 x 8): one element of each of the 8 rows, all lanes a row. Not seen, but described by AMD for RDNA 4: 8 elements of a row, the other 8
//! in the lane 16 further on. RDNA 3 has each element in two lanes, which does not fit.

use std::sync::Arc;

use crate::commands::{Commands, Dispatch};
use crate::device::Gpu;
use crate::error::Error;
use crate::lost::Work;
use crate::memory::{Buffer, Place};
use crate::params::{self, Kernel, Params};
use crate::pipeline::{Pipelines, Variant};

/// Elements that the kernel writes of a lane, at most, as `shaders/matrix_places.comp` has it.
const ELEMENTS_MAX: usize = 16;
/// Elements of a row that a lane has, at most, as `shaders/gemm_direct.comp` takes them.
const COLUMNS_MAX: u32 = 8;

/// Where lanes have the elements of A, `side` x `side`, and of B, `side` x `tokens`.
///
/// Element `e` of a lane is in its row `e / columns`; its first row is `lane / row_step`, modulo the rows that its other rows are
/// apart. Lanes with the same `lane / share_step`, modulo `side / columns`, have the same columns of A and rows of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Rows and columns of A.
    pub side: u32,
    /// Columns of B.
    pub tokens: u32,
    /// Elements of a row that a lane has.
    pub columns: u32,
    /// Lanes from one row to the next.
    pub row_step: u32,
    /// Lanes between those that share a row.
    pub share_step: u32,
}

/// The fragments of matrices `side` x `side` and `side` x `tokens` on this device, if they fit the pattern. A driver that does not compile
/// the kernel has none.
///
/// # Errors
/// Out of device memory, or a lost device.
pub(crate) fn find(
    gpu: &Arc<Gpu>,
    pipelines: &mut Pipelines,
    [side, tokens]: [u32; 2],
) -> Result<Option<Fragment>, Error> {
    let width = gpu.traits.subgroup_size;
    let words = 2 + 2 * width as usize * ELEMENTS_MAX;
    let y = Buffer::new(gpu, 4 * words as u64, Place::Readback)?;
    let constants = vec![width, width, side, tokens];
    let Ok(pipeline) = pipelines.get(&Variant { kernel: Kernel::MatrixPlaces, constants, links: 0 }) else {
        return Ok(None);
    };
    let push = params::MatrixPlaces { y: y.address }.bytes();
    let dispatch = Dispatch { pipeline, push, groups: [1, 1, 1] };
    Commands::new(gpu)?.run_as(Work::Other("the look at where lanes have matrices"), |commands, b| {
        commands.dispatch(b, pipelines.layout, &dispatch);
        commands.host_barrier(b);
    })?;
    let Some(bytes) = y.bytes() else { return Ok(None) };
    let places: Vec<u32> = bytes
        .chunks_exact(4)
        .take(words)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    Ok(Fragment::of([side, tokens], width, &places))
}

impl Fragment {
    /// The pattern behind `places`, if there is one: as the kernel writes them, for subgroups of `width` lanes.
    fn of([side, tokens]: [u32; 2], width: u32, places: &[u32]) -> Option<Fragment> {
        let elements = [side * side / width, side * tokens / width];
        if places.get(..2)? != elements || elements[0] as usize > ELEMENTS_MAX || elements[1] as usize > ELEMENTS_MAX {
            return None;
        }
        // Several lanes to a row: the kernel counts on whole 128 columns of an item or two. And no more rows than there are.
        let is_possible =
            |&columns: &u32| columns <= elements[0].min(elements[1]) && columns < side && columns * width >= side;
        let columns = [1, 2, 4, COLUMNS_MAX].into_iter().filter(is_possible);
        let steps = |columns| [[side / columns, 1], [1, side]].map(|steps| (columns, steps));
        let all = columns.flat_map(steps).map(|(columns, [row_step, share_step])| Fragment {
            side,
            tokens,
            columns,
            row_step,
            share_step,
        });
        all.into_iter().find(|fragment| fragment.fits(width, elements, &places[2..]))
    }

    fn fits(&self, width: u32, elements: [u32; 2], places: &[u32]) -> bool {
        let (side, columns, shares) = (self.side, self.columns, self.side / self.columns);
        // Column of A, or row of B, of each element of a share; `side` where none was seen.
        let mut seen = vec![side; side as usize];
        let mut agrees = |matrix: u32, lane: u32, e: u32| {
            let place = places[((matrix * width + lane) as usize) * ELEMENTS_MAX + e as usize];
            let (n_rows, row, column) = match matrix {
                0 => (side, place / side, place % side),
                _ => (self.tokens, place % self.tokens, place / self.tokens),
            };
            let apart = n_rows * columns / elements[matrix as usize];
            let share = lane / self.share_step % shares;
            let column_seen = &mut seen[(share * columns + e % columns) as usize];
            if *column_seen == side {
                *column_seen = column;
            }
            row == lane / self.row_step % apart + e / columns * apart && column == *column_seen
        };
        let all_agree =
            (0..2).all(|matrix| (0..width).all(|lane| (0..elements[matrix as usize]).all(|e| agrees(matrix, lane, e))));
        seen.sort_unstable();
        all_agree && seen.into_iter().eq(0..side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel writes where `a` and `b` give row and column of an element of a lane.
    fn places(
        [side, tokens]: [u32; 2],
        width: u32,
        a: impl Fn(u32, u32) -> (u32, u32),
        b: impl Fn(u32, u32) -> (u32, u32),
    ) -> Vec<u32> {
        let elements = [side * side / width, side * tokens / width];
        let mut places = elements.to_vec();
        for lane in 0..width {
            places.extend((0..16).map(|e| if e < elements[0] { a(lane, e).0 * side + a(lane, e).1 } else { 0 }));
        }
        for lane in 0..width {
            places.extend((0..16).map(|e| if e < elements[1] { b(lane, e).0 * tokens + b(lane, e).1 } else { 0 }));
        }
        places
    }

    /// Column of element `e` of a lane of NVIDIA: 0, 1, 8, 9 for lane 0.
    fn nvidia_column(lane: u32, e: u32) -> u32 {
        2 * (lane % 4) + (e & 1) + 8 * ((e >> 1) & 1)
    }

    #[test]
    fn the_layouts_of_drivers_are_known() {
        // As the H200's driver wrote it: lane 5 has (1,2) (1,3) (1,10) (1,11) (9,2) ... of A, (2,1) (3,1) (10,1) (11,1) of B.
        let a = |lane: u32, e: u32| (lane / 4 + 8 * (e / 4), nvidia_column(lane, e));
        let b = |lane: u32, e: u32| (nvidia_column(lane, e), lane / 4 + 8 * (e / 4));
        for tokens in [8, 16] {
            let found = Fragment::of([16, tokens], 32, &places([16, tokens], 32, a, b));
            assert_eq!(found, Some(Fragment { side: 16, tokens, columns: 4, row_step: 4, share_step: 1 }));
        }
        // Lavapipe's: lane 3 has column 3 of A, (0,3) (1,3) ..., and row 3 of B.
        let found = Fragment::of([8, 8], 8, &places([8, 8], 8, |lane, e| (e, lane), |lane, e| (lane, e)));
        assert_eq!(found, Some(Fragment { side: 8, tokens: 8, columns: 1, row_step: 8, share_step: 1 }));
        // A row to a lane, eight columns each, the other eight 16 lanes on.
        let a = |lane: u32, e: u32| (lane % 16, 8 * (lane / 16) + e);
        let b = |lane: u32, e: u32| (8 * (lane / 16) + e, lane % 16);
        let found = Fragment::of([16, 16], 32, &places([16, 16], 32, a, b));
        assert_eq!(found, Some(Fragment { side: 16, tokens: 16, columns: 8, row_step: 1, share_step: 16 }));
    }

    #[test]
    fn no_width_and_no_side_are_too_small() {
        let b = |lane: u32, e: u32| (lane, e);
        for (side, width) in [(8, 4), (4, 2), (4, 16), (2, 32)] {
            let elements = side * side / width;
            let mut places = places([side, side], width, |lane, e| (e % side, lane), b);
            assert_eq!(places[0], elements);
            places.resize(2 + 2 * width as usize * ELEMENTS_MAX, 0);
            assert_eq!(Fragment::of([side, side], width, &places), None, "{side} {width}");
        }
    }

    #[test]
    fn the_kernels_have_the_same_limits() {
        let places = include_str!("../shaders/matrix_places.comp");
        assert!(places.contains(&format!("const uint ELEMENTS_MAX = {ELEMENTS_MAX};")));
        assert!(
            include_str!("../shaders/gemm_direct.comp").contains(&format!("COLUMNS = 4;  // at most {COLUMNS_MAX}"))
        );
    }

    #[test]
    fn what_does_not_fit_is_not_taken_for_what_does() {
        let a = |lane: u32, e: u32| (lane / 4 + 8 * (e / 4), nvidia_column(lane, e));
        let b = |lane: u32, e: u32| (nvidia_column(lane, e), lane / 4 + 8 * (e / 4));
        let right = places([16, 16], 32, a, b);
        assert!(Fragment::of([16, 16], 32, &right).is_some());
        // One element elsewhere, of A or of B.
        for wrong in [2 + 16 * 5 + 3, 2 + 16 * (32 + 31) + 7] {
            let mut places = right.clone();
            places[wrong] ^= 1;
            assert_eq!(Fragment::of([16, 16], 32, &places), None);
        }
        // B's rows in an order of their own.
        let turned = |lane: u32, e: u32| (15 - nvidia_column(lane, e), lane / 4 + 8 * (e / 4));
        assert_eq!(Fragment::of([16, 16], 32, &places([16, 16], 32, a, turned)), None);
        // Elements that several lanes have: more than there are places.
        let mut places = right;
        places[0] = 16;
        assert_eq!(Fragment::of([16, 16], 32, &places), None);
    }
}
