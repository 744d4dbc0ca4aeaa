//! A matrix of integers, coded with what is known about their neighbours.
//!
//! Rows follow each other in time, columns are sensors. Each integer is foretold from its column's last
//! one and from the one a period ago; what is left is a symbol, coded with frequencies that depend on how
//! much its neighbours deviated: in time, in the row, a period ago, and in its column on average. Where
//! they lean to one side the sign is taken relative to it.

use super::contexts::{self, COLUMNS, CONTEXTS, Counts, NEIGHBOURS, ROW, Tables, log_level};
use super::known;
use super::rans::{self, Decoder};
use super::symbols::{self, PlainBits, PlainReader, SYMBOLS};
use crate::archive::Result;
use crate::archive::bytes::{Reader, write_part, write_varint};
use crate::math::vectorised;

/// How an integer is foretold: shares, in quarters, of the last one and of the one a period ago. The
/// first few do without a period.
const FORECASTS: [(i8, i8); 8] = [(0, 0), (2, 0), (3, 0), (4, 0), (0, 2), (0, 4), (2, 2), (1, 3)];
const FORECASTS_WITHOUT_PERIOD: usize = 4;
/// Rows looked at to choose forecasts.
const ROWS_TRIED: usize = 256;
/// A forecast must save this share, in percent, of the one it replaces.
const WORTHWHILE: u64 = 2;
/// Periods tried, and integers looked at for each.
const LONGEST_PERIOD: usize = 4096;
const PERIOD_SAMPLES: usize = 192;
/// A period must save this share, in percent.
const PERIOD_WORTHWHILE: u64 = 8;

/// What the writer found out about the columns.
#[derive(Debug)]
pub(super) struct Plan {
    /// 0 for none.
    pub period: usize,
    /// Which forecast each column has, and its level of deviations.
    pub columns: Vec<(u8, u8)>,
    /// The forecasts themselves.
    pub shares: Vec<(i8, i8)>,
}

/// Writes the integers; where `coded` says no they must be 0 and are not written.
pub(in crate::archive) fn encode(
    values: &mut [i64],
    columns: usize,
    coded: Option<&[bool]>,
    bytes: &mut Vec<u8>,
) {
    let plan = Plan::new(values, columns);
    let mut noted = Noted {
        symbols: Vec::with_capacity(values.len()),
        plain: PlainBits::default(),
        counts: vec![[0; SYMBOLS]; CONTEXTS],
    };
    vectorised(
        #[inline(always)]
        || match small(values, coded) {
            Some(small) => known::walk(
                &small,
                &plan,
                #[inline(always)]
                |context, residual| noted.note(context, residual),
            ),
            None => walk(
                values,
                coded,
                &plan,
                #[inline(always)]
                |context, residual| noted.note(context, residual),
            ),
        },
    );
    let tables = Tables::from_counts(&noted.counts);
    write_varint(bytes, plan.period as u64);
    bytes.extend(plan.columns.iter().map(|(forecast, level)| forecast << 4 | level));
    tables.write(bytes);
    let pairs = noted.symbols.iter().rev();
    rans::encode(pairs.map(|(context, symbol)| (tables.starts(usize::from(*context)), *symbol)), bytes);
    write_part(bytes, &noted.plain.finish());
}

/// What is to be written: contexts cannot be merged before all of them are known.
struct Noted {
    symbols: Vec<(u16, u8)>,
    plain: PlainBits,
    counts: Counts,
}

impl Noted {
    #[inline(always)]
    fn note(&mut self, context: usize, residual: i64) -> i64 {
        let (symbol, bits, rest) = symbols::split(residual);
        if bits > 0 {
            self.plain.push(rest, bits);
        }
        self.counts[context][usize::from(symbol)] += 1;
        self.symbols.push((context as u16, symbol));
        residual
    }
}

/// The integers, where all are there and none is so large that sums of some would overflow.
#[inline(always)]
fn small(values: &[i64], coded: Option<&[bool]>) -> Option<Vec<i32>> {
    const SMALL: u64 = 1 << 26;
    let largest = values.iter().fold(0, |all, value| all | value.unsigned_abs());
    (coded.is_none() && largest < SMALL).then(|| values.iter().map(|value| *value as i32).collect())
}

