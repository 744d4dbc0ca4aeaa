//! From values and what is predicted of them to residuals that keep the promise for every value.

use super::Result;
use super::block::{CHUNK, CodedBlock};
use super::cells::{Cell, Cells, Group, all};
use super::data_file_writer::Settings;
use super::entropy::{Integer, Integers};
use super::error_sums::ErrorLanes;
use super::left::{Left, LeftLanes};
use super::number::{Number, by_number, fits};
use super::predictor::Predictor;
use super::quantiser::{Bound, Quantiser};
use super::residuals::Residuals;
use super::sparse_codes::WholeCode;
use crate::math::vectorised;

/// What is left of a group's values once they are predicted. Every value as it comes back from that has been
/// compared with what it was; their errors, and what predictions leave, are added to the block's.
pub(super) fn round_group(
    group: &Group,
    settings: &Settings,
    part: &Cells,
    predictor: &Predictor,
    coded: &mut CodedBlock,
) -> Result<Residuals> {
    let number = group.number()?;
    let values =
        || part.raw.iter().zip(&part.state).filter(|(_, state)| **state == Cell::Value).map(|(raw, _)| *raw);
    let quantiser = Quantiser::choose(settings.rounding, number, values());
    let count = if quantiser == Quantiser::Prediction { 0 } else { part.raw.len() };
    let mut rounding = Rounding {
        residuals: Residuals {
            quantiser,
            state: part.state.clone(),
            exceptions: Vec::new(),
            integers: Integers::with_capacity(count),
        },
        bound: settings.bound,
        fits: &|raw: u64| fits(&group.data_type, raw),
        errors: ErrorLanes::default(),
    };
    let CodedBlock { codes, left, error, .. } = coded;
    vectorised(
        #[inline(always)]
        || by_number!(number, round_all(&mut rounding, part, codes, predictor, left)),
    );
    error.merge(&rounding.errors.sums());
    Ok(rounding.residuals)
}

/// Values on their way to residuals.
struct Rounding<'a> {
    residuals: Residuals,
    bound: Bound,
    /// Whether 64 bits are a value of the column's type.
    fits: &'a dyn Fn(u64) -> bool,
    errors: ErrorLanes,
}

/// Neighbouring cells, and what is predicted of them.
#[derive(Clone, Copy)]
struct Run<'a> {
    /// The number of the first cell.
    place: usize,
    raw: &'a [u64],
    state: &'a [Cell],
    predictions: &'a [f64],
}

/// Cells that are rounded at a time where none of them is out of the ordinary.
const RUN: usize = 64;

#[inline(always)]
fn round_all(
    number: Number,
    rounding: &mut Rounding<'_>,
    part: &Cells,
    codes: &[WholeCode],
    predictor: &Predictor,
    left: &mut [Left],
) {
    let width = predictor.width();
    let mut memory = predictor.memory();
    let mut predictions = vec![0.0; width * CHUNK.min(codes.len())];
    for (chunk, (codes, left)) in codes.chunks(CHUNK).zip(left).enumerate() {
        for (code, predictions) in codes.iter().zip(predictions.chunks_exact_mut(width)) {
            predictor.predict(code, &mut memory, predictions);
        }
        let first = chunk * CHUNK * width;
        let cells = first..first + codes.len() * width;
        if rounding.residuals.quantiser != Quantiser::Prediction {
            // Chunk by chunk: cleared as a whole they would have left the processor's cache before they are set.
            rounding.residuals.integers.extend_zeros(cells.len());
        }
        let (raw, state) = (&part.raw[cells.clone()], &part.state[cells]);
        let runs = raw.chunks(RUN).zip(state.chunks(RUN)).zip(predictions.chunks(RUN));
        let mut lanes = LeftLanes::default();
        for (i, ((raw, state), predictions)) in runs.enumerate() {
            let predictions = &predictions[..raw.len()];
            let run = Run { place: first + i * RUN, raw, state, predictions };
            if !rounding.round_ordinary(number, run, &mut lanes) {
                rounding.round_each(number, run, &mut lanes);
            }
        }
        left.merge(&lanes.sum());
    }
}

