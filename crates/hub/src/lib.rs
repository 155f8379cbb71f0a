//! The model catalog, the folders where models lie, and the way they get there.
//!
//! [`catalog`] says what there is, [`model_id`] and [`model_file`] find what a user named, and [`pull`] brings a model
//! from its sources so that the file under its final name is always whole and checked, or absent. Above this crate, a
//! model is a path.
//!
//! The crate reads no environment and prints nothing: folders, token, mirror and proxy come from the caller as values,
//! progress goes to the caller as [`Event`]s, and an [`Error`] carries what a message needs. Hyperparameters stand in
//! the crate `models`, under the same ids; the content of a file is the crate `gguf`'s business.

#![deny(unsafe_code)]

mod bytes;
pub mod catalog;
mod download;
mod error;
mod folders;
mod http;
mod id;
mod keeping;
mod listing;
mod manifest;
mod package;
mod partial;
mod ranges;
mod reference;
mod resolve;
mod settings;
mod sha256;
mod sources;
mod summing;
mod transfer;
mod wanted;
mod watch;

pub use bytes::Bytes;
pub use error::{Attempt, Error};
pub use folders::{Folders, Platform};
pub use id::ModelId;
pub use keeping::{Hold, Removed};
pub use manifest::{Installed, Manifest, ManifestFile, Verification};
pub use reference::HubReference;
pub use resolve::{Resolved, model_file, model_id};
pub use settings::{HUB_URL, Limits, Settings, Token};
pub use sha256::Sha256Sum;
pub use sources::{installed_hub, pull, pull_hub};
pub use watch::{Event, Phase};