/// Reads `rows` rows, or fewer than were written.
pub(in crate::archive) fn decode(
    reader: &mut Reader<'_>,
    rows: usize,
    columns: usize,
    coded: Option<&[bool]>,
) -> Result<Vec<i64>> {
    let period = reader.size(LONGEST_PERIOD)?;
    let described = reader.take(columns)?;
    let column = |byte: &u8| (byte >> 4 & 7, byte & 7);
    let plan = Plan::described(period, described.iter().map(column).collect());
    let tables = Tables::read(reader)?;
    let mut decoder = Decoder::new(reader)?;
    let mut plain = PlainReader::new(reader)?;
    let mut values = vec![0; rows * columns];
    vectorised(
        #[inline(always)]
        || {
            walk(
                &mut values,
                coded,
                &plan,
                #[inline(always)]
                |context, _| {
                    let symbol = decoder.symbol(tables.starts(context));
                    symbols::join(symbol, &mut plain)
                },
            )
        },
    );
    Ok(values)
}

/// What is known of each column before a row is coded.
#[derive(Debug, Default)]
struct Foretold {
    /// The integers themselves.
    values: Vec<i64>,
    /// How much the column deviated lately.
    deviations: Vec<u32>,
    /// To which side it did.
    leans: Vec<i32>,
}

/// Sizes of what forecasts left, one and two rows and a period ago.
#[derive(Debug)]
struct Sizes {
    last: Vec<u32>,
    before: Vec<u32>,
    /// Of a whole period; empty without one.
    of_period: Vec<u32>,
}

impl Foretold {
    #[inline(always)]
    fn fill(&mut self, plan: &Plan, row: usize, before: &[i64], sizes: &Sizes) {
        let columns = plan.columns.len();
        let back = |rows: usize| match row.checked_sub(rows) {
            Some(row) if rows > 0 => Some(&before[row * columns..(row + 1) * columns]),
            _ => None,
        };
        let (last, period_ago) = (back(1), back(plan.period));
        self.values.clear();
        self.deviations.clear();
        self.leans.clear();
        let in_period = if plan.period > 0 {
            &sizes.of_period[row % plan.period * columns..][..columns]
        } else {
            &sizes.before
        };
        for i in 0..columns {
            let last = last.map_or(0, |last| last[i]);
            let period_ago = period_ago.map_or(0, |period_ago| period_ago[i]);
            let (of_last, of_period_ago) = plan.shares[i];
            let weighted = i64::from(of_last)
                .wrapping_mul(last)
                .wrapping_add(i64::from(of_period_ago).wrapping_mul(period_ago));
            let foretold = quarter(weighted);
            let mut lean = 2 * last.wrapping_sub(foretold).clamp(-8, 8) as i32;
            if plan.period > 0 {
                lean += 2 * period_ago.wrapping_sub(foretold).clamp(-8, 8) as i32;
            }
            self.values.push(foretold);
            self.deviations.push(3 * sizes.last[i] + 2 * sizes.before[i] + 2 * in_period[i]);
            self.leans.push(lean);
        }
    }
}

