//! A first guess at the nonzeros: greedy coordinate descent on the candidates, a few steps of it.
//!
//! Each step moves the weight whose condition is violated most to where it would be at its best alone (eq. 9). Under the
//! RBF kernel hardly any atom is touched that does not end up with a weight, and most of those that do are touched
//! within three steps each, which is far less work than to solve exactly on a set that grows by a few atoms at a time.
//! It need not be precise: the exact solver starts from it.

use super::lasso::soft_threshold;
use super::marks::{largest, largest_of, mark_of, marked};
use crate::math::gram::Gram;

/// More steps in a row than this that touch no other atom tell that the solver is quicker: atoms are alike, or most are
/// found.
const MOST_REPEATS: usize = 2;
/// Violations below this share of the penalty are left to the solver.
const NEGLIGIBLE: f64 = 0.05;

/// Correlations that are changed at a time.
const WIDTH: usize = 4;

/// Adds a position's row of the gram matrix, at the candidates.
#[inline(always)]
pub(super) fn gather(gram: &Gram, candidates: &[u32], position: usize, rows: &mut Vec<f64>) {
    let row = gram.row(position);
    rows.extend(candidates.iter().map(|other| row[*other as usize]));
}

/// The candidates' side of the gram matrix.
pub(super) struct CandidateRows<'a> {
    pub gram: &'a Gram,
    /// The candidates, and their rows in the order in which they were touched; nothing where all positions are
    /// candidates.
    pub gathered: Option<(&'a [u32], &'a mut Vec<f64>)>,
}

impl CandidateRows<'_> {
    #[inline(always)]
    fn touch(&mut self, candidate: usize) {
        if let Some((candidates, rows)) = &mut self.gathered {
            gather(self.gram, candidates, candidates[candidate] as usize, rows);
        }
    }

    /// The row of a candidate that was touched as the `number`th.
    #[inline(always)]
    fn row(&self, number: usize, candidate: usize) -> &[f64] {
        match &self.gathered {
            None => self.gram.row(candidate),
            Some((candidates, rows)) => &rows[number * candidates.len()..(number + 1) * candidates.len()],
        }
    }
}

/// Memory reused from signal to signal; by candidate, but for `touched` and `weights`.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    correlations: Vec<f64>,
    /// A correlation between these violates no condition: from `-lambda` to `lambda` where the weight is zero, otherwise
    /// both are `lambda sign(w)`.
    lowest: Vec<f64>,
    highest: Vec<f64>,
    /// The number of every candidate that was touched.
    numbers: Vec<u32>,
    /// Candidates in the order in which they were touched.
    pub touched: Vec<usize>,
    /// Their weights.
    pub weights: Vec<f64>,
}

/// Of a candidate that was not touched.
const UNTOUCHED: u32 = u32::MAX;

impl Sketch {
    /// Draws the sketch from correlations at `w = 0`; gives how many steps it took.
    #[inline(always)]
    pub fn draw(&mut self, lambda: f64, correlations: &[f64], rows: &mut CandidateRows<'_>) -> u64 {
        let count = correlations.len();
        self.correlations.clear();
        self.correlations.extend_from_slice(correlations);
        self.lowest.clear();
        self.lowest.resize(count, -lambda);
        self.highest.clear();
        self.highest.resize(count, lambda);
        self.numbers.clear();
        self.numbers.resize(count, UNTOUCHED);
        self.touched.clear();
        self.weights.clear();
        let mut worst = largest(0..count, |i| marked(correlations[i].abs() - lambda, i));
        // More atoms than dimensions may depend on each other, which the solver has to mend one by one.
        let most = rows.gram.rows.dim;
        let (mut steps, mut repeats) = (0, 0);
        while worst > NEGLIGIBLE * lambda {
            let i = mark_of(worst);
            repeats += 1;
            if self.numbers[i] == UNTOUCHED {
                if self.touched.len() == most {
                    break;
                }
                repeats = 0;
                self.numbers[i] = self.touched.len() as u32;
                self.touched.push(i);
                self.weights.push(0.0);
                rows.touch(i);
            }
            let number = self.numbers[i] as usize;
            let row = rows.row(number, i);
            let diagonal = row[i];
            if repeats > MOST_REPEATS || diagonal <= 0.0 {
                break;
            }
            steps += 1;
            let old = self.weights[number];
            let new = soft_threshold(self.correlations[i] + diagonal * old, lambda) / diagonal;
            self.weights[number] = new;
            let of_sign = lambda.copysign(new);
            (self.lowest[i], self.highest[i]) =
                if new == 0.0 { (-lambda, lambda) } else { (of_sign, of_sign) };
            worst = self.move_weight(new - old, row);
        }
        // The solver cannot start from what has overflowed.
        if !all_finite(&self.weights) || !all_finite(&self.correlations) {
            self.weights.fill(0.0);
        }
        steps
    }

