//! The walk of `matrix` where all integers are known: what forecasts leave, and so the contexts, can be had for a row at
//! a time, which processors do several of at once. It must come to the same as the walk that decodes.

use super::contexts::{COLUMNS, NEIGHBOURS, ROW, log_level};
use super::matrix::{LARGEST_SIZE, Plan};

/// What is known of a row; sizes and residuals have two zeros in front, as if there were sensors.
#[derive(Debug, Default, Clone)]
struct Row {
    residuals: Vec<i32>,
    sizes: Vec<u32>,
}

const BEFORE: usize = 2;

/// `log_level` of a value below `2^24`, for many at once: floats have the bits that matter in front.
#[inline(always)]
fn level_of(value: u32) -> u32 {
    const OF_ONE: u32 = 1.0f32.to_bits() >> 22;
    (((value as i32 + 1) as f32).to_bits() >> 22) - OF_ONE
}

/// Calls `code` with the context of each integer and what the forecast leaves of it.
#[inline(always)]
pub(super) fn walk(values: &[i32], plan: &Plan, mut code: impl FnMut(usize, i64) -> i64) {
    let columns = plan.columns.len();
    if columns == 0 {
        return;
    }
    let blank = Row { residuals: vec![0; BEFORE + columns], sizes: vec![0; BEFORE + columns] };
    let (mut now, mut last, mut before) = (blank.clone(), blank.clone(), blank);
    let mut of_period = vec![0u32; plan.period * columns];
    let (mut leans, mut deviations) = (vec![0i32; columns], vec![0u32; columns]);
    let (mut contexts, mut sided) = (vec![0u32; columns], vec![0i32; columns]);
    let zeros = vec![0i32; columns];
    let levels: Vec<u32> = plan.columns.iter().map(|(_, level)| u32::from(*level)).collect();
    let of_last: Vec<i32> = plan.shares.iter().map(|(of_last, _)| i32::from(*of_last)).collect();
    let of_period_ago: Vec<i32> = plan.shares.iter().map(|(_, of_period)| i32::from(*of_period)).collect();
    for (row, integers) in values.chunks_exact(columns).enumerate() {
        let back = |rows: usize| match row.checked_sub(rows) {
            Some(row) if rows > 0 => &values[row * columns..(row + 1) * columns],
            _ => &zeros[..],
        };
        let (last_integers, integers_ago) = (back(1), back(plan.period));
        let with_period = i32::from(plan.period > 0);
        let sizes_ago = if plan.period > 0 {
            &of_period[row % plan.period * columns..][..columns]
        } else {
            &before.sizes[BEFORE..]
        };
        {
            let residuals = &mut now.residuals[BEFORE..][..columns];
            let sizes = &mut now.sizes[BEFORE..][..columns];
            let (last_sizes, sizes_before) =
                (&last.sizes[BEFORE..][..columns], &before.sizes[BEFORE..][..columns]);
            let (leans, deviations) = (&mut leans[..columns], &mut deviations[..columns]);
            let (of_last, of_period_ago) = (&of_last[..columns], &of_period_ago[..columns]);
            for i in 0..columns {
                let (last, ago) = (last_integers[i], integers_ago[i]);
                let weighted = of_last[i] * last + of_period_ago[i] * ago;
                let foretold = (weighted + 1 + i32::from(weighted >= 0)) >> 2;
                let residual = integers[i] - foretold;
                residuals[i] = residual;
                sizes[i] = residual.unsigned_abs().min(LARGEST_SIZE);
                leans[i] =
                    2 * (last - foretold).clamp(-8, 8) + with_period * 2 * (ago - foretold).clamp(-8, 8);
                deviations[i] = 3 * last_sizes[i] + 2 * sizes_before[i] + 2 * sizes_ago[i];
            }
        }
        {
            let (left, two_left) = (&now.sizes[BEFORE - 1..][..columns], &now.sizes[..columns]);
            let left_residuals = &now.residuals[BEFORE - 1..][..columns];
            let residuals = &now.residuals[BEFORE..][..columns];
            let (leans, deviations, levels) = (&leans[..columns], &deviations[..columns], &levels[..columns]);
            let (contexts, sided) = (&mut contexts[..columns], &mut sided[..columns]);
            for i in 0..columns {
                let neighbours = level_of(deviations[i] + 2 * left[i] + two_left[i]).min(NEIGHBOURS - 1);
                let lean = leans[i] + left_residuals[i].clamp(-4, 4);
                contexts[i] = (neighbours * COLUMNS + levels[i]) * ROW * 2 + u32::from(lean != 0);
                sided[i] = if lean < 0 { -residuals[i] } else { residuals[i] };
            }
        }
        let mut row_mean = 0u32;
        for ((context, residual), size) in contexts.iter().zip(&sided).zip(&now.sizes[BEFORE..]) {
            let row_level = log_level(row_mean >> 5).min(ROW - 1);
            code((context + 2 * row_level) as usize, i64::from(*residual));
            row_mean = (15 * row_mean + (size.min(&0xFFF) << 8)) >> 4;
        }
        if plan.period > 0 {
            of_period[row % plan.period * columns..][..columns].copy_from_slice(&now.sizes[BEFORE..]);
        }
        // The oldest row's memory is the next one's.
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_that_decoding_finds() {
        let largest = 10 * LARGEST_SIZE;
        let steps = (0..1 << 16).chain((0..largest).step_by(997)).chain((0..24).flat_map(|bit| {
            let power = 1u32 << bit;
            [power.saturating_sub(2), power - 1, power]
        }));
        for value in steps.filter(|value| *value <= largest) {
            assert_eq!(level_of(value), log_level(value), "{value}");
        }
    }
}
