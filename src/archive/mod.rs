//! Archives: tables whose values are kept as sparse codes, with a promise on the error of every value.
//!
//! An archive is a folder, or a prefix of an object store, with `archive.json` (what belongs to it),
//! `dictionary.parquet`, and data files that any Parquet reader can open: other columns are as they
//! were. docs/format.md describes all of it.

mod append;
mod as_parquet;
mod block;
mod bytes;
mod candidates;
mod cells;
mod choose;
mod chunks;
mod codebook;
mod compare;
mod compress;
mod copied;
mod data_file;
mod data_file_writer;
mod declared;
mod detect;
mod dictionary_file;
mod drift;
mod durable;
mod entropy;
mod error;
mod error_sums;
mod estimate;
mod example;
mod finish;
mod footer;
mod given;
mod hashes;
mod int96;
mod intervals;
mod job;
mod kept_rows;
mod known_codes;
mod layout;
mod layout_request;
mod learn;
mod left;
mod list_column;
mod list_levels;
mod listed;
mod lock;
mod manifest;
#[cfg(feature = "sql")]
mod memory;
mod number;
mod opened;
mod originals;
mod other_columns;
mod output;
mod own_rows;
mod parquet_footer;
mod parquet_types;
mod placed;
mod placement;
mod pool;
mod portrait;
mod predictor;
mod prepare;
mod quantiser;
#[cfg(feature = "cli")]
mod replaced;
mod residuals;
mod restore;
mod rounding;
mod sampled;
mod site;
mod source;
mod space;
mod sparse_codes;
mod staging;
#[cfg(feature = "cli")]
mod strangers;
mod thrift;
mod trial;
mod verdict;
mod windows;
mod within;
mod work;

pub use choose::{Target, Tried};
pub use codebook::Codebook;
pub use compress::compress;
#[cfg(feature = "cli")]
pub(crate) use compress::compress_aside;
#[cfg(feature = "sql")]
pub(crate) use data_file::DataFile;
#[cfg(feature = "cli")]
pub(crate) use dictionary_file::is_file_name as is_dictionary_name;
pub use drift::{Drift, Promise};
#[cfg(feature = "cli")]
pub(crate) use durable::{sync_name, sync_open, sync_tree};
pub use error::ArchiveError;
pub use estimate::{Aim, Estimate, EstimateRequest, OtherLayout, Prediction, Sorted, estimate};
pub use example::Example;
pub use given::read_dictionary;
pub use job::{Input, Job, JobObserver, JobProgress, JobReport};
#[cfg(feature = "sql")]
pub(crate) use kept_rows::KeptRows;
pub use layout::Layout;
pub use layout_request::LayoutRequest;
pub use learn::LearnSettings;
#[cfg(feature = "sql")]
pub(crate) use listed::listed;
#[cfg(feature = "cli")]
pub(crate) use lock::is_still_at;
pub use manifest::{ErrorSummary, FileEntry, HistoryEntry};
#[cfg(feature = "cli")]
pub(crate) use manifest::{JOB_FILE, MARK_FILE};
#[cfg(feature = "sql")]
pub(crate) use memory::{coding_bytes, learning_bytes};
pub use opened::{Archive, Verification};
#[cfg(feature = "cli")]
pub(crate) use parquet_types::parquet_types;
#[cfg(feature = "sql")]
pub(crate) use pool::caught;
#[cfg(feature = "cli")]
pub(crate) use pool::panic_text;
pub use portrait::Change;
pub use quantiser::Bound;
#[cfg(feature = "cli")]
pub(crate) use replaced::OldArchive;
#[cfg(feature = "cli")]
pub(crate) use site::is_tag;
#[cfg(feature = "cli")]
pub(crate) use strangers::first_stranger;

/// The version of the format that is written, and the latest that is read.
pub const FORMAT_VERSION: u32 = 1;

/// Shorthand for what every fallible function of this layer returns.
pub type Result<T> = std::result::Result<T, ArchiveError>;
