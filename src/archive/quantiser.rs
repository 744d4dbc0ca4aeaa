//! From a value and what is predicted of it to an integer, and back within the bound.
//!
//! | quantiser | value of integer `e` for the prediction `d` |
//! |---|---|
//! | uniform | `d + step e` |
//! | grid | `(round(10^decimals d) + multiple e) / 10^decimals` |
//! | bits | the float whose place among all floats is `spacing (round(place(d) / spacing) + e)` |
//!
//! `place` numbers the floats from `-inf` to `inf`, 0 being 0: neighbours differ by one, and a spacing of
//! `s` is a relative one of `s / 2^52` (or `2^23`) at most. Each step is one IEEE operation or an integer
//! one, so decoding gives the same bits on every machine.

use super::bytes::{Reader, write_varint};
use super::number::Number;
use super::{ArchiveError, Result};

/// What is promised about the error of every single value.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Nothing: codes alone are kept.
    None,
    /// `|value - decoded| <= bound`.
    MaxError(f64),
    /// `|value - decoded| <= bound |value|`.
    MaxRelativeError(f64),
    /// Values come back as they were.
    Lossless,
}

impl std::fmt::Display for Bound {
    /// As options and arguments name it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("no bound"),
            Self::MaxError(bound) => write!(f, "max_error {bound}"),
            Self::MaxRelativeError(bound) => write!(f, "max_relative_error {bound}"),
            Self::Lossless => f.write_str("lossless"),
        }
    }
}

impl Bound {
    /// The bound that the options `max_error`, `max_relative_error` and `lossless` stand for.
    pub fn from_options(
        max_error: Option<f64>,
        max_relative_error: Option<f64>,
        lossless: bool,
    ) -> Result<Self> {
        match (max_error, max_relative_error, lossless) {
            (None, None, false) => Ok(Self::None),
            (Some(bound), None, false) => Self::MaxError(bound).check(),
            (None, Some(bound), false) => Self::MaxRelativeError(bound).check(),
            (None, None, true) => Ok(Self::Lossless),
            _ => Err(ArchiveError::layout(
                "only one of max_error, max_relative_error and lossless can be given",
            )),
        }
    }

    /// The one that promises less; nothing, where they cannot be compared.
    pub(super) fn looser(self, other: Self) -> Self {
        match (self, other) {
            (Self::Lossless, bound) | (bound, Self::Lossless) => bound,
            (Self::MaxError(a), Self::MaxError(b)) => Self::MaxError(a.max(b)),
            (Self::MaxRelativeError(a), Self::MaxRelativeError(b)) => Self::MaxRelativeError(a.max(b)),
            _ => Self::None,
        }
    }

    /// Refuses bounds that mean nothing.
    pub fn check(self) -> Result<Self> {
        match self {
            Self::MaxError(bound) if !(bound > 0.0 && bound.is_finite()) => {
                Err(ArchiveError::layout(format!(
                    "max_error is {bound}; it must be positive and finite (use lossless for no error at all)"
                )))
            }
            Self::MaxRelativeError(bound) if !(bound > 0.0 && bound < 1.0) => {
                Err(ArchiveError::layout(format!(
                    "max_relative_error is {bound}; it must be between 0 and 1 (use lossless for no error at all)"
                )))
            }
            other => Ok(other),
        }
    }

    /// Whether a decoded value keeps the promise.
    #[inline(always)]
    pub(crate) fn holds(self, number: Number, value: u64, decoded: u64) -> bool {
        if value == decoded {
            return true;
        }
        if number.is_special(value) {
            return false;
        }
        match self {
            // A finite value must not become an infinite one.
            Self::None => !number.is_special(decoded) || number.to_f64(decoded) == 0.0,
            Self::Lossless => false,
            Self::MaxError(bound) => number.is_within(value, decoded, bound),
            Self::MaxRelativeError(share) => number.is_within_share(value, decoded, share),
        }
    }
}

/// How values of a block become integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Quantiser {
    /// No integers at all: the prediction is the value.
    Prediction,
    Uniform {
        step: f64,
    },
    Grid {
        multiple: u64,
        decimals: u8,
    },
    Bits {
        spacing: u64,
    },
}

