//! Integers to few bytes: a model of what comes next, and a coder that spends bits accordingly.
//!
//! Integers only, so that a reader on any machine sees what the writer saw.

mod contexts;
mod integer;
mod integers;
mod known;
mod lanes;
mod matrix;
mod noted;
mod plan;
mod quiet;
mod rans;
mod symbols;
mod walk;
mod whole;

pub(super) use integer::Integer;
pub(super) use integers::Integers;
pub(super) use matrix::{decode, encode};
