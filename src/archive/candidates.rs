//! What archives can be coded with, and what each choice would lead to.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::Result;
use super::choose::Tried;
use super::codebook::Codebook;
use super::data_file_writer::Settings;
use super::dictionary_file::{self, Description};
use super::error_sums::rounded;
use super::learn::{LEARNED_LAMBDA, Lambda, LearnSettings, Learned, Material, Part, Width};
use super::quantiser::Bound;
use super::sampled::Look;
use super::trial::{Effort, Outcome, Trials};
use crate::math::search::{Goal, Ladder, Measured, SWEPT_ATOMS};
use crate::math::{MathError, Observer, Progress};

/// A way to reach a goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Family {
    /// Codes alone: the knob is their penalty.
    Codes,
    /// Codes and residuals: the knob is the bound of the residuals.
    Residuals,
    /// Codes and residuals under the bound that was asked for: there is no knob.
    Bounded(Bound),
}

/// The ladders, in the order in which they are climbed.
pub(super) const ATOMS: usize = 0;
pub(super) const LAMBDA: usize = 1;
pub(super) const WEIGHTS: usize = 2;
pub(super) const WIDTH: usize = 3;
pub(super) const SCALE: usize = 4;
pub(super) const LADDERS: usize = 5;

const ATOM_RUNGS: [usize; 19] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];
/// Far apart at a glance: beside the signals of a large table atoms cost little, and it is enough to tell few from many.
const GLANCED_ATOM_RUNGS: [usize; 7] = [0, 1, 2, 4, 16, 64, 256];
/// A low penalty, which as many atoms or more are measured with, too.
const LAMBDA_OF_MANY: f64 = 0.05;
const MANY: usize = 4;
/// Codes with as low a penalty or a lower one want atoms that were learned with a low one.
const LOW_LAMBDA: f64 = 0.1;
/// Distinct signals that an atom needs to be learned from.
const SIGNALS_PER_ATOM: usize = 3;
/// Signals that an atom should serve to be worth its bytes, at first sight.
const FIRST_SIGNALS_PER_ATOM: u64 = 32;
/// The same for codes alone without a target.
const USUAL_SIGNALS_PER_ATOM: u64 = 8;
const FIRST_ATOMS: Range<u64> = 4..64;
/// Under a bound residuals make up for atoms that are missing: more of them take more time to learn and to code with
/// than the few bytes they save are worth.
const MOST_BOUNDED_ATOMS: u64 = 256;
const LAMBDA_RUNGS: [f64; 6] = [0.8, 0.4, 0.2, 0.1, 0.05, 0.02];
const WEIGHT_RUNGS: [i16; 4] = [1, 2, 4, 8];
/// The rung that codes alone begin with, and a glance.
const COARSE_WEIGHTS: usize = 2;
/// The penalty that a glance begins with: with many atoms the best is near it.
const GLANCED_LAMBDA: f64 = 0.4;
const WIDTH_RUNGS: [Width; 4] = [Width::Linear, Width::Median(2.0), Width::Median(1.0), Width::Median(0.5)];
/// Positions of the knob: penalties from 0.8 on, each half of the one before, down to 0.0125.
const CODES_POSITIONS: usize = 7;
const FIRST_CODES_POSITION: f64 = 1.0;
/// Bounds from the largest deviation on, each half of the one before.
const RESIDUAL_POSITIONS: usize = 18;
const MOST_MORE_POSITIONS: usize = 60;
/// The description of what was asked for and promised, about.
const PROMISE_BYTES: usize = 110;

/// Digits of parameters that are chosen.
const DIGITS: usize = 3;

/// From what is learned, and how well.
pub(super) type Depth = (Part, Effort);
/// Rungs of atoms and width, scales, how well it was learned, and whether with a low penalty.
type LearnedKey = (usize, usize, Vec<u64>, Depth, bool);
/// Whoever comes first learns; others wait.
type LearnedSlot = Arc<Mutex<Option<Option<Arc<Learned>>>>>;

/// All that can be chosen for one table.
pub(super) struct Candidates<'a> {
    pub material: &'a Material,
    pub trials: &'a Trials,
    pub settings: &'a LearnSettings,
    group_sensors: usize,
    observer: &'a dyn Observer,
    learned: Mutex<HashMap<LearnedKey, LearnedSlot>>,
    widths: Vec<Width>,
    lambdas: Vec<Lambda>,
    atoms: Vec<usize>,
    /// How much of the dictionary's bytes counts: it may serve more rows than there are.
    dictionary_share: f64,
}

