//! FKSC: the same optimum as KSC in two stages (paper 1, section 4 and A.4).
//!
//! Stage 1 predicts the nonzeros from the bounds (14) on the correlations in the first round and
//! works on those alone until they settle. Stage 2 looks at the rest: bounds on the correlations
//! (eqs. 12-16) certify most atoms without touching them, the others are computed, and those that
//! violate their condition join stage 1.
//!
//! Deviations, all towards the same optimum:
//! - It starts from `z = k` (w = 0). From `z = 0`, as in Algorithm 2, every bound is 0 and predicts
//!   nothing.
//! - Within the predicted atoms only the worst violators are worked on, a few more each time, by
//!   the exact solver of `active_set`: coordinate descent alone crawls when atoms are alike. Where few atoms are
//!   predicted, the set starts with those that some greedy steps touch (`sketch`).
//! - The bound is not `|z_i| <= |k_i| + ||K_i|| ||w||_2` atom by atom, but
//!   `|z_i| <= max |k_i| + sum_j |w_j| max |K_ij|` over a group of similar atoms at once: tighter,
//!   since similar atoms are far from the same others, and 32 times fewer. Where similarities are never
//!   negative, negative weights can only raise `z_i` and positive ones only lower it, so that the larger of
//!   both parts is enough.
//! - Similarities may be known to a bound only (`similarities`); whatever the bound leaves open is
//!   computed exactly.

use std::marker::PhantomData;
use std::ops::Range;

use super::active_set::ActiveSet;
use super::batch::{Earlier, Solution, Solver, Waiting, code_each};
use super::codes::{Code, Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use super::marks::{largest, mark_of, marked};
use super::similarities::{ExactBlock, ScreenedBlock, Similarities, SimilarityBlock};
use super::sketch::{CandidateRows, Sketch, gather};
use super::{Coder, CoderOptions, Form, L1_OPTIONS};
use crate::math::gram::GROUP;
use crate::math::signals::{add_all_scaled, add_scaled};
use crate::math::{PreparedDictionary, Result, Signals};

/// Newcomers whose similarities are computed together.
const TOGETHER: usize = 4;

/// Candidates that are looked at together: mostly none of them violates its condition.
const CHUNK: usize = 16;

/// Candidates up to which a sketch pays: each of its steps looks at all of them.
const MOST_SKETCHED: usize = 128;

/// Takes a candidate out of every comparison.
const IN_SET: f64 = -f64::MAX;

/// Two-stage kernel sparse coding.
#[derive(Debug, Clone, Copy)]
pub struct Fksc;

impl Coder for Fksc {
    fn name(&self) -> &'static str {
        "fksc"
    }

    fn heeds(&self) -> &'static [&'static str] {
        L1_OPTIONS
    }

    fn form(&self) -> Form {
        Form::L1
    }

    fn encode(
        &self,
        dictionary: &PreparedDictionary,
        signals: &Signals<'_>,
        options: &CoderOptions,
    ) -> Result<Codes> {
        self.encode_from(dictionary, signals, options, None)
    }
}

impl Fksc {
    /// Encodes signals that were encoded before, with a dictionary that has changed little since.
    pub(crate) fn encode_from(
        &self,
        dictionary: &PreparedDictionary,
        signals: &Signals<'_>,
        options: &CoderOptions,
        start: Option<Earlier<'_>>,
    ) -> Result<Codes> {
        if dictionary.gram()?.screen.is_some() {
            code_each(dictionary, signals, options, start, &TwoStages::<ScreenedBlock>(PhantomData))
        } else {
            code_each(dictionary, signals, options, start, &TwoStages::<ExactBlock>(PhantomData))
        }
    }
}

/// The solver on similarities from a block `B`.
struct TwoStages<B>(PhantomData<fn() -> B>);

impl<B: SimilarityBlock> Solver for TwoStages<B> {
    type Block = B;
    type Memory = (ActiveSet, State);

    #[inline(always)]
    fn solve(
        &self,
        problem: &Lasso<'_>,
        signal: Waiting<'_, B::Row<'_>>,
        (set, state): &mut (ActiveSet, State),
        solution: &mut Solution,
    ) -> SignalReport {
        set.clear();
        let Waiting { similarities, start, known, .. } = signal;
        let report = Run { problem, similarities, set, state }.solve(start, known);
        set.write_solution(problem, solution);
        report
    }
}

