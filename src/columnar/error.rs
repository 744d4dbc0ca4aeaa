//! What can go wrong between Arrow and the numerics.

use arrow::error::ArrowError;
use thiserror::Error;

use crate::math::MathError;

/// An error of the columnar layer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ColumnarError {
    /// A column that does not hold vectors.
    #[error("expected a list of integers or floats, found {0}")]
    NotVectors(String),
    /// A column that does not hold codes.
    #[error("expected codes as a list of struct<atom, weight>, found {0}")]
    NotCodes(String),
    /// A NULL inside a vector.
    #[error("row {row}, position {position}: NULL element")]
    NullElement {
        /// Position in the batch, from 0.
        row: usize,
        /// Position in the vector, from 0.
        position: usize,
    },
    /// A NULL inside a code.
    #[error("row {row}: entry {position} of the code has a NULL atom or weight")]
    NullCodeEntry {
        /// Position in the batch, from 0.
        row: usize,
        /// Position in the code, from 0.
        position: usize,
    },
    /// Bytes that are not a dictionary.
    #[error("not a dictionary: {0}; dictionaries are made by sparse_train or sparse_dictionary")]
    NotADictionary(String),
    /// A dictionary whose bytes changed since it was written.
    #[error("corrupt dictionary: {0}; it was changed or cut since it was written")]
    Corrupt(String),
    /// A dictionary of a later version.
    #[error(
        "the dictionary has format version {found}, this program reads up to {known}; use a newer sparrow"
    )]
    NewerVersion {
        /// The version found.
        found: u32,
        /// The latest version known.
        known: u32,
    },
    /// More data than an Arrow array of this type can hold.
    #[error("too many values for one batch: {0}; lower datafusion.execution.batch_size")]
    TooMany(usize),
    /// A dictionary with more atoms than compact codes can name.
    #[error("the dictionary has {atoms} atoms, and compact codes name at most {most}; leave `compact` out")]
    TooManyAtoms {
        /// How many there are.
        atoms: usize,
        /// How many there may be.
        most: usize,
    },
    /// A weight that compact codes cannot hold.
    #[error("the weight {0:e} does not fit into 32 bits; leave `compact` out, or scale the column")]
    WeightTooLarge(f64),
    /// An error of the numerics.
    #[error(transparent)]
    Math(#[from] MathError),
    /// An error of Arrow.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}
