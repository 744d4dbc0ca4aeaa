//! Learners: a sample of signals to a dictionary.
//!
//! To add a learner: a file beside this one that implements [`Learner`], and a line in `all`.

mod alternation;
mod gradient;
mod kscdl;
mod options;
mod scdl;
mod step;
mod storage;
mod targets;

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;

pub use kscdl::Kscdl;
pub use options::LearnerOptions;
pub use scdl::Scdl;
pub use storage::{Storage, Uncompressed};

use super::kernels::unknown;
use super::{Dictionary, Kernel, MathError, Result, Sample, Signals};

/// Learns dictionaries.
pub trait Learner: Debug + Send + Sync {
    /// The name users write.
    fn name(&self) -> &'static str;

    /// The kernel it is made for, where it is only one.
    fn only_kernel(&self) -> Option<&'static str> {
        None
    }

    /// Learns from the given signals.
    fn learn(&self, task: &Task<'_>, observer: &dyn Observer) -> Result<Dictionary>;
}

/// What to learn from, with all parameters decided.
#[derive(Debug)]
pub struct Task<'a> {
    /// Distinct signals, at least one.
    pub signals: Signals<'a>,
    /// How much each signal counts.
    pub counts: Vec<f64>,
    /// Where atoms start.
    pub start: Start<'a>,
    /// The kernel.
    pub kernel: Arc<dyn Kernel>,
    /// The penalty.
    pub lambda: f64,
    /// Rounds after which learning ends in any case.
    pub max_rounds: usize,
    /// Relative fall of the objective below which learning has converged.
    pub tolerance: f64,
}

/// Where atoms start.
#[derive(Debug, Clone, Copy)]
pub enum Start<'a> {
    /// From the first so many signals. Atoms that no signal uses restart from signals, too.
    Signals(usize),
    /// From atoms learned before, one after the other. Those that no signal uses stay as they are: other
    /// signals may need them.
    Atoms(&'a [f64]),
}

/// How far learning has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The round just coded, from 1.
    pub round: usize,
    /// The last round there can be.
    pub max_rounds: usize,
    /// The objective of this round.
    pub objective: f64,
    /// The nonzeros of this round.
    pub nonzeros: u64,
}

/// Is told after every round, and may end the work.
pub trait Observer: Send + Sync {
    /// `Break` cancels learning.
    fn on_round(&self, progress: &Progress) -> ControlFlow<()>;
}

/// An observer that lets learning run.
impl Observer for () {
    fn on_round(&self, _progress: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Every learner. The first is the default.
fn all() -> [Arc<dyn Learner>; 2] {
    [Arc::new(Kscdl), Arc::new(Scdl)]
}

/// Refuses a kernel that a learner is not made for.
fn check_kernel(learner: &dyn Learner, kernel: &str) -> Result<()> {
    match learner.only_kernel() {
        Some(only) if only != kernel => {
            Err(MathError::LearnerKernel { learner: learner.name(), only, kernel: kernel.to_string() })
        }
        _ => Ok(()),
    }
}

/// The names of all learners, the default first.
pub fn names() -> Vec<&'static str> {
    all().iter().map(|learner| learner.name()).collect()
}

/// The learner called `name`.
pub fn by_name(name: &str) -> Result<Arc<dyn Learner>> {
    all().into_iter().find(|learner| learner.name() == name).ok_or_else(|| unknown("learner", name, &names()))
}

/// Learns a dictionary from a sample; `None` if the sample has no usable vector.
pub fn learn(
    sample: &Sample,
    options: &LearnerOptions,
    observer: &dyn Observer,
) -> Result<Option<Dictionary>> {
    learn_for(sample, options, &Uncompressed, observer)
}

/// The same for columns that are stored somewhere: what they take there counts where there is a target.
pub fn learn_for(
    sample: &Sample,
    options: &LearnerOptions,
    storage: &dyn Storage,
    observer: &dyn Observer,
) -> Result<Option<Dictionary>> {
    if sample.is_empty() {
        return Ok(None);
    }
    if let Some(target) = options.target() {
        let learned = targets::learn_for(target, sample, options, storage, observer)?;
        let atoms = options.set_atoms().unwrap_or(learned.len());
        return recorded(learned, sample, options.seed(), atoms).map(Some);
    }
    let task = options.task(sample)?;
    let learned = by_name(options.learner())?.learn(&task, observer)?;
    recorded(learned, sample, options.seed(), options.atoms()).map(Some)
}

/// What parameters are chosen for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// A mean absolute error of at most this share of the mean absolute value.
    Nmae(f64),
    /// So many times fewer bytes than the vectors have as doubles, those of codes and dictionary together.
    Ratio(f64),
    /// No element off by more than this, on vectors that were held out.
    MaxError(f64),
}

impl Target {
    fn checked(self) -> Result<Self> {
        let (name, value, requirement, fits): (_, _, _, fn(f64) -> bool) = match self {
            Self::Nmae(value) => ("target_nmae", value, "between 0 and 1", |v| v > 0.0 && v < 1.0),
            Self::Ratio(value) => ("target_ratio", value, "greater than 1", |v| v > 1.0 && v.is_finite()),
            Self::MaxError(value) => ("max_error", value, "greater than 0", |v| v > 0.0 && v.is_finite()),
        };
        if fits(value) {
            Ok(self)
        } else {
            Err(MathError::Parameter { name, value: value.to_string(), requirement })
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nmae(value) => write!(f, "target_nmae {value}"),
            Self::Ratio(value) => write!(f, "target_ratio {value}"),
            Self::MaxError(value) => write!(f, "max_error {value}"),
        }
    }
}

/// Goes on learning from a dictionary with a sample of other signals: its kernel, its learner and, unless
/// another is set, its penalty. `None` if the sample has no usable vector.
pub fn update(
    dictionary: &Dictionary,
    sample: &Sample,
    options: &LearnerOptions,
    observer: &dyn Observer,
) -> Result<Option<Dictionary>> {
    if sample.is_empty() {
        return Ok(None);
    }
    let signals = sample.signals()?;
    if signals.dim() != dictionary.dim() {
        let (found, dimension) = (signals.dim(), dictionary.dim());
        return Err(MathError::Dimension { row: 0, found, dimension });
    }
    let task = options.continuation(dictionary, sample, signals);
    let learner = dictionary.training().map_or("", |training| training.learner.as_str());
    // A dictionary of given atoms, or of a learner that is gone, goes on with the default one.
    let learner = by_name(learner).or_else(|_| by_name(names()[0]))?;
    let learned = learner.learn(&task, observer)?;
    recorded(learned, sample, options.seed(), dictionary.len()).map(Some)
}

/// The dictionary with what the learner does not know added to its record.
fn recorded(learned: Dictionary, sample: &Sample, seed: u64, atoms: usize) -> Result<Dictionary> {
    let mut training = learned.training().cloned().unwrap_or_default();
    training.seed = seed;
    training.atoms_requested = atoms as u64;
    training.rows_seen = sample.seen();
    training.rows_skipped = sample.skipped();
    training.rows_sampled = sample.len() as u64;
    let (dim, kernel, lambda) = (learned.dim(), learned.kernel().clone(), learned.lambda());
    Dictionary::new(learned.into_atoms(), dim, kernel, lambda, Some(training))
}
