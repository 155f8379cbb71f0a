//! `y[t][g][i] = x[t][g][offset + i]`
//!
//! Axes: `t` rows, `g` groups of `width_in` columns (one for a plain cut, a head for values that
//! lie side by side inside each head), `i < width`. The offset may also grow with the layer, so
//! that one section serves every layer of a table that is looked up once for all of them.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId};
use crate::shape::{Shape, ShapeError};

/// Cuts the same columns out of every group of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Columns of a group of the input.
    pub width_in: u32,
    /// Columns kept of each group.
    pub width: u32,
    /// First column kept.
    pub offset: u32,
    /// Added to `offset` once per layer; 0 after the layers are unrolled.
    pub offset_per_layer: u32,
}

impl Builder {
    /// Columns `offset..offset + width` of the row.
    pub const fn slice(&mut self, x: ValueId, offset: u32, width: u32) -> ValueId {
        let width_in = self.shape(x).cols;
        self.slice_groups(x, width_in, offset, width)
    }

    /// Columns `offset..offset + width` of every group of `width_in` columns, side by side.
    pub const fn slice_groups(&mut self, x: ValueId, width_in: u32, offset: u32, width: u32) -> ValueId {
        self.slice_rule(x, Slice { width_in, width, offset, offset_per_layer: 0 })
    }

    /// Columns `layer * width..(layer + 1) * width` of the row, `layer` being the section's layer.
    pub const fn slice_of_layer(&mut self, x: ValueId, width: u32) -> ValueId {
        let width_in = self.shape(x).cols;
        self.slice_rule(x, Slice { width_in, width, offset: 0, offset_per_layer: width })
    }

    const fn slice_rule(&mut self, x: ValueId, op: Slice) -> ValueId {
        let shape = self.shape(x);
        if op.width_in == 0 || !shape.cols.is_multiple_of(op.width_in) {
            self.fail("slice", "the group must divide the row", op.width_in, shape.cols);
            return x;
        }
        if op.width == 0 || op.offset.saturating_add(op.width) > op.width_in {
            self.fail(
                "slice",
                "the columns must lie inside the group",
                op.width_in,
                op.offset.saturating_add(op.width),
            );
        }
        let cols = shape.cols / op.width_in * op.width;
        self.node(Op::Slice(op), Operands::values(&[x]), &[shape.with_cols(cols)])
    }
}

impl Slice {
    /// The slice with the offset of its layer.
    ///
    /// # Errors
    /// The layer's columns are not inside the row, or there is no layer.
    pub fn at_layer(self, layer: Option<usize>) -> Result<Slice, ShapeError> {
        if self.offset_per_layer == 0 {
            return Ok(self);
        }
        let rule = "the table must have columns for every layer";
        let error = |got| ShapeError { op: "slice", rule, expected: self.width_in, got };
        let layer = layer.and_then(|l| u32::try_from(l).ok()).ok_or(error(u32::MAX))?;
        let offset = self.offset_per_layer.saturating_mul(layer).saturating_add(self.offset);
        match offset.saturating_add(self.width) {
            end if end > self.width_in => Err(error(end)),
            _ => Ok(Slice { offset, offset_per_layer: 0, ..self }),
        }
    }

    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (width_in, width) = (self.width_in as usize, self.width as usize);
        let groups = io.inputs[0].chunks_exact(width_in);
        for (y, x) in io.outputs[0].chunks_exact_mut(width).zip(groups) {
            y.copy_from_slice(&x[self.offset as usize..][..width]);
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let kinds = [
        ("front", 1, 320, 0, 64),
        ("back", 1, 321, 64, 257),
        ("query_of_head", 4, 128, 0, 64),
        ("gate_of_head", 3, 512, 256, 256),
        ("one", 5, 7, 6, 1),
    ];
    let mut cases = Vec::new();
    for (name, groups, width_in, offset, width) in kinds {
        for n_tokens in [1, 6, 33] {
            cases.push(Case::new(format!("slice/{name}/{n_tokens}"), 0.0).tokens(n_tokens).build(|b| {
                let x = b.input(Shape::tokens(groups * width_in));
                let y = b.slice_groups(x, width_in, offset, width);
                b.output(y);
            }));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use crate::blueprint::{Blueprint, Layer};
    use crate::graph::{Graph, GraphError};
    use crate::ops::{Op, Slice};
    use crate::section::Builder;
    use crate::shape::Shape;

    fn unrolled(n_layers: usize) -> Result<Graph, GraphError> {
        let mut prologue = Builder::new("prologue");
        let table = prologue.model_matrix("table", 24, 10);
        let all = prologue.embed(table, 1.0);
        let x = prologue.slice(all, 3, 8);
        prologue.output(x);
        prologue.output(all);
        let mut block = Builder::new("block");
        let (x, all) = (block.input(Shape::tokens(8)), block.input(Shape::tokens(24)));
        let own = block.slice_of_layer(all, 8);
        let y = block.add(x, own);
        block.output(y);
        let mut epilogue = Builder::new("epilogue");
        let x = epilogue.input(Shape::tokens(8));
        epilogue.input(Shape::tokens(24));
        epilogue.output(x);
        Blueprint {
            prologue: prologue.finish()?,
            blocks: vec![block.finish()?],
            layers: (0..n_layers).map(|index| Layer { block: 0, kv_of: index }).collect(),
            epilogue: epilogue.finish()?,
        }
        .unroll()
    }

    #[test]
    fn each_layer_cuts_its_own_columns() {
        let graph = unrolled(3).unwrap();
        let offsets: Vec<(u32, u32)> = graph
            .nodes
            .iter()
            .filter_map(|node| match node.op {
                Op::Slice(Slice { offset, offset_per_layer, .. }) => Some((offset, offset_per_layer)),
                _ => None,
            })
            .collect();
        assert_eq!(offsets, [(3, 0), (0, 0), (8, 0), (16, 0)]);
    }

    #[test]
    fn a_layer_without_columns_is_refused() {
        let error = unrolled(4).unwrap_err();
        assert!(matches!(error, GraphError::Shape(e) if e.op == "slice" && e.expected == 24 && e.got == 32), "{error}");
    }

    #[test]
    fn columns_outside_the_group_are_refused() {
        for (width_in, offset, width) in [(8, 5, 4), (7, 0, 7), (0, 0, 1), (8, u32::MAX, 2)] {
            let mut b = Builder::new("section");
            let x = b.input(Shape::tokens(16));
            b.slice_groups(x, width_in, offset, width);
            assert_eq!(b.finish().unwrap_err().op, "slice");
        }
    }
}
