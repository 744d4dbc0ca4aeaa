//! The lasso on a small set of atoms, solved exactly.
//!
//! Coordinate descent finds which weights are nonzero and their signs quickly, but crawls to their
//! values when atoms are alike. With signs fixed the problem is a linear system, so each sweep is
//! followed by a Newton step on the nonzeros, `K_SS d = g_S - lambda sign(w_S)` by Cholesky, with a
//! line search over the points where a weight would change its sign. Where atoms depend on each other
//! linearly, weight is shifted between them without changing the fit until one is no longer needed.
//! No step raises the objective.

use super::batch::Solution;
use super::cholesky::Cholesky;
use super::lasso::{Lasso, soft_threshold};
use crate::math::signals::add_scaled;

/// Atoms, their weights, and everything about them that a solve touches.
#[derive(Debug, Default)]
pub(super) struct ActiveSet {
    /// Positions in the gram matrix.
    pub positions: Vec<u32>,
    pub weights: Vec<f64>,
    /// `g = k - K w` at the set's atoms.
    pub correlations: Vec<f64>,
    similarities: Vec<f64>,
    /// The violation accepted of each atom.
    accepted: Vec<f64>,
    /// The gram matrix of the set by rows, `stride` apart.
    gram: Vec<f64>,
    stride: usize,
    newton: Newton,
    /// Sweeps and single updates since `clear`.
    pub rounds: usize,
    pub updates: u64,
}

/// Scratch of the Newton step.
#[derive(Debug, Default)]
struct Newton {
    /// Which members of the set move.
    support: Vec<usize>,
    /// The factor of the first `factored` of them.
    factor: Cholesky,
    factored: usize,
    in_support: Vec<bool>,
    /// Members that depend on the support and keep their weights while it moves.
    unmoved: Vec<usize>,
    direction: Vec<f64>,
    /// Where weights would change their signs, how fast they move, and whose they are.
    kinks: Vec<(f64, f64, usize)>,
}

impl ActiveSet {
    pub fn clear(&mut self) {
        self.positions.clear();
        self.weights.clear();
        self.correlations.clear();
        self.similarities.clear();
        self.accepted.clear();
        self.newton.support.clear();
        self.newton.factored = 0;
        self.rounds = 0;
        self.updates = 0;
    }

    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Adds the atom at a position with weight 0; `similarity` is `k(y, x)` of it and `correlation` what is left of
    /// that.
    #[inline(always)]
    pub fn add(&mut self, problem: &Lasso<'_>, position: usize, similarity: f64, correlation: f64) {
        let old = self.len();
        if old == self.stride {
            self.widen(old);
        }
        self.positions.push(position as u32);
        self.weights.push(0.0);
        self.similarities.push(similarity);
        self.correlations.push(correlation);
        self.accepted.push(problem.accepted(position));
        let row = problem.gram.row(position);
        for (i, other) in self.positions.iter().enumerate() {
            let value = row[*other as usize];
            self.gram[old * self.stride + i] = value;
            self.gram[i * self.stride + old] = value;
        }
    }

    /// Gives the atom added last a weight to start from; `solve_given` is to follow.
    #[inline(always)]
    pub fn give(&mut self, weight: f64) {
        if let Some(last) = self.weights.last_mut() {
            *last = weight;
        }
    }

    fn widen(&mut self, used: usize) {
        let wider = (2 * self.stride).max(16);
        let mut gram = vec![0.0; wider * wider];
        for i in 0..used {
            let row = &self.gram[i * self.stride..i * self.stride + used];
            gram[i * wider..i * wider + used].copy_from_slice(row);
        }
        self.gram = gram;
        self.stride = wider;
    }

    #[inline(always)]
    fn gram_row(&self, i: usize) -> &[f64] {
        &self.gram[i * self.stride..i * self.stride + self.len()]
    }

    /// Minimises from given weights; false if the rounds ran out.
    #[inline(always)]
    pub fn solve_given(&mut self, problem: &Lasso<'_>) -> bool {
        self.refresh();
        self.solve(problem)
    }

    /// Minimises over the set's weights; false if the rounds ran out.
    #[inline(always)]
    pub fn solve(&mut self, problem: &Lasso<'_>) -> bool {
        // Where the nonzeros are at their best only zeros can want to move.
        let mut zeros_only = true;
        loop {
            self.sweep(problem, zeros_only);
            if !zeros_only {
                // Where atoms depend on each other a sweep may arrive while steps are lost to rounding.
                self.refresh();
                if self.is_optimal(problem, |_| true) {
                    return true;
                }
            }
            self.newton_steps(problem);
            zeros_only = self.is_optimal(problem, |weight| weight != 0.0);
            if zeros_only && self.is_optimal(problem, |weight| weight == 0.0) {
                return true;
            }
            if self.rounds >= problem.max_rounds {
                return false;
            }
        }
    }

