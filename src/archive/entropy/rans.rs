//! Symbols with known frequencies to bytes and back: range asymmetric numeral systems (Duda 2014).
//!
//! A number holds symbols coded so far. Coding a symbol of frequency `f` out of `ONE` multiplies it by about
//! `ONE / f`; when it grows beyond 32 bits, 16 of them are put out. Decoding runs backwards, so the encoder
//! starts from the last symbol. There are several numbers that take turns, and one row of words that all of
//! them are put out to: what one does need not wait for another.

use super::contexts::limited_lean;
use super::symbols::{SYMBOLS, has_bits, join};
use crate::archive::bytes::{Reader, write_part, write_varint};
use crate::archive::{ArchiveError, Result};

const BITS: u32 = 14;
/// Frequencies add up to this.
const ONE: u32 = 1 << BITS;
/// A number is at least this between symbols.
const LOWEST: u32 = 1 << 16;
/// How many numbers there are.
pub(super) const LANES: usize = 4;
/// Plain bits that are coded at a time.
const MOST_BITS: u32 = 16;

/// The frequencies of a set of symbols.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// Where each symbol's share of `0..ONE` starts, and where the last one ends.
    starts: Vec<u32>,
}

impl Table {
    /// Frequencies in proportion to counts, at least 1 for what occurs at all.
    pub fn from_counts(counts: &[u32; SYMBOLS]) -> Self {
        let used = counts.iter().rposition(|count| *count > 0).map_or(1, |last| last + 1);
        let total = counts.iter().map(|count| u64::from(*count)).sum::<u64>().max(1);
        let share = |count: &u32| match count {
            0 => 0,
            count => ((u64::from(*count) * u64::from(ONE) + total / 2) / total).max(1) as u32,
        };
        let mut frequencies: Vec<u32> = counts[..used].iter().map(share).collect();
        // Rounding is made up for by the largest, which has the most to give.
        loop {
            let sum: u32 = frequencies.iter().sum();
            let largest = (0..used).rev().max_by_key(|i| frequencies[*i]).unwrap_or(0);
            let wanted = (frequencies[largest] + ONE).saturating_sub(sum);
            if wanted > 0 {
                frequencies[largest] = wanted;
                return Self::from_frequencies(frequencies);
            }
            frequencies[largest] = (frequencies[largest] / 2).max(1);
        }
    }

    fn from_frequencies(frequencies: Vec<u32>) -> Self {
        let mut starts = Vec::with_capacity(frequencies.len() + 1);
        starts.push(0);
        let mut end = 0;
        starts.extend(frequencies.into_iter().map(|frequency| {
            end += frequency;
            end
        }));
        Self { starts }
    }

    /// The number of symbols, and all frequencies but the last.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let count = self.starts.len() - 1;
        write_varint(bytes, count as u64);
        for pair in self.starts[..count].windows(2) {
            write_varint(bytes, u64::from(pair[1] - pair[0]));
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let count = reader.size(SYMBOLS)?;
        let mut frequencies = Vec::with_capacity(count);
        let mut left = ONE as usize;
        for _ in 1..count {
            let frequency = reader.size(left)?;
            left -= frequency;
            frequencies.push(frequency as u32);
        }
        if left == 0 || count == 0 {
            return Err(ArchiveError::corrupt("frequencies do not add up"));
        }
        frequencies.push(left as u32);
        Ok(Self::from_frequencies(frequencies))
    }

    /// What coding takes of each symbol.
    pub fn shares(&self) -> [Share; SYMBOLS] {
        let mut shares = [Share::default(); SYMBOLS];
        for (share, pair) in shares.iter_mut().zip(self.starts.windows(2)) {
            *share = Share::new(pair[0], pair[1] - pair[0]);
        }
        shares
    }

    /// What decoding takes.
    pub fn slots(&self) -> Slots {
        let of_symbol = |symbol: usize| {
            let (start, end) = (self.starts[symbol], self.starts[symbol + 1]);
            let symbol = symbol as u8;
            let value = if has_bits(symbol) { 0 } else { join(symbol, |_| 0) as i8 };
            Slot {
                start: start as u16,
                frequency: (end - start) as u16,
                symbol,
                value,
                size: value.unsigned_abs(),
                limited: limited_lean(i32::from(value)) as i8,
            }
        };
        let mut symbol = 0;
        let first = std::array::from_fn(|part| {
            while self.starts[symbol + 1] as usize <= part << Slots::SHIFT {
                symbol += 1;
            }
            of_symbol(symbol)
        });
        Slots { first, all: (0..self.starts.len() - 1).map(of_symbol).collect() }
    }
}

/// A symbol's share of `0..ONE`, and how to divide by it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Share {
    /// `2^64 / frequency`, rounded up.
    reciprocal: u64,
    added: u32,
    frequency: u32,
}

impl Share {
    fn new(start: u32, frequency: u32) -> Self {
        match frequency {
            0 => Self::default(),
            // The reciprocal would be 2^64; with one less quotients are one less, which is added.
            1 => Self { reciprocal: u64::MAX, added: start + ONE - 1, frequency },
            _ => Self { reciprocal: u64::MAX / u64::from(frequency) + 1, added: start, frequency },
        }
    }
}

