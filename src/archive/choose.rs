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
use super::trial::{Effort, Outcome, Trials};
use super::work::worthwhile;
use super::{ArchiveError, Result};
use crate::math::Observer;
use crate::math::search::{Found, Goal, Measure, Measured, Search, tune};

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

/// A dictionary is not worth its while where it saves less than a twentieth.
const WORTHWHILE: f64 = 0.95;
/// What must be saved beside rounding alone, where a dictionary does not.
const FROM_ROUNDING: f64 = 0.2;
/// Where sensors deviate from their means by less, they are constant but for rounding.
const NO_SPREAD: f64 = 1e-9;
/// Archives with a bound are added to, and their dictionary serves what is added: only this share of it counts as
/// a cost of the rows that are there. Targets are about these rows, and count all of it.
const GROWING: f64 = 0.15;
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
const RUNNERS_UP: usize = 3;
/// Fewer signals cannot be learned from and checked.
const FEWEST_SIGNALS: u64 = 100;

/// A family's part of the search: what was measured for one goal serves the next.
struct Space {
    family: Family,
    search: Search,
    tried: Vec<(Vec<usize>, Tried)>,
    /// How much of the dictionary's bytes counts.
    dictionary_share: f64,
    /// Whether nothing else counts but codes and residuals.
    values_alone: bool,
}

impl Space {
    fn new(candidates: &Candidates<'_>, family: Family) -> Self {
        let search = Search::new(candidates.ladders(family), candidates.positions(family));
        let dictionary_share = if let Family::Bounded(_) = family { GROWING } else { 1.0 };
        Self { family, search, tried: Vec::new(), dictionary_share, values_alone: false }
    }

    fn climb(
        &mut self,
        candidates: &Candidates<'_>,
        goal: Goal,
        start: Option<&Found>,
        axes: Range<usize>,
    ) -> Result<Found> {
        let Self { family, search, tried, dictionary_share, values_alone } = self;
        let hint = candidates.first_knob(*family, goal);
        let (family, dictionary_share, values_alone) = (*family, *dictionary_share, *values_alone);
        let mut measuring = Measuring { candidates, family, tried, dictionary_share, values_alone };
        search.best(goal, start, hint, axes, &mut measuring)
    }

    /// For every choice of rungs that was looked at, the measurement that is nearest to the goal.
    fn nearest(&mut self, goal: Goal) -> Vec<Tried> {
        let distance = |tried: &Tried| match goal {
            Goal::Nmae(limit) => (tried.nmae / limit).ln().abs(),
            Goal::Bytes(limit) => (tried.bytes as f64 / limit).ln().abs(),
            Goal::MaxError(_) | Goal::Smallest => 0.0,
        };
        let nearest = self.search.take_visited().into_iter().filter_map(|rungs| {
            let with_these = self.tried.iter().filter(|(known, _)| *known == rungs);
            with_these.map(|(_, tried)| tried).min_by(|a, b| distance(a).total_cmp(&distance(b))).cloned()
        });
        nearest.collect()
    }
}

/// What a search measures with.
struct Measuring<'a> {
    candidates: &'a Candidates<'a>,
    family: Family,
    tried: &'a mut Vec<(Vec<usize>, Tried)>,
    dictionary_share: f64,
    values_alone: bool,
}

impl Measuring<'_> {
    fn measure(&self, rungs: &[usize], knob: f64) -> Result<Measurement> {
        self.candidates.measure(self.family, rungs, knob, Effort::Rough, Vec::new())
    }

    fn counted(&mut self, rungs: &[usize], measurement: Measurement) -> Measured {
        let Measurement { outcome, tried, .. } = measurement;
        self.tried.push((rungs.to_vec(), tried));
        let mut counted = outcome.measured();
        let others =
            if self.values_alone { outcome.coded_bytes } else { counted.bytes - outcome.dictionary_bytes };
        counted.bytes = others + self.dictionary_share * outcome.dictionary_bytes;
        counted
    }
}

impl Measure<ArchiveError> for Measuring<'_> {
    fn one(&mut self, rungs: &[usize], knob: f64) -> Result<Measured> {
        let measurement = self.measure(rungs, knob)?;
        Ok(self.counted(rungs, measurement))
    }

    /// What one does alone on a core, such as coding residuals, the other does meanwhile.
    fn two(&mut self, [first, second]: [&[usize]; 2], knob: f64) -> Result<Option<[Measured; 2]>> {
        let measuring = &*self;
        // Not by the pool's threads: those take up each other's work while they wait for what is learned.
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| measuring.measure(second, knob));
            let one = measuring.measure(first, knob);
            (one, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let (one, other) = (one?, other?);
        Ok(Some([self.counted(first, one), self.counted(second, other)]))
    }
}