/// Memory reused from signal to signal. Positions are those of the gram matrix; `candidates` lists
/// the positions predicted to be nonzero, and the vectors after it run over candidates.
#[derive(Debug, Default)]
struct State {
    candidates: Vec<u32>,
    /// Whether all positions are candidates, in order.
    all: bool,
    /// `g = k - K w`, up to `errors`.
    correlations: Vec<f64>,
    /// `IN_SET` for those that the set looks after.
    errors: Vec<f64>,
    /// The largest `|g|` plus its error of every chunk of candidates that are not in the set.
    chunk_peaks: Vec<f64>,
    /// The gram matrix's row of every member of the set, at the candidates; not filled if all are.
    rows: Vec<f64>,
    /// The members' weights as `correlations` reflect them.
    applied: Vec<f64>,
    /// Candidates that have turned out to be no violators, with their errors.
    passed: Vec<(usize, f64)>,
    /// Candidates that are about to join the set.
    newcomers: Vec<usize>,
    is_candidate: Vec<bool>,
    /// A bound on `|k|` of the positions of each group that are no candidates.
    peaks: Vec<f64>,
    /// The same for `|k - K w|`.
    bounds: Vec<f64>,
    /// How far positive weights may lower `k - K w`.
    lowered: Vec<f64>,
    sketch: Sketch,
}

impl State {
    #[inline(always)]
    fn clear(&mut self) {
        self.candidates.clear();
        self.correlations.clear();
        self.errors.clear();
        self.rows.clear();
        self.applied.clear();
        self.is_candidate.clear();
        self.peaks.clear();
    }

    /// The largest correlation that a candidate of a range may have, unless it is in the set.
    #[inline(always)]
    fn largest(&self, range: Range<usize>) -> f64 {
        largest(range, |i| self.correlations[i].abs() + self.errors[i])
    }

    /// The same, marked with whose it is.
    #[inline(always)]
    fn largest_marked(&self, range: Range<usize>) -> f64 {
        largest(range, |i| marked((self.correlations[i].abs() + self.errors[i]).min(f64::MAX), i))
    }
}

struct Run<'a, 'b, S> {
    problem: &'a Lasso<'b>,
    similarities: S,
    set: &'a mut ActiveSet,
    state: &'a mut State,
}

impl<S: Similarities> Run<'_, '_, S> {
    #[inline(always)]
    fn solve(&mut self, start: Code<'_>, known: &[f64]) -> SignalReport {
        self.predict();
        let mut solved = match start.0 {
            [] if self.state.candidates.len() <= MOST_SKETCHED => self.start_from_sketch(),
            _ => self.start_from(start, known),
        };
        let mut outside_gap;
        let exit = loop {
            let settled = solved && self.settle_candidates();
            solved = settled;
            let joined;
            (joined, outside_gap) = self.check_others();
            if !settled {
                break ExitReason::MaxRounds;
            }
            if joined == 0 {
                break ExitReason::Converged;
            }
        };
        SignalReport {
            objective: self.set.objective(self.problem),
            rounds: self.set.rounds as u32,
            updates: self.set.updates,
            gap: self.set.gap(self.problem).max(self.candidates_gap()).max(outside_gap),
            exit,
        }
    }

    /// Starts from `w = 0`, where the bounds (14) are exact: an atom is predicted to be nonzero if
    /// its correlation may exceed `lambda`.
    #[inline(always)]
    fn predict(&mut self) {
        let atoms = self.problem.gram.atoms;
        let lambda = self.problem.lambda;
        let state = &mut *self.state;
        state.clear();
        let size = |i: usize| self.similarities.near(i).abs() + self.similarities.error(i);
        // A loop: what `extend` calls is not compiled for all of the CPU's vectors.
        for start in (0..atoms).step_by(GROUP) {
            state.peaks.push(largest(start..(start + GROUP).min(atoms), size));
        }
        let open = state.peaks.iter().filter(|peak| **peak > lambda).count();
        state.all = 2 * open > state.peaks.len();
        if state.all {
            state.candidates.extend(0..atoms as u32);
            state.correlations.resize(atoms, 0.0);
            state.errors.resize(atoms, 0.0);
            self.similarities.all_near(&mut state.correlations, &mut state.errors);
        } else {
            state.is_candidate.resize(atoms, false);
            for (group, peak) in state.peaks.iter_mut().enumerate().filter(|(_, peak)| **peak > lambda) {
                *peak = 0.0;
                for i in group * GROUP..((group + 1) * GROUP).min(atoms) {
                    if size(i) > lambda {
                        state.is_candidate[i] = true;
                        state.candidates.push(i as u32);
                        state.correlations.push(self.similarities.near(i));
                        state.errors.push(self.similarities.error(i));
                    } else {
                        *peak = peak.max(size(i));
                    }
                }
            }
        }
    }

