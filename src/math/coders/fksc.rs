//! FKSC: the same optimum as KSC in two stages (paper 1, section 4 and A.4).
//!
//! Stage 1 predicts the nonzeros from the bounds (14) on the correlations in the first round and
//! works on those alone until they settle. Stage 2 looks at the rest: the bounds
//! `|z_i' - z_i| <= ||K_i|| ||dw||_2` (eqs. 12-16) certify most atoms without touching them, the
//! others are computed, and those that violate their condition join stage 1.
//!
//! Deviations, all towards the same optimum:
//! - It starts from `z = k` (w = 0). From `z = 0`, as in Algorithm 2, every bound is 0 and predicts
//!   nothing.
//! - Within the predicted atoms only the worst violators are worked on, a few more each time, by
//!   the exact solver of `active_set`: coordinate descent alone crawls when atoms are alike.
//! - As `|K_ij| <= max |K|`, the change is also at most `max |K| ||dw||_1`; the smaller bound is used.

use super::active_set::ActiveSet;
use super::batch::{Workspace, code_each};
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use super::{Coder, CoderOptions};
use crate::math::signals::add_scaled;
use crate::math::{PreparedDictionary, Result, Signals};

/// How many violators join the working set at a time, at least.
const NEWCOMERS: usize = 8;

/// Two-stage kernel sparse coding.
#[derive(Debug, Clone, Copy)]
pub struct Fksc;

impl Coder for Fksc {
    fn name(&self) -> &'static str {
        "fksc"
    }

    fn encode(
        &self,
        dictionary: &PreparedDictionary,
        signals: &Signals<'_>,
        options: &CoderOptions,
    ) -> Result<Codes> {
        code_each(dictionary, signals, options, |problem, workspace| {
            let Workspace { solution, set, fksc, .. } = workspace;
            set.clear();
            let report = Run { problem, set, state: fksc }.solve();
            set.write_solution(solution);
            report
        })
    }
}

/// Memory reused from signal to signal.
#[derive(Debug, Default)]
pub(super) struct State {
    /// `g = k - K w` for every atom: up to date for candidates, as of `base` for the others.
    correlations: Vec<f64>,
    /// Atoms predicted to be nonzero, in the order of their prediction.
    candidates: Vec<u32>,
    is_candidate: Vec<bool>,
    in_set: Vec<bool>,
    /// The set's weights as the candidates' correlations reflect them.
    applied: Vec<f64>,
    /// The set's weights as the other atoms' correlations reflect them.
    base: Vec<f64>,
    violators: Vec<(f64, u32)>,
    /// Atoms whose weights differ from `base`, and by how much.
    moved: Vec<(u32, f64)>,
}

struct Run<'a, 'b> {
    problem: &'a Lasso<'b>,
    set: &'a mut ActiveSet,
    state: &'a mut State,
}