/// Chooses for one table.
pub(super) struct Chooser<'a> {
    candidates: Candidates<'a>,
    codes: Space,
    residuals: Space,
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
            let mut chosen = finish(&self.candidates, goal, family, &found, &record)?;
            // Atoms that are learned from other rows for longer may turn out worse than what was measured roughly.
            if goal.cost(&chosen.outcome.measured()) > DISAPPOINTING * found.cost {
                for other in others {
                    let other = finish(&self.candidates, goal, family, &other, &record)?;
                    if goal.prefers(&other.outcome.measured(), &chosen.outcome.measured()) {
                        chosen = other;
                    }
                }
            }
            let excess = goal.excess(&chosen.outcome.measured());
            if measured.is_none_or(|best| goal.prefers(&chosen.outcome.measured(), &best)) {
                best = Some(chosen);
            }
            // Rough measurements had promised more than came out.
            if rough_goal != goal && excess > 1.0 && corrections < MOST_CORRECTIONS {
                corrections += 1;
                ways.push_front(self.codes_for(rough_goal.eased(CORRECTION / excess), &found)?);
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
        let mut space = Space::new(&self.candidates, Family::Bounded(bound));
        let axes = if bound == Bound::None { 0..0 } else { ATOMS..LADDERS };
        let found = space.climb(&self.candidates, Goal::Smallest, None, axes)?;
        let record = space.nearest(Goal::Smallest);
        finish(&self.candidates, Goal::Smallest, space.family, &found, &record)
    }

    /// Whether a dictionary pays at all: why not, if it does not. Nothing else can be chosen afterwards.
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
        // It is about what signals have in common, not about how many there are.
        for space in [&mut self.codes, &mut self.residuals] {
            (space.dictionary_share, space.values_alone) = (GROWING, true);
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
            (single.rungs[ATOMS], single.rungs[LAMBDA]) = (0, 0);
            let without = self.residuals.climb(&self.candidates, goal, Some(&single), 0..0)?;
            let rounded = match self.candidates.bound(Family::Residuals, without.knob) {
                Bound::MaxError(bound) => self.candidates.material.rounded_bits(bound) / 8.0 * signals as f64,
                _ => 0.0,
            };
            if with.excess <= 1.0 {
                saved = saved.max(1.0 - with.cost / rounded.max(1.0));
            }
            if saved > FROM_ROUNDING || with.cost < WORTHWHILE * without.cost {
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
        let settings = self.candidates.settings_of(measured.codebook, Bound::None);
        let learned_from = learned_from.run(&settings, 0, Effort::Rough)?;
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

    /// Both ways to a goal, searched at the same time.
    fn both(&mut self, goal: Goal, goal_of_codes: Goal) -> Result<Both> {
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
struct Both {
    codes: Found,
    residuals: Found,
}

fn search_codes(
    candidates: &Candidates<'_>,
    codes: &mut Space,
    goal: Goal,
    start: Option<&Found>,
) -> Result<Found> {
    let mut found = codes.climb(candidates, goal, start, ATOMS..LAMBDA)?;
    for rungs in candidates.far_from(&found.rungs) {
        let start = Found { rungs, ..found.clone() };
        let other = codes.climb(candidates, goal, Some(&start), ATOMS..LAMBDA)?;
        if other.is_better_than(&found) {
            found = other;
        }
    }
    Ok(found)
}

/// The next best choices with other atoms, kernels or scales.
fn runners_up(search: &Search, goal: Goal, found: &Found) -> Vec<Found> {
    let dictionary = |found: &Found| [ATOMS, WIDTH, SCALE].map(|axis| found.rungs[axis]);
    let mut seen = vec![dictionary(found)];
    let mut others = search.known(goal);
    others.retain(|other| {
        let new = !seen.contains(&dictionary(other));
        seen.extend(new.then(|| dictionary(other)));
        new
    });
    others.truncate(RUNNERS_UP);
    others
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

/// Turns the knob once more with all that was looked at, and keeps what comes out.
fn finish(
    candidates: &Candidates<'_>,
    goal: Goal,
    family: Family,
    found: &Found,
    record: &[Tried],
) -> Result<Chosen> {
    // A search of one choice tells nothing.
    let record = if record.len() > 1 { worth_recording(goal, record) } else { Vec::new() };
    let mut best: Option<(f64, Measurement)> = None;
    let last = (candidates.positions(family) - 1) as f64;
    tune(goal, found.knob, last, &mut |knob| {
        let measurement = candidates.measure(family, &found.rungs, knob, Effort::Full, record.clone())?;
        let measured = measurement.outcome.measured();
        if best.as_ref().is_none_or(|(_, best)| goal.prefers(&measured, &best.outcome.measured())) {
            best = Some((knob, measurement));
        }
        Ok::<_, ArchiveError>(measured)
    })?;
    // Cannot be absent: tuning measures at least once.
    let (knob, Measurement { codebook, outcome, .. }) =
        best.ok_or_else(|| ArchiveError::corrupt("nothing was measured"))?;
    let promise = Promise::new(&outcome);
    Ok(Chosen { codebook, bound: candidates.bound(family, knob), promise, outcome, tried: record })
}