    /// Puts the candidates of an earlier code into the set and solves on them; `known` are their similarities, where
    /// it is not empty. False if the rounds ran out.
    #[inline(always)]
    fn start_from(&mut self, (atoms, weights): Code<'_>, known: &[f64]) -> bool {
        for (entry, (atom, weight)) in atoms.iter().zip(weights).enumerate() {
            let position = self.problem.gram.rank[*atom as usize];
            // Predicted positions ascend.
            if let Ok(i) = self.state.candidates.binary_search(&position) {
                let known = known.get(entry).filter(|_| self.state.errors[i] > 0.0);
                let exact = known.copied().unwrap_or_else(|| self.similarities.exact(position as usize));
                self.join(i, exact);
                self.set.give(*weight);
            }
        }
        if self.set.len() == 0 {
            return true;
        }
        let solved = self.set.solve_given(self.problem);
        self.apply_to_candidates();
        solved
    }

    /// Puts the candidates that a sketch touches into the set, in the order in which their rows were gathered, and solves
    /// from the weights it gives them. False if the rounds ran out.
    #[inline(always)]
    fn start_from_sketch(&mut self) -> bool {
        let State { candidates, all, correlations, rows, sketch, newcomers, .. } = &mut *self.state;
        let gathered = (!*all).then_some((candidates.as_slice(), rows));
        let mut gram_rows = CandidateRows { gram: self.problem.gram, gathered };
        self.set.updates += sketch.draw(self.problem.lambda, correlations, &mut gram_rows);
        newcomers.extend_from_slice(&sketch.touched);
        if self.join_newcomers() == 0 {
            return true;
        }
        self.set.weights.copy_from_slice(&self.state.sketch.weights);
        let solved = self.set.solve_given(self.problem);
        self.apply_to_candidates();
        solved
    }

    /// Stage 1: solves on the worst candidates, adding more until none violates its condition.
    /// False if the rounds ran out.
    #[inline(always)]
    fn settle_candidates(&mut self) -> bool {
        loop {
            if self.join_violators() == 0 {
                return true;
            }
            let solved = self.set.solve(self.problem);
            self.apply_to_candidates();
            if !solved {
                return false;
            }
        }
    }

    /// Puts the candidates that violate their condition most into the set; gives how many.
    #[inline(always)]
    fn join_violators(&mut self) -> usize {
        let count = self.state.candidates.len();
        if count == 0 {
            return 0;
        }
        let chunk_of = |i: usize| i..(i + CHUNK).min(count);
        self.state.chunk_peaks.clear();
        for start in (0..count).step_by(CHUNK) {
            let peak = self.state.largest_marked(chunk_of(start));
            self.state.chunk_peaks.push(peak);
        }
        let most = S::NEWCOMERS.max(self.set.len() / 4);
        let floor = self.problem.lambda + self.problem.tolerance * self.problem.gram.smallest_norm;
        while self.state.newcomers.len() < most {
            let State { correlations, errors, candidates, passed, newcomers, chunk_peaks, .. } =
                &mut *self.state;
            let i = mark_of(largest(0..chunk_peaks.len(), |chunk| chunk_peaks[chunk]));
            let size = correlations[i].abs() + errors[i];
            if size.is_nan() || size <= floor {
                break;
            }
            let position = candidates[i] as usize;
            let limit = self.problem.lambda + self.problem.accepted(position);
            if size > limit && correlations[i].abs() - errors[i] <= limit && errors[i] > 0.0 {
                correlations[i] += self.similarities.exact(position) - self.similarities.near(position);
                errors[i] = 0.0;
            } else if size > limit {
                newcomers.push(i);
                passed.push((i, errors[i]));
                errors[i] = IN_SET;
            } else {
                passed.push((i, errors[i]));
                errors[i] = IN_SET;
            }
            let peak = self.state.largest_marked(chunk_of(i - i % CHUNK));
            self.state.chunk_peaks[i / CHUNK] = peak;
        }
        let State { passed, errors, .. } = &mut *self.state;
        passed.drain(..).for_each(|(i, error)| errors[i] = error);
        self.join_newcomers()
    }

    /// Puts all newcomers into the set; gives how many.
    #[inline(always)]
    fn join_newcomers(&mut self) -> usize {
        let count = self.state.newcomers.len();
        let mut first = 0;
        while first + TOGETHER <= count {
            let places: [usize; TOGETHER] = std::array::from_fn(|i| self.state.newcomers[first + i]);
            let exact = self.similarities.exact_each(places.map(|i| self.state.candidates[i] as usize));
            for (i, exact) in places.into_iter().zip(exact) {
                self.join(i, exact);
            }
            first += TOGETHER;
        }
        for place in first..count {
            let i = self.state.newcomers[place];
            self.join(i, self.similarities.exact(self.state.candidates[i] as usize));
        }
        self.state.newcomers.clear();
        count
    }