/// What a choice leads to.
pub(super) struct Measurement {
    pub settings: Settings,
    pub outcome: Outcome,
    pub tried: Tried,
}

impl<'a> Candidates<'a> {
    pub fn new(
        material: &'a Material,
        trials: &'a Trials,
        settings: &'a LearnSettings,
        group_sensors: usize,
        observer: &'a dyn Observer,
    ) -> Self {
        let widths = match (settings.kernel.as_deref(), settings.sigma) {
            (None | Some("rbf"), Some(sigma)) => vec![Width::Given(sigma)],
            // The widest kernel is nearly linear: a glance does without another dictionary.
            (None, None) if trials.look == Look::Glance => WIDTH_RUNGS[1..].to_vec(),
            (None, None) => WIDTH_RUNGS.to_vec(),
            (Some("rbf"), None) => WIDTH_RUNGS[1..].to_vec(),
            (Some(_), _) => vec![Width::Asked],
        };
        let lambdas = match settings.lambda {
            Some(lambda) => vec![Lambda::Given(lambda)],
            None => LAMBDA_RUNGS.map(Lambda::Share).to_vec(),
        };
        let atoms = match settings.atoms {
            Some(atoms) => vec![atoms],
            None => {
                let most = (material.signals() / SIGNALS_PER_ATOM).max(1);
                let rungs = if trials.look == Look::Glance { &GLANCED_ATOM_RUNGS[..] } else { &ATOM_RUNGS };
                rungs.iter().copied().filter(|atoms| *atoms <= most).collect()
            }
        };
        let learned = Mutex::default();
        let rows = trials.total_rows.max(1) as f64;
        let dictionary_share = rows / settings.expect_rows.map_or(rows, |expected| rows.max(expected as f64));
        Self {
            material,
            trials,
            settings,
            group_sensors,
            observer,
            learned,
            widths,
            lambdas,
            atoms,
            dictionary_share,
        }
    }

    /// What an outcome counts for.
    pub fn counted(&self, outcome: &Outcome) -> Measured {
        let measured = outcome.measured();
        let shared = (1.0 - self.dictionary_share) * outcome.dictionary_bytes;
        Measured { bytes: measured.bytes - shared, ..measured }
    }

    /// What is measured before any other choice: none, few and many atoms.
    pub fn swept(&self, ladders: &[Ladder]) -> Vec<Vec<usize>> {
        let first: Vec<usize> = ladders.iter().map(|ladder| ladder.start).collect();
        let is_swept = |rung: &usize| self.atoms.len() == 1 || SWEPT_ATOMS.contains(&self.atoms[*rung]);
        let with_atoms = |rung: usize| {
            let mut rungs = first.clone();
            rungs[ATOMS] = rung;
            rungs
        };
        (0..ladders[ATOMS].rungs).filter(is_swept).map(with_atoms).collect()
    }

    /// The same atoms learned and used with a low penalty.
    pub fn with_low_penalty(&self, rungs: &[usize]) -> Option<Vec<usize>> {
        let low = self.lambdas.iter().position(|lambda| *lambda == Lambda::Share(LAMBDA_OF_MANY))?;
        let mut other = rungs.to_vec();
        other[LAMBDA] = low;
        (self.atoms(rungs) >= MANY).then_some(other)
    }

    /// How many atoms are asked for.
    pub fn atoms(&self, rungs: &[usize]) -> usize {
        self.atoms[rungs[ATOMS]]
    }

    /// Whether there are any atoms.
    pub fn has_atoms(&self, rungs: &[usize]) -> bool {
        self.atoms(rungs) > 0
    }

    /// Without atoms nothing else matters.
    pub fn canonical(&self, family: Family, rungs: Vec<usize>) -> Vec<usize> {
        if self.has_atoms(&rungs) {
            return rungs;
        }
        let ladders = self.ladders(family);
        rungs
            .iter()
            .zip(&ladders)
            .enumerate()
            .map(|(axis, (rung, ladder))| if axis == ATOMS { *rung } else { ladder.start })
            .collect()
    }

