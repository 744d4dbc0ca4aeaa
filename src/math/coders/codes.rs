//! What coding gives: a sparse matrix and, for every signal, the evidence of its quality.

use sprs::CsMatI;

/// Why a coder stopped working on a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitReason {
    /// The optimality gap is within the tolerance.
    Converged,
    /// The rounds allowed were used up first.
    MaxRounds,
    /// As many nonzeros as allowed.
    Truncated,
}

/// One code: the atoms it uses and their weights.
pub type Code<'a> = (&'a [u32], &'a [f64]);

/// The evidence for one code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignalReport {
    /// `1/2 ||phi(y) - phi(X) w||^2 + lambda ||w||_1`.
    pub objective: f64,
    /// Rounds over the working set.
    pub rounds: u32,
    /// Single weights that were updated (eq. 9).
    pub updates: u64,
    /// The largest violation of the optimality conditions of what the coder minimises; 0 at the exact
    /// solution.
    pub gap: f64,
    /// Why the coder stopped.
    pub exit: ExitReason,
}

/// The codes of a batch: one row per signal, one column per atom.
#[derive(Debug, Clone)]
pub struct Codes {
    /// The weights; columns of a row are in ascending order.
    pub weights: CsMatI<f64, u32, usize>,
    /// One report per row.
    pub reports: Vec<SignalReport>,
}

impl Codes {
    /// Codes over `atoms` atoms from single ones, whose atoms ascend, with their reports.
    pub(crate) fn from_rows<'a>(
        atoms: usize,
        rows: impl IntoIterator<Item = (Code<'a>, SignalReport)>,
    ) -> Self {
        let (mut starts, mut indices, mut data, mut reports) = (vec![0], Vec::new(), Vec::new(), Vec::new());
        for ((atoms, weights), report) in rows {
            indices.extend_from_slice(atoms);
            data.extend_from_slice(weights);
            starts.push(indices.len());
            reports.push(report);
        }
        Self { weights: CsMatI::new((reports.len(), atoms), starts, indices, data), reports }
    }

    /// The codes, in the order of the signals.
    pub fn rows(&self) -> impl Iterator<Item = Code<'_>> {
        (0..self.reports.len()).map(|row| self.row(row))
    }

    /// The code of signal `i`.
    pub fn row(&self, i: usize) -> Code<'_> {
        let range = self.weights.indptr().outer_inds_sz(i);
        (&self.weights.indices()[range.clone()], &self.weights.data()[range])
    }

    /// The objectives' sum.
    pub fn objective(&self) -> f64 {
        self.reports.iter().map(|report| report.objective).sum()
    }

    /// The worst optimality gap of the batch.
    pub fn worst_gap(&self) -> f64 {
        self.reports.iter().fold(0.0, |worst, report| report.gap.max(worst))
    }

    /// Single weights that were updated.
    pub fn updates(&self) -> u64 {
        self.reports.iter().map(|report| report.updates).sum()
    }

    /// The nonzeros of the batch.
    pub fn nonzeros(&self) -> usize {
        self.weights.nnz()
    }
}