    /// Newton steps until one is whole: each that is not takes a weight to zero or over it. A sweep in
    /// between would bring such weights back.
    #[inline(always)]
    fn newton_steps(&mut self, problem: &Lasso<'_>) {
        for _ in 0..2 * self.len() + 1 {
            let step = self.newton_step(problem);
            self.refresh();
            if step == 0.0 || step == 1.0 {
                return;
            }
        }
    }

    /// One round of coordinate descent (eq. 9) over the set, or over its zeros.
    #[inline(always)]
    fn sweep(&mut self, problem: &Lasso<'_>, zeros_only: bool) {
        let count = self.len();
        for i in 0..count {
            let old = self.weights[i];
            if zeros_only && (old != 0.0 || self.correlations[i].abs() <= problem.lambda) {
                continue;
            }
            let row = &self.gram[i * self.stride..i * self.stride + count];
            let diagonal = row[i];
            if diagonal <= 0.0 {
                continue;
            }
            let z = self.correlations[i] + diagonal * old;
            let new = soft_threshold(z, problem.lambda) / diagonal;
            let change = new - old;
            if change != 0.0 {
                self.weights[i] = new;
                add_scaled(&mut self.correlations, -change, row);
            }
        }
        self.rounds += 1;
        self.updates += count as u64;
    }

    /// Computes the correlations from the weights.
    #[inline(always)]
    fn refresh(&mut self) {
        let count = self.len();
        self.correlations.clear();
        self.correlations.extend_from_slice(&self.similarities);
        for i in 0..count {
            if self.weights[i] != 0.0 {
                let row = &self.gram[i * self.stride..i * self.stride + count];
                add_scaled(&mut self.correlations, -self.weights[i], row);
            }
        }
    }

    /// Moves the nonzero weights towards the minimum for their present signs, as far as pays; gives how
    /// far.
    #[inline(always)]
    fn newton_step(&mut self, problem: &Lasso<'_>) -> f64 {
        let mut newton = std::mem::take(&mut self.newton);
        newton.unmoved.clear();
        while let Some((dependent, pivot)) = newton.factorise(self) {
            if !newton.resolve_dependence(self, problem, dependent, pivot) {
                newton.unmoved.push(dependent);
            }
            self.refresh();
        }
        newton.solve(self, problem.lambda);
        let step = newton.best_step(self, problem.lambda);
        newton.take_step(self, step);
        // A weight whose sign would change where the step ends lands on zero exactly.
        for (_, _, member) in newton.kinks.iter().filter(|(kink, _, _)| *kink == step) {
            self.weights[*member] = 0.0;
        }
        self.updates += newton.support.len() as u64;
        self.newton = newton;
        step
    }

    /// Whether the violations of the weights that `which` picks are well within what is accepted.
    #[inline(always)]
    fn is_optimal(&self, problem: &Lasso<'_>, which: impl Fn(f64) -> bool) -> bool {
        // Not `all`, which compilers may leave out of the function that may use the CPU's vectors.
        for ((accepted, w), g) in self.accepted.iter().zip(&self.weights).zip(&self.correlations) {
            let is_within = problem.violation(*w, *g) <= 0.5 * accepted;
            if which(*w) && !is_within {
                return false;
            }
        }
        true
    }

    /// The largest violation of the optimality conditions within the set.
    #[inline(always)]
    pub fn gap(&self, problem: &Lasso<'_>) -> f64 {
        let pairs = self.weights.iter().zip(&self.correlations);
        pairs.map(|(w, g)| problem.violation(*w, *g)).fold(0.0, f64::max)
    }

    #[inline(always)]
    pub fn objective(&self, problem: &Lasso<'_>) -> f64 {
        let entries = self.similarities.iter().zip(&self.weights).zip(&self.correlations);
        let nonzeros = entries.filter(|((_, w), _)| **w != 0.0);
        problem.objective(nonzeros.map(|((k, w), g)| (*k, *w, *g)))
    }

    /// Writes the nonzeros in ascending order of atoms.
    #[inline(always)]
    pub fn write_solution(&mut self, problem: &Lasso<'_>, solution: &mut Solution) {
        let entries = self.positions.iter().zip(&self.weights).filter(|(_, weight)| **weight != 0.0);
        solution.write(problem, entries.map(|(position, weight)| (*position, *weight)));
    }
}

