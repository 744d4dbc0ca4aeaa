//! The arithmetic of forecasts, for integers of 64 bits and for small ones, of which a processor does more at once.

/// A signed integer whose sums wrap.
pub(in crate::archive) trait Integer: Copy + Default + PartialEq {
    fn of(value: i64) -> Self;
    fn wide(self) -> i64;
    /// A quarter of `of_last last + of_ago ago`, rounded to the nearest.
    fn foretold(last: Self, of_last: Self, ago: Self, of_ago: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    /// The other sign, if that is asked for.
    fn turned(self, turn: bool) -> Self;
    /// Between `-limit` and `limit`.
    fn limited(self, limit: i8) -> i32;
    /// The magnitude, as far as it makes a difference.
    fn size(self) -> u32;
}

/// Magnitudes beyond this make no difference to contexts.
pub(super) const LARGEST_SIZE: u32 = 1 << 20;

macro_rules! integer {
    ($integer:ident, $size:ident) => {
        impl Integer for $integer {
            #[inline(always)]
            fn of(value: i64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn wide(self) -> i64 {
                self.into()
            }
            #[inline(always)]
            fn foretold(last: Self, of_last: Self, ago: Self, of_ago: Self) -> Self {
                let weighted = of_last.wrapping_mul(last).wrapping_add(of_ago.wrapping_mul(ago));
                weighted.wrapping_add(1 + Self::from(weighted >= 0)) >> 2
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn turned(self, turn: bool) -> Self {
                let turn = -Self::from(turn);
                (self ^ turn).wrapping_sub(turn)
            }
            #[inline(always)]
            fn limited(self, limit: i8) -> i32 {
                self.clamp(-Self::from(limit), Self::from(limit)) as i32
            }
            #[inline(always)]
            fn size(self) -> u32 {
                self.unsigned_abs().min($size::from(LARGEST_SIZE)) as u32
            }
        }
    };
}

integer!(i32, u32);
integer!(i64, u64);
