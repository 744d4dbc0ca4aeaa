//! A matrix of integers, coded with what is known about their neighbours.
//!
//! Rows follow each other in time, columns are sensors. Each integer is foretold from its column's last
//! one and from the one a period ago; what is left is a symbol, coded with frequencies that depend on how
//! much its neighbours deviated: in time, in the row, a period ago, and in its column on average. Where
//! they lean to one side the sign is taken relative to it.

use super::contexts::{CONTEXTS, Tables};
use super::integer::Integer;
use super::integers::Integers;
use super::known;
use super::lanes::Lanes;
use super::noted::Noted;
use super::plan::Plan;
use super::quiet::Quiet;
use super::rans::{Decoder, LANES, Slot, Slots};
use super::symbols;
use super::walk::walk;
use super::whole;
use crate::archive::Result;
use crate::archive::bytes::{Reader, write_part, write_varint};
use crate::math::vectorised;

/// Added to what describes a matrix with quiet rows: more than any without them has.
const HAS_QUIET: usize = 2 * (Plan::LONGEST_PERIOD + 1);

/// Writes the integers; where `coded` says no they must be 0 and are not written.
pub(in crate::archive) fn encode(
    values: &Integers,
    columns: usize,
    coded: Option<&[bool]>,
    bytes: &mut Vec<u8>,
) {
    let mut noted = Noted::new(values.len());
    let (plan, quiet) = match values {
        Integers::Small(values) => {
            let plan = Plan::new(values, columns);
            let quiet = Quiet::find(values, coded, &plan);
            vectorised(
                #[inline(always)]
                || match coded {
                    None => noted.note_known(values, &plan, &quiet),
                    Some(_) => noted.note_walked(values, coded, &plan, &quiet),
                },
            );
            (plan, quiet)
        }
        Integers::Wide(values) => {
            let plan = Plan::new(values, columns);
            let quiet = Quiet::find(values, coded, &plan);
            vectorised(
                #[inline(always)]
                || noted.note_walked(values, coded, &plan, &quiet),
            );
            (plan, quiet)
        }
    };
    let tables = noted.tables();
    let (is_wide, has_quiet) = (matches!(values, Integers::Wide(_)), !quiet.is_empty());
    let described = 2 * plan.period + usize::from(is_wide) + usize::from(has_quiet) * HAS_QUIET;
    write_varint(bytes, described as u64);
    if has_quiet {
        write_part(bytes, &quiet.write());
    }
    bytes.extend(plan.columns.iter().map(|(forecast, level)| forecast << 4 | level));
    tables.write(bytes);
    vectorised(
        #[inline(always)]
        || noted.write(&tables, bytes),
    );
}

impl Noted {
    /// Notes integers that are all there and small.
    #[inline(always)]
    fn note_known(&mut self, values: &[i32], plan: &Plan, quiet: &Quiet) {
        let lanes = Lanes::new(plan.columns.len());
        // Constants, so that loops are made for them.
        match lanes.together() {
            1 => known::walk::<1>(
                values,
                plan,
                quiet,
                &lanes,
                #[inline(always)]
                |contexts, residuals| self.note_row::<1>(contexts, residuals),
            ),
            _ => known::walk::<LANES>(
                values,
                plan,
                quiet,
                &lanes,
                #[inline(always)]
                |contexts, residuals| self.note_row::<LANES>(contexts, residuals),
            ),
        }
    }

    #[inline(always)]
    fn note_walked<T: Integer>(&mut self, values: &[T], coded: Option<&[bool]>, plan: &Plan, quiet: &Quiet) {
        // A walk writes what it goes through; what is to be compared with the bytes must not change.
        walk(
            &mut values.to_vec(),
            coded,
            plan,
            quiet,
            #[inline(always)]
            |lane, context, residual| {
                self.note(lane, context, residual.wide());
                residual
            },
        );
    }
}

/// Reads `rows` rows, or fewer than were written.
pub(in crate::archive) fn decode(
    reader: &mut Reader<'_>,
    rows: usize,
    columns: usize,
    coded: Option<&[bool]>,
) -> Result<Integers> {
    let described = reader.size(2 * HAS_QUIET - 1)?;
    let (has_quiet, described) = (described >= HAS_QUIET, described % HAS_QUIET);
    let (period, is_wide) = (described / 2, described % 2 == 1);
    let quiet = if has_quiet { Quiet::read(reader.part()?, rows)? } else { Quiet::none(rows) };
    let described = reader.take(columns)?;
    let column = |byte: &u8| (byte >> 4 & 7, byte & 7);
    let plan = Plan::described(period, described.iter().map(column).collect());
    let tables = Tables::read(reader)?;
    let slots = tables.slots();
    let source = Source { decoder: Decoder::new(reader)?, slots: tables.of_contexts(&slots) };
    Ok(vectorised(
        #[inline(always)]
        || match is_wide {
            true => Integers::Wide(source.read_all(rows, coded, &plan, &quiet)),
            false => Integers::Small(source.read_all(rows, coded, &plan, &quiet)),
        },
    ))
}

