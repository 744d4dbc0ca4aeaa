//! Learning for a target: atoms, kernel and penalty are chosen on vectors that were held out.
//!
//! Every fourth vector of the sample is held out; dictionaries are learned from the others, and what coding and
//! decoding makes of those held out decides. Bytes are those of codes where they are [stored](Storage), and eight for a
//! number of the dictionary, which all vectors seen share. Codes should take less than the vectors themselves do there.

use std::collections::HashMap;

use super::options::Widths;
use super::{LearnerOptions, Observer, Storage, Target, Task, by_name};
use crate::math::coders::Fksc;
use crate::math::dictionary::{Choice, Selection};
use crate::math::search::{Goal, Ladder, Measured, SWEPT_ATOMS, Search, tune};
use crate::math::{
    Coder, CoderOptions, Codes, Dictionary, ExitReason, MathError, PreparedDictionary, Result, Sample,
    SignalReport, Signals, decoders,
};

const HELD_OUT: usize = 4;
const ATOM_RUNGS: [usize; 17] = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];
/// Penalties as shares of the mean `k(y, y)`: from this on, each half of the one before.
const LARGEST_LAMBDA: f64 = 0.8;
const POSITIONS: usize = 14;
const FIRST_POSITION: f64 = 3.0;
/// Rounds that are enough to tell parameters apart.
const ROUGH_ROUNDS: usize = 8;
const BYTES_PER_NUMBER: f64 = 8.0;

const ATOMS: usize = 0;
const WIDTH: usize = 1;

struct Chooser<'a> {
    options: &'a LearnerOptions,
    storage: &'a dyn Storage,
    observer: &'a dyn Observer,
    learned: Signals<'a>,
    learned_counts: Vec<f64>,
    held_out: Signals<'a>,
    held_out_counts: Vec<f64>,
    /// Vectors that share the dictionary.
    rows: f64,
    /// What a column of an empty code takes: what every file has.
    bytes_without_codes: f64,
    atoms: Vec<usize>,
    widths: Widths,
    cache: HashMap<(usize, usize, bool), Dictionary>,
    tried: Vec<Choice>,
}

