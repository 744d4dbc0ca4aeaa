//! Choosing what an archive is coded with: atoms, kernel, penalty, precision of weights, scale of sensors, and
//! whether residuals are kept.
//!
//! A mean error can be reached in two ways: by codes alone, and by codes with residuals under a coarse bound.
//! Both are searched; whichever gives fewer bytes is taken. Rows that were held out from learning decide.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::codebook::Codebook;
use super::data_file_writer::Settings;
use super::dictionary_file::{self, Description};
use super::drift::Promise;
use super::learn::{LEARNED_LAMBDA, Lambda, LearnSettings, Learned, Material, Width};
use super::quantiser::Bound;
use super::trial::{Effort, Outcome, Trials};
use super::{ArchiveError, Result};
use crate::math::search::{Found, Goal, Ladder, Measured, Search, tune};
use crate::math::{MathError, Observer, Progress};

/// What an archive should reach; everything that is not set otherwise is chosen for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A mean absolute error of at most this share of the mean absolute value, in as few bytes as possible.
    Nmae(f64),
    /// So many times fewer bytes than the values take in memory, dictionary and all included, with as
    /// small an error as possible.
    Ratio(f64),
}

impl Target {
    /// The target that the options `target_nmae` and `target_ratio` stand for.
    pub fn from_options(nmae: Option<f64>, ratio: Option<f64>) -> Result<Option<Self>> {
        match (nmae, ratio) {
            (None, None) => Ok(None),
            (Some(nmae), None) if nmae > 0.0 && nmae < 1.0 => Ok(Some(Self::Nmae(nmae))),
            (Some(nmae), None) => Err(ArchiveError::layout(format!(
                "target_nmae is {nmae}; it must be between 0 and 1 (use lossless for no error at all)"
            ))),
            (None, Some(ratio)) if ratio > 1.0 && ratio.is_finite() => Ok(Some(Self::Ratio(ratio))),
            (None, Some(ratio)) => {
                Err(ArchiveError::layout(format!("target_ratio is {ratio}; it must be above 1")))
            }
            _ => Err(ArchiveError::layout("only one of target_nmae and target_ratio can be given")),
        }
    }
}

/// One choice that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Atoms asked for.
    pub atoms: usize,
    /// The kernel.
    pub kernel: String,
    /// The width of RBF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// The penalty of codes.
    pub lambda: f64,
    /// Weights are multiples of so many 64ths.
    pub weight_step: i16,
    /// Whether sensors are divided by their deviations.
    pub scaled: bool,
    /// The bound of residuals, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_error: Option<f64>,
    /// Bytes of the archive, as predicted.
    pub bytes: u64,
    /// Its mean error, as predicted.
    pub nmae: f64,
}

/// What an archive will be coded with.
pub(super) struct Chosen {
    pub codebook: Arc<Codebook>,
    pub bound: Bound,
    pub promise: Promise,
    pub outcome: Outcome,
    /// What was compared, in the order in which it was tried.
    pub tried: Vec<Tried>,
}

/// The space that is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Family {
    /// Codes alone: the knob is their penalty.
    Codes,
    /// Codes and residuals: the knob is the bound of the residuals.
    Residuals,
    /// Codes and residuals under the bound that was asked for: there is no knob.
    Bounded(Bound),
}

/// The ladders, in the order in which they are climbed.
const ATOMS: usize = 0;
const LAMBDA: usize = 1;
const WEIGHTS: usize = 2;
const WIDTH: usize = 3;
const SCALE: usize = 4;
const LADDERS: usize = 5;

