//! The walk of `matrix` whatever its integers are: wide ones, and matrices in which some are not coded. One integer after
//! the other, as docs/format.md tells it; `known` and `whole` come to the same for the common case, several at once.

use super::contexts;
use super::integer::Integer;
use super::lanes::Lanes;
use super::plan::Plan;
use super::quiet::Quiet;
use super::rans::LANES;

/// What is known of each column before a row is coded.
#[derive(Debug)]
struct Foretold<T> {
    /// The shares that forecasts have.
    of_last: Vec<T>,
    of_ago: Vec<T>,
    /// The integers themselves.
    values: Vec<T>,
    /// How much the column deviated lately.
    deviations: Vec<u32>,
    /// To which side it did.
    leans: Vec<i32>,
    zeros: Vec<T>,
}

/// Sizes of what forecasts left, one and two rows and a period ago.
#[derive(Debug)]
struct Sizes {
    last: Vec<u32>,
    before: Vec<u32>,
    /// Their means over time, in 256ths.
    means: Vec<u32>,
    /// Of a whole period; empty without one.
    of_period: Vec<u32>,
}

impl<T: Integer> Foretold<T> {
    fn new(plan: &Plan) -> Self {
        let columns = plan.columns.len();
        let (of_last, of_ago) = plan.shares_of();
        Self {
            of_last,
            of_ago,
            values: vec![T::default(); columns],
            deviations: vec![0; columns],
            leans: vec![0; columns],
            zeros: vec![T::default(); columns],
        }
    }

    #[inline(always)]
    fn fill(&mut self, period: usize, row: usize, before: &[T], sizes: &Sizes) {
        let columns = self.zeros.len();
        let back = |rows: usize| match row.checked_sub(rows) {
            Some(row) if rows > 0 => &before[row * columns..(row + 1) * columns],
            _ => &self.zeros[..columns],
        };
        let (last, ago) = (back(1), back(period));
        let sizes_ago = if period > 0 {
            &sizes.of_period[row % period * columns..][..columns]
        } else {
            &sizes.before[..columns]
        };
        let (last_sizes, sizes_before) = (&sizes.last[..columns], &sizes.before[..columns]);
        let means = &sizes.means[..columns];
        let (of_last, of_ago) = (&self.of_last[..columns], &self.of_ago[..columns]);
        let (values, deviations, leans) =
            (&mut self.values[..columns], &mut self.deviations[..columns], &mut self.leans[..columns]);
        let with_period = i32::from(period > 0);
        for i in 0..columns {
            let foretold = T::foretold(last[i], of_last[i], ago[i], of_ago[i]);
            values[i] = foretold;
            leans[i] =
                2 * last[i].minus(foretold).limited(8) + with_period * 2 * ago[i].minus(foretold).limited(8);
            deviations[i] = contexts::deviation(last_sizes[i], sizes_before[i], sizes_ago[i], means[i]);
        }
    }
}

/// What is known of a lane.
#[derive(Debug, Clone, Copy, Default)]
struct Lane<T> {
    left: u32,
    two_left: u32,
    left_value: T,
    mean: u32,
}

/// Goes through the integers in order, calling `code` with the lane, the context and what the forecast left of
/// each. What `code` gives is taken for what was left.
#[inline(always)]
pub(super) fn walk<T: Integer>(
    values: &mut [T],
    coded: Option<&[bool]>,
    plan: &Plan,
    quiet: &Quiet,
    mut code: impl FnMut(usize, usize, T) -> T,
) {
    let columns = plan.columns.len();
    if columns == 0 {
        return;
    }
    let mut sizes = Sizes {
        last: vec![0; columns],
        before: vec![0; columns],
        means: vec![0; columns],
        // No more rows than there are, whatever the bytes say.
        of_period: vec![0; plan.period.min(values.len() / columns) * columns],
    };
    let mut foretold = Foretold::<T>::new(plan);
    let levels = plan.levels();
    let order = Lanes::new(columns);
    let mut lanes = [Lane::<T>::default(); LANES];
    for row in 0..values.len() / columns {
        let (before, rest) = values.split_at_mut(row * columns);
        foretold.fill(plan.period, row, before, &sizes);
        let coded = coded.map(|coded| &coded[row * columns..(row + 1) * columns]);
        // What was coded in this row has its sizes two rows back until the row is done.
        std::mem::swap(&mut sizes.last, &mut sizes.before);
        for lane in &mut lanes {
            *lane = Lane { mean: lane.mean, ..Lane::default() };
        }
        let now = &mut rest[..columns];
        let (kept, last) = (&mut sizes.last[..columns], &sizes.before[..columns]);
        let (foretold, deviations, leans) =
            (&foretold.values[..columns], &foretold.deviations[..columns], &foretold.leans[..columns]);
        let levels = &levels[..columns];
        let is_quiet = quiet.contains(row);
        order.in_turns(
            #[inline(always)]
            |l, i| {
                if coded.is_some_and(|coded| !coded[i]) {
                    // As if it had not been there.
                    kept[i] = last[i];
                    return;
                }
                if is_quiet {
                    (now[i], kept[i]) = (foretold[i], 0);
                    return;
                }
                let lane = &mut lanes[l];
                let deviation = deviations[i] + lane.left + lane.two_left;
                let context = contexts::context(deviation, levels[i], lane.mean);
                let lean = leans[i] + contexts::limited_lean(lane.left_value);
                let left = now[i].minus(foretold[i]).turned(lean < 0);
                let residual = code(l, context + usize::from(lean != 0), left).turned(lean < 0);
                now[i] = residual.plus(foretold[i]);
                let size = residual.size();
                kept[i] = size;
                *lane = Lane {
                    left: size,
                    two_left: lane.left,
                    left_value: residual,
                    mean: contexts::mean(lane.mean, size),
                };
            },
        );
        for (mean, size) in sizes.means.iter_mut().zip(&sizes.last) {
            *mean = contexts::column_mean(*mean, *size);
        }
        if plan.period > 0 {
            sizes.of_period[row % plan.period * columns..][..columns].copy_from_slice(&sizes.last);
        }
    }
}
