//! The choices of one family: what was measured of them, and the best of them for a goal.

use std::ops::Range;

use super::candidates::{ATOMS, Candidates, Family, LAMBDA, Measurement, SCALE, WEIGHTS, WIDTH};
use super::choose::Tried;
use super::trial::Effort;
use super::{ArchiveError, Result};
use crate::math::search::{Found, Goal, Measure, Measured, Search};

/// A choice is climbed from where it may overtake the best: penalty, precision, width and scales are worth no more than
/// this with so many atoms or more,
const HOPEFUL: f64 = 1.25;
const SOME_ATOMS: usize = 4;
/// and with fewer.
const HOPEFUL_FEW: f64 = 1.08;
/// Choices that cost more than so many times the best are not looked at with another penalty or other scales.
const NOT_FAR: f64 = 1.5;
/// A single atom is climbed from where it is this close to the best.
const CLOSE: f64 = 1.02;
/// Bytes of a dictionary are about proportional to its atoms.
const ABOUT: f64 = 0.8;

/// A family's part of the search: what was measured for one goal serves the next.
pub(super) struct Space {
    pub family: Family,
    pub search: Search,
    tried: Vec<(Vec<usize>, Tried)>,
    /// Where codes and residuals alone count: how much of the dictionary's bytes counts beside them.
    pub values_alone: Option<f64>,
    /// The bytes that an atom has taken.
    atom_bytes: Option<f64>,
}

impl Space {
    pub fn new(candidates: &Candidates<'_>, family: Family) -> Self {
        let search = Search::new(candidates.ladders(family), candidates.positions(family));
        Self { family, search, tried: Vec::new(), values_alone: None, atom_bytes: None }
    }

    /// Measures none, few and many atoms, and climbs from the best of them.
    pub fn best(&mut self, candidates: &Candidates<'_>, goal: Goal, axes: Range<usize>) -> Result<Found> {
        let swept = self.sweep(candidates, goal, axes.contains(&SCALE))?;
        // Cannot be empty: there is always a first rung.
        let first = swept.first().ok_or_else(|| ArchiveError::corrupt("nothing was measured"))?;
        let mut best = first.clone();
        for start in hopeful(candidates, &swept) {
            let climbed = self.climb(candidates, goal, Some(&start), axes.clone())?;
            if climbed.is_better_than(&best) {
                best = climbed;
            }
        }
        Ok(best)
    }

    /// A single atom does best without a width, which is not found from many atoms step by step.
    pub fn with_one_atom(&mut self, candidates: &Candidates<'_>, goal: Goal, best: Found) -> Result<Found> {
        let Some(rungs) = candidates.one_atom(&best.rungs) else { return Ok(best) };
        let start = Found { rungs, ..best.clone() };
        let mut other = self.climb(candidates, goal, Some(&start), 0..0)?;
        if other.cost <= CLOSE * best.cost {
            other = self.climb(candidates, goal, Some(&other), ATOMS..WEIGHTS)?;
        }
        Ok(if other.is_better_than(&best) { other } else { best })
    }

    /// The goal without atoms, or with the fewest that there may be.
    pub fn with_fewest_atoms(&mut self, candidates: &Candidates<'_>, goal: Goal) -> Result<Found> {
        let mut rungs: Vec<usize> = self.search.ladders().iter().map(|ladder| ladder.start).collect();
        rungs[ATOMS] = 0;
        let knob = candidates.first_knob(self.family, goal);
        self.climb(candidates, goal, Some(&Found { rungs, knob, excess: 1.0, cost: f64::INFINITY }), 0..0)
    }

    /// Measures none, few and many atoms: the best first. Where `further` is set, of many atoms those with a low penalty,
    /// and of the best the other scales of sensors, too.
    fn sweep(&mut self, candidates: &Candidates<'_>, goal: Goal, further: bool) -> Result<Vec<Found>> {
        let choices = candidates.swept(self.search.ladders());
        let hint = candidates.first_knob(self.family, goal);
        let (search, mut measuring) = self.measuring(candidates);
        let mut swept = search.sweep(goal, &choices, hint, &mut measuring)?;
        if !further {
            return Ok(swept);
        }
        let most = swept.first().map_or(f64::INFINITY, |best| NOT_FAR * best.cost);
        let near = swept.iter().filter(|found| found.cost <= most);
        let low: Vec<_> = near.filter_map(|found| candidates.with_low_penalty(&found.rungs)).collect();
        swept.extend(search.sweep(goal, &low, hint, &mut measuring)?);
        swept.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let best = swept.iter().find(|found| candidates.atoms(&found.rungs) >= SOME_ATOMS);
        if let Some(best) = best.filter(|best| best.cost <= most) {
            let mut other = best.rungs.clone();
            other[SCALE] = 1 - other[SCALE];
            swept.extend(search.sweep(goal, &[other], hint, &mut measuring)?);
            swept.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        }
        Ok(swept)
    }