const ATOM_RUNGS: [usize; 18] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];
/// Distinct signals that an atom needs to be learned from.
const SIGNALS_PER_ATOM: usize = 3;
/// Signals that an atom should serve to be worth its bytes, at first sight.
const FIRST_SIGNALS_PER_ATOM: u64 = 32;
/// The same for codes alone without a target.
const USUAL_SIGNALS_PER_ATOM: u64 = 8;
const FIRST_ATOMS: Range<u64> = 4..64;
const LAMBDA_RUNGS: [f64; 6] = [0.8, 0.4, 0.2, 0.1, 0.05, 0.02];
const WEIGHT_RUNGS: [i16; 4] = [1, 2, 4, 8];
const WIDTH_RUNGS: [Width; 4] = [Width::Linear, Width::Median(2.0), Width::Median(1.0), Width::Median(0.5)];
/// Positions of the knob: penalties from 0.8 on, each half of the one before, down to 0.0125.
const CODES_POSITIONS: usize = 7;
/// Bounds from the largest deviation on, each half of the one before.
const RESIDUAL_POSITIONS: usize = 18;
/// A dictionary is not worth its while where it saves less than a twentieth.
const WORTHWHILE: f64 = 0.95;
/// Where sensors deviate from their means by less, they are constant but for rounding.
const NO_SPREAD: f64 = 1e-9;
/// The description of what was asked for and promised, about.
const PROMISE_BYTES: usize = 90;
/// Estimated costs up to this factor apart may turn out the other way round.
const CLOSE: f64 = 1.15;
/// Fewer signals cannot be learned from and checked.
const FEWEST_SIGNALS: u64 = 100;

/// Chooses for one table; what was measured for one goal serves the next.
pub(super) struct Chooser<'a> {
    pub material: &'a Material,
    pub trials: &'a Trials,
    settings: &'a LearnSettings,
    group_sensors: usize,
    observer: &'a dyn Observer,
    learned: HashMap<(usize, usize, Vec<u64>, Effort), Option<Learned>>,
    codes: Search,
    residuals: Search,
    tried: Vec<(Vec<usize>, Tried)>,
    widths: Vec<Width>,
    lambdas: Vec<Lambda>,
    atoms: Vec<usize>,
}

