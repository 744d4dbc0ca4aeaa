//! Coding signals one by one, in parallel blocks that share a product and a workspace.

use rayon::prelude::*;
use sprs::CsMatI;

use super::CoderOptions;
use super::active_set::ActiveSet;
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use crate::math::product::{BLOCK, inner_products};
use crate::math::signals::Rows;
use crate::math::{MathError, PreparedDictionary, Result, Signals};

/// What a solver leaves in the workspace: the nonzeros, in ascending order of atoms.
#[derive(Debug, Default)]
pub(super) struct Solution {
    pub atoms: Vec<u32>,
    pub weights: Vec<f64>,
}

/// Memory that a solver reuses from signal to signal.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub solution: Solution,
    pub set: ActiveSet,
    pub fksc: super::fksc::State,
    pub correlations: Vec<f64>,
    pub weights: Vec<f64>,
}

/// Codes of one block, in the layout of a sparse matrix.
#[derive(Default)]
struct BlockCodes {
    ends: Vec<usize>,
    atoms: Vec<u32>,
    weights: Vec<f64>,
    reports: Vec<SignalReport>,
}

/// Some signals of a batch and their similarities to all atoms.
pub(super) struct Block<'a> {
    /// The number of the first signal.
    pub first: usize,
    /// `k(y, X)` of each signal, one after the other.
    pub similarities: &'a [f64],
    /// `k(y, y)` of each signal.
    pub self_similarities: &'a [f64],
}

/// Runs `work` for every block of signals, in parallel, with memory `S` that blocks reuse. Blocks are
/// independent, so neither their size nor the number of threads changes a result.
pub(super) fn map_blocks<S: Default + Send, T: Send>(
    dictionary: &PreparedDictionary,
    signals: &Signals<'_>,
    work: impl Fn(&mut S, Block<'_>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let kernel = dictionary.dictionary().kernel();
    let run = |scratch: &mut (Rows, Vec<f64>, Vec<f64>, S), block: usize| {
        let (rows, similarities, self_similarities, reused) = scratch;
        let first = block * BLOCK;
        let last = (first + BLOCK).min(signals.len());
        rows.fill(&signals.rows()[first..last], dictionary.centre(), first)?;
        kernel.similarities(rows, dictionary.rows(), similarities);
        self_similarities.clear();
        self_similarities.extend(rows.squares.iter().map(|square| kernel.self_similarity(*square)));
        // Similarities to atoms are finite if these are (Cauchy-Schwarz).
        if !self_similarities.iter().all(|own| own.is_finite()) {
            return Err(MathError::Overflow { kernel: kernel.name() });
        }
        work(reused, Block { first, similarities, self_similarities })
    };
    (0..signals.len().div_ceil(BLOCK)).into_par_iter().map_init(Default::default, run).collect()
}

/// Part of the work on a block, for benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Centring and the product with all atoms.
    Product,
    /// The same, and the kernel.
    Kernel,
}

/// Does part of the work of coding; gives the sum of all first entries, so that none of it is idle.
pub(crate) fn run_stage(dictionary: &PreparedDictionary, signals: &Signals<'_>, stage: Stage) -> Result<f64> {
    if stage == Stage::Kernel {
        let firsts = map_blocks(dictionary, signals, |_: &mut (), block| Ok(block.similarities[0]))?;
        return Ok(firsts.iter().sum());
    }
    let run = |(rows, products): &mut (Rows, Vec<f64>), block: usize| {
        let first = block * BLOCK;
        let last = (first + BLOCK).min(signals.len());
        rows.fill(&signals.rows()[first..last], dictionary.centre(), first)?;
        inner_products(rows, dictionary.rows(), products);
        Ok(products[0])
    };
    let blocks = (0..signals.len().div_ceil(BLOCK)).into_par_iter();
    let firsts: Vec<f64> = blocks.map_init(Default::default, run).collect::<Result<_>>()?;
    Ok(firsts.iter().sum())
}

/// Runs `solve` for every signal.
pub(super) fn code_each(
    dictionary: &PreparedDictionary,
    signals: &Signals<'_>,
    options: &CoderOptions,
    solve: impl Fn(&Lasso<'_>, &mut Workspace) -> SignalReport + Sync,
) -> Result<Codes> {
    let gram = dictionary.gram()?;
    let code_block = |workspace: &mut Workspace, block: Block<'_>| {
        let mut codes = BlockCodes::default();
        for (similarities, own) in block.similarities.chunks_exact(gram.atoms).zip(block.self_similarities) {
            let problem = Lasso {
                gram,
                similarities,
                self_similarity: *own,
                lambda: options.lambda(),
                tolerance: options.tolerance.get() * own.abs().sqrt(),
                max_rounds: options.max_rounds,
            };
            let mut report = solve(&problem, workspace);
            if let Some(most) = options.max_nonzeros {
                keep_largest(&problem, workspace, most, &mut report);
            }
            codes.atoms.extend_from_slice(&workspace.solution.atoms);
            codes.weights.extend_from_slice(&workspace.solution.weights);
            codes.ends.push(codes.atoms.len());
            codes.reports.push(report);
        }
        Ok(codes)
    };
    let blocks = map_blocks(dictionary, signals, code_block)?;
    Ok(concatenate(blocks, signals.len(), gram.atoms))
}

/// Cuts a code down to its `most` largest weights and fits those again.
fn keep_largest(problem: &Lasso<'_>, workspace: &mut Workspace, most: usize, report: &mut SignalReport) {
    let Workspace { solution, set, .. } = workspace;
    if solution.atoms.len() <= most {
        return;
    }
    let mut order: Vec<usize> = (0..solution.atoms.len()).collect();
    order.sort_by(|a, b| solution.weights[*b].abs().total_cmp(&solution.weights[*a].abs()));
    order.truncate(most);
    order.sort_unstable();
    set.clear();
    for kept in order {
        let atom = solution.atoms[kept] as usize;
        set.add(problem, atom, solution.weights[kept]);
    }
    set.solve(problem);
    set.write_solution(solution);
    report.rounds += set.rounds as u32;
    report.updates += set.updates;
    report.objective = set.objective(problem);
    report.gap = set.gap(problem);
    report.exit = ExitReason::Truncated;
}

fn concatenate(blocks: Vec<BlockCodes>, signals: usize, atoms: usize) -> Codes {
    let nonzeros = blocks.iter().map(|block| block.atoms.len()).sum();
    let mut starts = Vec::with_capacity(signals + 1);
    let mut indices = Vec::with_capacity(nonzeros);
    let mut weights = Vec::with_capacity(nonzeros);
    let mut reports = Vec::with_capacity(signals);
    starts.push(0);
    for block in blocks {
        let offset = indices.len();
        starts.extend(block.ends.iter().map(|end| offset + end));
        indices.extend_from_slice(&block.atoms);
        weights.extend_from_slice(&block.weights);
        reports.extend_from_slice(&block.reports);
    }
    Codes { weights: CsMatI::new((signals, atoms), starts, indices, weights), reports }
}
