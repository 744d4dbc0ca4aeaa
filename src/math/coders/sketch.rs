//! A first guess at the nonzeros: greedy coordinate descent on the candidates, a few steps of it.
//!
//! Each step moves the weight whose condition is violated most to where it would be at its best alone (eq. 9). Hardly
//! any atom is touched that does not end up with a weight, and most of those that do are touched within three steps
//! each, which is far less work than to solve exactly on a set that grows by a few atoms at a time. It need not be
//! precise: the exact solver starts from it.

use super::marks::{MARK, largest, largest_of, mark_of, marked};

/// Where so many steps in a row touch no other atom, the solver is quicker: atoms are alike, or most are found.
const MOST_REPEATS: usize = 2;
/// Violations below this share of the penalty are left to the solver.
const NEGLIGIBLE: f64 = 0.05;

/// Correlations that are changed at a time.
const WIDTH: usize = 4;

/// The candidates' side of the gram matrix.
pub(super) trait GramRows {
    /// Is told of a candidate before its row is asked for; they are numbered in this order.
    fn touch(&mut self, candidate: usize);
    /// The entries of a candidate, touched as the `number`th, with all candidates.
    fn row(&self, number: usize, candidate: usize) -> &[f64];
}

/// Memory reused from signal to signal; by candidate, but for `touched` and `weights`.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    correlations: Vec<f64>,
    /// A correlation between these violates no condition: `-lambda` and `lambda` of a weight that is zero, twice the
    /// one that goes with its sign of another.
    lowest: Vec<f64>,
    highest: Vec<f64>,
    /// The number of every candidate that was touched.
    numbers: Vec<u32>,
    /// Candidates in the order in which they were touched.
    pub touched: Vec<usize>,
    /// Their weights.
    pub weights: Vec<f64>,
    /// What to multiply by instead of dividing by their similarity to themselves.
    reciprocals: Vec<f64>,
}

/// No number.
const UNTOUCHED: u32 = u32::MAX;

impl Sketch {
    /// Draws the sketch from correlations at `w = 0`; gives how many steps it took.
    #[inline(always)]
    pub fn draw(&mut self, lambda: f64, correlations: &[f64], rows: &mut impl GramRows) -> u64 {
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
        self.reciprocals.clear();
        let mut worst = largest(0..count, |i| marked(correlations[i].abs() - lambda, i));
        let (mut steps, mut repeats) = (0, 0);
        while worst > NEGLIGIBLE * lambda {
            let i = mark_of(worst);
            repeats += 1;
            if self.numbers[i] == UNTOUCHED {
                repeats = 0;
                self.numbers[i] = self.touched.len() as u32;
                self.touched.push(i);
                self.weights.push(0.0);
                rows.touch(i);
                self.reciprocals.push(rows.row(self.touched.len() - 1, i)[i].recip());
            }
            let number = self.numbers[i] as usize;
            if repeats > MOST_REPEATS || !self.reciprocals[number].is_finite() {
                break;
            }
            steps += 1;
            let row = rows.row(number, i);
            let old = self.weights[number];
            let best = self.correlations[i] + row[i] * old;
            let new = (best - best.clamp(-lambda, lambda)) * self.reciprocals[number];
            self.weights[number] = new;
            let of_sign = lambda.copysign(new);
            (self.lowest[i], self.highest[i]) =
                if new == 0.0 { (-lambda, lambda) } else { (of_sign, of_sign) };
            worst = self.change(new - old, row);
        }
        // The solver cannot start from what has overflowed.
        if !all_finite(&self.weights) || !all_finite(&self.correlations) {
            self.weights.fill(0.0);
        }
        steps
    }

    /// Changes a weight, whose row this is, by so much; gives the largest violation then, marked with whose it is.
    #[inline(always)]
    fn change(&mut self, change: f64, row: &[f64]) -> f64 {
        let count = self.correlations.len();
        let (correlations, rest) = self.correlations.as_chunks_mut::<WIDTH>();
        let (rows, row_rest) = row[..count].as_chunks::<WIDTH>();
        let (lowest, lowest_rest) = self.lowest[..count].as_chunks::<WIDTH>();
        let (highest, highest_rest) = self.highest[..count].as_chunks::<WIDTH>();
        let mut worst = [0.0; WIDTH];
        let mut places: [u64; WIDTH] = std::array::from_fn(|lane| lane as u64);
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
                let violation = f64::from_bits(violations[lane].to_bits() & !MARK | places[lane]);
                worst[lane] = if violation > worst[lane] { violation } else { worst[lane] };
                places[lane] += WIDTH as u64;
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

/// Without a branch for each of them.
#[inline(always)]
fn all_finite(values: &[f64]) -> bool {
    let mut finite = true;
    for value in values {
        finite &= value.is_finite();
    }
    finite
}
