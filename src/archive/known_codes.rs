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
/// Signals at most, however short they are.
const MOST_SIGNALS: usize = 1 << 16;

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
        let mut coded = coded.peekable();
        let Some((first, _)) = coded.peek() else { return };
        // Tables are mostly longer than what is remembered: threads need not wait for each other then.
        if !self.0.read().unwrap_or_else(PoisonError::into_inner).has_room_for(first) {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (signal, code) in coded {
            if !known.has_room_for(signal) {
                return;
            }
            known.add(signal, code);
        }
    }
}

impl Known {
    fn has_room_for(&self, signal: &[f64]) -> bool {
        self.signals.len() + signal.len() <= MOST_VALUES && self.codes.len() < MOST_SIGNALS
    }

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

        let remembered = |dim: usize| {
            let known = KnownCodes::default();
            let many: Vec<f64> = (0..MOST_VALUES + 100).map(|i| i as f64 + 0.5).collect();
            for part in many.chunks(100 * dim) {
                known.add(part.chunks_exact(dim).zip(std::iter::repeat(&codes[0])));
            }
            many.len() / dim - known.look_up(&many, dim, |_, _| {}).len()
        };
        assert_eq!(remembered(64), MOST_VALUES / 64);
        assert_eq!(remembered(1), MOST_SIGNALS);
    }
}
