//! `sparrow bench train`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::super::report::Report;
use super::Common;
use super::encode::describe;
use super::input::{Table, dictionary};
use crate::cli::parse::parse_count;
use crate::math::coders::{Coder, Fksc};
use crate::math::{CoderOptions, LearnerOptions, PreparedDictionary, Sample, learners};

#[derive(Debug, Args)]
pub(in crate::cli) struct TrainArguments {
    #[command(flatten)]
    common: Common,
    /// A dictionary to take the number of atoms, sigma and lambda from
    #[arg(long, value_name = "FILE")]
    dictionary: Option<PathBuf>,
    /// Atoms to learn
    #[arg(long, value_parser = parse_count::<8192>)]
    atoms: Option<usize>,
    /// Rounds, all of which are run
    #[arg(long, default_value = "20", value_parser = parse_count::<1_000_000>)]
    rounds: usize,
    /// The coder of the learner
    #[arg(long, default_value = "fksc", value_parser = ["fksc"])]
    coder: String,
}

/// No fall of the objective is this small without being zero.
const NEVER_CONVERGED: f64 = 1e-300;

pub(super) fn run(arguments: &TrainArguments) -> Result<()> {
    let TrainArguments { common, rounds, .. } = arguments;
    let table = Table::read(&common.signals, common.column.as_deref())?;
    let signals = table.signals()?;
    let options = learner_options(arguments)?.with_max_rounds(*rounds)?.with_sample(signals.len())?;
    let mut report = Report::default();
    common.on_threads(|| {
        let mut sample = Sample::new(signals.len(), 0);
        for (i, signal) in signals.rows().iter().enumerate() {
            sample.offer(i, signal)?;
        }
        let (train_s, learned) = common.best(|| Ok(learners::learn(&sample, &options, &())?))?;
        let Some(learned) = learned else { bail!("{} has no rows", common.signals.display()) };
        report.add("signals", signals.len());
        report.add("dim", signals.dim());
        report.add("atoms", learned.len());
        report.add("kernel", describe(learned.kernel().as_ref()));
        report.add("lambda", learned.lambda());
        report.add("coder", arguments.coder.as_str());
        report.add("threads", common.threads());
        report.add("repeats", common.repeats);
        report.add("rounds", learned.training().map_or(0, |training| training.history.len()));
        report.add("objective", learned.training().map(|training| training.objective()));
        report.add("train_s", train_s);
        let coding = CoderOptions::new(learned.lambda())?;
        let learned = PreparedDictionary::new(learned)?;
        let (encode_s, codes) = common.best(|| Ok(Fksc.encode(&learned, &signals, &coding)?))?;
        report.add("encode_s", encode_s);
        report.add("nonzeros", codes.nonzeros());
        report.add("worst_gap", codes.worst_gap());
        Ok(())
    })?;
    report.print(common.format)
}

/// What the user gave, or the example dictionary has.
fn learner_options(arguments: &TrainArguments) -> Result<LearnerOptions> {
    let Common { sigma, lambda, .. } = arguments.common;
    let example = arguments.dictionary.as_ref().map(|path| dictionary(path, sigma, lambda)).transpose()?;
    let example_sigma = example.as_ref().and_then(|example| {
        let parameters = example.kernel().parameters();
        parameters.into_iter().find(|(name, _)| *name == "sigma").map(|(_, value)| value)
    });
    let mut options = LearnerOptions::default().with_tolerance(NEVER_CONVERGED)?;
    if let Some(kernel) = example.as_ref().map(|example| example.kernel().name()) {
        options = options.with_kernel(kernel)?;
    }
    if let Some(atoms) = arguments.atoms.or(example.as_ref().map(|example| example.len())) {
        options = options.with_atoms(atoms)?;
    }
    if let Some(sigma) = sigma.or(example_sigma) {
        options = options.with_sigma(sigma)?;
    }
    if let Some(lambda) = lambda.or(example.as_ref().map(|example| example.lambda())) {
        options = options.with_lambda(lambda)?;
    }
    Ok(options)
}