    /// The rung with the fewest atoms, but some.
    pub fn first_with_atoms(&self) -> usize {
        self.atoms.iter().position(|atoms| *atoms > 0).unwrap_or(0)
    }

    /// How much of a dictionary's bytes counts.
    pub fn dictionary_share(&self) -> f64 {
        self.dictionary_share
    }

    /// The rung for one atom to so many signals.
    fn atoms_for(&self, signals_per_atom: u64) -> usize {
        let wanted = (self.trials.signals / signals_per_atom).clamp(FIRST_ATOMS.start, FIRST_ATOMS.end);
        self.atoms.iter().rposition(|atoms| *atoms as u64 <= wanted).unwrap_or(0)
    }

    /// The ladders of a family.
    pub fn ladders(&self, family: Family) -> Vec<Ladder> {
        let ladder = |rungs, start, stride| Ladder { rungs, start, stride };
        let (lambdas, widths) = (&self.lambdas, &self.widths);
        let is_glance = matches!(family, Family::Bounded(_)) && self.trials.look == Look::Glance;
        let first_lambda = if is_glance { GLANCED_LAMBDA } else { LEARNED_LAMBDA };
        let lambda = lambdas.iter().position(|l| *l == Lambda::Share(first_lambda)).unwrap_or(0);
        let width = widths.iter().position(|w| *w == Width::Median(1.0)).unwrap_or(0);
        let signals_per_atom = match family {
            Family::Bounded(_) => USUAL_SIGNALS_PER_ATOM,
            _ => FIRST_SIGNALS_PER_ATOM,
        };
        let most = match family {
            Family::Bounded(_) => {
                let signals = self.trials.signals;
                let most = (signals / USUAL_SIGNALS_PER_ATOM)
                    .min(FIRST_ATOMS.end.max(signals / FIRST_SIGNALS_PER_ATOM))
                    .min(MOST_BOUNDED_ATOMS);
                self.atoms.iter().rposition(|atoms| *atoms as u64 <= most).unwrap_or(0) + 1
            }
            _ => self.atoms.len(),
        };
        let mut ladders = vec![Ladder::FIXED; LADDERS];
        // Climbed from what was swept, so that long strides would go over it again.
        ladders[ATOMS] = ladder(most, self.atoms_for(signals_per_atom).min(most - 1), 1);
        if family != Family::Codes {
            ladders[LAMBDA] = ladder(lambdas.len(), lambda, 1);
        }
        // Coarse weights take half the bytes of fine ones and are hardly worse, but for residuals, which make up for them.
        ladders[WEIGHTS] = match family {
            Family::Codes => ladder(WEIGHT_RUNGS.len(), COARSE_WEIGHTS, 2),
            // Many atoms are close to what they stand for, so that their weights say little.
            _ if is_glance => ladder(WEIGHT_RUNGS.len(), COARSE_WEIGHTS, 1),
            _ => ladder(WEIGHT_RUNGS.len(), 0, 2),
        };
        ladders[WIDTH] = ladder(widths.len(), width, 1);
        ladders[SCALE] = ladder(2, 0, 1);
        ladders
    }

    /// Choices that are far from one that was found, and may be better all the same: few atoms want a wider kernel than
    /// many, and a single one does best with none. Neither is found from the other step by step.
    pub fn far_from(&self, rungs: &[usize]) -> Vec<Vec<usize>> {
        let wider = self.with(Width::Median(2.0), rungs[ATOMS], rungs);
        [wider, self.one_atom(rungs)].into_iter().flatten().collect()
    }

    /// A single atom, compared linearly, and all else as it is.
    pub fn one_atom(&self, rungs: &[usize]) -> Option<Vec<usize>> {
        self.with(Width::Linear, self.first_with_atoms(), rungs)
    }

    fn with(&self, width: Width, atoms: usize, rungs: &[usize]) -> Option<Vec<usize>> {
        let width = self.widths.iter().position(|other| *other == width)?;
        let mut other = rungs.to_vec();
        (other[WIDTH], other[ATOMS]) = (width, atoms);
        (other != rungs).then_some(other)
    }