impl Rounding<'_> {
    /// Rounds cells if none of them is out of the ordinary; else nothing is done.
    #[inline(always)]
    fn round_ordinary(&mut self, number: Number, run: Run<'_>, left: &mut LeftLanes) -> bool {
        let Residuals { quantiser, integers, .. } = &mut self.residuals;
        if !number.is_float() || !all(run.state, |state| *state == Cell::Value) {
            return false;
        }
        let (mut values, mut decoded) = ([0.0; RUN], [0.0; RUN]);
        let (values, decoded) = (&mut values[..run.raw.len()], &mut decoded[..run.raw.len()]);
        values.iter_mut().zip(run.raw).for_each(|(value, raw)| *value = number.to_f64(*raw));
        let cells = run.place..run.place + run.raw.len();
        let are_ordinary = match (*quantiser, self.bound) {
            (Quantiser::Prediction, Bound::None) => {
                let mut finite = true;
                for ((value, prediction), decoded) in values.iter().zip(run.predictions).zip(&mut *decoded) {
                    *decoded = number.to_f64(number.nearest(*prediction));
                    finite &= value.is_finite() & decoded.is_finite();
                }
                finite
            }
            (Quantiser::Uniform { step }, Bound::MaxError(bound)) => match integers {
                Integers::Small(integers) => round_evenly(
                    number,
                    (step, bound),
                    values,
                    run.predictions,
                    &mut integers[cells],
                    decoded,
                ),
                Integers::Wide(integers) => round_evenly(
                    number,
                    (step, bound),
                    values,
                    run.predictions,
                    &mut integers[cells],
                    decoded,
                ),
            },
            _ => false,
        };
        // A negative zero must come back as one.
        let negative_zero = number.nearest(-0.0);
        let are_ordinary = are_ordinary && all(run.raw, |raw| *raw != negative_zero);
        if are_ordinary {
            self.errors.add_all(values, decoded);
            left.add_all(values, run.predictions);
        }
        are_ordinary
    }

    /// Rounds cell by cell; values that integers cannot hold become exceptions.
    #[inline(always)]
    fn round_each(&mut self, number: Number, run: Run<'_>, left: &mut LeftLanes) {
        let Residuals { quantiser, exceptions, integers, .. } = &mut self.residuals;
        let cells = run.raw.iter().zip(run.state).zip(run.predictions).enumerate();
        for (i, ((raw, state), prediction)) in cells {
            let mut kept = 0;
            if *state == Cell::Value {
                let integer = quantiser.integer(number, *raw, *prediction);
                let mut decoded = quantiser.value(number, integer, *prediction);
                if self.bound.holds(number, *raw, decoded) && (number.is_float() || (self.fits)(decoded)) {
                    kept = integer;
                } else {
                    exceptions.push((run.place + i, *raw));
                    decoded = *raw;
                }
                let value = number.to_f64(*raw);
                self.errors.add(value, number.difference(*raw, decoded));
                if value.is_finite() {
                    left.add(value, *prediction);
                }
            }
            if *quantiser != Quantiser::Prediction {
                integers.set(run.place + i, kept);
            }
        }
    }
}

/// `1.5 2^52`: adding it rounds to integers, and leaves them in the lower bits.
const ROUNDS: f64 = 6_755_399_441_055_744.0;

/// The integers of floats that are rounded evenly, and what comes back: whether all of them keep the promise.
#[inline(always)]
fn round_evenly<T: Integer>(
    number: Number,
    (step, bound): (f64, f64),
    values: &[f64],
    predictions: &[f64],
    integers: &mut [T],
    decoded: &mut [f64],
) -> bool {
    let per_step = step.recip();
    let mut whole = per_step.is_normal();
    let cells = values.iter().zip(predictions).zip(integers.iter_mut().zip(decoded));
    for ((value, prediction), (integer, decoded)) in cells {
        let shifted = (value - prediction) * per_step + ROUNDS;
        let rounded = shifted - ROUNDS;
        *integer = T::of((shifted.to_bits() as i64).wrapping_sub(ROUNDS.to_bits() as i64));
        *decoded = number.to_f64(number.nearest(prediction + step * rounded));
        // Nothing of this holds for NaN. A difference that is the bound once it is rounded is looked at more closely.
        whole &= ((value - *decoded).abs() < bound) & (rounded.abs() < Integers::SMALL as f64);
    }
    whole
}
