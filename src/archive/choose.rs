//! Choosing what an archive is coded with: atoms, kernel, penalty, precision of weights, scale of sensors, and
//! whether residuals are kept.
//!
//! A mean error can be reached in two ways: by codes alone, and by codes with residuals under a coarse bound.
//! Both are searched; whichever gives fewer bytes is taken. Rows that were held out from learning decide.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::candidates::{ATOMS, Candidates, Depth, Family, LADDERS, LAMBDA, SCALE, WEIGHTS, WIDTH};
use super::data_file_writer::Settings;
use super::drift::Promise;
use super::finish::{
    Best, Finished, best_under_bound, finish, finish_under_bound, in_rough_terms, with_other_atoms,
};
use super::learn::{LearnSettings, Material};
use super::quantiser::Bound;
use super::sampled::Look;
use super::space::{Space, runners_up, search_codes};
use super::trial::{Outcome, Trials};
use super::verdict::worthwhile;
use super::{ArchiveError, Result};
use crate::math::Observer;
use crate::math::search::{Found, Goal, Measured};

/// What an archive should reach; everything that is not set otherwise is chosen for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A mean absolute error of at most this share of the mean absolute value, in as few bytes as possible.
    Nmae(f64),
    /// So many times fewer bytes than the values take in memory, dictionary and all included, with as
    /// small an error as possible.
    Ratio(f64),
}

impl Target {
    /// The target that the options `target_nmae` and `target_ratio` stand for.
    pub fn from_options(nmae: Option<f64>, ratio: Option<f64>) -> Result<Option<Self>> {
        match (nmae, ratio) {
            (None, None) => Ok(None),
            (Some(nmae), None) if nmae > 0.0 && nmae < 1.0 => Ok(Some(Self::Nmae(nmae))),
            (Some(nmae), None) => Err(ArchiveError::layout(format!(
                "target_nmae is {nmae:?}; it must be between 0 and 1 (use lossless for no error at all)"
            ))),
            (None, Some(ratio)) if ratio > 1.0 && ratio.is_finite() => Ok(Some(Self::Ratio(ratio))),
            (None, Some(ratio)) => {
                Err(ArchiveError::layout(format!("target_ratio is {ratio:?}; it must be above 1 and finite")))
            }
            _ => Err(ArchiveError::layout("only one of target_nmae and target_ratio can be given")),
        }
    }
}

/// One choice that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Atoms asked for.
    pub atoms: usize,
    /// The kernel.
    pub kernel: String,
    /// The width of RBF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// The penalty of codes.
    pub lambda: f64,
    /// Weights are multiples of so many 64ths.
    pub weight_step: i16,
    /// Whether sensors are divided by their deviations.
    pub scaled: bool,
    /// The bound of residuals, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_error: Option<f64>,
    /// Bytes of the archive, as predicted.
    pub bytes: u64,
    /// Its mean error, as predicted.
    pub nmae: f64,
}

/// What an archive will be coded with.
pub(super) struct Chosen {
    pub settings: Settings,
    pub promise: Option<Promise>,
    pub outcome: Outcome,
    /// What was compared, in the order in which it was tried.
    pub tried: Vec<Tried>,
}

/// Estimated costs up to this factor apart may turn out the other way round.
const CLOSE: f64 = 1.15;
/// Rough measurements of errors are about so much too high,
const EXPECTED: f64 = 1.12;
/// and what they say to miss the goal by no more than this may still meet it.
const WITHIN_REACH: f64 = 1.2;
/// Where what comes out misses the goal, rough measurements are to keep a limit that is lower by as much and a little
/// more, so many times.
const CORRECTION: f64 = 0.99;
const MOST_CORRECTIONS: usize = 2;
/// Where the outcome costs so much more than was measured roughly, some other choices are looked at as well.
const DISAPPOINTING: f64 = 1.1;

/// Chooses for one table.
pub(super) struct Chooser<'a> {
    pub candidates: Candidates<'a>,
    pub codes: Space,
    pub residuals: Space,
}

impl<'a> Chooser<'a> {
    pub fn new(
        material: &'a Material,
        trials: &'a Trials,
        settings: &'a LearnSettings,
        group_sensors: usize,
        observer: &'a dyn Observer,
    ) -> Self {
        let candidates = Candidates::new(material, trials, settings, group_sensors, observer);
        let codes = Space::new(&candidates, Family::Codes);
        let residuals = Space::new(&candidates, Family::Residuals);
        Self { candidates, codes, residuals }
    }

    /// The best for a target.
    pub fn for_target(&mut self, target: Target) -> Result<Chosen> {
        let chosen = self.nearest_to(target)?;
        let too_large = chosen.outcome.bytes > worthwhile(self.candidates.trials.source_bytes) as f64;
        // So small an error that none at all may take fewer bytes.
        if matches!(target, Target::Nmae(_)) && too_large {
            self.for_bound(Bound::Lossless)
        } else {
            Ok(chosen)
        }
    }

