//! What columns of codes and of vectors take where they are stored: a target is met in as few bytes as these.

use std::fmt::Debug;

use crate::math::{Codes, Result, Signals};

/// Where columns are stored.
pub trait Storage: Debug + Send + Sync {
    /// Bytes that a column of these codes takes.
    fn codes(&self, codes: Codes) -> Result<f64>;

    /// Bytes that a column of these vectors takes.
    fn vectors(&self, signals: &Signals<'_>) -> Result<f64>;
}

/// Columns that are stored as they are in memory.
#[derive(Debug, Clone, Copy)]
pub struct Uncompressed;

impl Storage for Uncompressed {
    fn codes(&self, codes: Codes) -> Result<f64> {
        Ok((codes.nonzeros() * (size_of::<u32>() + size_of::<f64>())) as f64)
    }

    fn vectors(&self, signals: &Signals<'_>) -> Result<f64> {
        Ok((signals.len() * signals.dim() * size_of::<f64>()) as f64)
    }
}
