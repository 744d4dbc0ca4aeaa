//! Rows in which every integer is as foretold: where several follow each other nothing is coded of them, and reading
//! them takes no symbols. Sensors that stand still have such rows, and tables that repeat themselves.

use super::integer::Integer;
use super::plan::Plan;
use crate::archive::Result;
use crate::archive::bytes::{Reader, write_varint};
use crate::math::vectorised;

/// A run of quiet rows must have so many cells: fewer take less than what tells where they are.
const FEWEST_CELLS: usize = 2048;
/// Columns that are compared at a time.
const AT_ONCE: usize = 32;

/// Which rows are quiet.
#[derive(Debug)]
pub(super) struct Quiet {
    rows: Vec<bool>,
}

impl Quiet {
    /// None of so many rows.
    pub fn none(rows: usize) -> Self {
        Self { rows: vec![false; rows] }
    }

    /// Those that are said to be.
    #[cfg(test)]
    pub fn of(rows: Vec<bool>) -> Self {
        Self { rows }
    }

    /// Finds runs of them that are worth it.
    pub fn find<T: Integer>(values: &[T], coded: Option<&[bool]>, plan: &Plan) -> Self {
        let columns = plan.columns.len();
        let mut quiet = Self::none(values.len().checked_div(columns).unwrap_or(0));
        let zeros = vec![T::default(); columns];
        let shares = plan.shares_of();
        let all = vec![true; columns];
        vectorised(
            #[inline(always)]
            || {
                for (row, is_quiet) in quiet.rows.iter_mut().enumerate() {
                    let back = |rows: usize| match row.checked_sub(rows) {
                        Some(row) => &values[row * columns..][..columns],
                        None => &zeros[..],
                    };
                    let coded = coded.map_or(&all[..], |coded| &coded[row * columns..][..columns]);
                    let ago = if plan.period > 0 { back(plan.period) } else { &zeros[..] };
                    *is_quiet = is_as_foretold(back(0), back(1), ago, &shares, coded);
                }
            },
        );
        let mut start = 0;
        while start < quiet.rows.len() {
            let length = quiet.run_at(start);
            if quiet.rows[start] && length * columns < FEWEST_CELLS {
                quiet.rows[start..start + length].fill(false);
            }
            start += length;
        }
        quiet
    }

    /// How many rows from one on are like it.
    fn run_at(&self, start: usize) -> usize {
        self.rows[start..].iter().take_while(|row| **row == self.rows[start]).count()
    }

    pub fn is_empty(&self) -> bool {
        !self.rows.contains(&true)
    }

    pub fn contains(&self, row: usize) -> bool {
        self.rows[row]
    }

    /// Lengths of runs, those that are coded and those that are not taking turns, up to the last one that is not.
    pub fn write(&self) -> Vec<u8> {
        let end = self.rows.iter().rposition(|row| *row).map_or(0, |last| last + 1);
        let (mut bytes, mut start, mut is_quiet) = (Vec::new(), 0, false);
        while start < end {
            let length = if self.rows[start] == is_quiet { self.run_at(start) } else { 0 };
            write_varint(&mut bytes, length as u64);
            start += length;
            is_quiet = !is_quiet;
        }
        bytes
    }

    /// Reads what `write` gave, of so many rows or fewer.
    pub fn read(bytes: &[u8], rows: usize) -> Result<Self> {
        let (mut quiet, mut reader) = (Self::none(rows), Reader(bytes));
        let (mut start, mut is_quiet) = (0, false);
        while !reader.0.is_empty() {
            let length = reader.varint()?.min((rows - start) as u64) as usize;
            quiet.rows[start..start + length].fill(is_quiet);
            start += length;
            is_quiet = !is_quiet;
        }
        Ok(quiet)
    }
}

/// Whether nothing is left of the forecasts of a row's cells that are coded.
#[inline(always)]
fn is_as_foretold<T: Integer>(
    row: &[T],
    last: &[T],
    ago: &[T],
    (of_last, of_ago): &(Vec<T>, Vec<T>),
    coded: &[bool],
) -> bool {
    let columns = row.len();
    let (last, ago, coded) = (&last[..columns], &ago[..columns], &coded[..columns]);
    let (of_last, of_ago) = (&of_last[..columns], &of_ago[..columns]);
    let (mut start, mut are_quiet) = (0, true);
    // Loops, since closures of iterators are not compiled for all of the CPU's vectors.
    while start < columns && are_quiet {
        let end = columns.min(start + AT_ONCE);
        for i in start..end {
            let left = row[i].minus(T::foretold(last[i], of_last[i], ago[i], of_ago[i]));
            are_quiet &= (left == T::default()) | !coded[i];
        }
        start = end;
    }
    are_quiet
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_come_back(rows in prop::collection::vec(prop_oneof![3 => Just(true), 1 => any::<bool>()], 0..60)) {
            let quiet = Quiet::of(rows.clone());
            let bytes = quiet.write();
            prop_assert_eq!(&Quiet::read(&bytes, rows.len())?.rows, &rows);
            let half = rows.len() / 2;
            prop_assert_eq!(&Quiet::read(&bytes, half)?.rows, &rows[..half]);
        }
    }

    #[test]
    fn rows_that_repeat_are_quiet() {
        let columns = 512;
        let week: Vec<i32> = (0..7 * columns).map(|i| (i * i % 11) as i32 + 1).collect();
        let values = week.repeat(3);
        let plan = Plan::described(7, vec![(5, 0); columns]);
        let quiet = Quiet::find(&values, None, &plan);
        assert_eq!(quiet.rows, [[false; 7], [true; 7], [true; 7]].concat());
        // Runs that are too short are coded.
        let plan = Plan::described(7, vec![(5, 0); 100]);
        let values: Vec<i32> = (0..21 * 100).map(|i| i % 700 + i / 1500 + 1).collect();
        assert!(Quiet::find(&values, None, &plan).is_empty());
    }
}