/// Goes through the integers in order, calling `code` with the context and what the forecast left of
/// each. What `code` gives is taken for what was left.
#[inline(always)]
fn walk(values: &mut [i64], coded: Option<&[bool]>, plan: &Plan, mut code: impl FnMut(usize, i64) -> i64) {
    let columns = plan.columns.len();
    if columns == 0 {
        return;
    }
    let mut sizes =
        Sizes { last: vec![0; columns], before: vec![0; columns], of_period: vec![0; plan.period * columns] };
    let mut foretold = Foretold::default();
    for row in 0..values.len() / columns {
        let (before, rest) = values.split_at_mut(row * columns);
        foretold.fill(plan, row, before, &sizes);
        let coded = coded.map(|coded| &coded[row * columns..(row + 1) * columns]);
        // What was coded in this row has its sizes two rows back until the row is done.
        std::mem::swap(&mut sizes.last, &mut sizes.before);
        let (mut left, mut two_left, mut left_value, mut row_mean) = (0u32, 0u32, 0i64, 0u32);
        let known = foretold.values.iter().zip(&foretold.deviations).zip(&foretold.leans);
        let targets = rest[..columns].iter_mut().zip(&mut sizes.last).zip(&sizes.before);
        for (i, (((foretold, deviation), lean), ((now, kept_size), last_size))) in
            known.zip(targets).enumerate()
        {
            if coded.is_some_and(|coded| !coded[i]) {
                // As if it had not been there.
                *kept_size = *last_size;
                continue;
            }
            let neighbours = log_level(deviation + 2 * left + two_left).min(NEIGHBOURS - 1);
            let row_level = log_level(row_mean >> 5).min(ROW - 1);
            let lean = lean + left_value.clamp(-4, 4) as i32;
            let level = u32::from(plan.columns[i].1);
            let context = ((neighbours * COLUMNS + level) * ROW + row_level) * 2 + u32::from(lean != 0);
            let sided = |residual: i64| if lean < 0 { residual.wrapping_neg() } else { residual };
            let residual = sided(code(context as usize, sided(now.wrapping_sub(*foretold))));
            *now = residual.wrapping_add(*foretold);
            let size = size(residual);
            *kept_size = size;
            two_left = left;
            left = size;
            left_value = residual;
            row_mean = (15 * row_mean + (size.min(0xFFF) << 8)) >> 4;
        }
        if plan.period > 0 {
            sizes.of_period[row % plan.period * columns..][..columns].copy_from_slice(&sizes.last);
        }
    }
}

/// A quarter, rounded to the nearest.
#[inline(always)]
fn quarter(value: i64) -> i64 {
    value.wrapping_add(if value >= 0 { 2 } else { 1 }) >> 2
}

/// Magnitudes beyond this make no difference to contexts.
pub(super) const LARGEST_SIZE: u32 = 1 << 20;

#[inline(always)]
fn size(value: i64) -> u32 {
    value.unsigned_abs().min(u64::from(LARGEST_SIZE)) as u32
}

impl Plan {
    fn new(values: &[i64], columns: usize) -> Self {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        let period = find_period(values, columns, rows);
        let forecasts = if period > 0 { FORECASTS.len() } else { FORECASTS_WITHOUT_PERIOD };
        let mut costs = vec![[0u64; FORECASTS.len()]; columns];
        let step = (rows / ROWS_TRIED).max(1);
        for row in (0..rows).step_by(step) {
            for (i, costs) in costs.iter_mut().enumerate() {
                let last = at(values, columns, row, i, 1);
                let period_ago = at(values, columns, row, i, period);
                for (cost, (a, b)) in costs.iter_mut().zip(FORECASTS).take(forecasts) {
                    let weighted =
                        i64::from(a).wrapping_mul(last).wrapping_add(i64::from(b).wrapping_mul(period_ago));
                    *cost += cost_of(values[row * columns + i].wrapping_sub(quarter(weighted)));
                }
            }
        }
        let tried = rows.div_ceil(step).max(1) as u64;
        let describe = |costs: &[u64; FORECASTS.len()]| {
            let mut best = 0;
            for forecast in 1..forecasts {
                if costs[forecast] * 100 < costs[best] * (100 - WORTHWHILE) {
                    best = forecast;
                }
            }
            let level = (4 * costs[best] / (3 * tried)).min(u64::from(COLUMNS) - 1);
            (best as u8, level as u8)
        };
        Self::described(period, costs.iter().map(describe).collect())
    }

    fn described(period: usize, columns: Vec<(u8, u8)>) -> Self {
        let shares = columns.iter().map(|(forecast, _)| FORECASTS[usize::from(*forecast)]).collect();
        Self { period, columns, shares }
    }
}

/// What an integer costs, roughly, in half bits.
fn cost_of(value: i64) -> u64 {
    u64::from(contexts::log_level(2 * size(value)))
}

/// The integer some rows back, 0 where there is none.
fn at(values: &[i64], columns: usize, row: usize, column: usize, back: usize) -> i64 {
    match row.checked_sub(back) {
        Some(row) if back > 0 => values[row * columns + column],
        _ => 0,
    }
}

