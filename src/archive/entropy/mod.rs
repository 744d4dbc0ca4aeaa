//! Integers to few bytes: a model of what comes next, and a coder that spends bits accordingly.
//!
//! Integers only, so that a reader on any machine sees what the writer saw.

mod contexts;
mod known;
mod matrix;
mod rans;
mod symbols;

pub(super) use matrix::{decode, encode};
