//! What the writer of a matrix finds out about its columns: a period, and how each is foretold.

use super::contexts::{COLUMNS, level_of_size};
use super::integer::Integer;
use crate::math::vectorised;

/// How an integer is foretold: shares, in quarters, of the last one and of the one a period ago. The
/// first few do without a period.
const FORECASTS: [(i8, i8); 8] = [(0, 0), (2, 0), (3, 0), (4, 0), (0, 2), (0, 4), (2, 2), (1, 3)];
const FORECASTS_WITHOUT_PERIOD: usize = 4;
/// Rows looked at to choose forecasts.
const ROWS_TRIED: usize = 256;
/// A forecast must save this share, in percent, of the one it replaces.
const WORTHWHILE: u64 = 2;
/// Integers looked at for each period.
const PERIOD_SAMPLES: usize = 512;
/// Of these, so many are neighbours in a row.
const PERIOD_RUN: usize = 4;
/// Of all periods one in so many runs is looked at, of the best ones all.
const PERIOD_GLANCE: usize = 4;
const PERIODS_LOOKED_AT: usize = 128;
/// A period must save this share, in percent.
const PERIOD_WORTHWHILE: u64 = 4;

/// What is known of the columns.
#[derive(Debug)]
pub(super) struct Plan {
    /// 0 for none.
    pub period: usize,
    /// Which forecast each column has, and its level of deviations.
    pub columns: Vec<(u8, u8)>,
    /// The forecasts themselves.
    pub shares: Vec<(i8, i8)>,
}

impl Plan {
    /// Periods are at most this.
    pub const LONGEST_PERIOD: usize = 4096;

    pub fn new<T: Integer>(values: &[T], columns: usize) -> Self {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        let period = find_period(values, columns, rows);
        let forecasts = if period > 0 { FORECASTS.len() } else { FORECASTS_WITHOUT_PERIOD };
        let mut step = (rows / ROWS_TRIED).max(1);
        // Else the rows tried would be some places of the period alone.
        while period > 0 && common_divisor(step, period) > 1 {
            step -= 1;
        }
        let tried_rows = (0..rows).step_by(step);
        let costs = vectorised(
            #[inline(always)]
            || forecast_costs(values, columns, tried_rows, period, forecasts),
        );
        let tried = rows.div_ceil(step).max(1) as u64;
        let describe = |column: usize| {
            let cost = |forecast: usize| u64::from(costs[forecast][column]);
            let mut best = 0;
            for forecast in 1..forecasts {
                if cost(forecast) * 100 < cost(best) * (100 - WORTHWHILE) {
                    best = forecast;
                }
            }
            let level = (4 * cost(best) / (3 * tried)).min(u64::from(COLUMNS) - 1);
            (best as u8, level as u8)
        };
        Self::described(period, (0..columns).map(describe).collect())
    }

    pub fn described(period: usize, columns: Vec<(u8, u8)>) -> Self {
        let shares = columns.iter().map(|(forecast, _)| FORECASTS[usize::from(*forecast)]).collect();
        Self { period, columns, shares }
    }

    /// The columns' levels of deviations.
    pub fn levels(&self) -> Vec<u32> {
        self.columns.iter().map(|(_, level)| u32::from(*level)).collect()
    }

    /// The shares that forecasts have of the last integers, and of those a period ago.
    pub fn shares_of<T: Integer>(&self) -> (Vec<T>, Vec<T>) {
        let share = |share: &i8| T::of(i64::from(*share));
        self.shares.iter().map(|(of_last, of_ago)| (share(of_last), share(of_ago))).unzip()
    }
}

/// The greatest number that divides both.
fn common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

/// What each forecast would cost in each column.
#[inline(always)]
fn forecast_costs<T: Integer>(
    values: &[T],
    columns: usize,
    rows: impl Iterator<Item = usize>,
    period: usize,
    forecasts: usize,
) -> Vec<Vec<u32>> {
    let mut costs = vec![vec![0u32; columns]; forecasts];
    let zeros = vec![T::default(); columns];
    for row in rows {
        let back = |rows: usize| match row.checked_sub(rows) {
            Some(row) => &values[row * columns..][..columns],
            None => &zeros[..columns],
        };
        let (now, last, ago) = (back(0), back(1), back(period));
        for (costs, (of_last, of_ago)) in costs.iter_mut().zip(FORECASTS) {
            let (of_last, of_ago) = (T::of(i64::from(of_last)), T::of(i64::from(of_ago)));
            let costs = &mut costs[..columns];
            for i in 0..columns {
                let residual = now[i].minus(T::foretold(last[i], of_last, ago[i], of_ago));
                costs[i] += level_of_size(2 * residual.size());
            }
        }
    }
    costs
}

