//! Choosing parameters for a goal.
//!
//! Parameters are rungs of ladders, and one knob that trades bytes for error: turned up, bytes rise and
//! errors fall. For a choice of rungs the knob is turned to where the goal is just met, which says what the
//! choice costs; ladders are climbed one after the other while that pays. Nothing is left to chance: the same
//! measurements lead to the same choice.

use std::collections::HashMap;

/// What parameters are chosen for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The fewest bytes with a mean error (NMAE) of at most this.
    Nmae(f64),
    /// The fewest bytes with no error above this.
    MaxError(f64),
    /// The smallest mean error in at most so many bytes.
    Bytes(f64),
    /// The fewest bytes.
    Smallest,
}

/// What a choice of parameters leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Bytes, dictionary included.
    pub bytes: f64,
    /// Mean absolute error over mean absolute value.
    pub nmae: f64,
    /// The largest error.
    pub max_error: f64,
}

impl Goal {
    /// What is limited, as a share of its limit: at most 1 where the goal is met.
    pub fn excess(&self, measured: &Measured) -> f64 {
        match self {
            Self::Nmae(limit) => measured.nmae / limit,
            Self::MaxError(limit) => measured.max_error / limit,
            Self::Bytes(limit) => measured.bytes / limit,
            Self::Smallest => 0.0,
        }
    }

    /// Whether one outcome is better than another: it meets the goal at lower cost, or comes nearer to it.
    pub fn prefers(&self, one: &Measured, other: &Measured) -> bool {
        let found = |measured: &Measured| Found {
            rungs: Vec::new(),
            knob: 0.0,
            excess: self.excess(measured),
            cost: self.cost(measured),
        };
        found(one).is_better_than(&found(other))
    }

    /// The same goal with its limit moved by a factor, but not far.
    pub fn eased(&self, factor: f64) -> Self {
        const FAR: f64 = 1.25;
        let factor = if factor > 0.0 { factor.clamp(FAR.recip(), FAR) } else { 1.0 };
        match self {
            Self::Nmae(limit) => Self::Nmae(limit * factor),
            Self::MaxError(limit) => Self::MaxError(limit * factor),
            Self::Bytes(limit) => Self::Bytes(limit * factor),
            Self::Smallest => Self::Smallest,
        }
    }

    /// What should be small.
    pub fn cost(&self, measured: &Measured) -> f64 {
        match self {
            Self::Bytes(_) => measured.nmae,
            _ => measured.bytes,
        }
    }

    /// Whether turning the knob up helps to meet the goal.
    fn wants_up(&self) -> bool {
        matches!(self, Self::Nmae(_) | Self::MaxError(_))
    }
}

/// Numbers of atoms that every search measures before it climbs: a few atoms, or none, may do better than many, and what
/// is between them worse than both.
pub const SWEPT_ATOMS: [usize; 7] = [0, 1, 2, 4, 16, 64, 256];

/// One parameter: how many values it may take, in an order in which neighbours are alike, and the first tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ladder {
    /// Values there are, at least one.
    pub rungs: usize,
    /// The first one tried.
    pub start: usize,
    /// Rungs climbed at a time at first; where that is more than one, one at a time in the end.
    pub stride: usize,
}

impl Ladder {
    /// A parameter that is decided.
    pub const FIXED: Self = Self { rungs: 1, start: 0, stride: 1 };
}

/// A choice and what it costs where the goal is just met.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The rung of every ladder.
    pub rungs: Vec<usize>,
    /// Where the knob stands, between whole positions.
    pub knob: f64,
    /// At most 1 if the goal is met.
    pub excess: f64,
    /// What should be small, estimated between two measurements.
    pub cost: f64,
}

impl Found {
    /// Meets the goal at lower cost, or comes nearer to it. Differences that are noise do not count.
    pub fn is_better_than(&self, other: &Self) -> bool {
        const NOISE: f64 = 0.997;
        match (self.excess <= 1.0, other.excess <= 1.0) {
            (true, true) => self.cost < NOISE * other.cost,
            (true, false) => true,
            (false, true) => false,
            (false, false) => self.excess < NOISE * other.excess,
        }
    }
}

