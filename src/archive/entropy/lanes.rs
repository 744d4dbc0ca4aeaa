//! The order in which a row's columns are coded.

use super::rans::LANES;

/// Fewer columns are not divided.
pub(super) const FEWEST: usize = 32;

/// Columns divided into runs, one for each lane, which take turns: what is next in one does not depend on what
/// comes out of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes {
    starts: [usize; LANES + 1],
}

// `in_turns` spells them out.
const _: () = assert!(LANES == 4);

impl Lanes {
    pub fn new(columns: usize) -> Self {
        let (whole, rest) = if columns < FEWEST { (columns, 0) } else { (columns / LANES, columns % LANES) };
        Self { starts: std::array::from_fn(|lane| (lane * whole + lane.min(rest)).min(columns)) }
    }

    /// How many lanes take turns.
    pub fn together(&self) -> usize {
        if self.starts[1] < self.starts[LANES] { LANES } else { 1 }
    }

    /// A row in the order in which it is coded: what is to the left of a column is then as many places before as lanes
    /// take turns.
    #[inline(always)]
    pub fn in_order<T: Copy>(&self, row: &[T], ordered: &mut [T]) {
        let (starts, steps) = (&self.starts, self.steps());
        if steps == 0 {
            return ordered.copy_from_slice(row);
        }
        let (turns, rest) = ordered.as_chunks_mut::<LANES>();
        let lane = |lane: usize| &row[starts[lane]..][..steps];
        let (a, b, c, d) = (lane(0), lane(1), lane(2), lane(3));
        let turns = &mut turns[..steps];
        for i in 0..steps {
            turns[i] = [a[i], b[i], c[i], d[i]];
        }
        rest.iter_mut().enumerate().for_each(|(lane, value)| *value = row[starts[lane] + steps]);
    }

    /// The same in memory of its own.
    pub fn ordered<T: Copy + Default>(&self, row: &[T]) -> Vec<T> {
        let mut ordered = vec![T::default(); row.len()];
        self.in_order(row, &mut ordered);
        ordered
    }

    /// The opposite of `in_order`.
    #[inline(always)]
    pub fn in_columns<T: Copy>(&self, ordered: &[T], row: &mut [T]) {
        let (starts, steps) = (&self.starts, self.steps());
        if steps == 0 {
            return row.copy_from_slice(ordered);
        }
        let (turns, rest) = ordered.as_chunks::<LANES>();
        let turns = &turns[..steps];
        for (lane, start) in starts[..LANES].iter().enumerate() {
            let columns = &mut row[*start..][..steps];
            for i in 0..steps {
                columns[i] = turns[i][lane];
            }
        }
        rest.iter().enumerate().for_each(|(lane, value)| row[starts[lane] + steps] = *value);
    }

    /// Steps that all lanes take.
    fn steps(&self) -> usize {
        self.starts[LANES] - self.starts[LANES - 1]
    }

    /// Calls `each` with a lane and a column.
    #[inline(always)]
    pub fn in_turns(&self, mut each: impl FnMut(usize, usize)) {
        let starts = &self.starts;
        let width = |lane: usize| starts[lane + 1] - starts[lane];
        // The last one is the shortest, the first one the longest.
        for step in 0..width(LANES - 1) {
            each(0, starts[0] + step);
            each(1, starts[1] + step);
            each(2, starts[2] + step);
            each(3, starts[3] + step);
        }
        for step in width(LANES - 1)..width(0) {
            each(0, starts[0] + step);
            if step < width(1) {
                each(1, starts[1] + step);
            }
            if step < width(2) {
                each(2, starts[2] + step);
            }
        }
    }
}
