//! The compute graph: the contract between models and backends.
//!
//! A model declares sections with the const [`Builder`]; a [`Blueprint`] unrolls them into a
//! [`Graph`]; [`fuse()`] and [`Plan`] prepare it for a device; a [`Backend`] runs it on a
//! [`Batch`]. Every op has a scalar definition and test cases here. This crate does no I/O, has no
//! threads and no `unsafe`, and names no backend and no architecture.

pub mod backend;
pub mod batch;
pub mod blueprint;
pub mod conformance;
pub mod footprint;
pub mod fuse;
pub mod graph;
pub mod ops;
pub mod plan;
pub mod reference;
pub mod report;
pub mod section;
pub mod shape;

pub use backend::Backend;
pub use batch::Batch;
pub use blueprint::Blueprint;
pub use footprint::Footprint;
pub use fuse::fuse;
pub use graph::Graph;
pub use plan::Plan;
pub use section::{Builder, Section};