/// Whether so many more steps like the last one, or even twice as long, could meet the goal: where it is out of reach,
/// coming a little nearer is not worth the time.
fn is_in_reach(excess_before: f64, excess: f64, steps_left: usize) -> bool {
    const LONGER: usize = 2;
    let rate = (excess / excess_before).min(1.0);
    excess * rate.powf((LONGER * steps_left) as f64) <= 1.0
}

/// Measures what rungs lead to with the knob at a position.
pub trait Measure<E> {
    /// One choice.
    fn one(&mut self, rungs: &[usize], knob: f64) -> Result<Measured, E>;

    /// Two choices, of which the second may turn out not to be needed: `None` unless they are measured at the same
    /// time.
    fn two(&mut self, _rungs: [&[usize]; 2], _knob: f64) -> Result<Option<[Measured; 2]>, E> {
        Ok(None)
    }

    /// Choices that lead to the same have one name, under which they are measured once.
    fn canonical(&self, rungs: Vec<usize>) -> Vec<usize> {
        rungs
    }

    /// Whether a choice that was not measured cannot be better than one that was.
    fn is_hopeless(&self, _rungs: &[usize], _best: &Found, _goal: Goal) -> bool {
        false
    }
}

impl<E, F: FnMut(&[usize], f64) -> Result<Measured, E>> Measure<E> for F {
    fn one(&mut self, rungs: &[usize], knob: f64) -> Result<Measured, E> {
        self(rungs, knob)
    }
}

/// Measurements of one space of parameters, shared by all goals that are searched in it.
#[derive(Debug)]
pub struct Search {
    ladders: Vec<Ladder>,
    /// Whole positions of the knob.
    positions: usize,
    measured: HashMap<(Vec<usize>, usize), Measured>,
    visited: Vec<Vec<usize>>,
}

impl Search {
    /// The knob has positions from 0 on, at least one.
    pub fn new(ladders: Vec<Ladder>, positions: usize) -> Self {
        Self { ladders, positions: positions.max(1), measured: HashMap::new(), visited: Vec::new() }
    }

    /// The ladders.
    pub fn ladders(&self) -> &[Ladder] {
        &self.ladders
    }

    /// The rungs that were looked at since the last call, in order, and forgets that they were.
    pub fn take_visited(&mut self) -> Vec<Vec<usize>> {
        std::mem::take(&mut self.visited)
    }