    /// Whole positions of a family's knob.
    pub fn positions(&self, family: Family) -> usize {
        match family {
            // A penalty that is set leaves no knob to turn.
            Family::Codes if self.settings.lambda.is_none() => CODES_POSITIONS,
            // One outlier makes the largest deviation of any size: the knob must still get to those of other values.
            Family::Residuals => {
                let outlying = self.material.largest_deviation() / self.material.typical_deviation();
                RESIDUAL_POSITIONS + (outlying.log2().max(0.0) as usize).min(MOST_MORE_POSITIONS)
            }
            _ => 1,
        }
    }

    /// Where the knob is likely to stand.
    pub fn first_knob(&self, family: Family, goal: Goal) -> f64 {
        let largest = self.material.largest_deviation();
        match (family, goal) {
            (Family::Codes, _) => FIRST_CODES_POSITION,
            // Rounded evenly, values are off by half of the bound in the mean.
            (_, Goal::Nmae(nmae)) => (largest / (2.5 * nmae * self.material.mean_size())).log2().max(0.0),
            _ => 4.0,
        }
    }

    pub fn bound(&self, family: Family, knob: f64) -> Bound {
        match family {
            Family::Codes => Bound::None,
            Family::Bounded(bound) => bound,
            Family::Residuals => {
                let bound = self.material.largest_deviation() * (-knob).exp2();
                // Where nothing varies any bound will do.
                Bound::MaxError(if bound > 0.0 && bound.is_finite() { rounded(bound, DIGITS) } else { 1.0 })
            }
        }
    }

    fn lambda(&self, family: Family, rungs: &[usize], knob: f64) -> Lambda {
        match (family, self.lambdas[rungs[LAMBDA]]) {
            (Family::Codes, Lambda::Share(_)) => {
                Lambda::Share(rounded(LAMBDA_RUNGS[0] * (-knob).exp2(), DIGITS))
            }
            (_, lambda) => lambda,
        }
    }

