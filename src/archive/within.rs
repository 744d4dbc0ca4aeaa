//! Whether a decoded value is within a bound: exactly, as if numbers had all their digits.
//!
//! Rounding keeps the order of numbers. A rounded difference that is below a bound, or above it, is so exactly, and only
//! where both are the same what was rounded away decides.

use super::number::Number;
use crate::math::sums::two_sum;

/// Products of at least this are rounded by something that is a number too.
const ROUNDED_EXACTLY: f64 = f64::MIN_POSITIVE * (1u64 << 54) as f64;
/// Bits of a double's mantissa that are stored.
const MANTISSA: u64 = 52;

impl Number {
    /// `|value - decoded| <= bound`.
    #[inline(always)]
    pub(super) fn is_within(self, value: u64, decoded: u64, bound: f64) -> bool {
        if !self.is_float() {
            return self.apart(value, decoded) <= bound as u64;
        }
        let (value, decoded) = (self.to_f64(value), self.to_f64(decoded));
        let difference = (value - decoded).abs();
        // Nothing of this holds for NaN.
        difference < bound || (difference == bound && rounded_away(value, decoded) <= 0.0)
    }

    /// `|value - decoded| <= share |value|`, for a share below 1.
    #[inline(always)]
    pub(super) fn is_within_share(self, value: u64, decoded: u64, share: f64) -> bool {
        if !self.is_float() {
            return u128::from(self.apart(value, decoded)) <= whole_share(share, self.size(value));
        }
        let (value, decoded) = (self.to_f64(value), self.to_f64(decoded));
        let (difference, bound) = ((value - decoded).abs(), share * value.abs());
        difference < bound
            || (difference == bound
                && bound >= ROUNDED_EXACTLY
                && rounded_away(value, decoded) <= share.mul_add(value.abs(), -bound))
    }

    /// How far apart two integers are.
    #[inline(always)]
    fn apart(self, one: u64, other: u64) -> u64 {
        match self {
            Self::Signed => (one as i64).abs_diff(other as i64),
            _ => one.abs_diff(other),
        }
    }

    /// An integer without its sign.
    #[inline(always)]
    fn size(self, value: u64) -> u64 {
        match self {
            Self::Signed => (value as i64).unsigned_abs(),
            _ => value,
        }
    }
}

/// By how much two numbers are further apart than their rounded difference.
#[cold]
fn rounded_away(one: f64, other: f64) -> f64 {
    let (difference, rest) = two_sum(one, -other);
    if difference < 0.0 { -rest } else { rest }
}

