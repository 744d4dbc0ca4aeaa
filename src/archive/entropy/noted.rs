//! Symbols that wait to be written: contexts cannot be merged before all of them are known.

use super::contexts::{CONTEXTS, Counts, Tables};
use super::lanes;
use super::rans::{Encoder, LANES, Share};
use super::symbols::{self, SYMBOLS};

/// What is to be written.
pub(super) struct Noted {
    /// Context, lane and symbol.
    symbols: Vec<u32>,
    plain: Vec<(u64, u32)>,
    /// Symbols in a row, if all rows have as many; else 0.
    whole_rows: usize,
    /// One of them, used again.
    row: Vec<u32>,
    /// By context, symbol and lane: what counts a symbol need not wait for what counted the one before. Lanes are side by
    /// side, since a processor also takes addresses for the same that are some times 4096 apart, as tables of their own
    /// would be.
    counts: Vec<[[u32; LANES]; SYMBOLS]>,
}

impl Noted {
    pub fn new(count: usize) -> Self {
        let counts = vec![[[0; LANES]; SYMBOLS]; CONTEXTS];
        Self { symbols: Vec::with_capacity(count), plain: Vec::new(), whole_rows: 0, row: Vec::new(), counts }
    }

    /// Notes one integer.
    #[inline(always)]
    pub fn note(&mut self, lane: usize, context: usize, residual: i64) {
        let (symbol, bits, rest) = symbols::split(residual);
        if bits > 0 {
            self.plain.push((rest, bits));
        }
        self.counts[context][usize::from(symbol)][lane] += 1;
        self.symbols.push((context as u32) << 16 | (lane as u32) << 8 | u32::from(symbol));
    }

    /// Notes a row of integers that are all there, in the order in which they are coded.
    #[inline(always)]
    pub fn note_row<const TOGETHER: usize>(&mut self, contexts: &[u32], residuals: &[i32]) {
        let columns = contexts.len();
        self.whole_rows = columns;
        self.row.resize(columns, 0);
        let (row, residuals) = (&mut self.row[..columns], &residuals[..columns]);
        for i in 0..columns {
            let folded = symbols::folded(residuals[i]).min(symbols::INDIRECT);
            row[i] = contexts[i] << 16 | ((i % TOGETHER) as u32) << 8 | folded;
        }
        for (noted, residual) in row.iter_mut().zip(residuals) {
            if *noted as u8 == symbols::INDIRECT as u8 {
                let (symbol, bits, rest) = symbols::split(i64::from(*residual));
                self.plain.push((rest, bits));
                *noted = *noted & !0xFF | u32::from(symbol);
            }
            let (context, lane, symbol) = (*noted >> 16, (*noted >> 8) as usize % LANES, *noted as u8);
            self.counts[context as usize][usize::from(symbol)][lane] += 1;
        }
        self.symbols.extend_from_slice(row);
    }

    pub fn tables(&self) -> Tables {
        let sums: Counts =
            self.counts.iter().map(|symbols| symbols.map(|lanes| lanes.iter().sum())).collect();
        Tables::from_counts(&sums)
    }

    #[inline(always)]
    pub fn write(self, tables: &Tables, bytes: &mut Vec<u8>) {
        let (shares, of_context) = tables.shares();
        let Self { symbols, plain, whole_rows, .. } = self;
        let mut writer = Writer { encoder: Encoder::new(), plain, shares, of_context };
        if whole_rows >= lanes::FEWEST {
            // Here it is known which lane's turn it is.
            for row in symbols.chunks_exact(whole_rows).rev() {
                writer.encoder.reserve(row.len());
                let (turns, rest) = row.as_chunks::<LANES>();
                for (lane, noted) in rest.iter().enumerate().rev() {
                    writer.symbol(lane, *noted);
                }
                for turn in turns.iter().rev() {
                    writer.symbol(3, turn[3]);
                    writer.symbol(2, turn[2]);
                    writer.symbol(1, turn[1]);
                    writer.symbol(0, turn[0]);
                }
            }
        } else {
            for noted in symbols.iter().rev() {
                writer.encoder.reserve(1);
                writer.symbol((noted >> 8) as usize % LANES, *noted);
            }
        }
        writer.encoder.finish(bytes);
    }
}

/// Writes symbols, the last one first.
struct Writer<'a> {
    encoder: Encoder,
    plain: Vec<(u64, u32)>,
    shares: Vec<[Share; SYMBOLS]>,
    of_context: &'a [u8],
}

impl Writer<'_> {
    #[inline(always)]
    fn symbol(&mut self, lane: usize, noted: u32) {
        let (context, symbol) = (noted >> 16, noted as u8);
        if symbols::has_bits(symbol)
            && let Some((rest, bits)) = self.plain.pop()
        {
            self.encoder.bits(lane, rest, bits);
        }
        let table = self.of_context[context as usize];
        self.encoder.symbol(lane, &self.shares[usize::from(table)][usize::from(symbol)]);
    }
}