impl Run<'_, '_> {
    fn solve(&mut self) -> SignalReport {
        self.predict();
        let mut outside_gap;
        let exit = loop {
            let settled = self.settle_candidates();
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
    /// its correlation exceeds `lambda`.
    fn predict(&mut self) {
        let State { correlations, candidates, is_candidate, in_set, applied, base, .. } = self.state;
        let similarities = self.problem.similarities;
        correlations.clear();
        correlations.extend_from_slice(similarities);
        candidates.clear();
        applied.clear();
        base.clear();
        in_set.clear();
        in_set.resize(similarities.len(), false);
        is_candidate.clear();
        is_candidate.extend(similarities.iter().map(|k| k.abs() > self.problem.lambda));
        let predicted = is_candidate.iter().enumerate().filter(|(_, is)| **is);
        candidates.extend(predicted.map(|(atom, _)| atom as u32));
    }

    /// Stage 1: solves on the worst candidates, adding more until none violates its condition.
    /// False if the rounds ran out.
    fn settle_candidates(&mut self) -> bool {
        loop {
            self.find_violators();
            if self.state.violators.is_empty() {
                return true;
            }
            let State { violators, in_set, .. } = self.state;
            for (_, atom) in violators.iter() {
                in_set[*atom as usize] = true;
                self.set.add(self.problem, *atom as usize, 0.0);
            }
            let solved = self.set.solve(self.problem);
            self.apply_to_candidates();
            if !solved {
                return false;
            }
        }
    }

    /// Collects the candidates outside the set that violate their condition most.
    fn find_violators(&mut self) {
        let State { violators, candidates, in_set, correlations, .. } = self.state;
        violators.clear();
        for &atom in candidates.iter() {
            let excess = correlations[atom as usize].abs() - self.problem.lambda;
            if excess > self.problem.accepted(atom as usize) && !in_set[atom as usize] {
                violators.push((excess / self.problem.gram.norms[atom as usize], atom));
            }
        }
        let most = NEWCOMERS.max(self.set.len());
        if violators.len() > most {
            violators.select_nth_unstable_by(most, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            violators.truncate(most);
        }
        violators.sort_unstable_by_key(|(_, atom)| *atom);
    }

    /// Brings the candidates' correlations up to date with the set's weights.
    fn apply_to_candidates(&mut self) {
        let State { candidates, correlations, applied, .. } = self.state;
        applied.resize(self.set.len(), 0.0);
        for ((atom, new), old) in self.set.atoms.iter().zip(&self.set.weights).zip(applied.iter_mut()) {
            let change = new - *old;
            if change == 0.0 {
                continue;
            }
            *old = *new;
            let row = self.problem.gram.row(*atom as usize);
            if candidates.len() == row.len() {
                add_scaled(correlations, -change, row);
            } else {
                for &i in candidates.iter() {
                    correlations[i as usize] -= change * row[i as usize];
                }
            }
        }
    }

    /// Stage 2: makes sure of the atoms that are not candidates. Gives how many had to become
    /// candidates, and a bound on the violation of the others.
    fn check_others(&mut self) -> (usize, f64) {
        let atoms = self.problem.gram.atoms;
        if self.state.candidates.len() == atoms {
            return (0, 0.0);
        }
        if self.state.base.is_empty() {
            self.refresh_others();
        }
        self.find_moves();
        let l1: f64 = self.state.moved.iter().map(|(_, change)| change.abs()).sum();
        let l2 = self.state.moved.iter().map(|(_, change)| change * change).sum::<f64>().sqrt();
        let State { candidates, is_candidate, correlations, moved, .. } = self.state;
        let before = candidates.len();
        let mut worst = 0.0f64;
        for atom in 0..atoms {
            if is_candidate[atom] {
                continue;
            }
            let limit = self.problem.lambda + self.problem.accepted(atom);
            let drift = (self.problem.gram.row_norms[atom] * l2).min(self.problem.gram.largest * l1);
            let bound = correlations[atom].abs() + drift;
            if bound <= limit {
                worst = worst.max(bound);
                continue;
            }
            let row = self.problem.gram.row(atom);
            let change: f64 = moved.iter().map(|(other, change)| change * row[*other as usize]).sum();
            let exact = correlations[atom] - change;
            if exact.abs() > limit {
                correlations[atom] = exact;
                is_candidate[atom] = true;
                candidates.push(atom as u32);
            } else {
                worst = worst.max(exact.abs());
            }
        }
        (candidates.len() - before, (worst - self.problem.lambda).max(0.0))
    }

    /// Computes the correlations of all atoms from the weights and remembers these as `base`.
    fn refresh_others(&mut self) {
        let State { correlations, base, applied, .. } = self.state;
        correlations.clear();
        correlations.extend_from_slice(self.problem.similarities);
        for (atom, weight) in self.set.atoms.iter().zip(&self.set.weights) {
            if *weight != 0.0 {
                add_scaled(correlations, -weight, self.problem.gram.row(*atom as usize));
            }
        }
        base.clear();
        base.extend_from_slice(&self.set.weights);
        applied.clear();
        applied.extend_from_slice(&self.set.weights);
    }

    /// Lists which weights differ from `base`, and by how much.
    fn find_moves(&mut self) {
        let State { base, moved, .. } = self.state;
        base.resize(self.set.len(), 0.0);
        moved.clear();
        let weights = self.set.atoms.iter().zip(&self.set.weights).zip(base.iter());
        let changes = weights.map(|((atom, new), old)| (*atom, new - old));
        moved.extend(changes.filter(|(_, change)| *change != 0.0));
    }

    /// The largest violation among candidates outside the set.
    fn candidates_gap(&self) -> f64 {
        let outside = self.state.candidates.iter().filter(|atom| !self.state.in_set[**atom as usize]);
        let sizes = outside.map(|atom| self.state.correlations[*atom as usize].abs());
        (sizes.fold(0.0, f64::max) - self.problem.lambda).max(0.0)
    }
}
