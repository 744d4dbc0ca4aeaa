//! The choices of one family: what was measured of them, and the best of them for a goal.

use std::ops::Range;

use super::candidates::{ATOMS, Candidates, Family, LAMBDA, Measurement, SCALE, WEIGHTS, WIDTH};
use super::choose::Tried;
use super::trial::Effort;
use super::{ArchiveError, Result};
use crate::math::search::{Found, Goal, Measure, Measured, Search};

/// Archives with a bound are added to, and their dictionary serves what is added: only this share of it counts as
/// a cost of the rows that are there. Targets are about these rows, and count all of it.
pub(super) const GROWING: f64 = 0.15;

/// A family's part of the search: what was measured for one goal serves the next.
pub(super) struct Space {
    pub family: Family,
    pub search: Search,
    tried: Vec<(Vec<usize>, Tried)>,
    /// How much of the dictionary's bytes counts.
    pub dictionary_share: f64,
    /// Whether nothing else counts beside it but codes and residuals.
    pub values_alone: bool,
}

impl Space {
    pub fn new(candidates: &Candidates<'_>, family: Family) -> Self {
        let search = Search::new(candidates.ladders(family), candidates.positions(family));
        let dictionary_share = if let Family::Bounded(_) = family { GROWING } else { 1.0 };
        Self { family, search, tried: Vec::new(), dictionary_share, values_alone: false }
    }

    /// Climbs ladders, from a choice or from their first rungs.
    pub fn climb(
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
    pub fn nearest(&mut self, goal: Goal) -> Vec<Tried> {
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

/// The best of codes alone for a goal, about: atoms with coarse weights, with fine ones, and with other kernels.
pub(super) fn search_codes(
    candidates: &Candidates<'_>,
    codes: &mut Space,
    goal: Goal,
    start: Option<&Found>,
) -> Result<Found> {
    let mut found = codes.climb(candidates, goal, start, ATOMS..LAMBDA)?;
    // Many coarse weights add up to an error that no number of atoms makes up for.
    let reweighted = codes.climb(candidates, goal, Some(&found), WEIGHTS..WIDTH)?;
    if reweighted.rungs != found.rungs {
        found = codes.climb(candidates, goal, Some(&reweighted), ATOMS..LAMBDA)?;
    }
    for rungs in candidates.far_from(&found.rungs) {
        let start = Found { rungs, ..found.clone() };
        let other = codes.climb(candidates, goal, Some(&start), ATOMS..LAMBDA)?;
        if other.is_better_than(&found) {
            found = other;
        }
    }
    Ok(found)
}

/// Of the next best choices, so many.
const RUNNERS_UP: usize = 3;

/// The next best choices with other atoms, kernels or scales.
pub(super) fn runners_up(search: &Search, goal: Goal, found: &Found) -> Vec<Found> {
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
