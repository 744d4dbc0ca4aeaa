//! An integer as a symbol of a small alphabet and some plain bits.
//!
//! The integer is folded (`0, -1, 1, -2, 2, ...` become `0, 1, 2, 3, 4, ...`). Small ones are symbols of
//! their own; of larger ones the symbol tells the position of the highest bit and the bit after it, and
//! the bits after these are kept as they are.

/// How many symbols there can be.
pub(super) const SYMBOLS: usize = DIRECT as usize + 2 * 61;
/// Folded integers below this are symbols of their own.
const DIRECT: u64 = 20;
/// The least folded integer that is not.
pub(super) const INDIRECT: u32 = DIRECT as u32;
/// What the first larger one becomes, before its highest bit is looked at.
const FIRST: u64 = 8;
const FIRST_BIT: u32 = FIRST.ilog2();

/// The symbol, how many plain bits, and these.
#[inline(always)]
pub(super) fn split(value: i64) -> (u8, u32, u64) {
    let folded = ((value << 1) ^ (value >> 63)) as u64;
    if folded < DIRECT {
        return (folded as u8, 0, 0);
    }
    let shifted = folded - DIRECT + FIRST;
    let top = shifted.ilog2();
    let next = shifted >> (top - 1) & 1;
    let symbol = DIRECT as u32 + 2 * (top - FIRST_BIT) + next as u32;
    (symbol as u8, top - 1, shifted & ((1 << (top - 1)) - 1))
}

/// A small integer folded.
#[inline(always)]
pub(super) fn folded(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

/// Whether a symbol has plain bits.
#[inline(always)]
pub(super) fn has_bits(symbol: u8) -> bool {
    u64::from(symbol) >= DIRECT
}

/// The integer of a symbol; `plain` reads so many bits.
#[inline(always)]
pub(super) fn join(symbol: u8, plain: impl FnOnce(u32) -> u64) -> i64 {
    let mut folded = u64::from(symbol);
    if folded >= DIRECT {
        let above = folded - DIRECT;
        // At most 63: there are no more symbols.
        let top = (above / 2) as u32 + FIRST_BIT;
        let shifted = 1 << top | (above & 1) << (top - 1) | plain(top - 1);
        folded = (shifted - FIRST).wrapping_add(DIRECT);
    }
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_integer_comes_back() {
        let mut values: Vec<i64> = (-300..300).collect();
        for bit in 0..63 {
            values.extend([1 << bit, (1 << bit) - 1, -(1 << bit), -(1 << bit) - 1]);
        }
        values.extend([i64::MAX, i64::MIN, i64::MIN + 1]);
        for value in values {
            let (symbol, bits, rest) = split(value);
            assert!(usize::from(symbol) < SYMBOLS, "{value}");
            assert_eq!(has_bits(symbol), bits > 0, "{value}");
            let read = |count| {
                assert_eq!(count, bits, "{value}");
                rest
            };
            assert_eq!(join(symbol, read), value);
        }
    }
}
