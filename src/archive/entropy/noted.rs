//! Symbols that wait to be written: contexts cannot be merged before all of them are known.

use super::contexts::{CONTEXTS, Counts, Tables};
use super::known;
use super::lanes::Lanes;
use super::rans::{Encoder, LANES};
use super::symbols::{self, SYMBOLS};

/// What is to be written.
pub(super) struct Noted {
    /// Context, lane and symbol.
    symbols: Vec<u32>,
    plain: Vec<(u64, u32)>,
    /// By context, symbol and lane: what counts a symbol need not wait for what counted the one before. Lanes are side by
    /// side, since a processor also takes addresses for the same that are some times 4096 apart, as tables of their own
    /// would be.
    counts: Vec<[[u32; LANES]; SYMBOLS]>,
}

impl Noted {
    pub fn new(count: usize) -> Self {
        let counts = vec![[[0; LANES]; SYMBOLS]; CONTEXTS];
        Self { symbols: Vec::with_capacity(count), plain: Vec::new(), counts }
    }

    /// Notes one integer.
    #[inline(always)]
    pub fn note(&mut self, lane: usize, context: usize, residual: i64) {
        let symbol = self.count(lane, context as u32, residual);
        self.symbols.push(symbol);
    }

    /// Counts one integer, and gives what stands for it.
    #[inline(always)]
    fn count(&mut self, lane: usize, context: u32, residual: i64) -> u32 {
        let (symbol, bits, rest) = symbols::split(residual);
        if bits > 0 {
            self.plain.push((rest, bits));
        }
        self.counts[context as usize][usize::from(symbol)][lane] += 1;
        context << 16 | (lane as u32) << 8 | u32::from(symbol)
    }

    /// Notes a row of integers that are all there.
    #[inline(always)]
    pub fn note_row(&mut self, lanes: &Lanes, columns: usize, contexts: &[u32], residuals: &[i32]) {
        let done = self.symbols.len();
        self.symbols.resize(done + columns, 0);
        let mut symbols = std::mem::take(&mut self.symbols);
        let row = &mut symbols[done..];
        let mut next = 0;
        lanes.in_turns(
            #[inline(always)]
            |lane, column| {
                let i = column + lane * known::BEFORE;
                row[next] = self.count(lane, contexts[i], i64::from(residuals[i]));
                next += 1;
            },
        );
        self.symbols = symbols;
    }

    pub fn tables(&self) -> Tables {
        let sums: Counts =
            self.counts.iter().map(|symbols| symbols.map(|lanes| lanes.iter().sum())).collect();
        Tables::from_counts(&sums)
    }

    pub fn write(mut self, tables: &Tables, bytes: &mut Vec<u8>) {
        let (shares, of_context) = tables.shares();
        let mut encoder = Encoder::new(self.symbols.len());
        for noted in self.symbols.iter().rev() {
            let (context, lane, symbol) = (noted >> 16, (noted >> 8) as usize % LANES, *noted as u8);
            if symbols::has_bits(symbol)
                && let Some((rest, bits)) = self.plain.pop()
            {
                encoder.bits(lane, rest, bits);
            }
            encoder.symbol(lane, &shares[usize::from(of_context[context as usize])][usize::from(symbol)]);
        }
        encoder.finish(bytes);
    }
}
