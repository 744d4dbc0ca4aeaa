//! The kernel, its width and the penalty of learning, chosen for every coder on training rows that are held out.
//!
//! Dictionaries are learned from the first three quarters of the training rows, and the rest decides: the smallest NMAE
//! in the mean over all settings. First the kernel is chosen, then the penalty. Rows to judge by are not looked at.

use anyhow::Result;

use super::EvaluateArguments;
use super::choice::Choice;
use super::input::Tables;
use super::trial::{Setting, Trial};
use super::watch::Watch;
use crate::math::MathError;

/// Widths of RBF that are tried, as multiples of the median distance.
const WIDTHS: [f64; 5] = [0.5, 1.0, 2.0, 4.0, 8.0];
/// Penalties of learning that are tried beside the usual one, as multiples of it.
const PENALTIES: [f64; 2] = [0.3, 3.0];
/// The seed that choices are made with, whatever the seeds that they are used with.
const SEED: u64 = 0;

fn kernels() -> Vec<Choice> {
    let of = |learner, kernel, width| Choice { learner, kernel, width, penalty: 1.0, is_tuned: true };
    let rbf = WIDTHS.map(|multiple| of("kscdl", "rbf", Some(multiple)));
    [of("scdl", "linear", None), of("kscdl", "polynomial", None)].into_iter().chain(rbf).collect()
}

/// The best choice of a coder so far, and its error.
struct Best {
    coder: String,
    choice: Choice,
    error: f64,
}

/// A choice for every coder.
pub(super) fn tune(
    arguments: &EvaluateArguments,
    tables: &Tables,
    settings: &[Setting],
    watch: &Watch,
) -> Result<Vec<(String, Choice)>> {
    let within = tables.within_training()?;
    let usual = |coder: &String| Best {
        coder: coder.clone(),
        choice: Choice { is_tuned: true, ..Choice::usual(coder) },
        error: f64::INFINITY,
    };
    let mut best: Vec<Best> = arguments.coders.iter().map(usual).collect();
    let mut compete = |choice: Choice, coders: &dyn Fn(&Best) -> bool| -> Result<()> {
        let plan: Vec<(String, Choice)> =
            best.iter().filter(|best| coders(best)).map(|best| (best.coder.clone(), choice)).collect();
        if plan.is_empty() {
            return Ok(());
        }
        watch.expect(plan.len() * settings.len());
        watch.begin(format_args!("tuning: {choice}"));
        let mut trial = Trial::tuning();
        match trial.run(arguments, &within, settings, &plan, SEED, watch) {
            Err(error) if !is_unfit(&error) => return Err(error),
            _ => {}
        }
        for best in best.iter_mut().filter(|best| plan.iter().any(|(coder, _)| *coder == best.coder)) {
            let errors = trial.figures.iter().filter(|figures| figures.coder == best.coder);
            let errors: Vec<f64> = errors.map(|figures| figures.nmae).collect();
            let error = errors.iter().sum::<f64>() / settings.len() as f64;
            // A coder may not be able to code with every dictionary.
            if errors.len() >= settings.len() && error < best.error {
                (best.choice, best.error) = (choice, error);
            }
        }
        Ok(())
    };
    for choice in kernels() {
        compete(choice, &|_| true)?;
    }
    if arguments.train_lambda.is_none() {
        for kernel in kernels() {
            for penalty in PENALTIES {
                let has_it = |best: &Best| Choice { penalty: 1.0, ..best.choice } == kernel;
                compete(Choice { penalty, ..kernel }, &has_it)?;
            }
        }
    }
    for Best { coder, choice, error } in &best {
        watch.say(format_args!(
            "tuned on {} rows held out: {coder} {choice}, NMAE {error:.4}",
            within.test.len()
        ));
    }
    Ok(best.into_iter().map(|best| (best.coder, best.choice)).collect())
}

/// Whether rows cannot be learned from or coded in this way, but may be in another.
pub(super) fn is_unfit(error: &anyhow::Error) -> bool {
    error.downcast_ref::<MathError>().is_some_and(|error| {
        error.is_incomparable()
            || matches!(
                error,
                MathError::CodeOverflow { .. } | MathError::Parameter { .. } | MathError::Empty
            )
    })
}
