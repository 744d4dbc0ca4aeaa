//! The promises of the project, one module for each kind.

mod archive;
mod archive_command;
mod archive_files;
mod archive_inserts;
mod archive_leftovers;
mod archive_replaced;
mod archive_sql;
mod bad_input;
mod bench;
mod command;
mod commands;
mod damage;
mod determinism;
mod drift;
mod embedding;
mod engine;
mod estimates;
mod evaluate;
mod format;
mod kept_columns;
mod named_tables;
mod numerics;
#[cfg(feature = "cloud")]
mod object_stores;
mod odd_tables;
mod properties;
mod queries;
mod real_data;
mod rivals;
#[cfg(feature = "cloud")]
mod s3_server;
mod same_names;
mod search;
mod sql_logic;
mod support;
mod targets;
mod work;
mod writers;

#[global_allocator]
static ALLOCATOR: engine::Counting = engine::Counting;