/// Floats that are decimal fractions with up to so many digits after the point are coded as integers.
const MOST_DECIMALS: u8 = 6;
const POWERS: [f64; MOST_DECIMALS as usize + 1] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
/// Bounds of more units of the last decimal gain next to nothing from decimals.
const WIDEST_GRID: f64 = 16.0;
/// Nor do grids whose steps are hardly wider than those without one.
const WIDER: f64 = 1.02;
/// Integers up to this are exact as doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Quantiser {
    /// The quantiser for these values under a bound.
    pub fn choose(bound: Bound, number: Number, values: impl Iterator<Item = u64> + Clone) -> Self {
        let is_float = number.is_float();
        match bound {
            Bound::None => Self::Prediction,
            Bound::MaxError(bound) if is_float => {
                // A little less than twice the bound: rounding must not take a value over it.
                let step = 2.0 * bound * (1.0 - 1e-9);
                let worth_looking = POWERS.iter().take_while(|power| *power * bound <= WIDEST_GRID).count();
                decimals(number, worth_looking, values)
                    .and_then(|decimals| grid(decimals, bound, step))
                    .unwrap_or(Self::Uniform { step })
            }
            // Beyond 2^62 the integers are all zero.
            Bound::MaxError(bound) => Self::Grid { multiple: 2 * bound.min(1e18) as u64 + 1, decimals: 0 },
            Bound::MaxRelativeError(bound) => {
                let digits = if number == Number::F32 { 23 } else { 52 };
                // Integers are rounded afterwards, which takes half of what is allowed.
                let share = if is_float { 2.0 } else { 1.0 };
                let spacing = share * bound * (1u64 << digits) as f64 * (1.0 - 1e-9);
                Self::Bits { spacing: (spacing as u64).max(1) }
            }
            Bound::Lossless if is_float => match decimals(number, POWERS.len(), values) {
                Some(decimals) => Self::Grid { multiple: 1, decimals },
                None => Self::Bits { spacing: 1 },
            },
            Bound::Lossless => Self::Grid { multiple: 1, decimals: 0 },
        }
    }

    /// The integer for a value; whether it keeps the promise is for the caller to see.
    #[inline(always)]
    pub fn integer(self, number: Number, value: u64, prediction: f64) -> i64 {
        match self {
            Self::Prediction => 0,
            Self::Uniform { step } => nearest((number.to_f64(value) - prediction) / step),
            Self::Grid { multiple, decimals } => {
                let base = (prediction * POWERS[usize::from(decimals)]).round() as i64;
                let target = if number.is_float() {
                    (number.to_f64(value) * POWERS[usize::from(decimals)]).round() as i64
                } else {
                    value as i64
                };
                nearest_multiple(target.wrapping_sub(base), multiple)
            }
            Self::Bits { spacing } => {
                let target = nearest_multiple(place(number, number.to_f64(value)), spacing);
                target.wrapping_sub(nearest_multiple(place(number, prediction), spacing))
            }
        }
    }

    /// The value of an integer.
    #[inline(always)]
    pub fn value(self, number: Number, integer: i64, prediction: f64) -> u64 {
        match self {
            Self::Prediction => number.nearest(prediction),
            Self::Uniform { step } => number.nearest(prediction + step * integer as f64),
            Self::Grid { multiple, decimals } => {
                let base = (prediction * POWERS[usize::from(decimals)]).round() as i64;
                let target = base.wrapping_add((multiple as i64).wrapping_mul(integer));
                if number.is_float() {
                    number.nearest(target as f64 / POWERS[usize::from(decimals)])
                } else {
                    target as u64
                }
            }
            Self::Bits { spacing } => {
                let base = nearest_multiple(place(number, prediction), spacing);
                let place = base.wrapping_add(integer).wrapping_mul(spacing as i64);
                match number {
                    Number::F32 => u64::from(at_place_f32(place).to_bits()),
                    _ => number.nearest(at_place_f64(place)),
                }
            }
        }
    }

    pub fn write(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Prediction => bytes.push(0),
            Self::Uniform { step } => {
                bytes.push(1);
                bytes.extend_from_slice(&step.to_le_bytes());
            }
            Self::Grid { multiple, decimals } => {
                bytes.extend([2, decimals]);
                write_varint(bytes, multiple);
            }
            Self::Bits { spacing } => {
                bytes.push(3);
                write_varint(bytes, spacing);
            }
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match reader.byte()? {
            0 => Self::Prediction,
            1 => Self::Uniform { step: f64::from_le_bytes(reader.array()?) },
            2 => {
                let decimals = reader.byte()?;
                if decimals > MOST_DECIMALS {
                    return Err(ArchiveError::corrupt(format!("a grid of {decimals} decimals")));
                }
                Self::Grid { decimals, multiple: spacing(reader)? }
            }
            3 => Self::Bits { spacing: spacing(reader)? },
            other => return Err(ArchiveError::corrupt(format!("quantiser {other}"))),
        })
    }
}

