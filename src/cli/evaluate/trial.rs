//! One seed's worth of an evaluation: dictionaries, codes, reconstructions and what they are worth.
//!
//! Coders of one [`Choice`] share a dictionary, learned with the l1 form: a code is judged by what it makes of the atoms
//! it is given.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use datafusion::arrow::array::{ArrayRef, BinaryArray};
use datafusion::arrow::record_batch::RecordBatch;
use serde::Serialize;

use super::EvaluateArguments;
use super::choice::Choice;
use super::input::{Tables, Vectors};
use super::search::{Found, Problem, Sparsity};
use super::tune::is_unfit;
use super::watch::Watch;
use crate::cli::output::parquet_bytes;
use crate::cli::threads::{on_threads, thread_count};
use crate::columnar::{dictionary_to_bytes, to_code_array};
use crate::math::coders::{self, Fksc, Form, evaluate};
use crate::math::metrics::{ErrorTotals, compression_ratio};
use crate::math::{Codes, Dictionary, PreparedDictionary, Round, Sample, Signals, learners};

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
    /// The penalty of learning.
    pub train_lambda: f64,
    /// Whether kernel, width and that penalty were chosen on rows that were held out.
    pub tuned: bool,
    /// The width as a multiple of the median distance, where it was chosen.
    pub width: Option<f64>,
    #[serde(skip)]
    pub choice: Choice,
}

/// A dictionary that was learned.
#[derive(Debug)]
pub(super) struct Learned {
    pub choice: Choice,
    prepared: PreparedDictionary,
    bytes: usize,
}

impl Learned {
    fn new(
        arguments: &EvaluateArguments,
        rows: &Vectors,
        choice: Choice,
        seed: u64,
        watch: &Watch,
    ) -> Result<Self> {
        let mut sample = Sample::new(arguments.sample, seed);
        for (row, values) in rows.signals()?.rows().iter().enumerate() {
            sample.offer(row, values)?;
        }
        if sample.is_empty() {
            bail!("no usable rows to learn from");
        }
        let options = choice.options(arguments, &sample.signals()?, seed)?;
        let dictionary =
            learners::learn(&sample, &options, watch)?.context("no usable rows to learn from")?;
        let blob: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&dictionary_to_bytes(&dictionary)?]));
        let bytes = parquet_bytes(&RecordBatch::try_from_iter([("dictionary", blob)])?)?;
        Ok(Self { choice, prepared: PreparedDictionary::new(dictionary)?, bytes })
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

/// Everything that one seed gave, also where it was ended early.
#[derive(Debug, Default)]
pub(super) struct Trial {
    pub figures: Vec<Figures>,
    pub learned: Vec<Learned>,
    pub pictures: Vec<Picture>,
    /// Single results are not told, and coders that cannot code with a dictionary are left out.
    is_tuning: bool,
}

impl Trial {
    /// One that decides how dictionaries are learned.
    pub fn tuning() -> Self {
        Self { is_tuning: true, ..Self::default() }
    }

    /// Measures all coders of a plan at all settings.
    pub fn run(
        &mut self,
        arguments: &EvaluateArguments,
        tables: &Tables,
        settings: &[Setting],
        plan: &[(String, Choice)],
        seed: u64,
        watch: &Watch,
    ) -> Result<()> {
        let work = Work { arguments, test: &tables.test, plan, seed, watch };
        let done = on_threads(thread_count(arguments.threads), || {
            for (_, choice) in plan {
                if self.learned.iter().all(|learned| learned.choice != *choice) {
                    watch.go_on()?;
                    let start = Instant::now();
                    self.learned.push(Learned::new(arguments, &tables.train, *choice, seed, watch)?);
                    if !self.is_tuning {
                        let seconds = start.elapsed().as_secs_f64();
                        watch.say(format_args!("seed {seed}: {} took {seconds:.1} s", choice.learner));
                    }
                }
            }
            for setting in settings {
                for learned in 0..self.learned.len() {
                    self.compare(&work, *setting, learned)?;
                }
            }
            Ok(())
        });
        // Coders appear in the order they were named.
        let place = |name: &str| plan.iter().position(|(coder, _)| coder == name);
        let setting = |label: &str| settings.iter().position(|setting| setting.label() == label);
        self.figures.sort_by_key(|figures| (setting(&figures.setting), place(figures.coder)));
        done
    }

    /// Runs all coders of one dictionary at one setting.
    fn compare(&mut self, work: &Work<'_>, setting: Setting, learned: usize) -> Result<()> {
        let Self { figures, learned: all, pictures, is_tuning } = self;
        let Work { arguments, test, plan, seed, watch } = *work;
        let learned = &all[learned];
        let signals = test.signals()?;
        let (dictionary, tolerance) = (&learned.prepared, arguments.tolerance);
        let problem = Problem { dictionary, signals: &signals, tolerance, watch };
        // Coders of the l1 form have one optimum, so what is best for fksc is best for all of them.
        let (lambda, allowed) = match setting {
            Setting::Ratio(ratio) => {
                let allowed = (test.values().len() as f64 / (2.0 * ratio)).floor() as usize;
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
        for (name, _) in plan.iter().filter(|(_, choice)| *choice == learned.choice) {
            if !*is_tuning {
                watch.begin(format_args!("seed {seed}, {}: {name}", setting.label()));
            }
            let coder = coders::by_name(name)?;
            let found = match coder.form() {
                Form::L1 => problem.encode(coder.as_ref(), sparsity_of_l1),
                Form::Nonzeros | Form::Coupled => problem.best(coder.as_ref(), lambda, allowed),
            };
            watch.measured();
            let found = match found {
                Err(error) if *is_tuning && is_unfit(&error) => continue,
                found => found?,
            };
            let uses = uses(&found.codes);
            let judged = Judged { arguments, learned, signals: &signals, uses: &uses };
            let (judged, decoded) = judged.figures(found, coder.name(), lambda, setting, seed)?;
            if !*is_tuning {
                watch.say(format_args!("seed {seed}, {}: {name} NMAE {:.4}", setting.label(), judged.nmae));
            }
            figures.push(judged);
            if pictures.iter().all(|picture| picture.coder != coder.name()) {
                pictures.push(Picture { coder: coder.name(), decoded, uses });
            }
        }
        Ok(())
    }
}

/// What a trial works on.
#[derive(Clone, Copy)]
struct Work<'a> {
    arguments: &'a EvaluateArguments,
    test: &'a Vectors,
    plan: &'a [(String, Choice)],
    seed: u64,
    watch: &'a Watch,
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
            train_lambda: dictionary.lambda(),
            tuned: learned.choice.is_tuned,
            width: learned.choice.width,
            choice: learned.choice,
        };
        Ok((figures, decoded))
    }
}
