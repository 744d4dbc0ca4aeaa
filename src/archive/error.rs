//! What can go wrong with an archive.

use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use thiserror::Error;

use crate::columnar::ColumnarError;
use crate::math::MathError;

/// An error of the archive layer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// Data that is not what was written.
    #[error("corrupt: {0}; it was changed or cut since it was written")]
    Corrupt(String),
    /// A file that is no Parquet.
    #[error("not a Parquet file: {0}")]
    NotParquet(String),
    /// A file of a later version.
    #[error("archive format version {found}, this program reads up to {known}; use a newer sparrow")]
    NewerVersion {
        /// The version found.
        found: u32,
        /// The latest version known.
        known: u32,
    },
    /// A folder without an archive.
    #[error("no archive at {0}: there is no archive.json; `sparrow compress` makes one")]
    NotAnArchive(String),
    /// An archive where a new one should go.
    #[error("{0} exists already; choose another place or pass --overwrite")]
    Exists(String),
    /// The beginnings of another archive where a new one should go.
    #[error("{0} holds the beginning of another archive; remove it first")]
    OtherJob(String),
    /// A name that a file of an archive has already.
    #[error("the archive has a file {0} already; `sparrow append --skip-existing` passes over what is there")]
    Taken(String),
    /// A name that a file of an archive has which was made from something else.
    #[error(
        "the archive has a file {0} already, made from another table; give this one another name, or make the archive anew"
    )]
    TakenByOther(String),
    /// An archive that is no longer the one that was opened.
    #[error("the archive was replaced since it was opened; nothing was added, run it again")]
    Replaced,
    /// A table that does not fit the layout asked for.
    #[error("{0}")]
    Layout(String),
    /// A list of another length than the others.
    #[error(
        "column {column}, row {row}: a list of {found} values where others have {expected}; an archive holds lists of one \
         length, so leave such rows out or make their lists NULL"
    )]
    Ragged {
        /// The column.
        column: String,
        /// The row in its file, from 0.
        row: u64,
        /// The length of others.
        expected: usize,
        /// The length found.
        found: usize,
    },
    /// A value that is not within the bound of the original.
    #[error(
        "signal {signal}, sensor {sensor}: the original has {value}, the archive {decoded}, which is more than was promised; \
         is it the file that was compressed?"
    )]
    Broken {
        /// The signal within its block.
        signal: usize,
        /// The sensor.
        sensor: usize,
        /// The value, as text.
        value: String,
        /// What decoding gives.
        decoded: String,
    },
    /// The work was ended from outside.
    #[error("cancelled")]
    Cancelled,
    /// What went wrong with one file.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// What went wrong.
        error: Box<ArchiveError>,
    },
    /// An error of the numerics.
    #[error(transparent)]
    Math(#[from] MathError),
    /// An error of the columnar layer.
    #[error(transparent)]
    Columnar(#[from] ColumnarError),
    /// An error of Arrow.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// An error of Parquet.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// An input that its store does not give.
    #[error("it cannot be read: {0}")]
    Unreadable(object_store::Error),
    /// An error of the object store that is written to.
    #[error(transparent)]
    Store(#[from] object_store::Error),
    /// An error of the file system.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A description that is not what it should be.
    #[error("corrupt: its description cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

impl ArchiveError {
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt(what.into())
    }

    /// Whether there is no sense in going on with other files.
    pub(crate) fn ends_a_job(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Math(MathError::Cancelled) | Self::Store(_))
    }

    pub(crate) fn layout(what: impl Into<String>) -> Self {
        Self::Layout(what.into())
    }

    /// Says which file it is about.
    pub(crate) fn at(self, path: impl Into<String>) -> Self {
        Self::File { path: path.into(), error: Box::new(self) }
    }
}
