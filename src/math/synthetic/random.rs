//! Random numbers from a seed, by a generator whose output is fixed for good.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

pub(super) struct Random(ChaCha8Rng);

impl Random {
    /// Streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    pub fn normal(&mut self) -> f64 {
        self.0.sample(StandardNormal)
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.random::<f64>()
    }

    /// One of `0..count`.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }
}