    /// What was measured to meet a goal, each choice at its cheapest, the best first.
    pub fn known(&self, goal: Goal) -> Vec<Found> {
        let mut known: HashMap<&[usize], Found> = HashMap::new();
        for ((rungs, position), measured) in &self.measured {
            let found = Found {
                rungs: rungs.clone(),
                knob: *position as f64,
                excess: goal.excess(measured),
                cost: goal.cost(measured),
            };
            let cheaper = |other: &Found| (found.cost, found.knob) < (other.cost, other.knob);
            if found.excess <= 1.0 && known.get(&rungs[..]).is_none_or(cheaper) {
                known.insert(rungs, found);
            }
        }
        let mut known: Vec<Found> = known.into_values().collect();
        known.sort_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| a.rungs.cmp(&b.rungs)));
        known
    }

    /// Finds a choice for a goal by climbing the ladders `axes`, from `start` or else from their first rungs and
    /// the knob at `hint`.
    pub fn best<E>(
        &mut self,
        goal: Goal,
        start: Option<&Found>,
        hint: f64,
        axes: std::ops::Range<usize>,
        measure: &mut dyn Measure<E>,
    ) -> Result<Found, E> {
        let (rungs, knob) = match start {
            Some(found) => (found.rungs.clone(), found.knob),
            None => (self.ladders.iter().map(|ladder| ladder.start).collect(), hint),
        };
        let mut found = self.just_met(goal, rungs, knob, measure)?;
        for axis in axes.clone() {
            self.climb(goal, &mut found, axis, self.ladders[axis].stride, measure)?;
        }
        for axis in axes.filter(|axis| self.ladders[*axis].stride > 1).collect::<Vec<_>>() {
            self.climb(goal, &mut found, axis, 1, measure)?;
        }
        Ok(found)
    }

    /// Measures some choices, in this order: the best first.
    pub fn sweep<E>(
        &mut self,
        goal: Goal,
        choices: &[Vec<usize>],
        hint: f64,
        measure: &mut dyn Measure<E>,
    ) -> Result<Vec<Found>, E> {
        let (mut swept, mut knob): (Vec<Found>, f64) = (Vec::new(), hint);
        for pair in choices.chunks(2) {
            let best = swept.first();
            let hopeless =
                |rungs: &&Vec<usize>| best.is_some_and(|best| measure.is_hopeless(rungs, best, goal));
            let pair: Vec<&Vec<usize>> = pair.iter().filter(|rungs| !hopeless(rungs)).collect();
            if let [first, second] = pair[..] {
                self.measure_both([first.clone(), second.clone()], measure)?;
            }
            for rungs in pair {
                let found = self.just_met(goal, rungs.clone(), knob, measure)?;
                knob = if found.excess <= 1.0 { found.knob } else { knob };
                let place = swept.partition_point(|other| !found.is_better_than(other));
                swept.insert(place, found);
            }
        }
        Ok(swept)
    }

    /// Goes up or down one ladder while that pays.
    fn climb<E>(
        &mut self,
        goal: Goal,
        found: &mut Found,
        axis: usize,
        stride: usize,
        measure: &mut dyn Measure<E>,
    ) -> Result<(), E> {
        let Ladder { rungs, .. } = self.ladders[axis];
        self.look_both_ways(found, axis, stride, measure)?;
        // Long strides may step over a valley, so that one of them may fail.
        let patience = usize::from(stride > 1);
        for up in [true, false] {
            let (mut rung, mut moved, mut failures) = (found.rungs[axis], false, 0);
            while failures <= patience {
                let next = if up { rung.checked_add(stride) } else { rung.checked_sub(stride) };
                let Some(next) = next.filter(|next| *next < rungs) else { break };
                rung = next;
                let mut neighbour = found.rungs.clone();
                neighbour[axis] = next;
                let other = self.just_met(goal, neighbour, found.knob, measure)?;
                if !other.is_better_than(found) {
                    failures += 1;
                    continue;
                }
                let steps_left = (if up { rungs - 1 - next } else { next }) / stride;
                let goes_on = is_in_reach(found.excess, other.excess, steps_left);
                *found = other;
                (moved, failures) = (true, 0);
                if !goes_on {
                    break;
                }
            }
            if moved {
                break;
            }
        }
        Ok(())
    }

    /// Measures the rungs above and below at the same time, if both are there and the knob has one position: most
    /// often neither is better, and both are needed.
    fn look_both_ways<E>(
        &mut self,
        found: &Found,
        axis: usize,
        stride: usize,
        measure: &mut dyn Measure<E>,
    ) -> Result<(), E> {
        let (up, down) = (found.rungs[axis] + stride, found.rungs[axis].checked_sub(stride));
        let Some(down) = down.filter(|_| up < self.ladders[axis].rungs && self.positions == 1) else {
            return Ok(());
        };
        let keys = [up, down].map(|rung| {
            let mut rungs = found.rungs.clone();
            rungs[axis] = rung;
            rungs
        });
        let [first, second] = keys;
        self.measure_both([first, second], measure)
    }

    /// Measures two choices at the same time, if the knob has one position and neither was measured.
    fn measure_both<E>(
        &mut self,
        [first, second]: [Vec<usize>; 2],
        measure: &mut dyn Measure<E>,
    ) -> Result<(), E> {
        let keys = [first, second].map(|rungs| (measure.canonical(rungs), 0));
        let are_known = keys[0] == keys[1] || keys.iter().any(|key| self.measured.contains_key(key));
        if self.positions > 1 || are_known {
            return Ok(());
        }
        if let Some(measured) = measure.two([&keys[0].0, &keys[1].0], 0.0)? {
            self.measured.extend(keys.into_iter().zip(measured));
        }
        Ok(())
    }

    /// What rungs cost where the goal is just met, between two positions of the knob.
    fn just_met<E>(
        &mut self,
        goal: Goal,
        rungs: Vec<usize>,
        hint: f64,
        measure: &mut dyn Measure<E>,
    ) -> Result<Found, E> {
        let last = self.positions - 1;
        let rungs = measure.canonical(rungs);
        if !self.visited.contains(&rungs) {
            self.visited.push(rungs.clone());
        }
        let mut at = |position: usize| -> Result<Measured, E> {
            let key = (rungs.clone(), position);
            if let Some(known) = self.measured.get(&key) {
                return Ok(*known);
            }
            let measured = measure.one(&rungs, position as f64)?;
            self.measured.insert(key, measured);
            Ok(measured)
        };
        let mut position = (hint.max(0.0).round() as usize).min(last);
        let mut here = at(position)?;
        let met = goal.excess(&here) <= 1.0;
        // Where it is met the knob goes the other way, to save what it can.
        let up = met != goal.wants_up();
        loop {
            let next = if up { position.checked_add(1) } else { position.checked_sub(1) };
            let Some(next) = next.filter(|next| *next <= last) else {
                let (excess, cost) = (goal.excess(&here), goal.cost(&here));
                return Ok(Found { rungs, knob: position as f64, excess, cost });
            };
            let there = at(next)?;
            if (goal.excess(&there) <= 1.0) != met {
                let share = share_at_one(goal.excess(&here), goal.excess(&there));
                let knob = position as f64 + share * (next as f64 - position as f64);
                let cost = between(goal.cost(&here), goal.cost(&there), share);
                return Ok(Found { rungs, knob, excess: 1.0, cost });
            }
            let steps_left = if up { last - next } else { next };
            if !met && !is_in_reach(goal.excess(&here), goal.excess(&there), steps_left) {
                // What is between need not be known where the end does not meet the goal, either.
                let end = if up { last } else { 0 };
                let at_end = at(end)?;
                let (excess, cost) = (goal.excess(&at_end), goal.cost(&at_end));
                if excess > 1.0 {
                    return Ok(Found { rungs, knob: end as f64, excess, cost });
                }
            }
            (position, here) = (next, there);
        }
    }
}

