//! Shapes of activations.
//!
//! Every activation is a matrix: one row per token (or per wanted output) and a constant number
//! of columns. How many rows there are changes from step to step, so rows are a symbol; heads,
//! experts and other inner axes are laid out inside the columns and named by the op that reads
//! them. Weights have their own shape, [`crate::section::WeightDecl`].

/// What a row of an activation stands for; the count is known only at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// One row per token of the batch.
    Tokens,
    /// One row per token whose logits are wanted.
    Outputs,
}

/// Element type of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// 32-bit float.
    F32,
    /// 32-bit unsigned integer (expert ids, token ids).
    U32,
}

/// Shape of an activation: `[rows, cols]`, rows outermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The symbol of the outer axis.
    pub rows: Rows,
    /// Elements in a row.
    pub cols: u32,
    /// Element type, four bytes in every case.
    pub elem: Elem,
}

impl Shape {
    /// `[Tokens, cols]` of f32.
    #[must_use]
    pub const fn tokens(cols: u32) -> Shape {
        Shape { rows: Rows::Tokens, cols, elem: Elem::F32 }
    }

    /// `[Outputs, cols]` of f32.
    #[must_use]
    pub const fn outputs(cols: u32) -> Shape {
        Shape { rows: Rows::Outputs, cols, elem: Elem::F32 }
    }

    /// The same rows with another number of columns.
    #[must_use]
    pub const fn with_cols(self, cols: u32) -> Shape {
        Shape { rows: self.rows, cols, elem: self.elem }
    }

    /// Bytes of one row.
    #[must_use]
    pub const fn row_bytes(self) -> usize {
        self.cols as usize * 4
    }

    /// Equality usable in constants.
    #[must_use]
    pub const fn same(self, other: Shape) -> bool {
        self.rows as u8 == other.rows as u8 && self.cols == other.cols && self.elem as u8 == other.elem as u8
    }
}

/// A broken shape rule: found while a section is built, at compile time for the catalog and at
/// load for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {rule} (expected {expected}, got {got})")]
pub struct ShapeError {
    /// The op whose rule is broken.
    pub op: &'static str,
    /// The rule, as a sentence.
    pub rule: &'static str,
    /// The count that the rule asks for.
    pub expected: u32,
    /// The count found.
    pub got: u32,
}