impl<'a> Chooser<'a> {
    pub fn new(
        material: &'a Material,
        trials: &'a Trials,
        settings: &'a LearnSettings,
        group_sensors: usize,
        observer: &'a dyn Observer,
    ) -> Self {
        let widths = match (settings.kernel.as_deref(), settings.sigma) {
            (None | Some("rbf"), Some(sigma)) => vec![Width::Given(sigma)],
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
                ATOM_RUNGS.into_iter().filter(|atoms| *atoms <= most).collect()
            }
        };
        let first = (trials.signals / FIRST_SIGNALS_PER_ATOM).clamp(FIRST_ATOMS.start, FIRST_ATOMS.end);
        let first_atoms = atoms.iter().rposition(|atoms| *atoms as u64 <= first).unwrap_or(0);
        let first_lambda = lambdas.iter().position(|l| *l == Lambda::Share(LEARNED_LAMBDA)).unwrap_or(0);
        let first_width = widths.iter().position(|w| *w == Width::Median(1.0)).unwrap_or(0);
        let ladder = |rungs, start, stride| Ladder { rungs, start, stride };
        let mut ladders = vec![Ladder::FIXED; LADDERS];
        ladders[ATOMS] = ladder(atoms.len(), first_atoms, 2);
        ladders[WEIGHTS] = ladder(WEIGHT_RUNGS.len(), 0, 2);
        ladders[WIDTH] = ladder(widths.len(), first_width, 1);
        ladders[SCALE] = ladder(2, 0, 1);
        // A penalty that is set leaves no knob to turn.
        let positions = if settings.lambda.is_some() { 1 } else { CODES_POSITIONS };
        let codes = Search::new(ladders.clone(), positions);
        ladders[LAMBDA] = ladder(lambdas.len(), first_lambda, 1);
        let residuals = Search::new(ladders, RESIDUAL_POSITIONS);
        let (learned, tried) = (HashMap::new(), Vec::new());
        Self {
            material,
            trials,
            settings,
            group_sensors,
            observer,
            learned,
            codes,
            residuals,
            tried,
            widths,
            lambdas,
            atoms,
        }
    }

    /// The best for a target.
    pub fn for_target(&mut self, target: Target) -> Result<Chosen> {
        let goal = match target {
            Target::Nmae(nmae) => Goal::Nmae(nmae),
            Target::Ratio(ratio) => Goal::Bytes(self.trials.value_bytes / ratio),
        };
        self.tried.clear();
        let [(family, first), (other, second)] = self.both(goal)?;
        let first = self.searched(family, goal, Some(&first), LAMBDA..LADDERS)?;
        let chosen = self.finish(goal, family, &first)?;
        // Between measurements costs are guesses; what is close is measured, too.
        let measured = chosen.outcome.measured();
        let far = second.excess > 1.0 || second.cost > CLOSE * goal.cost(&measured);
        if goal.excess(&measured) <= 1.0 && far {
            return Ok(chosen);
        }
        let second = self.searched(other, goal, Some(&second), WEIGHTS..WIDTH)?;
        let alternative = self.finish(goal, other, &second)?;
        let better = goal.prefers(&alternative.outcome.measured(), &chosen.outcome.measured());
        let mut chosen = if better { alternative } else { chosen };
        chosen.tried = self.nearest(goal);
        Ok(chosen)
    }

    /// The fewest bytes under a bound. Without one: codes alone, with the penalty that is set or a usual one.
    pub fn for_bound(&mut self, bound: Bound) -> Result<Chosen> {
        self.tried.clear();
        let family = Family::Bounded(bound);
        let ladders = self.residuals.ladders().to_vec();
        let mut rungs: Vec<usize> = ladders.iter().map(|ladder| ladder.start).collect();
        let axes = match bound {
            Bound::None => {
                let usual =
                    (self.trials.signals / USUAL_SIGNALS_PER_ATOM).clamp(FIRST_ATOMS.start, FIRST_ATOMS.end);
                rungs[ATOMS] = self.atoms.iter().rposition(|atoms| *atoms as u64 <= usual).unwrap_or(0);
                0..0
            }
            _ => ATOMS..LADDERS,
        };
        let start = Found { rungs, knob: 0.0, excess: 0.0, cost: f64::INFINITY };
        let mut measure = |rungs: &[usize], knob: f64| self.measure(family, rungs, knob);
        let found = Search::new(ladders, 1).best(Goal::Smallest, Some(&start), 0.0, axes, &mut measure)?;
        self.finish(Goal::Smallest, family, &found)
    }

    /// Whether a dictionary pays at all: why not, if it does not.
    pub fn verdict(&mut self) -> Result<Option<String>> {
        if self.settings.atoms.is_some() {
            return Ok(None);
        }
        let Trials { signals, source_bytes, .. } = *self.trials;
        if signals < FEWEST_SIGNALS {
            return Ok(Some(format!(
                "{signals} signals are too few to learn a dictionary from and to check it (at least {FEWEST_SIGNALS})"
            )));
        }
        let spread = self.material.spread();
        if spread <= NO_SPREAD {
            return Ok(Some(format!(
                "all signals are alike: Parquet holds them in {source_bytes} bytes already"
            )));
        }
        // A third of what predicting the mean would leave: codes that know nothing do not get there, and
        // residuals need not be fine.
        let goal = Goal::Nmae(spread / 3.0);
        let [(_, with), _] = self.both(goal)?;
        let mut single = with.clone();
        single.rungs = self.residuals.ladders().iter().map(|ladder| ladder.start).collect();
        (single.rungs[ATOMS], single.rungs[LAMBDA]) = (0, 0);
        single.knob = self.residual_hint(goal);
        let without = self.searched(Family::Residuals, goal, Some(&single), 0..0)?;
        if with.cost > WORTHWHILE * source_bytes as f64 {
            return Ok(Some(format!(
                "Parquet holds the table in {source_bytes} bytes already, and even a coarse archive would take {:.0}",
                with.cost
            )));
        }
        if with.excess > 1.0 || with.cost > WORTHWHILE * without.cost {
            let saved = 100.0 * (1.0 - with.cost / without.cost).max(0.0);
            return Ok(Some(format!(
                "the signals have too little in common, as noise or independent random walks have: on rows that were not \
                 learned from a dictionary saves {saved:.0} %"
            )));
        }
        Ok(None)
    }

    /// Both ways to a goal, the better one first.
    fn both(&mut self, goal: Goal) -> Result<[(Family, Found); 2]> {
        let codes = self.searched(Family::Codes, goal, None, ATOMS..LAMBDA)?;
        let residuals = self.searched(Family::Residuals, goal, None, ATOMS..WEIGHTS)?;
        let (codes, residuals) = ((Family::Codes, codes), (Family::Residuals, residuals));
        Ok(if residuals.1.is_better_than(&codes.1) { [residuals, codes] } else { [codes, residuals] })
    }

    fn searched(
        &mut self,
        family: Family,
        goal: Goal,
        start: Option<&Found>,
        axes: Range<usize>,
    ) -> Result<Found> {
        let empty = Search::new(Vec::new(), 1);
        let space = if family == Family::Codes { &mut self.codes } else { &mut self.residuals };
        // Taken out while measuring needs the rest.
        let mut space = std::mem::replace(space, empty);
        let hint = if family == Family::Codes { 1.0 } else { self.residual_hint(goal) };
        let found = space.best(goal, start, hint, axes, &mut |rungs, knob| self.measure(family, rungs, knob));
        *(if family == Family::Codes { &mut self.codes } else { &mut self.residuals }) = space;
        found
    }

    /// Where the bound of residuals is likely to be.
    fn residual_hint(&self, goal: Goal) -> f64 {
        let bound = match goal {
            Goal::Nmae(nmae) => 2.5 * nmae * self.material.mean_size(),
            _ => self.material.largest_deviation() / 16.0,
        };
        (self.material.largest_deviation() / bound).log2().max(0.0)
    }

    fn bound(&self, family: Family, knob: f64) -> Bound {
        match family {
            Family::Codes => Bound::None,
            Family::Bounded(bound) => bound,
            Family::Residuals => {
                let bound = self.material.largest_deviation() * (-knob).exp2();
                // Where nothing varies any bound will do.
                Bound::MaxError(if bound > 0.0 && bound.is_finite() { rounded(bound) } else { 1.0 })
            }
        }
    }

    fn lambda(&self, family: Family, rungs: &[usize], knob: f64) -> Lambda {
        match (family, self.lambdas[rungs[LAMBDA]]) {
            (Family::Codes, Lambda::Share(_)) => Lambda::Share(rounded(LAMBDA_RUNGS[0] * (-knob).exp2())),
            (_, lambda) => lambda,
        }
    }

    /// The codebook of a choice.
    fn codebook(&mut self, family: Family, rungs: &[usize], knob: f64, effort: Effort) -> Result<Codebook> {
        let bound = self.bound(family, knob);
        let scales = self.material.scales(bound, rungs[SCALE] == 1);
        let bits = scales.iter().map(|scale| scale.to_bits()).collect();
        let key = (rungs[ATOMS], rungs[WIDTH], bits, effort);
        if !self.learned.contains_key(&key) {
            let (atoms, width) = (self.atoms[rungs[ATOMS]], self.widths[rungs[WIDTH]]);
            let learned = self.material.learn(atoms, width, scales, effort, self.settings, self.observer)?;
            self.learned.insert(key.clone(), learned);
        }
        let made = match self.learned.get(&key) {
            Some(Some(learned)) => {
                let lambda = self.lambda(family, rungs, knob);
                self.material.codebook(learned, lambda, WEIGHT_RUNGS[rungs[WEIGHTS]], bound)?
            }
            _ => None,
        };
        match made {
            Some(codebook) => Ok(codebook),
            None => self.material.blank(bound),
        }
    }

    fn run(
        &mut self,
        goal: Goal,
        family: Family,
        rungs: &[usize],
        knob: f64,
        effort: Effort,
    ) -> Result<(Arc<Codebook>, Outcome)> {
        // Learning asks whether to go on; so does measuring, which may go on for as long.
        let progress = Progress { round: 0, max_rounds: 0, objective: 0.0, nonzeros: 0 };
        if self.observer.on_round(&progress).is_break() {
            return Err(MathError::Cancelled.into());
        }
        let bound = self.bound(family, knob);
        let codebook = Arc::new(self.codebook(family, rungs, knob, effort)?);
        let settings = Settings { codebook: codebook.clone(), bound, group_sensors: self.group_sensors };
        let table = &self.material.table;
        let mut description = Description::new(
            &codebook,
            table.layout.clone(),
            table.series.clone(),
            bound,
            self.trials.signals,
        );
        if effort == Effort::Full {
            // The record takes bytes, too.
            description.search = self.nearest(goal);
        }
        let dictionary = dictionary_file::write(&codebook, &description)?.len() + PROMISE_BYTES;
        let outcome = self.trials.run(&settings, dictionary, effort)?;
        let sigma = codebook.kernel().parameters().into_iter().find(|(name, _)| *name == "sigma");
        let measured = outcome.measured();
        let tried = Tried {
            atoms: self.atoms[rungs[ATOMS]],
            kernel: codebook.kernel().name().to_string(),
            sigma: sigma.map(|(_, sigma)| rounded(sigma)),
            lambda: rounded(codebook.lambda()),
            weight_step: codebook.weight_step(),
            scaled: codebook.scales().iter().any(|scale| *scale != 1.0),
            max_error: if let Bound::MaxError(bound) = bound { Some(bound) } else { None },
            bytes: measured.bytes as u64,
            nmae: rounded(measured.nmae),
        };
        let mut key = rungs.to_vec();
        key.push(usize::from(family == Family::Codes));
        self.tried.push((key, tried));
        Ok((codebook, outcome))
    }

    fn measure(&mut self, family: Family, rungs: &[usize], knob: f64) -> Result<Measured> {
        Ok(self.run(Goal::Smallest, family, rungs, knob, Effort::Rough)?.1.measured())
    }

    /// Turns the knob once more with all that was looked at, and keeps what comes out.
    fn finish(&mut self, goal: Goal, family: Family, found: &Found) -> Result<Chosen> {
        let last = match family {
            Family::Codes if self.settings.lambda.is_none() => CODES_POSITIONS - 1,
            Family::Residuals => RESIDUAL_POSITIONS - 1,
            _ => 0,
        };
        // The last one that is better than those before is the best.
        let mut best: Option<(f64, Arc<Codebook>, Outcome)> = None;
        tune(goal, found.knob, last as f64, &mut |knob| {
            let (codebook, outcome) = self.run(goal, family, &found.rungs, knob, Effort::Full)?;
            let measured = outcome.measured();
            if best.as_ref().is_none_or(|(_, _, best)| goal.prefers(&measured, &best.measured())) {
                best = Some((knob, codebook, outcome));
            }
            Ok::<_, ArchiveError>(measured)
        })?;
        // Cannot be absent: tuning measures at least once.
        let (knob, codebook, outcome) = best.ok_or_else(|| ArchiveError::corrupt("nothing was measured"))?;
        let bound = self.bound(family, knob);
        let promise = Promise::new(&outcome, self.trials);
        let tried = self.nearest(goal);
        Ok(Chosen { codebook, bound, promise, outcome, tried })
    }

    /// For every choice of rungs the measurement that is nearest to the goal.
    fn nearest(&self, goal: Goal) -> Vec<Tried> {
        let distance = |tried: &Tried| match goal {
            Goal::Nmae(limit) => (tried.nmae / limit).ln().abs(),
            Goal::Bytes(limit) => (tried.bytes as f64 / limit).ln().abs(),
            Goal::MaxError(_) | Goal::Smallest => 0.0,
        };
        let mut nearest: Vec<(&Vec<usize>, &Tried)> = Vec::new();
        for (rungs, tried) in &self.tried {
            match nearest.iter_mut().find(|(known, _)| *known == rungs) {
                Some((_, best)) if distance(tried) < distance(best) => *best = tried,
                Some(_) => {}
                None => nearest.push((rungs, tried)),
            }
        }
        nearest.into_iter().map(|(_, tried)| tried.clone()).collect()
    }
}

/// To three digits: what is recorded and promised should be readable.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.2e}").parse().unwrap_or(value)
}
