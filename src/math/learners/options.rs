//! What users may set about learning, and the defaults taken from the data for the rest.

use std::sync::Arc;

use super::{Start, Target, Task, check_kernel};
use crate::math::coders::at_least_one;
use crate::math::signals::dot;
use crate::math::{Dictionary, Kernel, MathError, Positive, Result, Sample, Signals, kernels, learners};

/// Checked options of learning; what is not set follows from the sample.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnerOptions {
    atoms: Option<usize>,
    target: Option<Target>,
    kernel: Option<String>,
    sigma: Option<f64>,
    degree: Option<f64>,
    constant: Option<f64>,
    lambda: Option<Positive>,
    learner: String,
    max_rounds: usize,
    tolerance: Positive,
    sample: usize,
    seed: u64,
}

impl Default for LearnerOptions {
    fn default() -> Self {
        Self {
            atoms: None,
            target: None,
            kernel: None,
            sigma: None,
            degree: None,
            constant: None,
            lambda: None,
            learner: learners::names()[0].to_string(),
            max_rounds: Self::DEFAULT_MAX_ROUNDS,
            // Cannot fail: the constant is positive.
            tolerance: Positive::new("tolerance", Self::DEFAULT_TOLERANCE).unwrap(),
            sample: Self::DEFAULT_SAMPLE,
            seed: 0,
        }
    }
}

impl LearnerOptions {
    /// Atoms unless told otherwise.
    pub const DEFAULT_ATOMS: usize = 64;
    /// Penalty unless told otherwise, as a share of the mean `k(y, y)` (which is 1 for RBF).
    pub const DEFAULT_LAMBDA: f64 = 0.1;
    /// Rounds unless told otherwise.
    pub const DEFAULT_MAX_ROUNDS: usize = 30;
    /// Relative fall of the objective that counts as converged, unless told otherwise.
    pub const DEFAULT_TOLERANCE: f64 = 1e-3;
    /// Distinct vectors learned from, unless told otherwise.
    pub const DEFAULT_SAMPLE: usize = 4096;
    /// Signals whose pairwise distances give the default sigma.
    const SIGMA_SIGNALS: usize = 256;

    /// Sets the number of atoms.
    pub fn with_atoms(mut self, atoms: usize) -> Result<Self> {
        self.atoms = Some(at_least_one("atoms", atoms)?);
        if atoms > Dictionary::MOST_ATOMS {
            let value = atoms.to_string();
            return Err(MathError::Parameter { name: "atoms", value, requirement: "at most 8192" });
        }
        Ok(self)
    }

    /// Sets the kernel by name.
    pub fn with_kernel(mut self, kernel: &str) -> Result<Self> {
        kernels::build(kernel, &|_| None)?;
        self.kernel = Some(kernel.to_string());
        Ok(self)
    }

    /// Sets the width of the RBF kernel.
    pub fn with_sigma(mut self, sigma: f64) -> Result<Self> {
        self.sigma = Some(kernels::Rbf::new(sigma)?.sigma());
        Ok(self)
    }

    /// Sets the degree of the polynomial kernel.
    pub fn with_degree(mut self, degree: f64) -> Result<Self> {
        kernels::Polynomial::new(degree, 0.0)?;
        self.degree = Some(degree);
        Ok(self)
    }

    /// Sets the constant of the polynomial kernel.
    pub fn with_constant(mut self, constant: f64) -> Result<Self> {
        kernels::Polynomial::new(1.0, constant)?;
        self.constant = Some(constant);
        Ok(self)
    }

    /// Sets the penalty.
    pub fn with_lambda(mut self, lambda: f64) -> Result<Self> {
        self.lambda = Some(Positive::new("lambda", lambda)?);
        Ok(self)
    }

    /// Sets the learner by name.
    pub fn with_learner(mut self, learner: &str) -> Result<Self> {
        self.learner = learners::by_name(learner)?.name().to_string();
        Ok(self)
    }

