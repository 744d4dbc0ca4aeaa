//! The exponential of a whole slice, with the same bits on every machine.
//!
//! `exp(x) = 2^n exp(r)`, `n = round(x / ln 2)`, `|r| <= ln 2 / 2`, and `exp(r)` by its Taylor
//! polynomial of degree 13, whose remainder is below `4e-18`. Every step is one IEEE operation
//! (fused multiply-adds included), so the vector width the CPU offers does not change the result;
//! the platform's `exp` gives no such promise. The error is at most 2 units in the last place.

use pulp::Arch;

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// The upper part of ln 2 has trailing zeros, so that `n * LN2_HIGH` is exact.
const LN2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);
/// Adding it leaves the nearest integer in the low bits of the sum.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Below this the result would be subnormal; it is taken to be zero.
const LOWEST: f64 = -708.0;
const HIGHEST: f64 = 709.0;

const INVERSE_FACTORIALS: [f64; 14] = {
    let mut table = [1.0; 14];
    let mut factorial = 1.0;
    let mut i = 1;
    while i < 14 {
        factorial *= i as f64;
        table[i] = 1.0 / factorial;
        i += 1;
    }
    table
};

/// `exp(x)`; zero for `x < -708` and for NaN, `exp(709)` for all larger `x`.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let clamped = if x > HIGHEST { HIGHEST } else { x };
    let shifted = clamped.mul_add(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, clamped));
    let mut polynomial = INVERSE_FACTORIALS[13];
    let mut i = 13;
    while i > 0 {
        i -= 1;
        polynomial = polynomial.mul_add(r, INVERSE_FACTORIALS[i]);
    }
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0f64.to_bits()));
    if x >= LOWEST { polynomial * power } else { 0.0 }
}

/// `exp(x)` for `x <= 0` in single precision, to a relative error of 1e-6; zero below -87 and for NaN.
#[inline(always)]
pub(crate) fn exp_f32(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut polynomial = INVERSE_FACTORIALS[7] as f32;
    let mut i = 7;
    while i > 0 {
        i -= 1;
        polynomial = polynomial.mul_add(r, INVERSE_FACTORIALS[i] as f32);
    }
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    if x >= -87.0 { polynomial * power } else { 0.0 }
}

/// Runs `work` compiled for the widest vectors that this CPU has, provided that it is inlined: a closure
/// should say `#[inline(always)]`, and so should the functions it calls.
#[inline]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library_to_two_units_in_the_last_place() {
        let mut worst = 0u64;
        for i in 0..2_000_000 {
            let x = -708.0 + 1417.0 * (i as f64 / 2_000_000.0);
            let (ours, theirs) = (exp(x), x.exp());
            worst = worst.max(ours.to_bits().abs_diff(theirs.to_bits()));
        }
        assert!(worst <= 2, "{worst} units in the last place");
    }

    #[test]
    fn single_precision_is_off_by_less_than_a_millionth() {
        for i in 0..2_000_000 {
            let x = -87.0 * (i as f32 / 2_000_000.0);
            let exact = f64::from(x).exp();
            assert!((f64::from(exp_f32(x)) - exact).abs() < 1e-6 * exact, "exp({x})");
        }
        assert_eq!(exp_f32(0.0), 1.0);
        assert_eq!(exp_f32(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_f32(f32::NAN), 0.0);
    }

    #[test]
    fn edges() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f64::NEG_INFINITY), 0.0);
        assert_eq!(exp(f64::NAN), 0.0);
        assert_eq!(exp(-1e308), 0.0);
        assert!(exp(f64::INFINITY).is_finite());
    }

    #[test]
    fn vector_width_does_not_change_a_bit() {
        let xs: Vec<f64> = (0..1003).map(|i| -30.0 + 0.0317 * i as f64).collect();
        let mut wide = xs.clone();
        vectorised(
            #[inline(always)]
            || wide.iter_mut().for_each(|x| *x = exp(*x)),
        );
        for (x, w) in xs.iter().zip(&wide) {
            assert_eq!(exp(*x).to_bits(), w.to_bits());
        }
    }
}