/// The grid of decimal fractions for a bound, where its steps are wider than without it: the bound is rounded down to
/// whole units of the last decimal, and a step has those on both sides of it.
fn grid(decimals: u8, bound: f64, step: f64) -> Option<Quantiser> {
    let units = bound * POWERS[usize::from(decimals)];
    // Differences of fractions are rounded, and may be above a bound that is a whole number of units.
    let whole = if decimals == 0 { units.floor() } else { (units * (1.0 - 1e-9)).floor() };
    let wide = (2.0 * whole + 1.0) / POWERS[usize::from(decimals)];
    let pays = whole == 0.0 && wide >= step || wide >= WIDER * step;
    pays.then_some(Quantiser::Grid { multiple: 2 * whole as u64 + 1, decimals })
}

/// Spacings are above 0 and below 2^62.
fn spacing(reader: &mut Reader<'_>) -> Result<u64> {
    let spacing = reader.varint()?;
    if spacing == 0 || spacing >= 1 << 62 {
        return Err(ArchiveError::corrupt(format!("a spacing of {spacing}")));
    }
    Ok(spacing)
}

/// How many digits after the point all finite values have at most, if fewer than `limit`.
fn decimals(number: Number, limit: usize, values: impl Iterator<Item = u64> + Clone) -> Option<u8> {
    let power = |decimals: &u8| POWERS.get(usize::from(*decimals)).filter(|_| usize::from(*decimals) < limit);
    (0..=MOST_DECIMALS).find(|decimals| {
        let Some(power) = power(decimals) else { return false };
        values.clone().filter(|raw| !number.is_special(*raw)).all(|raw| {
            let integer = (number.to_f64(raw) * power).round();
            integer.abs() < EXACT && number.nearest(integer / power) == raw
        })
    })
}

/// The nearest integer, or one next to it where it is a tie: the writer may choose.
#[inline(always)]
fn nearest(value: f64) -> i64 {
    (value + 0.5f64.copysign(value)) as i64
}

/// `round(value / spacing)`. Where it overflows the value does not come back, which the writer notices.
#[inline(always)]
fn nearest_multiple(value: i64, spacing: u64) -> i64 {
    let spacing = spacing as i64;
    let half = if value < 0 { -(spacing / 2) } else { spacing / 2 };
    value.wrapping_add(half).wrapping_div(spacing)
}

#[inline(always)]
fn place(number: Number, value: f64) -> i64 {
    match number {
        Number::F32 => {
            let bits = (value as f32).to_bits() as i32;
            i64::from(if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits })
        }
        _ => {
            let bits = value.to_bits() as i64;
            if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
        }
    }
}

#[inline(always)]
fn at_place_f64(place: i64) -> f64 {
    f64::from_bits(if place < 0 { i64::MIN.wrapping_sub(place) } else { place } as u64)
}

#[inline(always)]
fn at_place_f32(place: i64) -> f32 {
    let place = place as i32;
    f32::from_bits(if place < 0 { i32::MIN.wrapping_sub(place) } else { place } as u32)
}
