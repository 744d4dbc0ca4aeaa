//! Codes that were found before: tables repeat themselves, nights and weeks as well as sensors that stand still, and what
//! a signal's code is depends on nothing else.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use arrow::datatypes::ToByteSlice;
use twox_hash::XxHash3_64;

use super::placed::BLOCK_VALUES;
use super::sparse_codes::WholeCode;

/// Values of signals that are remembered at most: the first ones, as many as a block has.
const MOST_VALUES: usize = BLOCK_VALUES;

/// Signals and their codes, the same for all threads.
#[derive(Debug, Default)]
pub(super) struct KnownCodes(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    /// One after the other.
    signals: Vec<f64>,
    codes: Vec<WholeCode>,
    /// Their places, by what their values hash to.
    places: HashMap<u64, usize>,
}

impl KnownCodes {
    /// Calls `found` with the number and the code of each signal that is known; gives the numbers of the others.
    pub fn look_up(
        &self,
        signals: &[f64],
        dim: usize,
        mut found: impl FnMut(usize, &WholeCode),
    ) -> Vec<usize> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut others = Vec::new();
        for (number, signal) in signals.chunks_exact(dim).enumerate() {
            match known.code(signal) {
                Some(code) => found(number, code),
                None => others.push(number),
            }
        }
        others
    }

    /// Remembers the codes of signals, as long as there is room.
    pub fn add<'a>(&self, coded: impl Iterator<Item = (&'a [f64], &'a WholeCode)>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (signal, code) in coded {
            if known.signals.len() + signal.len() > MOST_VALUES {
                return;
            }
            known.add(signal, code);
        }
    }
}

impl Known {
    fn code(&self, signal: &[f64]) -> Option<&WholeCode> {
        let place = *self.places.get(&hash(signal))?;
        let known = &self.signals[place * signal.len()..][..signal.len()];
        (known.to_byte_slice() == signal.to_byte_slice()).then(|| &self.codes[place])
    }

    fn add(&mut self, signal: &[f64], code: &WholeCode) {
        let place = self.codes.len();
        // Of two that hash to the same, the first; another thread may have been faster with this one.
        if *self.places.entry(hash(signal)).or_insert(place) == place {
            self.signals.extend_from_slice(signal);
            self.codes.push(code.clone());
        }
    }
}

fn hash(signal: &[f64]) -> u64 {
    XxHash3_64::oneshot(signal.to_byte_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_all_of_their_bits_and_only_so_many() {
        let known = KnownCodes::default();
        let signals = [1.0, 0.0, 2.0, 3.0];
        let codes = [vec![(1, 2)], vec![(7, -1)]];
        known.add(signals.chunks_exact(2).zip(&codes));
        known.add(signals.chunks_exact(2).zip(&codes));
        let asked = [2.0, 3.0, 1.0, -0.0, 1.0, 0.0];
        let mut found = Vec::new();
        let others = known.look_up(&asked, 2, |number, code| found.push((number, code.clone())));
        assert_eq!(others, [1]);
        assert_eq!(found, [(0, codes[1].clone()), (2, codes[0].clone())]);

        let many: Vec<f64> = (0..MOST_VALUES + 10).map(|i| i as f64 + 0.5).collect();
        known.add(many.chunks_exact(2).zip(std::iter::repeat(&codes[0])));
        let others = known.look_up(&many, 2, |_, _| {});
        assert_eq!(others.len(), (signals.len() + many.len() - MOST_VALUES) / 2);
    }
}
