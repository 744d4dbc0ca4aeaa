//! Aggregate functions, one file each.

mod error_metric;
mod given_dictionary;
mod plain_columns;
mod sampling;
mod state;
mod train;
mod update;
mod watcher;

pub(super) use error_metric::ErrorMetric;
pub(super) use given_dictionary::GivenDictionary;
pub(super) use train::Train;
pub(super) use update::Update;