    /// Moves the weight whose row this is by so much; gives the largest violation then, marked with whose it is. What has
    /// overflowed is passed over.
    #[inline(always)]
    fn move_weight(&mut self, change: f64, row: &[f64]) -> f64 {
        let count = self.correlations.len();
        let (correlations, rest) = self.correlations.as_chunks_mut::<WIDTH>();
        let (rows, row_rest) = row[..count].as_chunks::<WIDTH>();
        let (lowest, lowest_rest) = self.lowest[..count].as_chunks::<WIDTH>();
        let (highest, highest_rest) = self.highest[..count].as_chunks::<WIDTH>();
        let mut worst = [0.0; WIDTH];
        let mut places: [usize; WIDTH] = std::array::from_fn(|lane| lane);
        let bounds = lowest.iter().zip(highest);
        for ((correlations, row), (lowest, highest)) in correlations.iter_mut().zip(rows).zip(bounds) {
            // Copies, so that compilers need not fear that writing one changes another.
            let (mut changed, row, lowest, highest) = (*correlations, *row, *lowest, *highest);
            let mut violations = [0.0; WIDTH];
            for lane in 0..WIDTH {
                changed[lane] -= change * row[lane];
            }
            for lane in 0..WIDTH {
                let (above, below) = (changed[lane] - highest[lane], lowest[lane] - changed[lane]);
                violations[lane] = if above > below { above } else { below };
            }
            for lane in 0..WIDTH {
                let violation = marked(violations[lane], places[lane]);
                worst[lane] = if violation > worst[lane] { violation } else { worst[lane] };
                places[lane] += WIDTH;
            }
            *correlations = changed;
        }
        let mut worst = largest_of(worst);
        let bounds = lowest_rest.iter().zip(highest_rest);
        for (i, ((correlation, entry), (lowest, highest))) in
            rest.iter_mut().zip(row_rest).zip(bounds).enumerate()
        {
            *correlation -= change * entry;
            let violation = (*correlation - highest).max(lowest - *correlation);
            worst = worst.max(marked(violation, count - count % WIDTH + i));
        }
        worst
    }
}

/// Whether no number is infinite or none, found without a branch for each.
#[inline(always)]
fn all_finite(values: &[f64]) -> bool {
    let mut finite = true;
    for value in values {
        finite &= value.is_finite();
    }
    finite
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::signals::Rows;
    use crate::math::{Kernel, kernels};

    /// The same steps, one number at a time.
    fn plain(gram: &Gram, candidates: &[u32], lambda: f64, start: &[f64]) -> Vec<(usize, f64)> {
        let entry = |i: usize, j: usize| gram.row(candidates[i] as usize)[candidates[j] as usize];
        let (mut g, mut weights): (Vec<f64>, Vec<(usize, f64)>) = (start.to_vec(), Vec::new());
        let mut repeats = 0;
        loop {
            let weight = |i: usize| weights.iter().find(|(j, _)| *j == i).map_or(0.0, |(_, weight)| *weight);
            let violation = |i: usize| match weight(i) {
                0.0 => g[i].abs() - lambda,
                weight => (g[i] - lambda.copysign(weight)).abs(),
            };
            let worst = (0..g.len()).max_by(|a, b| violation(*a).total_cmp(&violation(*b)));
            let Some(i) = worst.filter(|i| violation(*i) > NEGLIGIBLE * lambda) else { return weights };
            let old = weight(i);
            if !weights.iter().any(|(j, _)| *j == i) {
                if weights.len() == gram.rows.dim {
                    return weights;
                }
                weights.push((i, 0.0));
                repeats = 0;
            } else {
                repeats += 1;
            }
            if repeats > MOST_REPEATS {
                return weights;
            }
            let new = soft_threshold(g[i] + entry(i, i) * old, lambda) / entry(i, i);
            weights.iter_mut().filter(|(j, _)| *j == i).for_each(|(_, weight)| *weight = new);
            (0..g.len()).for_each(|j| g[j] -= (new - old) * entry(i, j));
        }
    }

    #[test]
    fn steps_are_those_of_plain_coordinate_descent() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        let mut sketch = Sketch::default();
        for name in ["rbf", "linear", "polynomial"] {
            for atoms in 1..40 {
                let (dim, values): (usize, Vec<f64>) = (9, (0..9 * atoms).map(|_| next()).collect());
                let mut rows = Rows::default();
                let slices: Vec<&[f64]> = values.chunks_exact(dim).collect();
                rows.fill(&slices, &vec![0.0; dim], 0).expect("finite rows");
                let parameters = |parameter: &str| Some(if parameter == "degree" { 2.0 } else { 1.0 });
                let kernel = kernels::build(name, &parameters).expect("known kernels");
                let gram = Gram::new(&rows, kernel.as_ref() as &dyn Kernel, None).expect("no overflow");
                let every: Vec<u32> = (0..atoms as u32).collect();
                let some: Vec<u32> = every.iter().copied().step_by(2).collect();
                for candidates in [&every, &some] {
                    let start: Vec<f64> = candidates.iter().map(|_| next()).collect();
                    let mut memory = Vec::new();
                    let gathered = (candidates.len() < atoms).then_some((candidates.as_slice(), &mut memory));
                    sketch.draw(0.05, &start, &mut CandidateRows { gram: &gram, gathered });
                    let drawn: Vec<(usize, f64)> =
                        sketch.touched.iter().copied().zip(sketch.weights.iter().copied()).collect();
                    let expected = plain(&gram, candidates, 0.05, &start);
                    assert_eq!(drawn.len(), expected.len(), "{name}, {atoms} atoms");
                    for (found, expected) in drawn.iter().zip(&expected) {
                        assert_eq!(found.0, expected.0, "{name}, {atoms} atoms");
                        assert!((found.1 - expected.1).abs() < 1e-9, "{name}, {atoms} atoms");
                    }
                }
            }
        }
    }

    #[test]
    fn what_overflows_starts_from_zero() {
        let mut rows = Rows::default();
        rows.fill(&[&[1e-154, 0.0], &[0.0, 1.0]], &[0.0, 0.0], 0).expect("finite rows");
        let kernel = kernels::build("linear", &|_| None).expect("a known kernel");
        let gram = Gram::new(&rows, kernel.as_ref(), None).expect("no overflow");
        let mut sketch = Sketch::default();
        sketch.draw(1e-3, &[1e10, 1.0], &mut CandidateRows { gram: &gram, gathered: None });
        assert!(sketch.weights.iter().all(|weight| *weight == 0.0));
    }
}