/// What an integer costs, roughly, in half bits.
#[inline(always)]
fn cost_of<T: Integer>(value: T) -> u64 {
    u64::from(level_of_size(2 * value.size()))
}

/// What the runs that begin at `starts` cost beside those so many rows before, for every period up to the longest. Run
/// after run: one period after the other would wait for memory each time.
#[inline(always)]
fn costs_of_all<T: Integer, const RUN: usize>(
    values: &[T],
    columns: usize,
    starts: &[usize],
    longest: usize,
) -> Vec<u64> {
    let mut costs = vec![[0u32; RUN]; longest + 1];
    for start in starts {
        let Some(now) = values[*start..].first_chunk::<RUN>() else { continue };
        for (back, costs) in costs.iter_mut().enumerate() {
            let Some(ago) = values[*start - back * columns..].first_chunk::<RUN>() else { continue };
            for i in 0..RUN {
                costs[i] += level_of_size(2 * now[i].minus(ago[i]).size());
            }
        }
    }
    costs.iter().map(|costs| costs.iter().map(|cost| u64::from(*cost)).sum()).collect()
}

/// How many rows ago integers were most like now's, if that helps.
fn find_period<T: Integer>(values: &[T], columns: usize, rows: usize) -> usize {
    let longest = (rows / 2).min(Plan::LONGEST_PERIOD);
    if longest < 2 {
        return 0;
    }
    // Runs of neighbours, spread over the second half, where every period reaches back to something.
    let run = columns.min(PERIOD_RUN);
    let first = longest * columns;
    let stride = ((values.len() - first) / PERIOD_SAMPLES * run).max(1);
    let starts: Vec<usize> = (0..PERIOD_SAMPLES / run)
        .map(|k| first + k * stride + k % columns)
        .filter(|start| start + run <= values.len())
        .collect();
    let cost = |back: usize| -> u64 {
        let run_cost = |start: &usize| -> u64 {
            let now = &values[*start..][..run];
            let ago = &values[*start - back * columns..][..run];
            now.iter().zip(ago).map(|(now, ago)| cost_of(now.minus(*ago))).sum()
        };
        starts.iter().map(run_cost).sum()
    };
    let alone: u64 =
        starts.iter().flat_map(|start| &values[*start..][..run]).map(|value| cost_of(*value)).sum();
    let without = alone.min(cost(1));
    // Some samples tell which periods are worth a closer look.
    let some: Vec<usize> = starts.iter().step_by(PERIOD_GLANCE).copied().collect();
    let glanced = vectorised(
        #[inline(always)]
        || match run {
            1 => costs_of_all::<T, 1>(values, columns, &some, longest),
            2 => costs_of_all::<T, 2>(values, columns, &some, longest),
            3 => costs_of_all::<T, 3>(values, columns, &some, longest),
            _ => costs_of_all::<T, PERIOD_RUN>(values, columns, &some, longest),
        },
    );
    let mut periods: Vec<(u64, usize)> = (2..=longest).map(|back| (glanced[back], back)).collect();
    if let Some(rest) = periods.len().checked_sub(PERIODS_LOOKED_AT + 1) {
        periods.select_nth_unstable(PERIODS_LOOKED_AT);
        periods.truncate(periods.len() - rest - 1);
    }
    let mut costs: Vec<(usize, u64)> = periods.iter().map(|(_, back)| (*back, cost(*back))).collect();
    costs.sort_unstable();
    let best = costs.iter().map(|(_, cost)| *cost).min().unwrap_or(u64::MAX);
    if best.saturating_mul(100) >= without * (100 - PERIOD_WORTHWHILE) {
        return 0;
    }
    // Multiples of a period are as good; the shortest reaches back from the most rows.
    costs.iter().find(|(_, cost)| cost * 100 <= best * 103).map_or(0, |(shortest, _)| *shortest)
}
