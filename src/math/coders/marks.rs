//! The largest of many numbers, and which one it is.

use std::ops::Range;

use crate::math::Dictionary;

/// The last digits of a marked number are its place, so that the largest of many tells which one it is without a
/// search. They are worth a part in 2^39, and there are enough for the most atoms that a dictionary can have.
const MARK: u64 = Dictionary::MOST_ATOMS as u64 - 1;
const _: () = assert!(Dictionary::MOST_ATOMS.is_power_of_two());

/// Of a finite number: an infinity would become none.
#[inline(always)]
pub(super) fn marked(number: f64, place: usize) -> f64 {
    f64::from_bits(number.to_bits() & !MARK | place as u64)
}

#[inline(always)]
pub(super) fn mark_of(number: f64) -> usize {
    (number.to_bits() & MARK) as usize
}

/// The largest `value` of a range, in lanes that vectorise.
#[inline(always)]
pub(super) fn largest(range: Range<usize>, value: impl Fn(usize) -> f64) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [0.0f64; LANES];
    let mut first = range.start;
    while first + LANES <= range.end {
        for (lane, largest) in lanes.iter_mut().enumerate() {
            let value = value(first + lane);
            *largest = if value > *largest { value } else { *largest };
        }
        first += LANES;
    }
    for i in first..range.end {
        let value = value(i);
        lanes[0] = if value > lanes[0] { value } else { lanes[0] };
    }
    largest_of(lanes)
}

/// The largest of some numbers.
#[inline(always)]
pub(super) fn largest_of<const LANES: usize>(mut lanes: [f64; LANES]) -> f64 {
    const { assert!(LANES.is_power_of_two()) };
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            let other = lanes[lane + width];
            lanes[lane] = if other > lanes[lane] { other } else { lanes[lane] };
        }
        width /= 2;
    }
    lanes[0]
}