impl Newton {
    /// Cholesky factor of the gram matrix of the nonzeros, of which the part that still holds is kept.
    /// An atom that depends linearly on those before it is left out if it is one of the `unmoved`, and
    /// ends it otherwise: then that atom and its pivot are given, and its row of the factor is in
    /// `direction`.
    #[inline(always)]
    fn factorise(&mut self, set: &ActiveSet) -> Option<(usize, f64)> {
        let nonzero = |member: &&usize| set.weights[**member] != 0.0;
        self.factored = self.support[..self.factored].iter().take_while(nonzero).count();
        self.support.truncate(self.factored);
        self.in_support.clear();
        self.in_support.resize(set.len(), false);
        for member in &self.support {
            self.in_support[*member] = true;
        }
        for (i, weight) in set.weights.iter().enumerate() {
            if *weight == 0.0 || self.in_support[i] {
                continue;
            }
            let gram = set.gram_row(i);
            self.factor.truncate(self.support.len());
            if let Err(pivot) = self.factor.push(self.support.iter().map(|other| gram[*other]), gram[i]) {
                if self.unmoved.contains(&i) {
                    continue;
                }
                self.direction.clear();
                self.direction.extend_from_slice(self.factor.refused());
                return Some((i, pivot));
            }
            self.support.push(i);
            self.factored += 1;
        }
        None
    }

    /// An atom is all but the combination `c` of the support: along `w_i + t`, `w_S - t c` the fit hardly
    /// changes (its curvature is the pivot) while the penalty does. Goes downhill to the minimum or to
    /// the first weight that becomes zero; gives whether one did.
    fn resolve_dependence(
        &mut self,
        set: &mut ActiveSet,
        problem: &Lasso<'_>,
        dependent: usize,
        pivot: f64,
    ) -> bool {
        self.factor.substitute_back(&mut self.direction);
        self.direction.iter_mut().for_each(|c| *c = -*c);
        self.support.push(dependent);
        self.direction.push(1.0);
        let moves = || self.support.iter().zip(&self.direction);
        let slope = |i: usize| problem.lambda.copysign(set.weights[i]) - set.correlations[i];
        let derivative: f64 = moves().map(|(&i, d)| d * slope(i)).sum();
        if derivative.abs() <= 0.1 * set.accepted[dependent] {
            self.support.pop();
            return false;
        }
        let sign = -1f64.copysign(derivative);
        let crossings = moves().map(|(&i, d)| -set.weights[i] / (sign * d));
        let first = crossings.filter(|crossing| *crossing > 0.0).fold(f64::INFINITY, f64::min);
        let minimum = if pivot > 0.0 { derivative.abs() / pivot } else { f64::INFINITY };
        let step = first.min(minimum);
        self.direction.iter_mut().for_each(|d| *d *= sign);
        if step.is_finite() {
            let crosses = |set: &ActiveSet, i: usize, d: f64| -set.weights[i] / d == step;
            for (&i, &d) in self.support.iter().zip(&self.direction) {
                // A weight whose crossing is the step lands on zero exactly.
                set.weights[i] = if crosses(set, i, d) { 0.0 } else { set.weights[i] + step * d };
            }
        }
        self.support.pop();
        first.is_finite() && first <= minimum
    }

    #[inline(always)]
    fn take_step(&self, set: &mut ActiveSet, step: f64) {
        for (&i, d) in self.support.iter().zip(&self.direction) {
            set.weights[i] += step * d;
        }
    }

    /// `K_SS d = g_S - lambda sign(w_S)`.
    #[inline(always)]
    fn solve(&mut self, set: &ActiveSet, lambda: f64) {
        let right = |i: &usize| set.correlations[*i] - lambda.copysign(set.weights[*i]);
        self.direction.clear();
        self.direction.extend(self.support.iter().map(right));
        self.factor.solve(&mut self.direction);
    }

    /// The step with the lowest objective: along the direction it is a convex parabola with kinks where
    /// weights change their signs.
    #[inline(always)]
    fn best_step(&mut self, set: &ActiveSet, lambda: f64) -> f64 {
        self.kinks.clear();
        let mut curvature = 0.0;
        for (&i, d) in self.support.iter().zip(&self.direction) {
            let weight = set.weights[i];
            curvature += d * (set.correlations[i] - lambda.copysign(weight));
            if weight * d < 0.0 && d.abs() > weight.abs() {
                self.kinks.push((-weight / d, d.abs(), i));
            }
        }
        // Not to move at all is the choice where rounding has spoilt the direction.
        if curvature <= 0.0 {
            return 0.0;
        }
        self.kinks.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        // The slope is this much above that of the parabola, which is lowest at 1.
        let mut above = 0.0;
        for (kink, size, _) in &self.kinks {
            let lowest = 1.0 - above / curvature;
            if lowest <= *kink {
                return lowest;
            }
            above += 2.0 * lambda * size;
            if 1.0 - above / curvature <= *kink {
                return *kink;
            }
        }
        1.0 - above / curvature
    }
}