/// A symbol and its share of `0..ONE`: all that decoding takes of it, found at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    start: u16,
    frequency: u16,
    pub symbol: u8,
    /// Of symbols without plain bits: what they stand for, its magnitude, and how far it makes a difference to its
    /// neighbour's sign.
    pub value: i8,
    pub size: u8,
    pub limited: i8,
}

/// Where to look for the symbol of a place in `0..ONE`.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    /// The first symbol with a share of each part.
    first: [Slot; Slots::PARTS],
    all: Vec<Slot>,
}

impl Slots {
    const SHIFT: u32 = 7;
    const PARTS: usize = (ONE >> Self::SHIFT) as usize;
}

/// Takes symbols, the last one first.
#[derive(Debug)]
pub(super) struct Encoder {
    states: [u32; LANES],
    words: Vec<u16>,
    /// Words that are put out; there is room for others after them.
    filled: usize,
}

/// Words that a symbol and its plain bits put out at most: one each time.
const MOST_WORDS: usize = 1 + u64::BITS.div_ceil(MOST_BITS) as usize;

impl Encoder {
    pub fn new() -> Self {
        Self { states: [LOWEST; LANES], words: Vec::new(), filled: 0 }
    }

    /// Makes room for so many symbols: to be called before they are coded.
    #[inline(always)]
    pub fn reserve(&mut self, symbols: usize) {
        let wanted = self.filled + MOST_WORDS * symbols;
        if self.words.len() < wanted {
            self.words.resize(2 * wanted, 0);
        }
    }

    /// Puts out a word if a state is at least a limit. It is written in any case, and counts if it should: nobody can guess
    /// when it does, and a processor that guesses wrong loses more time.
    #[inline(always)]
    fn put_out(&mut self, state: u32, limit: u64) -> u32 {
        let is_full = u64::from(state) >= limit;
        self.words[self.filled] = state as u16;
        self.filled += usize::from(is_full);
        state >> (16 * u32::from(is_full))
    }

    #[inline(always)]
    pub fn symbol(&mut self, lane: usize, share: &Share) {
        let state = self.put_out(self.states[lane], u64::from(share.frequency) << (32 - BITS));
        let quotient = ((u128::from(state) * u128::from(share.reciprocal)) >> 64) as u32;
        self.states[lane] =
            state.wrapping_add(share.added).wrapping_add(quotient.wrapping_mul(ONE - share.frequency));
    }

    /// Some bits as they are.
    #[inline(always)]
    pub fn bits(&mut self, lane: usize, value: u64, count: u32) {
        let mut left = count;
        while left > 0 {
            // The lowest are read first, so that they come last.
            let part = (left - 1) % MOST_BITS + 1;
            left -= part;
            let state = self.put_out(self.states[lane], 1 << (32 - part));
            self.states[lane] = state << part | (value >> left) as u32 & ((1 << part) - 1);
        }
    }

    pub fn finish(mut self, bytes: &mut Vec<u8>) {
        self.words.truncate(self.filled);
        for state in self.states.iter().rev() {
            self.words.extend([*state as u16, (*state >> 16) as u16]);
        }
        let words: Vec<u8> = self.words.iter().rev().flat_map(|word| word.to_le_bytes()).collect();
        write_part(bytes, &words);
    }
}

/// Reads symbols, the first one first; zeros after the end of the bytes.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    states: [u32; LANES],
    words: &'a [[u8; 2]],
    next: usize,
}

impl<'a> Decoder<'a> {
    pub fn new(reader: &mut Reader<'a>) -> Result<Self> {
        let mut decoder = Self { states: [0; LANES], words: reader.part()?.as_chunks().0, next: 0 };
        for lane in 0..LANES {
            decoder.refill(lane, 0);
            decoder.refill(lane, decoder.states[lane]);
        }
        Ok(decoder)
    }

    /// Takes a word if a state is too small. It is read in any case: see `Encoder::put_out`.
    #[inline(always)]
    fn refill(&mut self, lane: usize, state: u32) {
        let word = self.words.get(self.next).map_or(0, |word| u32::from(u16::from_le_bytes(*word)));
        let is_low = state < LOWEST;
        self.next += usize::from(is_low);
        self.states[lane] = std::hint::select_unpredictable(is_low, state << 16 | word, state);
    }

    /// The next symbol.
    #[inline(always)]
    pub fn symbol(&mut self, lane: usize, slots: &Slots) -> Slot {
        let state = self.states[lane];
        let slot = state & (ONE - 1);
        let mut found = slots.first[(slot >> Slots::SHIFT) as usize];
        // The shares of all symbols have every place.
        while slot - u32::from(found.start) >= u32::from(found.frequency) {
            found = slots.all[usize::from(found.symbol) + 1];
        }
        let (start, frequency) = (u32::from(found.start), u32::from(found.frequency));
        self.refill(lane, frequency.wrapping_mul(state >> BITS).wrapping_add(slot - start));
        found
    }

    /// Some bits as they are.
    #[inline(always)]
    pub fn bits(&mut self, lane: usize, count: u32) -> u64 {
        let (mut value, mut done) = (0, 0);
        while done < count {
            let part = (count - done).min(MOST_BITS);
            let state = self.states[lane];
            value |= u64::from(state & ((1 << part) - 1)) << done;
            self.refill(lane, state >> part);
            done += part;
        }
        value
    }
}
