//! One file per command, and what several of them share.

use std::path::Path;

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod devices;
pub(crate) mod generate;
pub(crate) mod graph;
pub(crate) mod inspect;
pub(crate) mod logits;
pub(crate) mod model;
pub(crate) mod perplexity;
pub(crate) mod selftest;
pub(crate) mod serve;
pub(crate) mod tokenize;

use crate::failure::{Failure, Kind};

/// A file that could not be opened as a GGUF: not there, or not usable.
pub(crate) fn open_error(path: &Path, error: &zinc_gguf::Error) -> Failure {
    let kind = if path.exists() { Kind::ModelUnusable } else { Kind::ModelNotFound };
    let failure = Failure::new(kind, error);
    match kind {
        Kind::ModelNotFound => failure.remedy("check the path, or use --model-id with an id of `zinc model list`"),
        _ => failure,
    }
}
