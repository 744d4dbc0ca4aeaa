//! An integer as a symbol of a small alphabet and some plain bits.
//!
//! The integer is folded (`0, -1, 1, -2, 2, ...` become `0, 1, 2, 3, 4, ...`). Small ones are symbols of
//! their own; of larger ones the symbol tells the position of the highest bit and the bit after it, and
//! the bits after these are kept as they are.

use crate::archive::Result;
use crate::archive::bytes::Reader;

/// How many symbols there can be.
pub(super) const SYMBOLS: usize = DIRECT as usize + 2 * 61;
/// Folded integers below this are symbols of their own.
const DIRECT: u64 = 20;
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

/// The integer of a symbol.
#[inline(always)]
pub(super) fn join(symbol: u8, plain: &mut PlainReader<'_>) -> i64 {
    let mut folded = u64::from(symbol);
    if folded >= DIRECT {
        let above = folded - DIRECT;
        // At most 63: there are no more symbols.
        let top = (above / 2) as u32 + FIRST_BIT;
        let shifted = 1 << top | (above & 1) << (top - 1) | plain.read(top - 1);
        folded = (shifted - FIRST).wrapping_add(DIRECT);
    }
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

/// Plain bits, the lowest first.
#[derive(Debug, Default)]
pub(super) struct PlainBits {
    bytes: Vec<u8>,
    waiting: u128,
    count: u32,
}

impl PlainBits {
    #[inline(always)]
    pub fn push(&mut self, value: u64, bits: u32) {
        self.waiting |= u128::from(value) << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.bytes.push(self.waiting as u8);
            self.waiting >>= 8;
            self.count -= 8;
        }
    }

    pub fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.waiting as u8);
        }
        self.bytes
    }
}

/// Reads plain bits; zeros after their end.
#[derive(Debug)]
pub(super) struct PlainReader<'a> {
    bytes: std::slice::Iter<'a, u8>,
    waiting: u128,
    count: u32,
}

impl<'a> PlainReader<'a> {
    pub fn new(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self { bytes: reader.part()?.iter(), waiting: 0, count: 0 })
    }

    #[inline(always)]
    fn read(&mut self, bits: u32) -> u64 {
        while self.count < bits {
            let byte = self.bytes.next().copied().unwrap_or(0);
            self.waiting |= u128::from(byte) << self.count;
            self.count += 8;
        }
        let value = self.waiting as u64 & ((1 << bits) - 1);
        self.waiting >>= bits;
        self.count -= bits;
        value
    }
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
        let mut plain = PlainBits::default();
        let symbols: Vec<u8> = values
            .iter()
            .map(|value| {
                let (symbol, bits, rest) = split(*value);
                assert!(usize::from(symbol) < SYMBOLS, "{value}");
                plain.push(rest, bits);
                symbol
            })
            .collect();
        let mut bytes = Vec::new();
        crate::archive::bytes::write_part(&mut bytes, &plain.finish());
        let mut plain = PlainReader::new(&mut Reader(&bytes)).expect("a part");
        for (value, symbol) in values.iter().zip(symbols) {
            assert_eq!(join(symbol, &mut plain), *value);
        }
    }
}
