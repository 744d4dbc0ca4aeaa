//! Coding signals one by one, in parallel blocks that share a product and a workspace.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;
use sprs::CsMatI;

use super::CoderOptions;
use super::active_set::ActiveSet;
use super::codes::{Code, Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use super::similarities::{Similarities, SimilarityBlock};
use crate::math::gram::Gram;
use crate::math::product::BLOCK;
use crate::math::{PreparedDictionary, Result, Signals};

/// What a solver leaves in the workspace: the nonzeros, in ascending order of atoms.
#[derive(Debug, Default)]
pub(super) struct Solution {
    pub atoms: Vec<u32>,
    pub weights: Vec<f64>,
    sorted: Vec<(u32, f64)>,
}

impl Solution {
    /// Takes positions in the gram matrix with their weights.
    #[inline(always)]
    pub fn write(&mut self, problem: &Lasso<'_>, entries: impl Iterator<Item = (u32, f64)>) {
        self.sorted.clear();
        let order = &problem.gram.order;
        self.sorted.extend(entries.map(|(position, weight)| (order[position as usize], weight)));
        self.sorted.sort_unstable_by_key(|(atom, _)| *atom);
        self.atoms.clear();
        self.weights.clear();
        self.atoms.extend(self.sorted.iter().map(|(atom, _)| atom));
        self.weights.extend(self.sorted.iter().map(|(_, weight)| weight));
    }
}

/// What is reused from signal to signal, `M` by the solver.
#[derive(Debug, Default)]
struct Workspace<M> {
    memory: M,
    solution: Solution,
    /// For codes that are cut down and fitted again.
    set: ActiveSet,
    kept: Vec<usize>,
    /// The most nonzeros a block had so far.
    nonzeros: usize,
}

/// Codes of one block, in the layout of a sparse matrix.
pub(super) struct BlockCodes {
    ends: Vec<usize>,
    atoms: Vec<u32>,
    weights: Vec<f64>,
    reports: Vec<SignalReport>,
}

impl BlockCodes {
    pub fn with_capacity(signals: usize, nonzeros: usize) -> Self {
        Self {
            ends: Vec::with_capacity(signals),
            atoms: Vec::with_capacity(nonzeros),
            weights: Vec::with_capacity(nonzeros),
            reports: Vec::with_capacity(signals),
        }
    }

    /// Adds the code of the next signal.
    #[inline(always)]
    pub fn push(&mut self, solution: &Solution, report: SignalReport) {
        self.atoms.extend_from_slice(&solution.atoms);
        self.weights.extend_from_slice(&solution.weights);
        self.ends.push(self.atoms.len());
        self.reports.push(report);
    }
}

/// Runs `work` for every block of signals, in parallel, with memory `S` that blocks reuse. Blocks are
/// independent, so neither their size nor the number of threads changes a result.
pub(super) fn map_blocks<S: Default + Send, T: Send>(
    signals: usize,
    work: impl Fn(&mut S, Range<usize>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    // Not `map_init`, which makes a new `S` whenever work is split.
    let spare = Mutex::new(Vec::new());
    let spare = || spare.lock().unwrap_or_else(PoisonError::into_inner);
    let run = |block: usize| {
        let reused = spare().pop();
        let mut reused = reused.unwrap_or_default();
        let done = work(&mut reused, block * BLOCK..((block + 1) * BLOCK).min(signals));
        spare().push(reused);
        done
    };
    (0..signals.div_ceil(BLOCK)).into_par_iter().map(run).collect()
}

/// A signal that waits for its code.
pub(super) struct Waiting<'a, S> {
    /// Its place in the block.
    pub index: usize,
    pub similarities: S,
    /// A code to start from, possibly empty.
    pub start: Code<'a>,
    /// Its atoms' similarities to the signal, or none.
    pub known: &'a [f64],
}

/// Codes of the same signals with a dictionary that has changed little since.
#[derive(Clone, Copy)]
pub(crate) struct Earlier<'a> {
    pub codes: &'a Codes,
    /// What the nonzeros' atoms have become as similar to their signals, in the order of the nonzeros, or none.
    pub similarities: &'a [f64],
}

impl<'a> Earlier<'a> {
    fn row(&self, signal: usize) -> (Code<'a>, &'a [f64]) {
        let range = self.codes.weights.indptr().outer_inds_sz(signal);
        (self.codes.row(signal), self.similarities.get(range).unwrap_or_default())
    }
}

/// Codes one signal after the other. To be inlined, so that it is compiled for the CPU's vectors.
pub(super) trait Solver: Sync {
    /// Where similarities come from.
    type Block: SimilarityBlock;
    /// What is reused from signal to signal.
    type Memory: Default + Send;

    /// Does what is better done for all signals of a block at once.
    fn begin(&self, _block: &Self::Block, _memory: &mut Self::Memory) {}