/// Where what forecasts left is read from.
struct Source<'a> {
    decoder: Decoder<'a>,
    /// Of every context.
    slots: [&'a Slots; CONTEXTS],
}

impl Source<'_> {
    #[inline(always)]
    fn read_all<T: Integer>(
        mut self,
        rows: usize,
        coded: Option<&[bool]>,
        plan: &Plan,
        quiet: &Quiet,
    ) -> Vec<T> {
        let Some(coded) = coded else {
            let lanes = Lanes::new(plan.columns.len());
            return whole::walk(
                rows,
                plan,
                quiet,
                &lanes,
                #[inline(always)]
                |lane, context| self.next_symbol(lane, context),
            );
        };
        let mut values = vec![T::default(); rows * plan.columns.len()];
        walk(
            &mut values,
            Some(coded),
            plan,
            quiet,
            #[inline(always)]
            |lane, context, _| T::of(self.next(lane, context)),
        );
        values
    }

    /// The next symbol, and what it stands for where it has plain bits.
    #[inline(always)]
    fn next_symbol(&mut self, lane: usize, context: usize) -> (Slot, Option<i64>) {
        let found = self.decoder.symbol(lane, self.slots[context]);
        let with_bits = symbols::has_bits(found.symbol).then(
            #[inline(always)]
            || {
                symbols::join(
                    found.symbol,
                    #[inline(always)]
                    |bits| self.decoder.bits(lane, bits),
                )
            },
        );
        (found, with_bits)
    }

    #[inline(always)]
    fn next(&mut self, lane: usize, context: usize) -> i64 {
        let (found, with_bits) = self.next_symbol(lane, context);
        with_bits.unwrap_or(found.value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matrices_come_back(
            columns in prop_oneof![1usize..9, 32usize..40],
            small in prop::collection::vec(-3i64..4, 0..400),
            repeats in prop_oneof![Just(1), 8usize..20],
            wild in prop::collection::vec((0usize..4000, any::<i64>()), 0..8),
            holes in any::<u64>(),
        ) {
            let mut values = small;
            values.truncate(values.len() / columns * columns);
            // What repeats itself has rows of which nothing is coded.
            let mut values = values.repeat(repeats);
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
                let given: Integers = given.into_iter().collect();
                let mut bytes = Vec::new();
                encode(&given, columns, coded, &mut bytes);
                let rows = given.len() / columns;
                let read = decode(&mut Reader(&bytes), rows, columns, coded).expect("what was written");
                prop_assert_eq!(&read, &given);
                let some = decode(&mut Reader(&bytes), rows / 2, columns, coded).expect("a part of it");
                prop_assert!((0..some.len()).all(|i| some.get(i) == given.get(i)));
            }
        }

        #[test]
        fn writing_finds_the_contexts_that_reading_finds(
            shape in prop_oneof![1usize..9, 32usize..40]
                .prop_flat_map(|columns| prop::collection::vec((0u8..8, 0u8..8), columns)),
            period in 0usize..9,
            values in prop::collection::vec(prop_oneof![-3i64..4, -900i64..900, -(1i64 << 26) + 1..1 << 26], 0..300),
            quiet in prop::collection::vec(any::<bool>(), 300),
        ) {
            let shape = shape.iter().map(|(forecast, level)| (if period > 0 { *forecast } else { forecast % 4 }, *level));
            let plan = Plan::described(period, shape.collect());
            let columns = plan.columns.len();
            let mut values: Vec<i64> = values[..values.len() / columns * columns].to_vec();
            let quiet = Quiet::of(quiet);
            for place in (0..values.len()).filter(|place| quiet.contains(place / columns)) {
                let back = |rows: usize| place.checked_sub(rows * columns).map_or(0, |place| values[place]);
                let (of_last, of_ago) = plan.shares[place % columns];
                let ago = if period > 0 { back(period) } else { 0 };
                values[place] = i64::foretold(back(1), of_last.into(), ago, of_ago.into());
            }
            let mut small: Vec<i32> = values.iter().map(|value| *value as i32).collect();
            let (mut written, mut read, mut read_small) = (Vec::new(), Vec::new(), Vec::new());
            let lanes = Lanes::new(columns);
            let together = lanes.together();
            let note = |contexts: &[u32], residuals: &[i32]| {
                let noted = contexts.iter().zip(residuals).enumerate();
                written.extend(noted.map(|(i, (context, residual))| {
                    (i % together, *context as usize, i64::from(*residual))
                }));
            };
            match together {
                1 => known::walk::<1>(&small, &plan, &quiet, &lanes, note),
                _ => known::walk::<LANES>(&small, &plan, &quiet, &lanes, note),
            }
            walk(&mut values, None, &plan, &quiet, |lane, context, residual| {
                read.push((lane, context, residual));
                residual
            });
            walk(&mut small, None, &plan, &quiet, |lane, context, residual| {
                read_small.push((lane, context, i64::from(residual)));
                residual
            });
            prop_assert_eq!(&written, &read);
            prop_assert_eq!(&written, &read_small);
        }

        // Random bytes seldom get past the tables.
        #[test]
        fn no_damage_makes_it_panic(
            columns in prop_oneof![1usize..9, 32usize..40],
            values in prop::collection::vec(prop_oneof![9 => -3i64..4, 1 => any::<i64>()], 0..400),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            holes in any::<u64>(),
        ) {
            let rows = values.len() / columns;
            let values: Integers = values.into_iter().take(rows * columns).collect();
            let mut bytes = Vec::new();
            encode(&values, columns, None, &mut bytes);
            for (place, value) in damage {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            let coded: Vec<bool> = (0..values.len()).map(|i| holes >> (i % 64) & 1 == 1).collect();
            for coded in [None, Some(&coded[..])] {
                if let Ok(read) = decode(&mut Reader(&bytes), rows, columns, coded) {
                    prop_assert_eq!(read.len(), rows * columns);
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), rows in 0usize..9) {
            let _ = decode(&mut Reader(&bytes), rows, 5, None);
            let _ = decode(&mut Reader(&bytes), rows, 33, None);
        }
    }

    /// Rows that repeat, one that differs, and rows that stand still, the first of them 0.
    fn standing(columns: usize) -> Integers {
        let still = 3000 / columns;
        let row = |t: usize, s: usize| match t {
            t if t < still || t > 3 * still => 0,
            t if t == 2 * still => (s % 3) as i64,
            _ => (s * s % 7) as i64 - 2,
        };
        (0..4 * still).flat_map(|t| (0..columns).map(move |s| row(t, s))).collect()
    }

    #[test]
    fn nothing_is_coded_of_rows_that_are_as_foretold() {
        for columns in [5, 33, 207] {
            let values = standing(columns);
            let rows = values.len() / columns;
            let holes: Vec<bool> = (0..values.len()).map(|i| i % 11 != 3 || values.get(i) != 0).collect();
            for coded in [None, Some(&holes[..])] {
                let mut bytes = Vec::new();
                encode(&values, columns, coded, &mut bytes);
                let mut reader = Reader(&bytes);
                let described = reader.size(usize::MAX).expect("a number");
                assert!(described >= HAS_QUIET, "{columns} columns have no quiet rows");
                let quiet = Quiet::read(reader.part().expect("runs"), rows).expect("runs");
                let count = (0..rows).filter(|row| quiet.contains(*row)).count();
                assert!(
                    quiet.contains(0) && 5 * count > 4 * rows,
                    "{count} of {rows} rows of {columns} columns"
                );
                for read in [0, 1, rows / 2, rows] {
                    let back = decode(&mut Reader(&bytes), read, columns, coded).expect("what was written");
                    assert!((0..read * columns).all(|i| back.get(i) == values.get(i)), "{columns} columns");
                }
            }
        }
    }

    #[test]
    fn no_damage_to_quiet_rows_makes_it_panic() {
        let values = standing(33);
        let rows = values.len() / 33;
        let mut bytes = Vec::new();
        encode(&values, 33, None, &mut bytes);
        for place in 0..bytes.len().min(60) {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1 << bit;
                if let Ok(read) = decode(&mut Reader(&damaged), rows, 33, None) {
                    assert_eq!(read.len(), values.len());
                }
            }
        }
    }

    /// However many rows are tried of each period: here every third.
    #[test]
    fn short_periods_are_small() {
        let rows =
            (0..30_000).flat_map(|t: usize| (0..32).map(move |s| [0, 3, (s % 5) as i64 - 2][(t + s) % 3]));
        let values: Integers = rows.collect();
        let mut bytes = Vec::new();
        encode(&values, 32, None, &mut bytes);
        assert!(bytes.len() < 500, "{} bytes", bytes.len());
    }

    #[test]
    fn regular_data_is_small() {
        let values: Integers = (0..20_000i64).map(|i| (i * i) % 7 / 6).collect();
        let mut bytes = Vec::new();
        encode(&values, 10, None, &mut bytes);
        assert!(bytes.len() < 700, "{} bytes", bytes.len());
    }
}