    /// Puts a candidate into the set, with weight 0; `exact` is its similarity.
    #[inline(always)]
    fn join(&mut self, i: usize, exact: f64) {
        let State { candidates, correlations, errors, rows, all, .. } = &mut *self.state;
        let position = candidates[i] as usize;
        if errors[i] > 0.0 {
            correlations[i] += exact - self.similarities.near(position);
        }
        errors[i] = IN_SET;
        self.set.add(self.problem, position, exact, correlations[i]);
        // A sketch has gathered the rows of what it has touched.
        if !*all && rows.len() < self.set.len() * candidates.len() {
            gather(self.problem.gram, candidates, position, rows);
        }
    }

    /// Brings the candidates' correlations up to date with the set's weights.
    #[inline(always)]
    fn apply_to_candidates(&mut self) {
        let State { correlations, applied, rows, all, .. } = &mut *self.state;
        applied.resize(self.set.len(), 0.0);
        let count = correlations.len();
        let members = self.set.positions.iter().zip(&self.set.weights).zip(applied.iter_mut());
        let changes = members.enumerate().filter_map(|(i, ((position, new), old))| {
            let change = new - std::mem::replace(old, *new);
            let gathered = || &rows[i * count..(i + 1) * count];
            let row = if *all { self.problem.gram.row(*position as usize) } else { gathered() };
            (change != 0.0).then_some((-change, row))
        });
        add_all_scaled(correlations, changes);
    }

    /// Stage 2: makes sure of the atoms that are not candidates. Gives how many had to become
    /// candidates, and a bound on the violation of the others.
    #[inline(always)]
    fn check_others(&mut self) -> (usize, f64) {
        if self.state.all {
            return (0, 0.0);
        }
        let before = self.state.candidates.len();
        self.bound_groups();
        let mut worst = 0.0f64;
        for group in 0..self.state.bounds.len() {
            if self.state.bounds[group] > self.problem.lambda {
                worst = worst.max(self.check_group(group));
            }
        }
        let joined = self.state.candidates.len() - before;
        if joined > 0 {
            self.gather_rows();
        }
        (joined, (worst - self.problem.lambda).max(0.0))
    }

    /// Bounds `|k - K w|` group by group.
    #[inline(always)]
    fn bound_groups(&mut self) {
        let State { peaks, bounds, lowered, .. } = &mut *self.state;
        bounds.clear();
        bounds.extend_from_slice(peaks);
        lowered.clear();
        lowered.resize(peaks.len(), 0.0);
        for (position, weight) in self.set.positions.iter().zip(&self.set.weights) {
            if *weight != 0.0 {
                let moved = if *weight > 0.0 { &mut *lowered } else { &mut *bounds };
                add_scaled(moved, weight.abs(), self.problem.gram.peaks(*position as usize));
            }
        }
        let never_negative = self.problem.gram.never_negative;
        for (bound, lowered) in bounds.iter_mut().zip(lowered) {
            *bound = if never_negative { bound.max(*lowered) } else { *bound + *lowered };
        }
    }

    /// Computes the correlations of a group's atoms; those that violate their condition become
    /// candidates. Gives the largest magnitude among the others.
    #[inline(always)]
    fn check_group(&mut self, group: usize) -> f64 {
        let start = group * GROUP;
        let end = (start + GROUP).min(self.problem.gram.atoms);
        let mut fitted = [0.0; GROUP];
        for (position, weight) in self.set.positions.iter().zip(&self.set.weights) {
            if *weight != 0.0 {
                let row = &self.problem.gram.row(*position as usize)[start..end];
                add_scaled(&mut fitted[..end - start], *weight, row);
            }
        }
        let state = &mut *self.state;
        let mut worst = 0.0f64;
        for (position, fitted) in (start..end).zip(fitted) {
            if state.is_candidate[position] {
                continue;
            }
            let limit = self.problem.lambda + self.problem.accepted(position);
            let mut correlation = self.similarities.near(position) - fitted;
            let mut error = self.similarities.error(position);
            if correlation.abs() + error > limit && error > 0.0 {
                correlation = self.similarities.exact(position) - fitted;
                error = 0.0;
            }
            if correlation.abs() > limit {
                state.is_candidate[position] = true;
                state.candidates.push(position as u32);
                state.correlations.push(correlation);
                state.errors.push(0.0);
            } else {
                worst = worst.max(correlation.abs() + error);
            }
        }
        worst
    }

    /// Gathers the members' rows anew, after candidates have joined.
    #[inline(always)]
    fn gather_rows(&mut self) {
        let State { candidates, rows, .. } = &mut *self.state;
        rows.clear();
        for position in &self.set.positions {
            gather(self.problem.gram, candidates, *position as usize, rows);
        }
    }

    /// A bound on the violation of the candidates outside the set.
    #[inline(always)]
    fn candidates_gap(&self) -> f64 {
        (self.state.largest(0..self.state.candidates.len()) - self.problem.lambda).max(0.0)
    }
}