/// How far from `here` to `there` a quantity passes 1, on a logarithmic scale.
fn share_at_one(here: f64, there: f64) -> f64 {
    let (a, b) = (logarithm(here), logarithm(there));
    if a == b { 0.0 } else { (a / (a - b)).clamp(0.0, 1.0) }
}

/// Of what may be 0 or infinite.
fn logarithm(value: f64) -> f64 {
    value.clamp(f64::MIN_POSITIVE, f64::MAX).ln()
}

fn between(here: f64, there: f64, share: f64) -> f64 {
    let (a, b) = (logarithm(here), logarithm(there));
    (a + share * (b - a)).exp()
}

/// Turns the knob to where measurements meet the goal, barely: whoever measures keeps the best.
pub fn tune<E>(
    goal: Goal,
    start: f64,
    last: f64,
    measure: &mut dyn FnMut(f64) -> Result<Measured, E>,
) -> Result<(), E> {
    const ROUNDS: usize = 6;
    /// Closer than this to the limit is close enough.
    const BARELY: f64 = 0.98;
    let mut tried: Vec<(f64, Measured)> = Vec::new();
    let mut knob = start.clamp(0.0, last);
    for _ in 0..ROUNDS {
        let measured = measure(knob)?;
        tried.push((knob, measured));
        if (BARELY..=1.0).contains(&goal.excess(&measured)) || goal == Goal::Smallest {
            break;
        }
        let next = next_knob(goal, &tried, last);
        if tried.iter().any(|(known, _)| (known - next).abs() < 1e-3) {
            break;
        }
        knob = next;
    }
    Ok(())
}

