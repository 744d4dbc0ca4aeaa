//! The walk of `matrix` that decodes, where all integers are there: what can be had for a row at a time is, and all that
//! is left for one integer after the other is to find its symbol. It must come to the same as the other walks.
//!
//! Everything is in the order in which it is coded.

use super::contexts::{self, HIGHEST, LEVEL_CONTEXTS, OF_COLUMN};
use super::integer::Integer;
use super::lanes::Lanes;
use super::plan::Plan;
use super::quiet::Quiet;
use super::rans::{LANES, Slot};

/// Bits of a key that hold how much the neighbours deviated; those above are the column's part of the context. Three
/// deviations that count as the highest fit.
const NEAR_BITS: u32 = LEVEL_CONTEXTS.len().ilog2();
const _: () = assert!(3 * HIGHEST < 1 << NEAR_BITS);

/// What is known of the columns before a row is read.
struct Columns<T> {
    /// The shares that forecasts have.
    of_last: Vec<T>,
    of_ago: Vec<T>,
    /// The column's part of contexts.
    contexts: Vec<u32>,
    /// The row before, and the one a period ago.
    last: Vec<T>,
    ago: Vec<T>,
    /// Sizes of what forecasts left one and two rows ago, and their means.
    last_sizes: Vec<u32>,
    sizes_before: Vec<u32>,
    means: Vec<u32>,
    /// Of a whole period; empty without one.
    sizes_of_period: Vec<u32>,
}

/// What is known of a lane.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// Sizes to the left, no larger than makes a difference.
    left: u32,
    two_left: u32,
    /// What was left of the forecast there, no larger than makes a difference.
    lean: i32,
    mean: u32,
}

/// Reads the integers of so many rows. `read` gives the next symbol for its lane and context, and what it stands for
/// where that is not in the symbol alone.
#[inline(always)]
pub(super) fn walk<T: Integer>(
    rows: usize,
    plan: &Plan,
    quiet: &Quiet,
    lanes: &Lanes,
    mut read: impl FnMut(usize, usize) -> (Slot, Option<i64>),
) -> Vec<T> {
    let (columns, together) = (plan.columns.len(), lanes.together());
    if columns == 0 {
        return Vec::new();
    }
    // Grows row by row: cleared as a whole it would have left the processor's cache before it is filled.
    let mut values = Vec::with_capacity(rows * columns);
    let mut known = Columns::new(plan, lanes, rows);
    let (of_columns, zeros) = (plan.shares_of(), vec![T::default(); columns]);
    let (mut foretold, mut residuals) = (vec![T::default(); columns], vec![T::default(); columns]);
    let (mut leans, mut keys) = (vec![0i32; columns], vec![0u32; columns]);
    let mut turns = [Lane::default(); LANES];
    for row in 0..rows {
        values.resize((row + 1) * columns, T::default());
        if quiet.contains(row) {
            let (before, rest) = values.split_at_mut(row * columns);
            let back = |rows: usize| match row.checked_sub(rows).filter(|_| rows > 0) {
                Some(row) => &before[row * columns..][..columns],
                None => &zeros[..],
            };
            fill_as_foretold(&mut rest[..columns], back(1), back(plan.period), &of_columns);
            known.add_quiet_row(plan.period, row);
            continue;
        }
        if let Some(quiet) = row.checked_sub(1).filter(|last| quiet.contains(*last)) {
            lanes.in_order(&values[quiet * columns..][..columns], &mut known.last);
        }
        if let Some(row_ago) = row.checked_sub(plan.period).filter(|_| plan.period > 0) {
            lanes.in_order(&values[row_ago * columns..][..columns], &mut known.ago);
        }
        known.foretell(plan.period, row, &mut foretold, &mut leans, &mut keys);
        for lane in &mut turns {
            *lane = Lane { mean: lane.mean, ..Lane::default() };
        }
        // Where they do not take turns, what is left over is the whole row.
        let in_turns = if together == LANES { columns / LANES * LANES } else { 0 };
        let (row_keys, rest_keys) = keys.split_at(in_turns);
        let (row_leans, rest_leans) = leans.split_at(in_turns);
        let (row_residuals, rest) = residuals.split_at_mut(in_turns);
        let keys = row_keys.as_chunks::<LANES>().0.iter();
        let leans = row_leans.as_chunks::<LANES>().0.iter();
        let turned = row_residuals.as_chunks_mut::<LANES>().0.iter_mut();
        for ((keys, leans), residuals) in keys.zip(leans).zip(turned) {
            residuals[0] = turns[0].next(keys[0], leans[0], 0, &mut read);
            residuals[1] = turns[1].next(keys[1], leans[1], 1, &mut read);
            residuals[2] = turns[2].next(keys[2], leans[2], 2, &mut read);
            residuals[3] = turns[3].next(keys[3], leans[3], 3, &mut read);
        }
        for (i, residual) in rest.iter_mut().enumerate() {
            let lane = if together == LANES { i } else { 0 };
            *residual = turns[lane].next(rest_keys[i], rest_leans[i], lane, &mut read);
        }
        known.add_row(plan.period, row, &foretold, &residuals);
        lanes.in_columns(&known.last, &mut values[row * columns..][..columns]);
    }
    values
}