/// Learns for a target. The sample has at least one vector.
pub(super) fn learn_for(
    target: Target,
    sample: &Sample,
    options: &LearnerOptions,
    storage: &dyn Storage,
    observer: &dyn Observer,
) -> Result<Dictionary> {
    let all = sample.signals()?;
    let counts: Vec<f64> = sample.counts().into_iter().map(|count| count as f64).collect();
    let part = |held: bool| -> Result<(Signals<'_>, Vec<f64>)> {
        // So few that none would be held out serve as both.
        let chosen = |i: &usize| all.len() < HELD_OUT || (i % HELD_OUT == HELD_OUT - 1) == held;
        let rows = (0..all.len()).filter(chosen);
        Ok((Signals::new(rows.clone().map(|i| all.row(i)).collect())?, rows.map(|i| counts[i]).collect()))
    };
    let ((learned, learned_counts), (held_out, held_out_counts)) = (part(false)?, part(true)?);
    let atoms = match options.set_atoms() {
        Some(atoms) => vec![atoms],
        None => ATOM_RUNGS.into_iter().filter(|atoms| *atoms <= learned.len().max(1)).collect(),
    };
    let widths = options.widths(&learned)?;
    let is_swept = |rung: &usize| atoms.len() == 1 || SWEPT_ATOMS.contains(&atoms[*rung]);
    let swept: Vec<Vec<usize>> =
        (0..atoms.len()).filter(is_swept).map(|rung| vec![rung, widths.first()]).collect();
    let ladders = vec![
        Ladder { rungs: atoms.len(), start: 0, stride: 1 },
        Ladder { rungs: widths.len(), start: widths.first(), stride: 1 },
    ];
    let positions = if options.is_lambda_set() { 1 } else { POSITIONS };
    let rows = sample.seen() as f64;
    let values = BYTES_PER_NUMBER * all.dim() as f64 * rows;
    let values_bytes = bytes_of_vectors(storage, &all, rows)?;
    let asked = match target {
        Target::Nmae(limit) => Goal::Nmae(limit),
        Target::MaxError(limit) => Goal::MaxError(limit),
        Target::Ratio(ratio) => Goal::Bytes(values / ratio),
    };
    let goal = match asked {
        // Codes that take more than the vectors themselves are of no use, even if so many bytes are allowed.
        Goal::Bytes(limit) => Goal::Bytes(limit.min(values_bytes)),
        asked => asked,
    };
    let mut chooser = Chooser {
        options,
        storage,
        observer,
        learned,
        learned_counts,
        held_out,
        held_out_counts,
        rows,
        bytes_without_codes: storage.codes(an_empty_code())?,
        atoms,
        widths,
        cache: HashMap::new(),
        tried: Vec::new(),
    };
    let mut search = Search::new(ladders, positions);
    let mut measure = |rungs: &[usize], knob: f64| Ok::<_, MathError>(chooser.measure(rungs, knob, true)?.1);
    let swept = search.sweep(goal, &swept, FIRST_POSITION, &mut measure)?;
    let found = search.best(goal, swept.first(), FIRST_POSITION, ATOMS..WIDTH + 1, &mut measure)?;
    let mut best: Option<(PreparedDictionary, Measured)> = None;
    tune(goal, found.knob, (positions - 1) as f64, &mut |knob| {
        let (dictionary, measured) = chooser.measure(&found.rungs, knob, false)?;
        if best.as_ref().is_none_or(|(_, best)| goal.prefers(&measured, best)) {
            best = Some((dictionary, measured));
        }
        Ok::<_, MathError>(measured)
    })?;
    // Cannot be absent: tuning measures at least once.
    let (dictionary, measured) = best.ok_or(MathError::Empty)?;
    let dictionary = dictionary.dictionary();
    let mut training = dictionary.training().cloned().unwrap_or_default();
    training.selection = Some(Selection {
        target: target.to_string(),
        met: asked.excess(&measured) <= 1.0,
        rows_held_out: chooser.held_out.len() as u64,
        ratio: values / measured.bytes,
        nmae: measured.nmae,
        max_error: measured.max_error,
        codes_bytes: Some(measured.bytes as u64),
        values_bytes: Some(values_bytes as u64),
        tried: chooser.tried,
    });
    let (dim, kernel, lambda) = (dictionary.dim(), dictionary.kernel().clone(), dictionary.lambda());
    Dictionary::new(dictionary.atoms().to_vec(), dim, kernel, lambda, Some(training))
}

fn an_empty_code() -> Codes {
    let report =
        SignalReport { objective: 0.0, rounds: 0, updates: 0, gap: 0.0, exit: ExitReason::Converged };
    Codes::from_rows(1, [((&[][..], &[][..]), report)])
}

/// What all vectors take, from what these take, and by how much they take more than half of them.
fn bytes_of_vectors(storage: &dyn Storage, some: &Signals<'_>, rows: f64) -> Result<f64> {
    let whole = storage.vectors(some)?;
    let half = some.len() / 2;
    let more = whole - storage.vectors(&Signals::new(some.rows()[..half].to_vec())?)?;
    let per_row = (more / (some.len() - half) as f64).max(0.0);
    Ok(whole + per_row * (rows - some.len() as f64).max(0.0))
}