    /// Climbs ladders, from a choice or from their first rungs.
    pub fn climb(
        &mut self,
        candidates: &Candidates<'_>,
        goal: Goal,
        start: Option<&Found>,
        axes: Range<usize>,
    ) -> Result<Found> {
        let hint = candidates.first_knob(self.family, goal);
        let (search, mut measuring) = self.measuring(candidates);
        search.best(goal, start, hint, axes, &mut measuring)
    }

    fn measuring<'a>(&'a mut self, candidates: &'a Candidates<'a>) -> (&'a mut Search, Measuring<'a>) {
        let Self { family, search, tried, values_alone, atom_bytes } = self;
        let (family, values_alone) = (*family, *values_alone);
        (search, Measuring { candidates, family, tried, values_alone, atom_bytes })
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

/// Choices that may overtake the best once they are climbed from: the best with some atoms, and the best with one or
/// two where these do better than none.
fn hopeful(candidates: &Candidates<'_>, swept: &[Found]) -> Vec<Found> {
    let Some(best) = swept.first() else { return Vec::new() };
    let is_near = |found: &&Found, share: f64| {
        best.excess > 1.0 || (found.excess <= 1.0 && found.cost <= share * best.cost)
    };
    let with =
        |wanted: &dyn Fn(usize) -> bool| swept.iter().find(|found| wanted(candidates.atoms(&found.rungs)));
    let some = with(&|atoms| atoms >= SOME_ATOMS).filter(|found| is_near(found, HOPEFUL));
    let none = with(&|atoms| atoms == 0);
    let few = with(&|atoms| (1..SOME_ATOMS).contains(&atoms))
        .filter(|found| is_near(found, HOPEFUL_FEW))
        .filter(|few| none.is_none_or(|none| few.is_better_than(none)));
    some.into_iter().chain(few).cloned().collect()
}

/// What a search measures with.
struct Measuring<'a> {
    candidates: &'a Candidates<'a>,
    family: Family,
    tried: &'a mut Vec<(Vec<usize>, Tried)>,
    values_alone: Option<f64>,
    atom_bytes: &'a mut Option<f64>,
}

impl Measuring<'_> {
    fn measure(&self, rungs: &[usize], knob: f64) -> Result<Measurement> {
        self.candidates.measure(self.family, rungs, knob, Effort::Rough, Vec::new())
    }

    fn counted(&mut self, rungs: &[usize], measurement: Measurement) -> Measured {
        let Measurement { outcome, tried, .. } = measurement;
        let mut counted = self.candidates.counted(&outcome);
        if tried.atoms > 1 {
            *self.atom_bytes = Some(outcome.dictionary_bytes / tried.atoms as f64);
        }
        if let Some(share) = self.values_alone {
            counted.bytes = outcome.coded_bytes + share * outcome.dictionary_bytes;
        }
        self.tried.push((rungs.to_vec(), tried));
        counted
    }
}

impl Measure<ArchiveError> for Measuring<'_> {
    fn canonical(&self, rungs: Vec<usize>) -> Vec<usize> {
        self.candidates.canonical(self.family, rungs)
    }

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

    /// A dictionary that alone takes more than the best so far takes in all is not learned.
    fn is_hopeless(&self, rungs: &[usize], best: &Found, goal: Goal) -> bool {
        let (Goal::Smallest | Goal::Nmae(_), Some(bytes)) = (goal, *self.atom_bytes) else { return false };
        let share = self.values_alone.unwrap_or(self.candidates.dictionary_share());
        best.excess <= 1.0 && ABOUT * share * bytes * self.candidates.atoms(rungs) as f64 > best.cost
    }
}

/// The best of codes alone for a goal, about: atoms with coarse weights, with fine ones, and with other kernels.
pub(super) fn search_codes(
    candidates: &Candidates<'_>,
    codes: &mut Space,
    goal: Goal,
    start: Option<&Found>,
) -> Result<Found> {
    let mut found = match start {
        Some(start) => codes.climb(candidates, goal, Some(start), ATOMS..LAMBDA)?,
        None => codes.best(candidates, goal, ATOMS..LAMBDA)?,
    };
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
