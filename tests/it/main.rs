//! The promises of the project, one module for each kind.

mod bad_input;
mod command;
mod determinism;
mod embedding;
mod format;
mod numerics;
mod properties;
mod queries;
mod real_data;
mod sql_logic;
mod support;
mod work;
