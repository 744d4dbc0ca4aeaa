//! Aggregate functions, one file each.

mod error_metric;
mod given_dictionary;
mod state;
mod train;

pub(super) use error_metric::ErrorMetric;
pub(super) use given_dictionary::GivenDictionary;
pub(super) use train::Train;
