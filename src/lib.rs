//! Kernel sparse coding as a database operator.
//!
//! Sparrow trains dictionaries, encodes vector columns as sparse codes and decodes them back, in SQL
//! over Parquet with DataFusion. The layers, each a module and a Cargo feature, depend downwards only:
//!
//! | module | job |
//! |---|---|
//! | [`cli`] | the `sparrow` command |
//! | [`sql`] | DataFusion functions and aggregates |
//! | [`archive`] | sparse Parquet: compact, error-bounded tables |
//! | [`columnar`] | Arrow arrays to matrices and back, dictionaries as bytes |
//! | [`math`] | kernels, coders, learners, decoders and metrics |
#![warn(missing_docs)]

pub mod math;

#[cfg(feature = "columnar")]
pub mod columnar;

#[cfg(feature = "archive")]
pub mod archive;

#[cfg(feature = "sql")]
pub mod sql;

#[cfg(feature = "cli")]
pub mod cli;
