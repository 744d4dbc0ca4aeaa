//! Kernel sparse coding on plain slices and matrices: no Arrow, no SQL.
//!
//! A [`Dictionary`] holds atoms `X`, a [`Kernel`] and a default `lambda`. Once it is
//! [prepared](PreparedDictionary), a [`Coder`] finds a sparse code `w` with a small
//! `||phi(y) - phi(X) w||` for every signal `y` of a batch (by default the minimum of
//! `1/2 ||phi(y) - phi(X) w||^2 + lambda ||w||_1`), a [`Decoder`] finds the signal whose image is nearest to `phi(X) w`, and a [`Learner`]
//! alternates coding with steps on the atoms.
//!
//! Results never depend on the number of threads or on the order of signals, nor, but for coders of
//! [`coders::Form::Coupled`], on how signals are cut into batches.

pub mod coders;
mod computed_once;
pub mod decoders;
mod dictionary;
mod error;
mod exp;
mod gram;
pub mod kernels;
pub mod learners;
pub mod metrics;
mod packed;
mod params;
mod prepared;
mod product;
mod ridge;
mod sample;
pub mod search;
mod signals;
pub(crate) mod sums;
pub mod synthetic;

pub use coders::{Code, Coder, CoderOptions, Codes, ExitReason, SignalReport};
pub use decoders::Decoder;
pub use dictionary::{Choice, Dictionary, Round, Selection, Training};
pub use error::MathError;
pub use kernels::Kernel;
pub use learners::{Learner, LearnerOptions, Observer, Progress};
pub use params::Positive;
pub use prepared::PreparedDictionary;
pub use sample::Sample;
pub use signals::{Signals, check_vector};
pub use sums::ExactSum;
#[cfg(feature = "archive")]
pub(crate) use {exp::vectorised, signals::dot};

/// Shorthand for what every fallible function of this layer returns.
pub type Result<T> = std::result::Result<T, MathError>;
