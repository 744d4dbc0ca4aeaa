//! What can go wrong in the numerics, with the value or place that caused it.

use thiserror::Error;

/// An error of the numerical layer.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum MathError {
    /// A parameter lies outside what the method allows.
    #[error("{name} must be {requirement}, not {value}")]
    Parameter {
        /// The parameter's name as users write it.
        name: &'static str,
        /// The value that was refused.
        value: String,
        /// What would have been accepted.
        requirement: &'static str,
    },
    /// A kernel, coder or learner that does not exist.
    #[error("unknown {what} '{name}'; known: {known}")]
    UnknownName {
        /// "kernel", "coder" or "learner".
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// A kernel that a learner is not made for.
    #[error(
        "the learner {learner} is for the {only} kernel, not for {kernel}; leave the kernel out or use another learner"
    )]
    LearnerKernel {
        /// The learner's name.
        learner: &'static str,
        /// The kernel it is made for.
        only: &'static str,
        /// The kernel that was asked for.
        kernel: String,
    },
    /// A vector whose length differs from the others or from the dictionary.
    #[error("row {row} has a vector of length {found}, expected {expected}")]
    Length {
        /// Position in the batch, from 0.
        row: usize,
        /// The length of the others, or the dictionary's dimension.
        expected: usize,
        /// The length found.
        found: usize,
    },
    /// A vector that does not fit the dictionary.
    #[error("row {row} has a vector of length {found}, but the dictionary has dimension {dimension}")]
    Dimension {
        /// Position in the batch, from 0.
        row: usize,
        /// The length found.
        found: usize,
        /// The dictionary's dimension.
        dimension: usize,
    },
    /// NaN or an infinity inside a vector.
    #[error("row {row}, position {position}: {value} is not a finite number")]
    NotFinite {
        /// Position in the batch, from 0.
        row: usize,
        /// Position in the vector, from 0.
        position: usize,
        /// The value found.
        value: f64,
    },
    /// Finite values whose squares do not fit into a double.
    #[error("row {row}: values up to {largest:e} are too large to be squared; scale the column")]
    TooLarge {
        /// Position in the batch, from 0.
        row: usize,
        /// The largest magnitude in the vector.
        largest: f64,
    },
    /// A code names an atom that the dictionary does not have.
    #[error("row {row}: code names atom {atom}, but the dictionary has {atoms} atoms")]
    AtomOutOfRange {
        /// Position in the batch, from 0.
        row: usize,
        /// The atom named.
        atom: u64,
        /// How many atoms there are.
        atoms: usize,
    },
    /// A code holds a weight that is NaN or infinite.
    #[error("row {row}: the weight of atom {atom} is {weight}, not a finite number")]
    WeightNotFinite {
        /// Position in the batch, from 0.
        row: usize,
        /// The atom whose weight it is.
        atom: u64,
        /// The weight.
        weight: f64,
    },
    /// There is nothing to learn from.
    #[error("there are no usable vectors to learn from")]
    Empty,
    /// A vector without elements.
    #[error("row {row} has an empty vector")]
    EmptyVector {
        /// Position in the batch, from 0.
        row: usize,
    },
    /// Values whose similarities do not fit into a double.
    #[error("similarities under the {kernel} kernel overflow; scale the column or choose the rbf kernel")]
    Overflow {
        /// The kernel's name.
        kernel: &'static str,
    },
    /// A code whose fit does not fit into a double.
    #[error("row {row}: the weights of the code are too large to be judged")]
    CodeOverflow {
        /// Position in the batch, from 0.
        row: usize,
    },
    /// Columns whose bytes could not be counted.
    #[error("cannot tell what columns take where they are stored: {0}")]
    Unstored(String),
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl MathError {
    /// Whether values were too large to be compared, be it by any kernel or by the one that was chosen.
    pub fn is_incomparable(&self) -> bool {
        matches!(self, Self::Overflow { .. } | Self::TooLarge { .. } | Self::NotFinite { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever goes on without codes where values cannot be compared must not do so for any other reason.
    #[test]
    fn only_values_out_of_range_are_incomparable() {
        let out_of_range = [
            MathError::Overflow { kernel: "polynomial" },
            MathError::TooLarge { row: 0, largest: 1e200 },
            MathError::NotFinite { row: 0, position: 0, value: f64::INFINITY },
        ];
        assert!(out_of_range.iter().all(MathError::is_incomparable));
        let others = [
            MathError::Cancelled,
            MathError::Empty,
            MathError::Dimension { row: 0, found: 1, dimension: 2 },
            MathError::Parameter { name: "lambda", value: "0".to_string(), requirement: "positive" },
        ];
        assert!(!others.iter().any(MathError::is_incomparable));
    }
}
