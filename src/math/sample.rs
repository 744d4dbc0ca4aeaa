//! A bounded sample of vectors that depends on nothing but their content and a seed.
//!
//! Of all distinct vectors the `capacity` with the smallest hash of (seed, content) are kept, each
//! with the number of times it occurred. A vector that is kept in the end was kept from its first
//! occurrence on, in every partition, so the counts are exact; and merging samples of parts in any
//! order gives the sample of the whole.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::signals::{by_content, checked_square};
use super::{MathError, Result, Signals};

/// The order of kept vectors: by hash, and by content where hashes collide.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    hash: u64,
    values: Arc<[f64]>,
}

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.hash.cmp(&other.hash).then_with(|| by_content(&self.values, &other.values))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A sample of the vectors seen so far.
#[derive(Debug, Clone)]
pub struct Sample {
    capacity: usize,
    seed: u64,
    dim: Option<usize>,
    kept: BTreeMap<Key, u64>,
    seen: u64,
    skipped: u64,
    scratch: Vec<f64>,
    bytes: Vec<u8>,
}

impl Sample {
    /// Keeps at most `capacity` distinct vectors, at least one.
    pub fn new(capacity: usize, seed: u64) -> Self {
        Self {
            capacity: capacity.max(1),
            seed,
            dim: None,
            kept: BTreeMap::new(),
            seen: 0,
            skipped: 0,
            scratch: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Offers one vector. One that cannot be used (an element is not finite, or too large to be
    /// squared) is counted and left out; one of another length than the others is an error, which
    /// names `row`.
    pub fn offer(&mut self, row: usize, values: &[f64]) -> Result<()> {
        match checked_square(values, row) {
            Ok(_) => self.offer_counted(row, values, 1),
            Err(_) => {
                self.offer_unusable();
                Ok(())
            }
        }
    }

    /// Counts a vector that cannot be used, for example for NULL elements.
    pub fn offer_unusable(&mut self) {
        self.seen += 1;
        self.skipped += 1;
    }

    /// Offers a vector that occurred `count` times.
    fn offer_counted(&mut self, row: usize, values: &[f64], count: u64) -> Result<()> {
        self.check_length(row, values.len())?;
        self.seen += count;
        // -0.0 and 0.0 are one value; adding 0.0 makes them one content.
        self.scratch.clear();
        self.scratch.extend(values.iter().map(|v| v + 0.0));
        let hash = content_hash(self.seed, &self.scratch, &mut self.bytes);
        if self.kept.len() >= self.capacity
            && self.kept.last_key_value().is_some_and(|(last, _)| hash > last.hash)
        {
            return Ok(());
        }
        *self.kept.entry(Key { hash, values: self.scratch.as_slice().into() }).or_insert(0) += count;
        if self.kept.len() > self.capacity {
            self.kept.pop_last();
        }
        Ok(())
    }

    /// Remembers the length of the first vector and refuses others.
    fn check_length(&mut self, row: usize, found: usize) -> Result<()> {
        let expected = *self.dim.get_or_insert(found);
        if found == 0 {
            return Err(MathError::EmptyVector { row });
        }
        if found != expected {
            return Err(MathError::Length { row, expected, found });
        }
        Ok(())
    }

    /// Takes in the sample of another part: its vectors, one after the other, their counts, and how
    /// many vectors that part had seen and skipped.
    pub fn absorb(&mut self, values: &[f64], counts: &[u64], seen: u64, skipped: u64) -> Result<()> {
        let total_seen = self.seen + seen;
        if !counts.is_empty() {
            let vectors = values.chunks_exact(values.len() / counts.len());
            for (row, (vector, count)) in vectors.zip(counts).enumerate() {
                self.offer_counted(row, vector, *count)?;
            }
        }
        self.seen = total_seen;
        self.skipped += skipped;
        Ok(())
    }

    /// The kept vectors in the sample's own order.
    pub fn signals(&self) -> Result<Signals<'_>> {
        Signals::new(self.kept.keys().map(|key| &*key.values).collect())
    }

    /// How often each kept vector occurred, in the order of [`Sample::signals`].
    pub fn counts(&self) -> Vec<u64> {
        self.kept.values().copied().collect()
    }

    /// How many distinct vectors are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// True before the first usable vector.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Vectors offered.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Vectors left out for elements that are missing, not finite or too large.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The length of the vectors, once known.
    pub fn dim(&self) -> Option<usize> {
        self.dim
    }

    /// Bytes held.
    pub fn size(&self) -> usize {
        const NODE: usize = 64;
        self.kept.len() * (8 * self.dim.unwrap_or(0) + NODE)
    }
}

/// Of the bytes of all values at once: a hasher that is fed value by value takes several times as long.
fn content_hash(seed: u64, values: &[f64], bytes: &mut Vec<u8>) -> u64 {
    bytes.clear();
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_and_partitions_do_not_matter(
            mut vectors in prop::collection::vec(prop::collection::vec(-3i8..3, 2), 1..120),
            capacity in 1usize..20, parts in 1usize..6,
        ) {
            let offer = |sample: &mut Sample, vector: &Vec<i8>| {
                let values: Vec<f64> = vector.iter().map(|v| f64::from(*v)).collect();
                sample.offer(0, &values).expect("equal lengths");
            };
            let mut whole = Sample::new(capacity, 7);
            vectors.iter().for_each(|v| offer(&mut whole, v));
            vectors.reverse();
            let mut merged = Sample::new(capacity, 7);
            for part in vectors.chunks(vectors.len().div_ceil(parts)) {
                let mut sample = Sample::new(capacity, 7);
                part.iter().for_each(|v| offer(&mut sample, v));
                let flat: Vec<f64> = sample.signals().expect("kept").rows().concat();
                merged.absorb(&flat, &sample.counts(), sample.seen(), sample.skipped()).expect("equal lengths");
            }
            prop_assert_eq!(&whole.kept, &merged.kept);
            prop_assert_eq!(whole.seen(), merged.seen());
            prop_assert!(whole.len() <= capacity);
            for (key, count) in &whole.kept {
                let same = |v: &&Vec<i8>| v.iter().zip(key.values.iter()).all(|(a, b)| f64::from(*a) == *b);
                prop_assert_eq!(vectors.iter().filter(same).count() as u64, *count);
            }
        }
    }

    #[test]
    fn unusable_vectors_are_counted() {
        let mut sample = Sample::new(4, 0);
        sample.offer(0, &[f64::NAN]).expect("skipped");
        sample.offer(1, &[1.0, 2.0]).expect("kept");
        sample.offer(2, &[1e200, 2.0]).expect("skipped: its square overflows");
        assert_eq!((sample.len(), sample.seen(), sample.skipped()), (1, 3, 2));
        let error = sample.offer(3, &[1.0]).expect_err("another length");
        assert_eq!(error, MathError::Length { row: 3, expected: 2, found: 1 });
    }
}
