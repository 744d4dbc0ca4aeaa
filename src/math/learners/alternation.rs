//! Learning by coding and stepping in turn, whatever the step.
//!
//! - Atoms start from training signals, or from a dictionary learned before.
//! - Atoms that no signal uses cannot improve, and atoms that repeat another are wasted: both restart from
//!   the signals represented worst.
//! - It has converged when the objective, which is what users pay for, no longer falls; the atoms of the
//!   best round are kept.

use rayon::prelude::*;

use super::step::{Moved, Sparse, Step};
use super::{Observer, Progress, Start, Task};
use crate::math::coders::{CoderOptions, Codes, Earlier, Fksc};
use crate::math::gram::Gram;
use crate::math::{Dictionary, MathError, PreparedDictionary, Result, Round, Training};

/// Two atoms that differ by less than this share of the median difference count as one.
const ALIKE: f64 = 0.0025;

/// Learns for the learner called `learner`; `descend` moves the atoms for given codes. It is told the similarities that
/// it has computed of these atoms before, which hold for the signals that used them then.
pub(super) fn alternate(
    learner: &str,
    task: &Task<'_>,
    observer: &dyn Observer,
    descend: impl Fn(&Step<'_>, &PreparedDictionary, &Codes, Option<&Sparse>) -> Result<Moved>,
) -> Result<Dictionary> {
    let coding = CoderOptions::new(task.lambda)?;
    let step = Step::new(task)?;
    let mut training = Training { learner: learner.to_string(), ..Training::default() };
    let (start, replace_unused) = match task.start {
        Start::Signals(count) => (task.signals.rows()[..count].concat(), true),
        Start::Atoms(atoms) => (atoms.to_vec(), false),
    };
    let mut current = step.prepare(start, None)?;
    let alike = alike(current.gram()?);
    let mut lowest = f64::INFINITY;
    let mut best: Option<Dictionary> = None;
    let mut before: Option<Codes> = None;
    let mut known: Option<Sparse> = None;
    for round in 1..=task.max_rounds {
        // Transposed, they are in the order of the codes that they were computed for.
        let by_signal: Option<Sparse> = known.as_ref().map(|by_atom| by_atom.transpose_view().to_csr());
        let similarities = by_signal.as_ref().map_or(&[][..], |by_signal| by_signal.data());
        let earlier = before.as_ref().map(|codes| Earlier { codes, similarities });
        let codes = Fksc.encode_from(&current, &task.signals, &coding, earlier)?;
        let objective = weighted_objective(&codes, &task.counts);
        if !objective.is_finite() {
            return Err(MathError::Overflow { kernel: task.kernel.name() });
        }
        let nonzeros = codes.nonzeros() as u64;
        let progress = Progress { round, max_rounds: task.max_rounds, objective, nonzeros };
        if observer.on_round(&progress).is_break() {
            return Err(MathError::Cancelled);
        }
        // New atoms need a round to prove themselves.
        let reseeded = training.history.last().is_none_or(|round| round.reseeded > 0);
        training.converged = !reseeded && lowest - objective <= task.tolerance * lowest;
        let last = training.converged || round == task.max_rounds;
        // The second half of the rounds is for settling.
        let reseeds = if !replace_unused || last || 2 * round > task.max_rounds {
            Vec::new()
        } else {
            reseeds(current.gram()?, &codes, &task.counts, alike)
        };
        training.history.push(Round { objective, nonzeros, reseeded: reseeds.len() as u32 });
        let moved = || step.reseed(descend(&step, &current, &codes, known.as_ref())?, &reseeds);
        let next = if last { None } else { Some(moved()?) };
        if objective < lowest {
            lowest = objective;
            best = Some(current.into_dictionary());
        }
        let Some(next) = next else { break };
        (current, known) = (next.dictionary, next.similarities);
        before = Some(codes);
    }
    let atoms = best.ok_or(MathError::Empty)?.into_atoms();
    Dictionary::new(atoms, task.signals.dim(), task.kernel.clone(), task.lambda, Some(training))
}

fn weighted_objective(codes: &Codes, counts: &[f64]) -> f64 {
    codes.reports.iter().zip(counts).map(|(report, count)| count * report.objective).sum()
}

/// Pairs every atom that no signal needs with one of the signals represented worst.
fn reseeds(gram: &Gram, codes: &Codes, counts: &[f64], alike: f64) -> Vec<(usize, usize)> {
    let idle = idle_atoms(gram, codes, alike);
    let loss = |signal: &usize| counts[*signal] * codes.reports[*signal].objective;
    let mut worst: Vec<usize> = if idle.is_empty() { Vec::new() } else { (0..counts.len()).collect() };
    worst.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
    idle.into_iter().zip(worst).collect()
}

/// Atoms that no signal uses, and those that all but repeat an earlier one.
fn idle_atoms(gram: &Gram, codes: &Codes, alike: f64) -> Vec<usize> {
    let mut needed = vec![false; gram.atoms];
    for atom in codes.weights.indices() {
        needed[*atom as usize] = true;
    }
    // Of the atoms in use, so that what is kept is little.
    let used: Vec<usize> = (0..gram.atoms).filter(|atom| needed[*atom]).collect();
    let alike_before = |atom: &usize| {
        let others = similar_atoms(gram, *atom, alike).into_iter();
        others.filter(|other| other < atom && needed[*other]).collect::<Vec<usize>>()
    };
    let alike_before: Vec<Vec<usize>> = used.par_iter().map(alike_before).collect();
    for (atom, others) in used.iter().zip(alike_before) {
        needed[*atom] = !others.iter().any(|other| needed[*other]);
    }
    (0..gram.atoms).filter(|atom| !needed[*atom]).collect()
}

/// The atoms that differ from this one by less than `alike`, itself included.
fn similar_atoms(gram: &Gram, atom: usize, alike: f64) -> Vec<usize> {
    /// Positions that are glanced at together: mostly none of them is similar.
    const GLANCE: usize = 32;
    /// What rounding may take from the least similarity.
    const MARGIN: f64 = 1e-9;
    let least = (1.0 - alike - MARGIN) * gram.norm(atom);
    let row = gram.row(gram.rank[atom] as usize);
    let mut similar = Vec::new();
    for (glance, (values, norms)) in row.chunks(GLANCE).zip(gram.norms.chunks(GLANCE)).enumerate() {
        let pairs = values.iter().zip(norms);
        // Not `any`, which asks one after the other.
        if pairs.fold(false, |any, (value, norm)| any | (*value >= least * norm)) {
            let positions = glance * GLANCE..glance * GLANCE + values.len();
            let atoms = positions.map(|position| gram.order[position] as usize);
            similar.extend(atoms.filter(|other| difference(gram, atom, *other) < alike));
        }
    }
    similar
}

/// The difference below which two atoms count as one: a small share of what signals usually differ by,
/// since under some kernels all of them look alike.
fn alike(signals: &Gram) -> f64 {
    let pairs = (0..signals.atoms).flat_map(|i| (0..i).map(move |j| (i, j)));
    let mut differences: Vec<f64> = pairs.map(|(i, j)| difference(signals, i, j)).collect();
    if differences.is_empty() {
        return 0.0;
    }
    let middle = differences.len() / 2;
    ALIKE * *differences.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// One minus the cosine of two atoms in the feature space.
fn difference(gram: &Gram, i: usize, j: usize) -> f64 {
    1.0 - gram.between(i, j) / (gram.norm(i) * gram.norm(j)).max(f64::MIN_POSITIVE)
}