/// Fills a row with what is foretold.
#[inline(always)]
fn fill_as_foretold<T: Integer>(row: &mut [T], last: &[T], ago: &[T], (of_last, of_ago): &(Vec<T>, Vec<T>)) {
    let columns = row.len();
    let (last, ago) = (&last[..columns], &ago[..columns]);
    let (of_last, of_ago) = (&of_last[..columns], &of_ago[..columns]);
    for i in 0..columns {
        row[i] = T::foretold(last[i], of_last[i], ago[i], of_ago[i]);
    }
}

impl Lane {
    /// Reads the lane's next integer: what the forecast left of it.
    #[inline(always)]
    fn next<T: Integer>(
        &mut self,
        key: u32,
        lean: i32,
        lane: usize,
        read: &mut impl FnMut(usize, usize) -> (Slot, Option<i64>),
    ) -> T {
        let key = key + self.left + self.two_left;
        let lean = lean + self.lean;
        let near = u32::from(LEVEL_CONTEXTS[(key % (1 << NEAR_BITS)) as usize]);
        let context = near + (key >> NEAR_BITS) + 2 * contexts::row_level(self.mean) + u32::from(lean != 0);
        let (found, with_bits) = read(lane, context as usize);
        self.two_left = self.left;
        // Most are small, and all that is needed of them is known.
        match with_bits {
            None => {
                self.lean = i32::from(found.limited).turned(lean < 0);
                self.left = u32::from(found.size);
                self.mean = contexts::mean_of_small(self.mean, self.left);
                T::of(i64::from(found.value)).turned(lean < 0)
            }
            Some(value) => {
                let residual = T::of(value).turned(lean < 0);
                self.lean = contexts::limited_lean(residual);
                self.left = residual.size().min(HIGHEST);
                self.mean = contexts::mean(self.mean, residual.size());
                residual
            }
        }
    }
}

impl<T: Integer> Columns<T> {
    fn new(plan: &Plan, lanes: &Lanes, rows: usize) -> Self {
        let columns = plan.columns.len();
        let (of_last, of_ago) = plan.shares_of();
        let contexts =
            lanes.ordered(&plan.levels()).into_iter().map(|level| (level * OF_COLUMN) << NEAR_BITS);
        Self {
            of_last: lanes.ordered(&of_last),
            of_ago: lanes.ordered(&of_ago),
            contexts: contexts.collect(),
            last: vec![T::default(); columns],
            ago: vec![T::default(); columns],
            last_sizes: vec![0; columns],
            sizes_before: vec![0; columns],
            means: vec![0; columns],
            // No more rows than there are, whatever the bytes say.
            sizes_of_period: vec![0; plan.period.min(rows) * columns],
        }
    }

    /// What is known of every integer of a row.
    #[inline(always)]
    fn foretell(&self, period: usize, row: usize, foretold: &mut [T], leans: &mut [i32], keys: &mut [u32]) {
        let columns = foretold.len();
        let sizes_ago = match period {
            0 => &self.sizes_before[..columns],
            period => &self.sizes_of_period[row % period * columns..][..columns],
        };
        let (of_last, of_ago) = (&self.of_last[..columns], &self.of_ago[..columns]);
        let (last, ago) = (&self.last[..columns], &self.ago[..columns]);
        let (last_sizes, sizes_before) = (&self.last_sizes[..columns], &self.sizes_before[..columns]);
        let (means, contexts) = (&self.means[..columns], &self.contexts[..columns]);
        let (leans, keys) = (&mut leans[..columns], &mut keys[..columns]);
        let with_period = 2 * i32::from(period > 0);
        for i in 0..columns {
            foretold[i] = T::foretold(last[i], of_last[i], ago[i], of_ago[i]);
            leans[i] = 2 * last[i].minus(foretold[i]).limited(8)
                + with_period * ago[i].minus(foretold[i]).limited(8);
        }
        for i in 0..columns {
            let deviation = contexts::deviation(last_sizes[i], sizes_before[i], sizes_ago[i], means[i]);
            keys[i] = contexts[i] + deviation.min(HIGHEST);
        }
    }

    /// Takes up a row of which nothing was coded; what it holds is known elsewhere.
    #[inline(always)]
    fn add_quiet_row(&mut self, period: usize, row: usize) {
        let columns = self.last.len();
        std::mem::swap(&mut self.last_sizes, &mut self.sizes_before);
        self.last_sizes.fill(0);
        self.means.iter_mut().for_each(|mean| *mean = contexts::column_mean(*mean, 0));
        if period > 0 {
            self.sizes_of_period[row % period * columns..][..columns].fill(0);
        }
    }

    /// Takes up a row that was read.
    #[inline(always)]
    fn add_row(&mut self, period: usize, row: usize, foretold: &[T], residuals: &[T]) {
        let columns = self.last.len();
        let (foretold, residuals) = (&foretold[..columns], &residuals[..columns]);
        // The oldest row's memory is the next one's.
        std::mem::swap(&mut self.last_sizes, &mut self.sizes_before);
        let (last, sizes) = (&mut self.last[..columns], &mut self.last_sizes[..columns]);
        let means = &mut self.means[..columns];
        for i in 0..columns {
            last[i] = residuals[i].plus(foretold[i]);
            sizes[i] = residuals[i].size();
            means[i] = contexts::column_mean(means[i], sizes[i]);
        }
        if period > 0 {
            self.sizes_of_period[row % period * columns..][..columns].copy_from_slice(sizes);
        }
    }
}
