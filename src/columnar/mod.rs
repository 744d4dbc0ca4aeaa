//! Arrow arrays in and out: list columns to signals, codes to list columns, dictionaries to bytes.

mod codes;
#[cfg(feature = "archive")]
mod conform;
mod dictionary;
mod error;
mod lists;
mod vectors;

pub use codes::{
    CodeColumn, code_field, code_type, compact_code_type, is_code_type, to_code_array, to_compact_code_array,
};
#[cfg(feature = "archive")]
pub(crate) use conform::{conform, hold_the_same};
pub use dictionary::{FORMAT_VERSION, dictionary_from_bytes, dictionary_to_bytes};
pub use error::ColumnarError;
#[cfg(feature = "archive")]
pub(crate) use lists::Lists;
pub use vectors::{Row, VectorColumn, is_vector_type, to_vector_array, vector_type};

/// Shorthand for what every fallible function of this layer returns.
pub type Result<T> = std::result::Result<T, ColumnarError>;