    fn nearest_to(&mut self, target: Target) -> Result<Chosen> {
        let goal = match target {
            Target::Nmae(nmae) => Goal::Nmae(nmae),
            Target::Ratio(ratio) => Goal::Bytes(self.candidates.trials.value_bytes / ratio),
        };
        let (mut best, mut record): (Option<Chosen>, Vec<Tried>) = (None, Vec::new());
        let mut ways = self.ways(goal)?;
        let mut corrections = 0;
        while let Some(way) = ways.pop_front() {
            let measured = best.as_ref().map(|best| self.candidates.counted(&best.outcome));
            let met = measured.filter(|measured| goal.excess(measured) <= 1.0);
            // Between measurements costs are guesses; what is close is measured, too.
            let far = |met: Measured| way.found.excess > 1.0 || way.found.cost > CLOSE * goal.cost(&met);
            if met.is_some_and(far) {
                continue;
            }
            let (family, rough_goal) = (way.family, way.rough_goal);
            let found = match (family, met) {
                (Family::Codes, None) => {
                    let found = self.climb_codes(rough_goal, &way.found, LAMBDA..LADDERS)?;
                    // Other atoms may suit what was changed since they were chosen.
                    self.climb_codes(rough_goal, &found, ATOMS..LADDERS)?
                }
                (Family::Codes, Some(_)) => self.climb_codes(rough_goal, &way.found, WEIGHTS..WIDTH)?,
                // All of that was done under its bound.
                _ => way.found.clone(),
            };
            for tried in self.codes.nearest(goal).into_iter().chain(way.tried) {
                if !record.contains(&tried) {
                    record.push(tried);
                }
            }
            let finish =
                |found: &Found, learned| finish(&self.candidates, goal, (family, found, learned), &record);
            let Finished { mut chosen, excess_at_first } = finish(&found, way.learned)?;
            let mut from = found.clone();
            if family == Family::Codes {
                // Atoms that are learned from other rows for longer may turn out worse than what was measured roughly.
                if goal.cost(&self.candidates.counted(&chosen.outcome)) > DISAPPOINTING * found.cost {
                    for other in runners_up(&self.codes.search, rough_goal, &found) {
                        let finished = finish(&other, way.learned)?.chosen;
                        if self.prefers(goal, &finished, &chosen) {
                            (chosen, from) = (finished, other);
                        }
                    }
                }
                let is_met = goal.excess(&self.candidates.counted(&chosen.outcome)) <= 1.0;
                if is_met && self.candidates.trials.are_few() {
                    chosen = with_other_atoms(&self.candidates, goal, family, &from, &record, chosen)?;
                }
            }
            let is_met = goal.excess(&self.candidates.counted(&chosen.outcome)) <= 1.0;
            if best.as_ref().is_none_or(|best| self.prefers(goal, &chosen, best)) {
                best = Some(chosen);
            }
            // Rough measurements had promised more than came out.
            if family == Family::Codes && rough_goal != goal && !is_met && corrections < MOST_CORRECTIONS {
                corrections += 1;
                ways.push_front(self.codes_for(rough_goal.eased(CORRECTION / excess_at_first), &found)?);
            }
        }
        // Cannot be absent: the first way is never skipped.
        best.ok_or_else(|| ArchiveError::corrupt("no way to a target was tried"))
    }

    fn climb_codes(&mut self, goal: Goal, from: &Found, axes: Range<usize>) -> Result<Found> {
        self.codes.climb(&self.candidates, goal, Some(from), axes)
    }