    /// A dictionary that was learned before, or is now; `None` where there is nothing to learn.
    fn learned(&self, rungs: &[usize], scales: Vec<f64>, depth: Depth) -> Result<Option<Arc<Learned>>> {
        let bits = scales.iter().map(|scale| scale.to_bits()).collect();
        let is_low = matches!(self.lambdas[rungs[LAMBDA]], Lambda::Share(share) if share <= LOW_LAMBDA);
        let key = (rungs[ATOMS], rungs[WIDTH], bits, depth, is_low);
        let slot = {
            let mut slots = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
            slots.entry(key).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = slot.as_ref() {
            return Ok(known.clone());
        }
        let (atoms, width) = (self.atoms[rungs[ATOMS]], self.widths[rungs[WIDTH]]);
        let lambda = if is_low { LAMBDA_OF_MANY } else { LEARNED_LAMBDA };
        let learned =
            self.material.learn(atoms, width, scales, (depth, lambda), self.settings, self.observer)?;
        Ok(slot.insert(learned.map(Arc::new)).clone())
    }

    /// Learns what a measurement in full will ask for, if it can: it says what was wrong then.
    pub fn learn_ahead(&self, family: Family, rungs: &[usize]) {
        if !self.has_atoms(rungs) {
            return;
        }
        let scales = self.material.scales(self.bound(family, 0.0), rungs[SCALE] == 1);
        let _ = self.learned(rungs, scales, self.learned_in_full());
    }

    /// As it is learned to tell parameters apart.
    pub const LEARNED_ROUGHLY: Depth = (Part::Learned, Effort::Rough);

    /// As well as it can be learned.
    pub fn learned_in_full(&self) -> Depth {
        (self.part(Effort::Full), Effort::Full)
    }

    /// What is learned from: what is kept has learned from all there is.
    fn part(&self, effort: Effort) -> Part {
        let everything = effort == Effort::Full && self.material.holds_out();
        if everything { Part::Everything } else { Part::Learned }
    }

    fn codebook(&self, family: Family, rungs: &[usize], knob: f64, depth: Depth) -> Result<Arc<Codebook>> {
        let bound = self.bound(family, knob);
        let scales = self.material.scales(bound, rungs[SCALE] == 1);
        let learned = match self.has_atoms(rungs) {
            true => self.learned(rungs, scales, depth)?,
            false => None,
        };
        let made = match learned {
            Some(learned) => {
                let lambda = self.lambda(family, rungs, knob);
                self.material.codebook(&learned, lambda, WEIGHT_RUNGS[rungs[WEIGHTS]], bound)?
            }
            None => None,
        };
        let codebook = match made {
            Some(codebook) => codebook,
            // What is near the medians is looked for in the end.
            None => self.material.without_atoms(bound, depth.1 == Effort::Full)?,
        };
        Ok(Arc::new(codebook))
    }

    /// How files are written with a codebook.
    pub fn settings_of(&self, codebook: Arc<Codebook>, bound: Bound) -> Settings {
        Settings { codebook, bound, rounding: bound, group_sensors: self.group_sensors }
    }

    /// What a choice leads to; `record` is what the dictionary will tell about the search.
    pub fn measure(
        &self,
        family: Family,
        rungs: &[usize],
        knob: f64,
        effort: Effort,
        record: Vec<Tried>,
    ) -> Result<Measurement> {
        self.measure_learned(family, rungs, knob, (self.part(effort), effort), effort, record)
    }

    /// The same with a dictionary that was learned so well.
    pub fn measure_learned(
        &self,
        family: Family,
        rungs: &[usize],
        knob: f64,
        depth: Depth,
        effort: Effort,
        record: Vec<Tried>,
    ) -> Result<Measurement> {
        let bound = self.bound(family, knob);
        let codebook = self.codebook(family, rungs, knob, depth)?;
        // Under a bound errors are what they are, and bytes alone are compared.
        let are_unseen_judged = !matches!(family, Family::Bounded(_));
        let settings = self.settings_of(codebook, bound);
        self.measure_with(settings, self.atoms(rungs), (effort, are_unseen_judged), record)
    }

    /// What a codebook leads to, for which so many atoms were asked for.
    pub fn measure_with(
        &self,
        settings: Settings,
        atoms: usize,
        (effort, are_unseen_judged): (Effort, bool),
        record: Vec<Tried>,
    ) -> Result<Measurement> {
        // Learning asks whether to go on; so does measuring, which may go on for as long.
        let progress = Progress { round: 0, max_rounds: 0, objective: 0.0, nonzeros: 0 };
        if self.observer.on_round(&progress).is_break() {
            return Err(MathError::Cancelled.into());
        }
        let Settings { codebook, bound, rounding, .. } = &settings;
        let (layout, series) = (self.material.table.layout.clone(), self.material.table.series.clone());
        let mut description = Description::new(codebook, layout, series, *bound, self.trials.signals);
        description.search = record;
        description.rounding = (rounding != bound).then_some(*rounding);
        let dictionary = dictionary_file::write(codebook, &description)?.len() + PROMISE_BYTES;
        let outcome = self.trials.run(&settings, dictionary, effort, are_unseen_judged)?;
        let sigma = codebook.kernel().parameters().into_iter().find(|(name, _)| *name == "sigma");
        let measured = outcome.measured();
        let tried = Tried {
            atoms,
            kernel: codebook.kernel().name().to_string(),
            sigma: sigma.map(|(_, sigma)| rounded(sigma, DIGITS)),
            lambda: rounded(codebook.lambda(), DIGITS),
            weight_step: codebook.weight_step(),
            scaled: codebook.scales().iter().any(|scale| *scale != 1.0),
            max_error: if let Bound::MaxError(bound) = *bound { Some(bound) } else { None },
            bytes: measured.bytes as u64,
            nmae: rounded(measured.nmae, DIGITS),
        };
        Ok(Measurement { settings, outcome, tried })
    }

    /// How what was measured in full does on rows that it has not seen is told by a dictionary that was learned without
    /// them.
    pub fn judged(
        &self,
        family: Family,
        rungs: &[usize],
        knob: f64,
        (part, _): Depth,
        measurement: Measurement,
    ) -> Result<Measurement> {
        let Measurement { settings, mut outcome, tried } = measurement;
        // Glances hold nothing out.
        if matches!(family, Family::Bounded(_)) && self.trials.holds_out() {
            outcome = outcome.with_unseen(self.trials.run_held_out(&settings)?);
        }
        if part == Part::Everything {
            let codebook = self.codebook(family, rungs, knob, (Part::Learned, Effort::Full))?;
            let twin = Settings { codebook, ..settings.clone() };
            outcome = outcome.judged_by(self.trials.run_held_out(&twin)?);
        }
        Ok(Measurement { settings, outcome, tried })
    }
}
