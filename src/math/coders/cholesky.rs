//! A Cholesky factor that grows by one row at a time: `L L' = K_SS` for a growing list of atoms `S`.

use crate::math::signals::{add_scaled, short_dot};

/// A pivot below this share of its diagonal entry counts as linear dependence.
const DEPENDENT: f64 = 1e-13;

/// The factor, row after row: row `r` has `r + 1` entries, the last of which is the reciprocal of the
/// diagonal.
#[derive(Debug, Default)]
pub(super) struct Cholesky {
    rows: Vec<f64>,
    rank: usize,
}

impl Cholesky {
    /// Forgets all rows after the first `rank`.
    #[inline(always)]
    pub fn truncate(&mut self, rank: usize) {
        self.rank = self.rank.min(rank);
    }

    /// Adds an atom from its similarities to those before it and to itself. One that depends on them
    /// linearly is refused: its pivot is given, and its row stays readable in `refused`.
    #[inline(always)]
    pub fn push(&mut self, similarities: impl Iterator<Item = f64>, own: f64) -> Result<(), f64> {
        let start = start_of_row(self.rank);
        self.rows.truncate(start);
        self.rows.extend(similarities);
        let (done, row) = self.rows.split_at_mut(start);
        for j in 0..self.rank {
            let before = &done[start_of_row(j)..start_of_row(j + 1)];
            row[j] = (row[j] - short_dot(&row[..j], &before[..j])) * before[j];
        }
        let pivot = own - short_dot(row, row);
        if pivot <= DEPENDENT * own {
            return Err(pivot);
        }
        self.rows.push(1.0 / pivot.sqrt());
        self.rank += 1;
        Ok(())
    }

    /// `L^-1` times the similarities that `push` has just refused.
    #[inline(always)]
    pub fn refused(&self) -> &[f64] {
        &self.rows[start_of_row(self.rank)..]
    }

    /// Solves `L L' x = right` in place.
    #[inline(always)]
    pub fn solve(&self, right: &mut [f64]) {
        for r in 0..right.len() {
            let row = self.row(r);
            right[r] = (right[r] - short_dot(&row[..r], &right[..r])) * row[r];
        }
        self.substitute_back(right);
    }

    /// Solves `L' x = right` in place.
    #[inline(always)]
    pub fn substitute_back(&self, right: &mut [f64]) {
        for r in (0..right.len()).rev() {
            let row = self.row(r);
            right[r] *= row[r];
            let value = right[r];
            add_scaled(&mut right[..r], -value, &row[..r]);
        }
    }

    #[inline(always)]
    fn row(&self, r: usize) -> &[f64] {
        &self.rows[start_of_row(r)..start_of_row(r + 1)]
    }
}

/// Where a row of a packed lower triangle starts.
#[inline(always)]
fn start_of_row(row: usize) -> usize {
    row * (row + 1) / 2
}