    /// The ways to a goal, the most promising first.
    fn ways(&mut self, goal: Goal) -> Result<VecDeque<Way>> {
        let expected = if matches!(goal, Goal::Nmae(_)) { goal.eased(EXPECTED) } else { goal };
        let (candidates, codes, residuals) = (&self.candidates, &mut self.codes, &mut self.residuals);
        // At the same time.
        let (codes, residuals) = std::thread::scope(|scope| {
            let codes = scope.spawn(|| search_codes(candidates, codes, expected, None));
            let residuals = with_residuals(candidates, residuals, goal);
            (codes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), residuals)
        });
        let (codes, residuals) = (codes?, residuals?);
        let mut codes = self.way_of_codes(expected, codes);
        if matches!(goal, Goal::Nmae(_)) && codes.found.excess <= WITHIN_REACH {
            let found = (expected, &codes.found);
            let rough_goal = in_rough_terms(&self.candidates, goal, Family::Codes, found)?;
            codes = self.codes_for(rough_goal, &codes.found)?;
        }
        let better = residuals.found.is_better_than(&codes.found);
        Ok(if better { [residuals, codes] } else { [codes, residuals] }.into())
    }

    fn way_of_codes(&self, rough_goal: Goal, found: Found) -> Way {
        let learned = self.candidates.learned_in_full();
        Way { family: Family::Codes, rough_goal, found, learned, tried: Vec::new() }
    }

    fn codes_for(&mut self, rough_goal: Goal, start: &Found) -> Result<Way> {
        let found = search_codes(&self.candidates, &mut self.codes, rough_goal, Some(start))?;
        Ok(self.way_of_codes(rough_goal, found))
    }

    fn prefers(&self, goal: Goal, one: &Chosen, other: &Chosen) -> bool {
        goal.prefers(&self.candidates.counted(&one.outcome), &self.candidates.counted(&other.outcome))
    }

    /// The fewest bytes under a bound. Without one: codes alone, with what is set and usual values else.
    pub fn for_bound(&mut self, bound: Bound) -> Result<Chosen> {
        let candidates = &self.candidates;
        let mut space = Space::new(candidates, Family::Bounded(bound));
        if bound == Bound::None {
            let found = space.climb(candidates, Goal::Smallest, None, 0..0)?;
            let way = (space.family, &found, candidates.learned_in_full());
            return Ok(finish(candidates, Goal::Smallest, way, &[])?.chosen);
        }
        let found = search_under_bound(candidates, &mut space)?;
        let record = space.nearest(Goal::Smallest);
        finish_under_bound(candidates, &space, &found, &record)
    }

    /// Both ways to a goal, searched at the same time.
    pub fn both(&mut self, goal: Goal, goal_of_codes: Goal) -> Result<Both> {
        let (candidates, codes, residuals) = (&self.candidates, &mut self.codes, &mut self.residuals);
        std::thread::scope(|scope| {
            let codes = scope.spawn(|| search_codes(candidates, codes, goal_of_codes, None));
            let residuals = residuals.best(candidates, goal, ATOMS..WEIGHTS);
            let codes = codes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(Both { codes: codes?, residuals: residuals? })
        })
    }
}

/// A way to a goal: what rough measurements have found for it, and the goal in their terms.
struct Way {
    family: Family,
    rough_goal: Goal,
    found: Found,
    /// How well its dictionary is learned.
    learned: Depth,
    tried: Vec<Tried>,
}

/// Codes and residuals for a goal: the bound says what the mean error is, whatever the codes are, so that what takes the
/// fewest bytes under it does so for the goal, too.
fn with_residuals(candidates: &Candidates<'_>, residuals: &mut Space, goal: Goal) -> Result<Way> {
    let without_atoms = residuals.with_fewest_atoms(candidates, goal)?;
    // What is saved under the first bound is spent on a tighter one, which other choices may suit.
    let rounds = if matches!(goal, Goal::Bytes(_)) { 2 } else { 1 };
    let (mut knob, mut best): (f64, Option<Way>) = (without_atoms.knob, None);
    for _ in 0..rounds {
        let mut space = Space::new(candidates, Family::Bounded(candidates.bound(Family::Residuals, knob)));
        let found = search_under_bound(candidates, &mut space)?;
        let tried = space.nearest(Goal::Smallest);
        let Best { rungs, learned, measurement } = best_under_bound(candidates, &space, &found, &[])?;
        let cost = goal.cost(&candidates.counted(&measurement.outcome));
        let mut found = Found { rungs, knob, excess: without_atoms.excess, cost };
        if rounds > 1 {
            found = residuals.climb(candidates, goal, Some(&found), 0..0)?;
            knob = found.knob;
        }
        if best.as_ref().is_none_or(|best| found.is_better_than(&best.found)) {
            best = Some(Way { family: Family::Residuals, rough_goal: goal, found, learned, tried });
        }
    }
    // Cannot be absent: there is at least one round.
    best.ok_or_else(|| ArchiveError::corrupt("no bound was tried"))
}

/// The fewest bytes under a space's bound, as far as rough measurements tell.
fn search_under_bound(candidates: &Candidates<'_>, space: &mut Space) -> Result<Found> {
    if candidates.trials.look == Look::Thorough {
        let found = space.best(candidates, Goal::Smallest, ATOMS..LADDERS)?;
        return space.with_one_atom(candidates, Goal::Smallest, found);
    }
    let found = space.best(candidates, Goal::Smallest, ATOMS..SCALE)?;
    // Scales are rarely the other ones in the end: what will be kept then is learned meanwhile.
    std::thread::scope(|scope| {
        let (family, rungs) = (space.family, found.rungs.clone());
        scope.spawn(move || candidates.learn_ahead(family, &rungs));
        space.climb(candidates, Goal::Smallest, Some(&found), SCALE..LADDERS)
    })
}

/// What was found for each of the two ways to a goal.
pub(super) struct Both {
    pub codes: Found,
    pub residuals: Found,
}