    /// Sets the most rounds there can be.
    pub fn with_max_rounds(mut self, max_rounds: usize) -> Result<Self> {
        self.max_rounds = at_least_one("max_iter", max_rounds)?;
        Ok(self)
    }

    /// Sets the relative fall of the objective that counts as converged.
    pub fn with_tolerance(mut self, tolerance: f64) -> Result<Self> {
        self.tolerance = Positive::new("tolerance", tolerance)?;
        Ok(self)
    }

    /// Sets how many distinct vectors are learned from.
    pub fn with_sample(mut self, sample: usize) -> Result<Self> {
        self.sample = at_least_one("sample", sample)?;
        Ok(self)
    }

    /// Sets the seed of the sample.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets what atoms, kernel and penalty are chosen for where they are not set.
    pub fn with_target(mut self, target: Target) -> Result<Self> {
        self.target = Some(target.checked()?);
        Ok(self)
    }

    /// Atoms asked for.
    pub fn atoms(&self) -> usize {
        self.atoms.unwrap_or(Self::DEFAULT_ATOMS)
    }

    /// Atoms, where they are set.
    pub(super) fn set_atoms(&self) -> Option<usize> {
        self.atoms
    }

    /// What parameters are chosen for.
    pub fn target(&self) -> Option<Target> {
        self.target
    }

    pub(super) fn is_lambda_set(&self) -> bool {
        self.lambda.is_some()
    }

    pub(super) fn max_rounds(&self) -> usize {
        self.max_rounds
    }

    pub(super) fn tolerance(&self) -> f64 {
        self.tolerance.get()
    }

    /// The learner's name.
    pub fn learner(&self) -> &str {
        &self.learner
    }

    /// Distinct vectors learned from.
    pub fn sample(&self) -> usize {
        self.sample
    }

    /// The seed of the sample.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The name of the kernel: the learner's own where none is set; an error where another one is.
    pub fn kernel_name(&self) -> Result<&str> {
        let learner = learners::by_name(&self.learner)?;
        let default = learner.only_kernel().unwrap_or(kernels::names()[0]);
        let kernel = self.kernel.as_deref().unwrap_or(default);
        check_kernel(learner.as_ref(), kernel)?;
        Ok(kernel)
    }

    /// The kernel for these signals: the width of RBF, where it is not set, is the median distance
    /// between signals.
    pub fn kernel(&self, signals: &Signals<'_>) -> Result<Arc<dyn Kernel>> {
        kernels::build(self.kernel_name()?, &|name| match name {
            "sigma" => Some(self.sigma.unwrap_or_else(|| median_distance(signals))),
            "degree" => self.degree,
            "constant" => self.constant,
            _ => None,
        })
    }

    /// The kernels to choose from: the one that is set; else RBF of several widths, and linear where the
    /// learner leaves that open.
    pub(super) fn widths(&self, signals: &Signals<'_>) -> Result<Widths> {
        let set = self.kernel(signals)?;
        if self.sigma.is_some() || set.name() != "rbf" {
            return Ok(Widths { kernels: vec![set], first: 0 });
        }
        let median =
            set.parameters().iter().find(|(name, _)| *name == "sigma").map_or(1.0, |(_, sigma)| *sigma);
        let mut kernels: Vec<Arc<dyn Kernel>> = Vec::new();
        if self.kernel.is_none() {
            kernels.push(kernels::build("linear", &|_| None)?);
        }
        let first = kernels.len() + 1;
        for multiple in [2.0, 1.0, 0.5] {
            kernels.push(kernels::build("rbf", &|name| (name == "sigma").then_some(multiple * median))?);
        }
        Ok(Widths { kernels, first })
    }

    /// The penalty for these signals.
    pub fn lambda(&self, kernel: &dyn Kernel, signals: &Signals<'_>) -> f64 {
        self.lambda.map_or_else(
            || {
                let own = signals.rows().iter().map(|row| kernel.self_similarity(dot(row, row)));
                let mean = own.sum::<f64>() / signals.len().max(1) as f64;
                let lambda = Self::DEFAULT_LAMBDA * mean;
                // All-zero signals under the linear kernel leave nothing to scale by.
                if lambda > 0.0 && lambda.is_finite() { lambda } else { Self::DEFAULT_LAMBDA }
            },
            Positive::get,
        )
    }

