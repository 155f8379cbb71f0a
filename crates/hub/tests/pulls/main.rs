//! Models found and pulled, against servers and a pip that the tests make up; nothing leaves the machine.

#![allow(clippy::unwrap_used, reason = "the whole program is a test")]

mod cache;
mod disk;
mod download;
mod hub;
mod keeping;
mod pieces;
mod python;
mod resolve;
mod server;
mod sources;
