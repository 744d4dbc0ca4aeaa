//! The walk of `matrix` where all integers are known: what forecasts leave, and so the contexts, can be had for a row at
//! a time, which processors do several of at once. It must come to the same as the walk that decodes.
//!
//! Everything is in the order in which it is coded, `TOGETHER` lanes taking turns.

use super::contexts::{self, COLUMNS, NEIGHBOURS, ROW};
use super::integer::Integer;
use super::lanes::Lanes;
use super::plan::Plan;
use super::quiet::Quiet;

/// Calls `code` with the contexts of every row, and what forecasts leave of its integers.
#[inline(always)]
pub(super) fn walk<const TOGETHER: usize>(
    values: &[i32],
    plan: &Plan,
    quiet: &Quiet,
    lanes: &Lanes,
    mut code: impl FnMut(&[u32], &[i32]),
) {
    let columns = plan.columns.len();
    if columns == 0 {
        return;
    }
    let levels = lanes.ordered(&plan.levels());
    let (of_last, of_ago) = plan.shares_of::<i32>();
    let (of_last, of_ago) = (lanes.ordered(&of_last), lanes.ordered(&of_ago));
    // Zeros in front of every lane, as if there were two sensors.
    let before = 2 * TOGETHER;
    let (mut sizes, mut residuals) = (vec![0u32; before + columns], vec![0i32; before + columns]);
    let (mut last_sizes, mut sizes_before) = (vec![0u32; columns], vec![0u32; columns]);
    let mut of_period = vec![0u32; plan.period * columns];
    let (mut leans, mut deviations) = (vec![0i32; columns], vec![0u32; columns]);
    let (mut contexts, mut sided) = (vec![0u32; columns], vec![0i32; columns]);
    let (mut means, mut column_means) = ([0u32; TOGETHER], vec![0u32; columns]);
    let zeros = vec![0i32; columns];
    let (mut integers, mut last, mut ago) = (zeros.clone(), zeros.clone(), zeros);
    for (row, of_row) in values.chunks_exact(columns).enumerate() {
        if quiet.contains(row) {
            column_means_after(&last_sizes, &mut column_means);
            if plan.period > 0 {
                of_period[row % plan.period * columns..][..columns].fill(0);
            }
            std::mem::swap(&mut sizes_before, &mut last_sizes);
            last_sizes.fill(0);
            continue;
        }
        match row.checked_sub(1).filter(|last| quiet.contains(*last)) {
            Some(quiet) => lanes.in_order(&values[quiet * columns..][..columns], &mut last),
            // What was this row is the last one now.
            None => std::mem::swap(&mut integers, &mut last),
        }
        lanes.in_order(of_row, &mut integers);
        if let Some(row_ago) = row.checked_sub(plan.period).filter(|_| plan.period > 0) {
            lanes.in_order(&values[row_ago * columns..][..columns], &mut ago);
        }
        let sizes_ago = if plan.period > 0 {
            &of_period[row % plan.period * columns..][..columns]
        } else {
            &sizes_before[..]
        };
        column_means_after(&last_sizes, &mut column_means);
        column_deviations(&last_sizes, &sizes_before, sizes_ago, &column_means, &mut deviations);
        forecasts_leave(
            &integers,
            (&last, &ago),
            (&of_last, &of_ago),
            plan.period > 0,
            &mut residuals[before..],
            &mut sizes[before..],
            &mut leans,
        );
        let of_columns = (&leans[..], &deviations[..], &levels[..]);
        even_contexts::<TOGETHER>(&residuals, &sizes, of_columns, &mut contexts, &mut sided);
        row_levels(&sizes[before..], &mut means, &mut contexts);
        code(&contexts, &sided);
        if plan.period > 0 {
            of_period[row % plan.period * columns..][..columns].copy_from_slice(&sizes[before..]);
        }
        // The oldest row's memory is the next one's.
        std::mem::swap(&mut sizes_before, &mut last_sizes);
        last_sizes.copy_from_slice(&sizes[before..]);
    }
}

// A row at a time: functions of their own, since compilers then know that what is written is not what is read.

/// The means of columns once the sizes of another row are known.
#[inline(always)]
fn column_means_after(sizes: &[u32], means: &mut [u32]) {
    means.iter_mut().zip(sizes).for_each(|(mean, size)| *mean = contexts::column_mean(*mean, *size));
}

/// How much columns deviated before this row.
#[inline(always)]
fn column_deviations(
    last_sizes: &[u32],
    sizes_before: &[u32],
    sizes_ago: &[u32],
    means: &[u32],
    deviations: &mut [u32],
) {
    let width = deviations.len();
    let (last_sizes, sizes_before) = (&last_sizes[..width], &sizes_before[..width]);
    let (sizes_ago, means) = (&sizes_ago[..width], &means[..width]);
    for i in 0..width {
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

/// Contexts without the row's level, and residuals with their sign relative to the lean.
#[inline(always)]
fn even_contexts<const TOGETHER: usize>(
    residuals: &[i32],
    sizes: &[u32],
    (leans, deviations, levels): (&[i32], &[u32], &[u32]),
    contexts: &mut [u32],
    sided: &mut [i32],
) {
    let width = contexts.len();
    let (two_left, left) = (&sizes[..width], &sizes[TOGETHER..][..width]);
    let (left_residuals, residuals) = (&residuals[TOGETHER..][..width], &residuals[2 * TOGETHER..][..width]);
    let (leans, deviations, levels) = (&leans[..width], &deviations[..width], &levels[..width]);
    let sided = &mut sided[..width];
    for i in 0..width {
        let neighbours = contexts::level_of_size(deviations[i] + left[i] + two_left[i]).min(NEIGHBOURS - 1);
        let lean = leans[i] + contexts::limited_lean(left_residuals[i]);
        contexts[i] = (neighbours * COLUMNS + levels[i]) * ROW * 2 + u32::from(lean != 0);
        sided[i] = residuals[i].turned(lean < 0);
    }
}

/// Adds the row's level to the contexts.
#[inline(always)]
fn row_levels<const TOGETHER: usize>(sizes: &[u32], means: &mut [u32; TOGETHER], contexts: &mut [u32]) {
    let mut step = |sizes: &[u32], contexts: &mut [u32]| {
        for ((mean, size), context) in means.iter_mut().zip(sizes).zip(contexts) {
            *context += 2 * contexts::row_level(*mean);
            *mean = contexts::mean(*mean, *size);
        }
    };
    let (sizes, rest_sizes) = sizes.as_chunks::<TOGETHER>();
    let (contexts, rest) = contexts.as_chunks_mut::<TOGETHER>();
    sizes.iter().zip(contexts).for_each(|(sizes, contexts)| step(sizes, contexts));
    step(rest_sizes, rest);
}
