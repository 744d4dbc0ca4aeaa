//! Choosing what an archive is coded with: atoms, kernel, penalty, precision of weights, scale of sensors, and
//! whether residuals are kept.
//!
//! A mean error can be reached in two ways: by codes alone, and by codes with residuals under a coarse bound.
//! Both are searched; whichever gives fewer bytes is taken. Rows that were held out from learning decide.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::candidates::{ATOMS, Candidates, Family, LADDERS, LAMBDA, Measurement, SCALE, WEIGHTS, WIDTH};
use super::codebook::Codebook;
use super::drift::Promise;
use super::learn::{LearnSettings, Material};
use super::quantiser::Bound;
use super::sampled::Look;
use super::space::{Space, runners_up, search_codes};
use super::trial::{Effort, Outcome, Trials};
use super::verdict::worthwhile;
use super::{ArchiveError, Result};
use crate::math::Observer;
use crate::math::search::{Found, Goal, Measured, tune};

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
    pub codebook: Arc<Codebook>,
    pub bound: Bound,
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
/// Choices of a search that are recorded.
const MOST_RECORDED: usize = 16;
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
        while let Some(Way { family, rough_goal, found }) = ways.pop_front() {
            let measured = best.as_ref().map(|best| best.outcome.measured());
            let met = measured.filter(|measured| goal.excess(measured) <= 1.0);
            // Between measurements costs are guesses; what is close is measured, too.
            let far = |met: Measured| found.excess > 1.0 || found.cost > CLOSE * goal.cost(&met);
            if met.is_some_and(far) {
                continue;
            }
            let space = if family == Family::Codes { &mut self.codes } else { &mut self.residuals };
            let mut climb = |from: &Found, axes: Range<usize>| {
                space.climb(&self.candidates, rough_goal, Some(from), axes)
            };
            let found = match met {
                None => {
                    let found = climb(&found, LAMBDA..LADDERS)?;
                    // Other atoms may suit what was changed since they were chosen.
                    climb(&found, ATOMS..LADDERS)?
                }
                Some(_) => climb(&found, WEIGHTS..WIDTH)?,
            };
            let others = runners_up(&space.search, rough_goal, &found);
            for tried in self.codes.nearest(goal).into_iter().chain(self.residuals.nearest(goal)) {
                if !record.contains(&tried) {
                    record.push(tried);
                }
            }
            let Finished { mut chosen, excess_at_first } =
                finish(&self.candidates, goal, family, &found, &record)?;
            let mut from = found.clone();
            // Atoms that are learned from other rows for longer may turn out worse than what was measured roughly.
            if goal.cost(&chosen.outcome.measured()) > DISAPPOINTING * found.cost {
                for other in others {
                    let finished = finish(&self.candidates, goal, family, &other, &record)?.chosen;
                    if goal.prefers(&finished.outcome.measured(), &chosen.outcome.measured()) {
                        (chosen, from) = (finished, other);
                    }
                }
            }
            let is_met = goal.excess(&chosen.outcome.measured()) <= 1.0;
            if is_met && self.candidates.trials.are_few() {
                chosen = with_other_atoms(&self.candidates, goal, family, &from, &record, chosen)?;
            }
            if measured.is_none_or(|best| goal.prefers(&chosen.outcome.measured(), &best)) {
                best = Some(chosen);
            }
            // Rough measurements had promised more than came out.
            if rough_goal != goal && !is_met && corrections < MOST_CORRECTIONS {
                corrections += 1;
                ways.push_front(self.codes_for(rough_goal.eased(CORRECTION / excess_at_first), &found)?);
            }
        }
        // Cannot be absent: the first way is never skipped.
        best.ok_or_else(|| ArchiveError::corrupt("no way to a target was tried"))
    }

    /// The ways to a goal, the most promising first.
    fn ways(&mut self, goal: Goal) -> Result<VecDeque<Way>> {
        let expected = if matches!(goal, Goal::Nmae(_)) { goal.eased(EXPECTED) } else { goal };
        let Both { codes, residuals } = self.both(goal, expected)?;
        let mut codes = Way { family: Family::Codes, rough_goal: expected, found: codes };
        if matches!(goal, Goal::Nmae(_)) && codes.found.excess <= WITHIN_REACH {
            let rough_goal = in_rough_terms(&self.candidates, goal, &codes)?;
            codes = self.codes_for(rough_goal, &codes.found)?;
        }
        let residuals = Way { family: Family::Residuals, rough_goal: goal, found: residuals };
        let better = residuals.found.is_better_than(&codes.found);
        Ok(if better { [residuals, codes] } else { [codes, residuals] }.into())
    }

    fn codes_for(&mut self, rough_goal: Goal, start: &Found) -> Result<Way> {
        let found = search_codes(&self.candidates, &mut self.codes, rough_goal, Some(start))?;
        Ok(Way { family: Family::Codes, rough_goal, found })
    }

    /// The fewest bytes under a bound. Without one: codes alone, with what is set and usual values else.
    pub fn for_bound(&mut self, bound: Bound) -> Result<Chosen> {
        let candidates = &self.candidates;
        let mut space = Space::new(candidates, Family::Bounded(bound));
        let is_glance = candidates.trials.look == Look::Glance && bound != Bound::None;
        let axes = match bound {
            Bound::None => 0..0,
            _ if is_glance => ATOMS..SCALE,
            _ => ATOMS..LADDERS,
        };
        let mut found = space.climb(candidates, Goal::Smallest, None, axes)?;
        if is_glance {
            // Scales are rarely the other ones in the end: what will be kept then is learned meanwhile.
            found = std::thread::scope(|scope| {
                let (family, rungs) = (space.family, found.rungs.clone());
                scope.spawn(move || candidates.learn_ahead(family, &rungs));
                space.climb(candidates, Goal::Smallest, Some(&found), SCALE..LADDERS)
            })?;
        }
        let record = space.nearest(Goal::Smallest);
        Ok(finish(&self.candidates, Goal::Smallest, space.family, &found, &record)?.chosen)
    }

    /// Both ways to a goal, searched at the same time.
    pub fn both(&mut self, goal: Goal, goal_of_codes: Goal) -> Result<Both> {
        let (candidates, codes, residuals) = (&self.candidates, &mut self.codes, &mut self.residuals);
        std::thread::scope(|scope| {
            let codes = scope.spawn(|| search_codes(candidates, codes, goal_of_codes, None));
            let residuals = residuals.climb(candidates, goal, None, ATOMS..WEIGHTS);
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
}

/// What was found for each of the two ways to a goal.
pub(super) struct Both {
    pub codes: Found,
    pub residuals: Found,
}

/// The limit that rough measurements should keep so that what comes out in the end, with atoms learned from more rows
/// for longer, is just within that of the goal.
fn in_rough_terms(candidates: &Candidates<'_>, goal: Goal, way: &Way) -> Result<Goal> {
    let Way { family, rough_goal, found } = way;
    let full = candidates.measure(*family, &found.rungs, found.knob, Effort::Full, Vec::new())?;
    Ok(rough_goal.eased(found.excess / goal.excess(&full.outcome.measured())))
}

/// The best choices of a search, in the order in which they were tried: all of them would be a tenth of a small archive.
fn worth_recording(goal: Goal, record: &[Tried]) -> Vec<Tried> {
    // What a choice would cost at the limit, about: what is above it costs as much more.
    let cost = |tried: &Tried| {
        let measured = Measured { bytes: tried.bytes as f64, nmae: tried.nmae, max_error: 0.0 };
        goal.cost(&measured) * goal.excess(&measured).max(1.0)
    };
    let mut best: Vec<usize> = (0..record.len()).collect();
    best.sort_by(|a, b| cost(&record[*a]).total_cmp(&cost(&record[*b])).then(a.cmp(b)));
    best.truncate(MOST_RECORDED);
    best.sort_unstable();
    best.into_iter().map(|i| record[i].clone()).collect()
}

/// What came out of a choice.
struct Finished {
    chosen: Chosen,
    /// Before the knob was turned: what rough measurements were off by.
    excess_at_first: f64,
}

/// The same choice with fewer or more atoms where that turns out better: rough measurements do not tell neighbours apart.
fn with_other_atoms(
    candidates: &Candidates<'_>,
    goal: Goal,
    family: Family,
    found: &Found,
    record: &[Tried],
    chosen: Chosen,
) -> Result<Chosen> {
    let (start, rungs) = (found.rungs[ATOMS], candidates.ladders(family)[ATOMS].rungs);
    let (fewer, more) = ((0..start).rev().collect::<Vec<_>>(), (start + 1..rungs).collect::<Vec<_>>());
    let mut best = chosen;
    for direction in [fewer, more] {
        let mut is_better = false;
        for atoms in direction {
            let mut other = found.clone();
            other.rungs[ATOMS] = atoms;
            let other = finish(candidates, goal, family, &other, record)?.chosen;
            if !goal.prefers(&other.outcome.measured(), &best.outcome.measured()) {
                break;
            }
            (best, is_better) = (other, true);
        }
        if is_better {
            break;
        }
    }
    Ok(best)
}

/// Turns the knob once more with all that was looked at, and keeps what comes out.
fn finish(
    candidates: &Candidates<'_>,
    goal: Goal,
    family: Family,
    found: &Found,
    record: &[Tried],
) -> Result<Finished> {
    // A search of one choice tells nothing.
    let record = if record.len() > 1 { worth_recording(goal, record) } else { Vec::new() };
    let (mut best, mut excess_at_first): (Option<(f64, Measurement)>, _) = (None, None);
    let last = (candidates.positions(family) - 1) as f64;
    tune(goal, found.knob, last, &mut |knob| {
        let measurement = candidates.measure(family, &found.rungs, knob, Effort::Full, record.clone())?;
        let measured = measurement.outcome.measured();
        excess_at_first.get_or_insert(goal.excess(&measured));
        if best.as_ref().is_none_or(|(_, best)| goal.prefers(&measured, &best.outcome.measured())) {
            best = Some((knob, measurement));
        }
        Ok::<_, ArchiveError>(measured)
    })?;
    // Cannot be absent: tuning measures at least once.
    let ((knob, Measurement { codebook, outcome, .. }), excess_at_first) =
        best.zip(excess_at_first).ok_or_else(|| ArchiveError::corrupt("nothing was measured"))?;
    let promise = Promise::new(&outcome);
    let chosen = Chosen { codebook, bound: candidates.bound(family, knob), promise, outcome, tried: record };
    Ok(Finished { chosen, excess_at_first })
}