/// Between the nearest measurements on both sides of the limit, a little on the side that meets it; a step
/// on where all are on one side.
fn next_knob(goal: Goal, tried: &[(f64, Measured)], last: f64) -> f64 {
    /// Aims a little below the limit.
    const AIM: f64 = 0.99;
    let excess = |measured: &Measured| goal.excess(measured) / AIM;
    let mut sorted: Vec<(f64, f64)> = tried.iter().map(|(knob, m)| (*knob, excess(m))).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let crossing = sorted.windows(2).find(|pair| (pair[0].1 <= 1.0) != (pair[1].1 <= 1.0));
    if let Some([(a, excess_a), (b, excess_b)]) = crossing {
        let share = share_at_one(*excess_a, *excess_b);
        // Ends of the bracket teach nothing new.
        return a + share.clamp(0.05, 0.95) * (b - a);
    }
    let met = sorted.iter().all(|(_, excess)| *excess <= 1.0);
    let (lowest, highest) = (sorted[0].0, sorted[sorted.len() - 1].0);
    let step = 0.25 * (1 << sorted.len().min(5)) as f64;
    let next = if met != goal.wants_up() { highest + step } else { lowest - step };
    next.clamp(0.0, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes and errors of a made-up coder: the best rung is 3, and the knob halves the error for 1.5 times the bytes.
    fn made_up(rungs: &[usize], knob: f64) -> Result<Measured, ()> {
        let off = (rungs[0] as f64 - 3.0).abs();
        let (bytes, nmae) = (100.0 * (1.0 + off) * 1.5f64.powf(knob), 0.5f64.powf(knob));
        Ok(Measured { bytes, nmae, max_error: 3.0 * nmae })
    }

    fn space() -> Search {
        Search::new(vec![Ladder { rungs: 8, start: 6, stride: 2 }], 10)
    }

    #[test]
    fn the_best_rung_is_found_and_the_goal_just_met() {
        for (goal, knob) in [
            (Goal::Nmae(0.1), 10f64.log2()),
            (Goal::MaxError(0.3), 10f64.log2()),
            (Goal::Bytes(1000.0), 10f64.ln() / 1.5f64.ln()),
        ] {
            let found = space().best(goal, None, 0.0, 0..1, &mut made_up).expect("never fails");
            assert_eq!(found.rungs, [3], "{goal:?}");
            assert!((found.knob - knob).abs() < 1e-6, "{goal:?}: {} instead of {knob}", found.knob);
            let mut excesses = Vec::new();
            let mut at_best = |knob: f64| {
                let measured = made_up(&[3], knob)?;
                excesses.push(goal.excess(&measured));
                Ok::<_, ()>(measured)
            };
            tune(goal, 1.0, 9.0, &mut at_best).expect("never fails");
            assert!(excesses.iter().any(|excess| (0.97..=1.0).contains(excess)), "{goal:?}: {excesses:?}");
        }
    }

    #[test]
    fn what_cannot_be_met_is_approached() {
        let found = space().best(Goal::Nmae(1e-6), None, 4.0, 0..1, &mut made_up).expect("never fails");
        assert!(found.excess > 1.0);
        assert_eq!(found.knob, 9.0);
    }

    #[test]
    fn ladders_are_not_climbed_for_a_goal_that_is_out_of_reach() {
        let mut highest = 0;
        let mut slow = |rungs: &[usize], _: f64| {
            highest = highest.max(rungs[0]);
            let nmae = 0.9f64.powi(rungs[0] as i32);
            Ok::<_, ()>(Measured { bytes: 1.0, nmae, max_error: nmae })
        };
        let mut search = Search::new(vec![Ladder { rungs: 16, start: 4, stride: 1 }], 1);
        let far = search.best(Goal::Nmae(0.01), None, 0.0, 0..1, &mut slow).expect("never fails");
        assert!(far.excess > 1.0 && far.rungs[0] <= 6, "{far:?}");
        let near = search.best(Goal::Nmae(0.3), None, 0.0, 0..1, &mut slow).expect("never fails");
        assert_eq!((near.excess <= 1.0, near.rungs[0]), (true, 12), "{near:?}");
        assert_eq!(highest, 13);
    }

    #[test]
    fn a_goal_is_met_behind_a_plateau() {
        let mut plateau = |_: &[usize], knob: f64| {
            let nmae = if knob < 5.0 { 0.5 } else { 0.05 };
            Ok::<_, ()>(Measured { bytes: 1.0 + knob, nmae, max_error: nmae })
        };
        let found = space().best(Goal::Nmae(0.1), None, 1.0, 0..0, &mut plateau).expect("never fails");
        assert!(found.excess <= 1.0 && (4.0..=5.0).contains(&found.knob), "{found:?}");
    }

    #[test]
    fn nothing_is_measured_twice() {
        let mut calls = std::collections::HashSet::new();
        let mut search = space();
        let mut measure = |rungs: &[usize], knob: f64| {
            assert!(calls.insert((rungs.to_vec(), knob.to_bits())), "{rungs:?} at {knob} again");
            made_up(rungs, knob)
        };
        for limit in [0.2, 0.1, 0.05] {
            search.best(Goal::Nmae(limit), None, 3.0, 0..1, &mut measure).expect("never fails");
        }
    }
}