/// The whole part of a share, below 1, of an integer.
fn whole_share(share: f64, size: u64) -> u128 {
    let bits = share.to_bits();
    let (stored, exponent) = (bits & ((1 << MANTISSA) - 1), (bits >> MANTISSA) & 0x7FF);
    let (mantissa, exponent) = if exponent == 0 { (stored, 1) } else { (stored | 1 << MANTISSA, exponent) };
    // The share is `mantissa 2^-shift`.
    let shift = (1023 + MANTISSA).saturating_sub(exponent);
    (u128::from(mantissa) * u128::from(size)).checked_shr(shift as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    /// A number without a sign, with all its digits: bits from `2^-2200` on.
    #[derive(Clone)]
    struct Exact([u64; 60]);

    impl Exact {
        /// `mantissa 2^exponent`.
        fn new(mantissa: u128, exponent: i32) -> Self {
            let (mut limbs, place) = ([0; 60], (exponent + 2200) as usize);
            for bit in (0..128).filter(|bit| mantissa >> bit & 1 == 1) {
                limbs[(place + bit) / 64] |= 1u64 << ((place + bit) % 64);
            }
            Self(limbs)
        }

        fn plus(mut self, other: &Self) -> Self {
            let mut carry = 0u128;
            for (limb, other) in self.0.iter_mut().zip(&other.0) {
                carry += u128::from(*limb) + u128::from(*other);
                *limb = carry as u64;
                carry >>= 64;
            }
            self
        }

        fn is_at_most(&self, other: &Self) -> bool {
            self.0.iter().rev().cmp(other.0.iter().rev()) != Ordering::Greater
        }
    }

    /// The mantissa and the exponent of a finite number.
    fn parts(value: f64) -> (u128, i32) {
        let bits = value.abs().to_bits();
        let (stored, exponent) = (u128::from(bits & ((1 << 52) - 1)), (bits >> 52) as i32);
        if exponent == 0 { (stored, -1074) } else { (stored | 1 << 52, exponent - 1075) }
    }

    fn exact(value: f64) -> Exact {
        let (mantissa, exponent) = parts(value);
        Exact::new(mantissa, exponent)
    }

    fn product(one: f64, other: f64) -> Exact {
        let ((a, x), (b, y)) = (parts(one), parts(other));
        Exact::new(a * b, x + y)
    }

    /// Whether two numbers are at most so far apart, in arithmetic that does not round.
    fn are_within(one: f64, other: f64, bound: &Exact) -> bool {
        let (small, large) = if one.abs() < other.abs() { (one, other) } else { (other, one) };
        if (one < 0.0) == (other < 0.0) {
            exact(large).is_at_most(&bound.clone().plus(&exact(small)))
        } else {
            exact(one).plus(&exact(other)).is_at_most(bound)
        }
    }

    fn beside(value: f64, steps: i8) -> f64 {
        let step = if steps < 0 { f64::next_down } else { f64::next_up };
        (0..steps.unsigned_abs()).fold(value, |value, _| step(value))
    }

    fn finite() -> impl Strategy<Value = f64> {
        let any = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |value| value.is_finite());
        prop_oneof![
            any,
            -1e3..1e3,
            Just(0.0),
            -1e-300..1e-300,
            (-4000i32..4000).prop_map(|i| f64::from(i) / 8.0)
        ]
    }

    #[test]
    fn what_rounding_loses_counts() {
        let within =
            |value: f64, decoded: f64| Number::F64.is_within(value.to_bits(), decoded.to_bits(), 0.25);
        assert_eq!(1e-310 + 0.25, 0.25, "the difference is rounded to the bound");
        assert!(
            !within(1e-310, -0.25) && within(0.0, -0.25) && within(1e-310, 0.25) && !within(1e-310, f64::NAN)
        );
        let (far, near) = (1u64 << 53 | 1, 1u64 << 53);
        assert!(
            !Number::Unsigned.is_within(far, 0, near as f64)
                && Number::Unsigned.is_within(near, 0, near as f64)
        );
        assert!(Number::Signed.is_within(i64::MIN as u64, i64::MAX as u64, 1e30));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn floats_are_compared_exactly(
            value in finite(), apart in finite(), larger in any::<bool>(), steps in -2i8..3, bound_steps in -1i8..2
        ) {
            let bound = beside(apart.abs(), bound_steps).abs();
            let decoded = beside(if larger { value + apart.abs() } else { value - apart.abs() }, steps);
            prop_assume!(decoded.is_finite() && bound.is_finite());
            let expected = are_within(value, decoded, &exact(bound));
            prop_assert_eq!(Number::F64.is_within(value.to_bits(), decoded.to_bits(), bound), expected);
        }

        #[test]
        fn shares_are_compared_exactly(value in finite(), share in 1e-12..1.0, larger in any::<bool>(), steps in -2i8..3) {
            let apart = share * value.abs();
            let decoded = beside(if larger { value + apart } else { value - apart }, steps);
            prop_assume!(decoded.is_finite());
            let expected = are_within(value, decoded, &product(share, value));
            let found = Number::F64.is_within_share(value.to_bits(), decoded.to_bits(), share);
            // The smallest may be taken for too far apart, never the other way round.
            prop_assert!(found == expected || (!found && apart < ROUNDED_EXACTLY));
        }

        #[test]
        fn shares_of_integers_are_compared_exactly(value in any::<u64>(), share in 1e-12..1.0, steps in -2i64..3) {
            let apart = ((share * value as f64) as u64).saturating_add_signed(steps);
            let decoded = value.saturating_sub(apart);
            let expected = Exact::new(u128::from(value - decoded), 0)
                .is_at_most(&{
                    let (mantissa, exponent) = parts(share);
                    Exact::new(mantissa * u128::from(value), exponent)
                });
            prop_assert_eq!(Number::Unsigned.is_within_share(value, decoded, share), expected);
        }
    }
}