impl Chooser<'_> {
    fn measure(&mut self, rungs: &[usize], knob: f64, rough: bool) -> Result<(PreparedDictionary, Measured)> {
        let key = (rungs[ATOMS], rungs[WIDTH], rough);
        if !self.cache.contains_key(&key) {
            let learned = self.learn(rungs, rough)?;
            self.cache.insert(key, learned);
        }
        let learned = &self.cache[&key];
        let kernel = learned.kernel().clone();
        let own = self.options.lambda(kernel.as_ref(), &self.learned);
        let lambda = if self.options.is_lambda_set() {
            own
        } else {
            own / LearnerOptions::DEFAULT_LAMBDA * LARGEST_LAMBDA * (-knob).exp2()
        };
        let training = learned.training().cloned();
        let dictionary =
            Dictionary::new(learned.atoms().to_vec(), learned.dim(), kernel.clone(), lambda, training)?;
        let dictionary = PreparedDictionary::new(dictionary)?;
        let codes = Fksc.encode(&dictionary, &self.held_out, &CoderOptions::new(lambda)?)?;
        let decoded = decoders::decode(&dictionary, &codes.rows().collect::<Vec<_>>())?;
        let (mut absolute, mut size, mut max_error, mut nonzeros) = (0.0, 0.0, 0.0f64, 0.0);
        let dim = self.held_out.dim();
        for (i, (signal, decoded)) in self.held_out.rows().iter().zip(decoded.chunks_exact(dim)).enumerate() {
            let pairs = || signal.iter().copied().zip(decoded.iter().copied());
            let count = self.held_out_counts[i];
            absolute += count * pairs().map(|(a, b)| (a - b).abs()).sum::<f64>();
            size += count * signal.iter().map(|value| value.abs()).sum::<f64>();
            max_error = pairs().map(|(a, b)| (a - b).abs()).fold(max_error, f64::max);
            nonzeros += count * codes.row(i).0.len() as f64;
        }
        let counts = self.held_out_counts.iter().sum::<f64>().max(1.0);
        let bytes = self.bytes_of_codes(codes, nonzeros / counts)?
            + BYTES_PER_NUMBER * dictionary.dictionary().atoms().len() as f64;
        // JSON has no infinities, and a record must be readable.
        let nmae = if absolute == 0.0 { 0.0 } else { (absolute / size).min(f64::MAX) };
        let max_error = max_error.min(f64::MAX);
        let sigma =
            kernel.parameters().into_iter().find(|(name, _)| *name == "sigma").map(|(_, sigma)| sigma);
        self.tried.push(Choice {
            atoms: self.atoms[rungs[ATOMS]] as u64,
            kernel: kernel.name().to_string(),
            sigma,
            lambda,
            bytes: bytes as u64,
            nmae,
            max_error,
        });
        Ok((dictionary, Measured { bytes, nmae, max_error }))
    }

    /// What codes of all vectors take that have so many nonzeros in the mean, from what these take.
    fn bytes_of_codes(&self, codes: Codes, nonzeros_per_row: f64) -> Result<f64> {
        let (nonzeros, rows) = (codes.nonzeros() as f64, codes.reports.len().max(1) as f64);
        let bytes = (self.storage.codes(codes)? - self.bytes_without_codes).max(0.0);
        let per_row = if nonzeros > 0.0 { bytes / nonzeros * nonzeros_per_row } else { bytes / rows };
        Ok(self.bytes_without_codes + per_row * self.rows)
    }

    fn learn(&self, rungs: &[usize], rough: bool) -> Result<Dictionary> {
        let kernel = self.widths.kernel(rungs[WIDTH]);
        let lambda = self.options.lambda(kernel.as_ref(), &self.learned);
        let atoms = self.atoms[rungs[ATOMS]].min(self.learned.len());
        let rounds = self.options.max_rounds();
        let task = Task {
            signals: self.learned.clone(),
            counts: self.learned_counts.clone(),
            start: super::Start::Signals(atoms),
            lambda,
            max_rounds: if rough { rounds.min(ROUGH_ROUNDS) } else { rounds },
            tolerance: self.options.tolerance(),
            kernel,
        };
        // Scdl is for the linear kernel: where both are compared the default learner serves both.
        let learner = by_name(self.options.learner())?;
        learner.learn(&task, self.observer)
    }
}
