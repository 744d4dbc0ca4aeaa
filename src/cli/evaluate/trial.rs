//! One seed's worth of an evaluation: dictionaries, codes, reconstructions and what they are worth.
//!
//! Kernel coders share one dictionary, learned with the l1 form: a code is judged by what it makes of the
//! atoms it is given. `cd`, whose point is to work in the input space, has a linear one of its own.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use datafusion::arrow::array::{ArrayRef, BinaryArray};
use datafusion::arrow::record_batch::RecordBatch;
use serde::Serialize;

use super::EvaluateArguments;
use super::input::Tables;
use super::search::{Found, Problem, Sparsity};
use crate::cli::messages::tell;
use crate::cli::output::parquet_bytes;
use crate::cli::threads::{on_threads, thread_count};
use crate::columnar::{dictionary_to_bytes, to_code_array};
use crate::math::coders::{self, Fksc, Form, evaluate};
use crate::math::metrics::{ErrorTotals, compression_ratio};
use crate::math::{Codes, Dictionary, LearnerOptions, PreparedDictionary, Round, Sample, Signals, learners};

/// What all coders are compared at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Setting {
    /// A compression ratio, two numbers counted for every nonzero.
    Ratio(f64),
    /// A penalty on weights.
    Lambda(f64),
}

impl Setting {
    pub fn label(self) -> String {
        match self {
            Self::Ratio(ratio) => format!("CR {ratio}"),
            Self::Lambda(lambda) => format!("lambda {lambda}"),
        }
    }
}

/// The figures of one coder at one setting.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    pub coder: &'static str,
    /// Values over twice the nonzeros: the paper's ratio, which counts no dictionary; none without nonzeros.
    pub cr: Option<f64>,
    /// Codes and dictionary as Parquet with zstd.
    pub bytes: usize,
    pub nrmse: f64,
    pub nmae: f64,
    pub necr: u64,
    /// `1/2 ||phi(y) - phi(X) w||^2 + lambda ||w||_1` over all rows, with `lambda` as below.
    pub objective: f64,
    /// Time of coding.
    pub seconds: f64,
    pub seed: u64,
    /// The setting that was asked for.
    pub setting: String,
    /// The penalty at which the l1 form has this setting's ratio on the same dictionary.
    pub lambda: f64,
    /// The penalty the coder was run with, and whether nonzeros were limited signal by signal.
    pub own_lambda: f64,
    pub limited: bool,
    pub sigma: Option<f64>,
    pub atoms: usize,
    pub atoms_used: usize,
    pub rows: usize,
    pub nonzeros: usize,
    pub updates: u64,
    pub code_bytes: usize,
    pub dictionary_bytes: usize,
    pub learner: String,
    pub kernel: &'static str,
}

/// A dictionary that was learned.
#[derive(Debug)]
pub(super) struct Learned {
    prepared: PreparedDictionary,
    bytes: usize,
}

impl Learned {
    fn new(arguments: &EvaluateArguments, tables: &Tables, learner: &str, seed: u64) -> Result<Self> {
        let mut options = LearnerOptions::default()
            .with_learner(learner)?
            .with_atoms(arguments.atoms)?
            .with_max_rounds(arguments.max_iter)?
            .with_sample(arguments.sample)?
            .with_seed(seed);
        if let Some(sigma) = arguments.sigma {
            options = options.with_sigma(sigma)?;
        }
        if let Some(lambda) = arguments.train_lambda {
            options = options.with_lambda(lambda)?;
        }
        let mut sample = Sample::new(arguments.sample, seed);
        for (row, values) in tables.train.signals()?.rows().iter().enumerate() {
            sample.offer(row, values)?;
        }
        let start = Instant::now();
        let dictionary = learners::learn(&sample, &options, &())?.context("no usable rows to learn from")?;
        tell(format_args!("seed {seed}: {learner} took {:.1} s", start.elapsed().as_secs_f64()));
        let blob: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&dictionary_to_bytes(&dictionary)?]));
        let bytes = parquet_bytes(&RecordBatch::try_from_iter([("dictionary", blob)])?)?;
        Ok(Self { prepared: PreparedDictionary::new(dictionary)?, bytes })
    }

    pub fn dictionary(&self) -> &Dictionary {
        self.prepared.dictionary()
    }

    pub fn learner(&self) -> &str {
        self.dictionary().training().map_or("", |training| training.learner.as_str())
    }

    pub fn history(&self) -> &[Round] {
        self.dictionary().training().map_or(&[], |training| &training.history)
    }
}

/// What a coder made of the rows at the first setting.
#[derive(Debug)]
pub(super) struct Picture {
    pub coder: &'static str,
    /// The decoded rows, one after the other.
    pub decoded: Vec<f64>,
    /// How many rows use each atom.
    pub uses: Vec<usize>,
}

/// Everything that one seed gave.
#[derive(Debug)]
pub(super) struct Trial {
    pub figures: Vec<Figures>,
    pub learned: Vec<Learned>,
    pub pictures: Vec<Picture>,
}

impl Trial {
    pub fn run(
        arguments: &EvaluateArguments,
        tables: &Tables,
        settings: &[Setting],
        seed: u64,
    ) -> Result<Self> {
        on_threads(thread_count(arguments.threads), || {
            let mut trial = Self { figures: Vec::new(), learned: Vec::new(), pictures: Vec::new() };
            for name in &arguments.coders {
                let learner = learner_of(name);
                if trial.learned.iter().all(|learned| learned.learner() != learner) {
                    trial.learned.push(Learned::new(arguments, tables, learner, seed)?);
                }
            }
            for setting in settings {
                for learned in 0..trial.learned.len() {
                    trial.compare(arguments, tables, *setting, learned, seed)?;
                }
            }
            // Coders appear in the order they were named.
            let place = |name: &str| arguments.coders.iter().position(|coder| coder == name);
            let setting = |label: &str| settings.iter().position(|setting| setting.label() == label);
            trial.figures.sort_by_key(|figures| (setting(&figures.setting), place(figures.coder)));
            Ok(trial)
        })
    }