    /// Leaves the code in `solution`.
    fn solve(
        &self,
        problem: &Lasso<'_>,
        signal: Waiting<'_, <Self::Block as SimilarityBlock>::Row<'_>>,
        memory: &mut Self::Memory,
        solution: &mut Solution,
    ) -> SignalReport;
}

/// Codes every signal, starting from earlier codes of the same signals if there are any.
pub(super) fn code_each<S: Solver>(
    dictionary: &PreparedDictionary,
    signals: &Signals<'_>,
    options: &CoderOptions,
    start: Option<Earlier<'_>>,
    solver: &S,
) -> Result<Codes> {
    let gram = dictionary.gram()?;
    let code_block = |(block, workspace): &mut (S::Block, Workspace<S::Memory>), range: Range<usize>| {
        block.fill(dictionary, gram, signals, range.clone())?;
        let block = CodeBlock { dictionary, gram, options, solver, block, signals: range, start, workspace };
        Ok(Arch::new().dispatch(block))
    };
    let blocks = map_blocks(signals.len(), code_block)?;
    Ok(concatenate(blocks, signals.len(), gram.atoms))
}

/// The work on one block, once its similarities are there.
struct CodeBlock<'a, S: Solver> {
    dictionary: &'a PreparedDictionary,
    gram: &'a Gram,
    options: &'a CoderOptions,
    solver: &'a S,
    block: &'a S::Block,
    signals: Range<usize>,
    start: Option<Earlier<'a>>,
    workspace: &'a mut Workspace<S::Memory>,
}

impl<S: Solver> NullaryFnOnce for CodeBlock<'_, S> {
    type Output = BlockCodes;

    #[inline(always)]
    fn call(self) -> BlockCodes {
        let Self { dictionary, gram, options, solver, block, signals, start, workspace } = self;
        let mut codes = BlockCodes::with_capacity(signals.len(), workspace.nonzeros);
        solver.begin(block, &mut workspace.memory);
        for (index, signal) in signals.enumerate() {
            let own = block.self_similarity(index);
            let problem = Lasso {
                gram,
                self_similarity: own,
                lambda: options.lambda(),
                tolerance: options.tolerance.get() * own.abs().sqrt(),
                max_rounds: options.max_rounds,
            };
            let similarities = block.row(dictionary, gram, index);
            let (start, known) = start.map_or(((&[][..], &[][..]), &[][..]), |earlier| earlier.row(signal));
            let waiting = Waiting { index, similarities, start, known };
            let Workspace { memory, solution, .. } = &mut *workspace;
            let mut report = solver.solve(&problem, waiting, memory, solution);
            if let Some(most) = options.max_nonzeros {
                keep_largest(&problem, similarities, workspace, most, &mut report);
            }
            codes.push(&workspace.solution, report);
        }
        workspace.nonzeros = workspace.nonzeros.max(codes.atoms.len());
        codes
    }
}

/// Cuts a code down to its `most` largest weights and fits those again.
fn keep_largest(
    problem: &Lasso<'_>,
    similarities: impl Similarities,
    workspace: &mut Workspace<impl Default>,
    most: usize,
    report: &mut SignalReport,
) {
    let Workspace { solution, set, kept: order, .. } = workspace;
    if solution.atoms.len() <= most {
        return;
    }
    // What a weight contributes to the fit grows with its atom.
    let size =
        |entry: usize| solution.weights[entry].abs() * problem.gram.norm(solution.atoms[entry] as usize);
    choose_largest(order, solution.atoms.len(), most, size);
    set.clear();
    for &kept in order.iter() {
        let position = problem.gram.rank[solution.atoms[kept] as usize] as usize;
        let similarity = similarities.exact(position);
        set.add(problem, position, similarity, similarity);
        set.give(solution.weights[kept]);
    }
    let solved = set.solve_given(problem);
    set.write_solution(problem, solution);
    report.rounds += set.rounds as u32;
    report.updates += set.updates;
    report.objective = set.objective(problem);
    report.gap = set.gap(problem);
    report.exit = if solved { ExitReason::Truncated } else { ExitReason::MaxRounds };
}

/// Fills `chosen` with the `most` largest of `0..count` by size, in ascending order; of equals the first.
#[inline(always)]
pub(super) fn choose_largest(
    chosen: &mut Vec<usize>,
    count: usize,
    most: usize,
    size: impl Fn(usize) -> f64,
) {
    chosen.clear();
    chosen.extend(0..count);
    if most >= count {
        return;
    }
    chosen.select_nth_unstable_by(most, |a, b| size(*b).total_cmp(&size(*a)).then(a.cmp(b)));
    chosen.truncate(most);
    chosen.sort_unstable();
}

/// Puts the codes of consecutive blocks together.
pub(super) fn concatenate(blocks: Vec<BlockCodes>, signals: usize, atoms: usize) -> Codes {
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
