//! Archives: tables whose values are kept as sparse codes, with a promise on the error of every value.
//!
//! An archive is a folder, or a prefix of an object store, with `archive.json` (what belongs to it),
//! `dictionary.parquet`, and data files that any Parquet reader can open: other columns are as they
//! were. docs/format.md describes all of it.

mod block;
mod bytes;
mod codebook;
mod compare;
mod compress;
mod data_file;
mod dictionary_file;
mod entropy;
mod error;
mod footer;
mod given;
mod layout;
mod learn;
mod manifest;
mod number;
mod opened;
mod quantiser;
mod source;
mod work;

pub use codebook::Codebook;
pub use compress::{Input, Job, JobObserver, JobProgress, JobReport, LayoutRequest, compress};
#[cfg(feature = "sql")]
pub(crate) use data_file::DataFile;
pub use error::ArchiveError;
pub use given::read_dictionary;
pub use layout::Layout;
pub use learn::LearnSettings;
pub use manifest::{ErrorSummary, FileEntry, HistoryEntry};
pub use opened::{Archive, Verification};
pub use quantiser::Bound;

/// The version of the format that is written, and the latest that is read.
pub const FORMAT_VERSION: u32 = 1;

/// Shorthand for what every fallible function of this layer returns.
pub type Result<T> = std::result::Result<T, ArchiveError>;
