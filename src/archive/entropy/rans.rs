//! Symbols with known frequencies to bytes and back: range asymmetric numeral systems (Duda 2014).
//!
//! One number holds all symbols coded so far. Coding a symbol of frequency `f` out of `ONE` multiplies it
//! by about `ONE / f`; when it grows beyond 32 bits, 16 of them are put out. Decoding runs backwards,
//! so the encoder starts from the last symbol.

use super::symbols::SYMBOLS;
use crate::archive::bytes::{Reader, write_part, write_varint};
use crate::archive::{ArchiveError, Result};

const BITS: u32 = 14;
/// Frequencies add up to this.
const ONE: u32 = 1 << BITS;
/// The number is at least this between symbols.
const LOWEST: u32 = 1 << 16;

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

    /// Where each symbol's share starts, and where the last one ends.
    pub fn starts(&self) -> &[u32] {
        &self.starts
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
}

/// Writes symbols, each with the starts of its table, given from the last to the first.
pub(super) fn encode<'a>(symbols: impl Iterator<Item = (&'a [u32], u8)>, bytes: &mut Vec<u8>) {
    let mut state = LOWEST;
    let mut words: Vec<u16> = Vec::new();
    for (starts, symbol) in symbols {
        let start = starts[usize::from(symbol)];
        let frequency = starts[usize::from(symbol) + 1] - start;
        if u64::from(state) >= u64::from(frequency) << (32 - BITS) {
            words.push(state as u16);
            state >>= 16;
        }
        state = ((state / frequency) << BITS) + state % frequency + start;
    }
    words.extend([state as u16, (state >> 16) as u16]);
    let words: Vec<u8> = words.iter().rev().flat_map(|word| word.to_le_bytes()).collect();
    write_part(bytes, &words);
}

/// Reads symbols, the first one first; zeros after the end of the bytes.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    state: u32,
    words: std::slice::ChunksExact<'a, u8>,
}

impl<'a> Decoder<'a> {
    pub fn new(reader: &mut Reader<'a>) -> Result<Self> {
        let mut decoder = Self { state: 0, words: reader.part()?.chunks_exact(2) };
        decoder.state = decoder.word() << 16;
        decoder.state |= decoder.word();
        Ok(decoder)
    }

    #[inline(always)]
    fn word(&mut self) -> u32 {
        self.words.next().map_or(0, |word| u32::from(u16::from_le_bytes([word[0], word[1]])))
    }

    /// The next symbol, from the starts of its table.
    #[inline(always)]
    pub fn symbol(&mut self, starts: &[u32]) -> u8 {
        let slot = self.state & (ONE - 1);
        // Frequent symbols come first, so the search is short. The last start is above every slot.
        let mut symbol = 0;
        let mut start = 0;
        let mut end = starts[1];
        while end <= slot {
            symbol += 1;
            start = end;
            end = starts[symbol + 1];
        }
        self.state = (end - start) * (self.state >> BITS) + slot - start;
        if self.state < LOWEST {
            self.state = self.state << 16 | self.word();
        }
        symbol as u8
    }
}