    /// Runs all coders of one dictionary at one setting.
    fn compare(
        &mut self,
        arguments: &EvaluateArguments,
        tables: &Tables,
        setting: Setting,
        learned: usize,
        seed: u64,
    ) -> Result<()> {
        let Self { figures, learned: all, pictures } = self;
        let learned = &all[learned];
        let signals = tables.test.signals()?;
        let (dictionary, tolerance) = (&learned.prepared, arguments.tolerance);
        let problem = Problem { dictionary, signals: &signals, tolerance };
        // Coders of the l1 form have one optimum, so what is best for fksc is best for all of them.
        let (lambda, allowed) = match setting {
            Setting::Ratio(ratio) => {
                let allowed = (tables.test.values().len() as f64 / (2.0 * ratio)).floor() as usize;
                (problem.penalty_for(allowed.max(1))?, allowed.max(1))
            }
            Setting::Lambda(lambda) => {
                let found = problem.encode(&Fksc, Sparsity { lambda, limit: None })?;
                (lambda, found.codes.nonzeros().max(1))
            }
        };
        let sparsity_of_l1 = match setting {
            Setting::Ratio(_) => problem.best(&Fksc, lambda, allowed)?.sparsity,
            Setting::Lambda(_) => Sparsity { lambda, limit: None },
        };
        for name in arguments.coders.iter().filter(|name| learner_of(name) == learned.learner()) {
            let coder = coders::by_name(name)?;
            let found = match coder.form() {
                Form::L1 => problem.encode(coder.as_ref(), sparsity_of_l1)?,
                Form::Nonzeros | Form::Coupled => problem.best(coder.as_ref(), lambda, allowed)?,
            };
            let uses = uses(&found.codes);
            let judged = Judged { arguments, learned, signals: &signals, uses: &uses };
            let (judged, decoded) = judged.figures(found, coder.name(), lambda, setting, seed)?;
            tell(format_args!("seed {seed}, {}: {name} NMAE {:.4}", setting.label(), judged.nmae));
            figures.push(judged);
            if pictures.iter().all(|picture| picture.coder != coder.name()) {
                pictures.push(Picture { coder: coder.name(), decoded, uses });
            }
        }
        Ok(())
    }
}

/// The learner of the dictionary that a coder is judged with.
fn learner_of(coder: &str) -> &'static str {
    if coder == "cd" { "scdl" } else { "kscdl" }
}

/// How many codes use each atom.
fn uses(codes: &Codes) -> Vec<usize> {
    let mut uses = vec![0; codes.weights.cols()];
    for atom in codes.weights.indices() {
        uses[*atom as usize] += 1;
    }
    uses
}

/// What codes are judged by.
struct Judged<'a> {
    arguments: &'a EvaluateArguments,
    learned: &'a Learned,
    signals: &'a Signals<'a>,
    uses: &'a [usize],
}

impl Judged<'_> {
    fn figures(
        &self,
        Found { sparsity, codes, seconds, decoded }: Found,
        coder: &'static str,
        lambda: f64,
        setting: Setting,
        seed: u64,
    ) -> Result<(Figures, Vec<f64>)> {
        let Self { arguments, learned, signals, uses } = self;
        let dictionary = learned.dictionary();
        let mut totals = ErrorTotals::default();
        for (original, decoded) in signals.rows().iter().zip(decoded.chunks_exact(signals.dim())) {
            let pairs = original.iter().copied().zip(decoded.iter().copied());
            totals.add(pairs, arguments.necr_tolerance);
        }
        let evaluated = evaluate(&learned.prepared, signals, &codes.rows().collect::<Vec<_>>(), lambda)?;
        let (nonzeros, updates) = (codes.nonzeros(), codes.updates());
        let column = to_code_array(codes, &vec![true; signals.len()])?;
        let code_bytes = parquet_bytes(&RecordBatch::try_from_iter([("code", column)])?)?;
        let parameters = dictionary.kernel().parameters();
        let figures = Figures {
            coder,
            cr: (nonzeros > 0).then(|| compression_ratio(totals.count, nonzeros as u64)),
            bytes: code_bytes + learned.bytes,
            nrmse: totals.nrmse().unwrap_or(f64::NAN),
            nmae: totals.nmae().unwrap_or(f64::NAN),
            necr: totals.necr(),
            objective: evaluated.iter().map(|code| code.fit + code.penalty).sum(),
            seconds,
            seed,
            setting: setting.label(),
            lambda,
            own_lambda: sparsity.lambda,
            limited: sparsity.limit.is_some(),
            sigma: parameters.iter().find(|(name, _)| *name == "sigma").map(|(_, sigma)| *sigma),
            atoms: dictionary.len(),
            atoms_used: uses.iter().filter(|uses| **uses > 0).count(),
            rows: signals.len(),
            nonzeros,
            updates,
            code_bytes,
            dictionary_bytes: learned.bytes,
            learner: learned.learner().to_string(),
            kernel: dictionary.kernel().name(),
        };
        Ok((figures, decoded))
    }
}
