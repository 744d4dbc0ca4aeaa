//! Whether a dictionary pays at all.

use super::Result;
use super::candidates::{ATOMS, Family, LAMBDA};
use super::choose::{Both, Chooser};
use super::quantiser::Bound;
use super::trial::{Effort, Trials};
use crate::math::search::{Found, Goal};

/// A dictionary is not worth its while where it saves less than a twentieth.
const WORTHWHILE: f64 = 0.95;
/// The dictionary counts for little: it is about what signals have in common, not about how many there are.
const OF_DICTIONARY: f64 = 0.15;
/// What must be saved beside rounding alone, where a dictionary does not.
const FROM_ROUNDING: f64 = 0.2;
/// Where sensors deviate from their means by less, they are constant but for rounding.
const NO_SPREAD: f64 = 1e-9;
/// Mean errors that a dictionary is judged at, as parts of what predicting the mean would leave: codes that know
/// nothing do not get there.
const PARTS_OF_SPREAD: [f64; 2] = [2.0, 3.0];
/// A dictionary is of no use where codes of rows that were not learned from leave so many times more than those of the
/// others,
const CARRIES_OVER: f64 = 2.0;
/// and then leave at least this part of what predicting the mean would.
const OF_SPREAD: f64 = 0.1;
/// The penalty that this is judged at.
const USUAL_KNOB: f64 = 2.0;
/// Fewer signals cannot be learned from and checked.
const FEWEST_SIGNALS: u64 = 100;

/// Codes must save a twentieth: a table that is stored as it was is simpler to read.
pub(super) fn worthwhile(bytes: u64) -> u64 {
    bytes - bytes / 20
}

impl Chooser<'_> {
    /// Why a dictionary does not pay, if it does not. Nothing else can be chosen afterwards.
    pub fn verdict(mut self, learned_from: &Trials) -> Result<Option<String>> {
        if self.candidates.settings.atoms.is_some() {
            return Ok(None);
        }
        let Trials { signals, source_bytes, .. } = *self.candidates.trials;
        let signals = signals.max(self.candidates.material.all_signals() as u64);
        if signals < FEWEST_SIGNALS {
            return Ok(Some(format!(
                "{signals} signals are too few to learn a dictionary from and to check it (at least {FEWEST_SIGNALS})"
            )));
        }
        if self.candidates.material.incomparable {
            let reason = "no value is one that kernels can compare: all are NaN, infinite or beyond 1e120";
            return Ok(Some(reason.to_string()));
        }
        let spread = self.candidates.material.spread();
        if spread <= NO_SPREAD {
            return Ok(Some(format!(
                "all signals are alike: Parquet holds them in {source_bytes} bytes already"
            )));
        }
        for space in [&mut self.codes, &mut self.residuals] {
            space.values_alone = Some(OF_DICTIONARY);
        }
        if let Some(reason) = self.does_not_carry_over(learned_from, spread)? {
            return Ok(Some(reason));
        }
        let mut saved = 0.0f64;
        for part in PARTS_OF_SPREAD {
            let goal = Goal::Nmae(spread / part);
            let Both { codes, residuals } = self.both(goal, goal)?;
            let with = if residuals.is_better_than(&codes) { residuals } else { codes };
            let mut single =
                Found { knob: self.candidates.first_knob(Family::Residuals, goal), ..with.clone() };
            single.rungs = self.residuals.search.ladders().iter().map(|ladder| ladder.start).collect();
            (single.rungs[ATOMS], single.rungs[LAMBDA]) = (self.candidates.first_with_atoms(), 0);
            let without = self.residuals.climb(&self.candidates, goal, Some(&single), 0..0)?;
            let rounded = match self.candidates.bound(Family::Residuals, without.knob) {
                Bound::MaxError(bound) => self.candidates.material.rounded_bits(bound) / 8.0 * signals as f64,
                _ => 0.0,
            };
            if with.excess <= 1.0 {
                saved = saved.max(1.0 - with.cost / rounded.max(1.0));
            }
            let beats_none = with.excess <= 1.0 && with.cost < WORTHWHILE * without.cost;
            if saved > FROM_ROUNDING || beats_none {
                return Ok(None);
            }
        }
        Ok(Some(format!(
            "the signals have too little in common, as noise has: on rows that were not learned from Sparrow takes {:.0} % less \
             than rounding every value would",
            100.0 * saved
        )))
    }

    /// Whether codes are far worse on rows that were not learned from, as they are for random walks.
    fn does_not_carry_over(&self, learned_from: &Trials, spread: f64) -> Result<Option<String>> {
        let rungs: Vec<usize> = self.codes.search.ladders().iter().map(|ladder| ladder.start).collect();
        let measured =
            self.candidates.measure(Family::Codes, &rungs, USUAL_KNOB, Effort::Rough, Vec::new())?;
        let learned_from = learned_from.run(&measured.settings, 0, Effort::Rough, true)?;
        // Of most signals: an outage is no reason to give up.
        let (new, known) = (measured.outcome.usually_left(), learned_from.usually_left());
        Ok((new > CARRIES_OVER * known && new > OF_SPREAD * spread).then(|| {
            format!(
                "what is learned from some rows does not carry over to others, as for random walks: there codes leave {:.1} % \
                 of the values instead of {:.1} %",
                100.0 * new,
                100.0 * known
            )
        }))
    }
}