/// How many rows ago integers were most like now's, if that helps.
fn find_period(values: &[i64], columns: usize, rows: usize) -> usize {
    let longest = (rows / 2).min(LONGEST_PERIOD);
    if longest < 2 {
        return 0;
    }
    // Spread over the second half, where every period reaches back to something.
    let first = longest * columns;
    let stride = ((values.len() - first) / PERIOD_SAMPLES).max(1);
    // A stride that is prime to the columns would be better; adding one column's worth of drift is enough.
    let samples: Vec<usize> =
        (0..PERIOD_SAMPLES).map(|k| first + k * stride + k % columns).filter(|i| *i < values.len()).collect();
    let cost = |back: usize| -> u64 {
        samples.iter().map(|i| cost_of(values[*i].wrapping_sub(values[*i - back * columns]))).sum()
    };
    let alone: u64 = samples.iter().map(|i| cost_of(values[*i])).sum();
    let without = alone.min(cost(1));
    let costs: Vec<u64> = (2..=longest).map(cost).collect();
    let best = costs.iter().copied().min().unwrap_or(u64::MAX);
    if best.saturating_mul(100) >= without * (100 - PERIOD_WORTHWHILE) {
        return 0;
    }
    // Multiples of a period are as good; the shortest reaches back from the most rows.
    costs.iter().position(|cost| cost * 100 <= best * 103).map_or(0, |shortest| shortest + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matrices_come_back(
            columns in 1usize..9,
            small in prop::collection::vec(-3i64..4, 0..400),
            wild in prop::collection::vec((0usize..400, any::<i64>()), 0..8),
            holes in any::<u64>(),
        ) {
            let mut values = small;
            values.truncate(values.len() / columns * columns);
            for (place, value) in wild {
                if let Some(slot) = values.get_mut(place) {
                    *slot = value;
                }
            }
            let coded: Vec<bool> = (0..values.len()).map(|i| holes >> (i % 64) & 1 == 1).collect();
            for coded in [None, Some(&coded[..])] {
                let mut given: Vec<i64> = values.clone();
                for (i, value) in given.iter_mut().enumerate() {
                    if coded.is_some_and(|coded| !coded[i]) {
                        *value = 0;
                    }
                }
                let mut bytes = Vec::new();
                encode(&mut given.clone(), columns, coded, &mut bytes);
                let rows = given.len() / columns;
                let read = decode(&mut Reader(&bytes), rows, columns, coded).expect("what was written");
                prop_assert_eq!(&read, &given);
                let some = decode(&mut Reader(&bytes), rows / 2, columns, coded).expect("a part of it");
                prop_assert_eq!(&some[..], &given[..some.len()]);
            }
        }

        #[test]
        fn writing_finds_the_contexts_that_reading_finds(
            shape in prop::collection::vec((0u8..8, 0u8..8), 1..9),
            period in 0usize..9,
            values in prop::collection::vec(prop_oneof![-3i64..4, -900i64..900, -(1i64 << 26) + 1..1 << 26], 0..300),
        ) {
            let shape = shape.iter().map(|(forecast, level)| (if period > 0 { *forecast } else { forecast % 4 }, *level));
            let plan = Plan::described(period, shape.collect());
            let rows = values.len() / plan.columns.len();
            let mut values: Vec<i64> = values[..rows * plan.columns.len()].to_vec();
            let small = small(&values, None).expect("small ones");
            let (mut written, mut read) = (Vec::new(), Vec::new());
            known::walk(&small, &plan, |context, residual| {
                written.push((context, residual));
                residual
            });
            walk(&mut values, None, &plan, |context, residual| {
                read.push((context, residual));
                residual
            });
            prop_assert_eq!(written, read);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), rows in 0usize..9) {
            let _ = decode(&mut Reader(&bytes), rows, 5, None);
        }
    }

    #[test]
    fn regular_data_is_small() {
        let mut values: Vec<i64> = (0..20_000i64).map(|i| (i * i) % 7 / 6).collect();
        let mut bytes = Vec::new();
        encode(&mut values, 10, None, &mut bytes);
        assert!(bytes.len() < 700, "{} bytes", bytes.len());
    }
}
