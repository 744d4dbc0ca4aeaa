//! The walk of `matrix` where all integers are known: what forecasts leave, and so the contexts, can be had for a row at
//! a time, which processors do several of at once. It must come to the same as the walk that decodes.

use super::contexts::{self, COLUMNS, NEIGHBOURS, ROW};
use super::integer::Integer;
use super::lanes::Lanes;
use super::plan::Plan;
use super::rans::LANES;

/// Zeros in front of every lane, as if there were sensors.
pub(super) const BEFORE: usize = 2;

/// A row with zeros in front of its lanes, which are there already.
#[inline(always)]
fn spread(lanes: &Lanes, row: &[i32], target: &mut [i32]) {
    for (lane, columns) in lanes.columns().enumerate() {
        let start = columns.start + (lane + 1) * BEFORE;
        target[start..start + columns.len()].copy_from_slice(&row[columns]);
    }
}

/// Calls `code` with the contexts of every row, and what forecasts leave of its integers.
#[inline(always)]
pub(super) fn walk(values: &[i32], plan: &Plan, lanes: &Lanes, mut code: impl FnMut(&[u32], &[i32])) {
    let columns = plan.columns.len();
    if columns == 0 {
        return;
    }
    let width = columns + LANES * BEFORE;
    let of_columns = |value: &dyn Fn(usize) -> i32| {
        let mut spread_out = vec![0; width];
        spread(lanes, &(0..columns).map(value).collect::<Vec<i32>>(), &mut spread_out);
        spread_out
    };
    let levels = of_columns(&|column| i32::from(plan.columns[column].1));
    let of_last = of_columns(&|column| i32::from(plan.shares[column].0));
    let of_ago = of_columns(&|column| i32::from(plan.shares[column].1));
    let blank = vec![0u32; width];
    let (mut sizes, mut last_sizes, mut sizes_before) = (blank.clone(), blank.clone(), blank.clone());
    let mut of_period = vec![0u32; plan.period * width];
    let mut residuals = vec![0i32; width];
    let (mut leans, mut deviations) = (vec![0i32; width], vec![0u32; width]);
    let (mut contexts, mut sided) = (vec![0u32; width], vec![0i32; width]);
    let zeros = vec![0i32; width];
    let (mut means, mut column_means) = ([0u32; LANES], vec![0u32; width]);
    let (mut integers, mut last, mut ago) = (zeros.clone(), zeros.clone(), zeros);
    for (row, of_row) in values.chunks_exact(columns).enumerate() {
        // What was this row is the last one now.
        std::mem::swap(&mut integers, &mut last);
        spread(lanes, of_row, &mut integers);
        if let Some(row_ago) = row.checked_sub(plan.period).filter(|_| plan.period > 0) {
            spread(lanes, &values[row_ago * columns..][..columns], &mut ago);
        }
        let sizes_ago = if plan.period > 0 {
            &of_period[row % plan.period * width..][..width]
        } else {
            &sizes_before[..]
        };
        column_deviations(&last_sizes, &sizes_before, sizes_ago, &mut column_means, &mut deviations);
        let shares = (&of_last[..], &of_ago[..]);
        forecasts_leave(
            &integers,
            (&last, &ago),
            shares,
            plan.period > 0,
            &mut residuals,
            &mut sizes,
            &mut leans,
        );
        let of_rows = (&leans[BEFORE..], &deviations[BEFORE..], &levels[BEFORE..]);
        even_contexts(&residuals, &sizes, of_rows, &mut contexts, &mut sided);
        {
            let (contexts, sizes) = (&mut contexts[..width], &sizes[..width]);
            lanes.in_turns(
                #[inline(always)]
                |lane, column| {
                    let i = column + lane * BEFORE;
                    contexts[i] += 2 * contexts::row_level(means[lane]);
                    means[lane] = contexts::mean(means[lane], sizes[i + BEFORE]);
                },
            );
        }
        code(&contexts, &sided);
        if plan.period > 0 {
            of_period[row % plan.period * width..][..width].copy_from_slice(&sizes);
        }
        // The oldest row's memory is the next one's.
        std::mem::swap(&mut sizes_before, &mut last_sizes);
        std::mem::swap(&mut last_sizes, &mut sizes);
    }
}

// A row at a time: functions of their own, since compilers then know that what is written is not what is read.

/// How much columns deviated before this row.
#[inline(always)]
fn column_deviations(
    last_sizes: &[u32],
    sizes_before: &[u32],
    sizes_ago: &[u32],
    means: &mut [u32],
    deviations: &mut [u32],
) {
    let width = deviations.len();
    let (last_sizes, sizes_before) = (&last_sizes[..width], &sizes_before[..width]);
    let (sizes_ago, means) = (&sizes_ago[..width], &mut means[..width]);
    for i in 0..width {
        means[i] = contexts::column_mean(means[i], last_sizes[i]);
        deviations[i] = contexts::deviation(last_sizes[i], sizes_before[i], sizes_ago[i], means[i]);
    }
}

/// What forecasts leave, its sizes, and to which side columns lean.
#[inline(always)]
fn forecasts_leave(
    integers: &[i32],
    (last, ago): (&[i32], &[i32]),
    (of_last, of_ago): (&[i32], &[i32]),
    has_period: bool,
    residuals: &mut [i32],
    sizes: &mut [u32],
    leans: &mut [i32],
) {
    let width = residuals.len();
    let (integers, last, ago) = (&integers[..width], &last[..width], &ago[..width]);
    let (of_last, of_ago) = (&of_last[..width], &of_ago[..width]);
    let (sizes, leans) = (&mut sizes[..width], &mut leans[..width]);
    let with_period = 2 * i32::from(has_period);
    for i in 0..width {
        let foretold = i32::foretold(last[i], of_last[i], ago[i], of_ago[i]);
        residuals[i] = integers[i] - foretold;
        sizes[i] = residuals[i].size();
        leans[i] = 2 * (last[i] - foretold).limited(8) + with_period * (ago[i] - foretold).limited(8);
    }
}

/// Contexts without the row's level, and residuals with their sign relative to the lean. Those of the first column
/// come first; what precedes a lane is among them, and means nothing.
#[inline(always)]
fn even_contexts(
    residuals: &[i32],
    sizes: &[u32],
    (leans, deviations, levels): (&[i32], &[u32], &[i32]),
    contexts: &mut [u32],
    sided: &mut [i32],
) {
    let width = residuals.len() - BEFORE;
    let (two_left, left) = (&sizes[..width], &sizes[1..][..width]);
    let (left_residuals, residuals) = (&residuals[1..][..width], &residuals[BEFORE..][..width]);
    let (leans, deviations, levels) = (&leans[..width], &deviations[..width], &levels[..width]);
    let (contexts, sided) = (&mut contexts[..width], &mut sided[..width]);
    for i in 0..width {
        let neighbours = contexts::level_of_size(deviations[i] + left[i] + two_left[i]).min(NEIGHBOURS - 1);
        let lean = leans[i] + left_residuals[i].limited(4);
        contexts[i] = (neighbours * COLUMNS + levels[i] as u32) * ROW * 2 + u32::from(lean != 0);
        sided[i] = residuals[i].turned(lean < 0);
    }
}
