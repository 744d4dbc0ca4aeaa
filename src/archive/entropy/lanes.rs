//! The order in which a row's columns are coded.

use std::ops::Range;

use super::rans::LANES;

/// Fewer columns are not divided.
const FEWEST: usize = 32;

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

    pub fn columns(&self) -> impl Iterator<Item = Range<usize>> {
        (0..LANES).map(|lane| self.starts[lane]..self.starts[lane + 1])
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