    /// Decides everything that follows from the sample.
    pub(super) fn task<'a>(&self, sample: &'a Sample) -> Result<Task<'a>> {
        let signals = sample.signals()?;
        let kernel = self.kernel(&signals)?;
        let lambda = self.lambda(kernel.as_ref(), &signals);
        Ok(Task {
            start: Start::Signals(self.atoms().min(signals.len())),
            counts: sample.counts().into_iter().map(|count| count as f64).collect(),
            kernel,
            lambda,
            max_rounds: self.max_rounds,
            tolerance: self.tolerance.get(),
            signals,
        })
    }

    /// The task of going on from a dictionary.
    pub(super) fn continuation<'a>(
        &self,
        dictionary: &'a Dictionary,
        sample: &Sample,
        signals: Signals<'a>,
    ) -> Task<'a> {
        Task {
            start: Start::Atoms(dictionary.atoms()),
            counts: sample.counts().into_iter().map(|count| count as f64).collect(),
            kernel: dictionary.kernel().clone(),
            lambda: self.lambda.map_or(dictionary.lambda(), Positive::get),
            max_rounds: self.max_rounds,
            tolerance: self.tolerance.get(),
            signals,
        }
    }

    /// Bytes that learning will need besides the sample, for vectors of this length: the centred
    /// sample, the gram matrix, its successor and the half that this is made from, atoms and gradients.
    pub fn workspace(&self, dim: usize, sampled: usize) -> usize {
        let atoms = match self.target {
            // The most that are tried, in both halves of the search.
            Some(_) => self.atoms.unwrap_or(2 * Self::DEFAULT_ATOMS * 8).min(sampled),
            None => self.atoms().min(sampled),
        };
        8 * (sampled * dim + 3 * atoms * atoms + 8 * atoms * dim)
    }
}

/// Kernels to choose from, in an order in which neighbours are alike.
pub(super) struct Widths {
    kernels: Vec<Arc<dyn Kernel>>,
    first: usize,
}

impl Widths {
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// The first one to try.
    pub fn first(&self) -> usize {
        self.first
    }

    pub fn kernel(&self, rung: usize) -> Arc<dyn Kernel> {
        self.kernels[rung].clone()
    }
}

/// The distances between a signal and some others.
fn distances_to<const COUNT: usize>(signal: &[f64], others: &[&[f64]; COUNT]) -> [f64; COUNT] {
    let others = others.map(|other| &other[..signal.len()]);
    let mut squares = [0.0; COUNT];
    for i in 0..signal.len() {
        for (square, other) in squares.iter_mut().zip(others) {
            *square += (signal[i] - other[i]) * (signal[i] - other[i]);
        }
    }
    squares.map(f64::sqrt)
}

/// The median distance between the first signals of the sample; 1 where all are alike.
fn median_distance(signals: &Signals<'_>) -> f64 {
    let some = &signals.rows()[..signals.len().min(LearnerOptions::SIGMA_SIGNALS)];
    let mut distances = Vec::with_capacity(some.len() * some.len().saturating_sub(1) / 2);
    for (i, a) in some.iter().enumerate() {
        // Some at a time: one sum after the other would wait for each of its additions.
        let (fours, others) = some[..i].as_chunks::<4>();
        distances.extend(fours.iter().flat_map(|four| distances_to(a, four)));
        distances.extend(others.iter().flat_map(|other| distances_to(a, &[*other])));
    }
    let middle = distances.len() / 2;
    if distances.is_empty() {
        return 1.0;
    }
    let median = *distances.select_nth_unstable_by(middle, f64::total_cmp).1;
    if (median * median).is_normal() { median } else { 1.0 }
}
