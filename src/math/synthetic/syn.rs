//! Paper 1's SynN: `y = P s~` with a random map per group and all monomials of degree at most 3 in
//! three uniform variables (A.5.1).

use super::random::Random;
use crate::math::signals::add_scaled;

const MONOMIALS: usize = 20;

/// `signals` vectors of length `dim`, one after the other; signal `i` belongs to group `i % groups`.
pub fn syn(dim: usize, signals: usize, groups: usize, seed: u64) -> Vec<f64> {
    // No more maps than there are signals to use them.
    let groups = groups.clamp(1, signals.max(1));
    let maps: Vec<Vec<f64>> = (0..groups)
        .map(|group| {
            let mut random = Random::new(seed, 1 + group as u64);
            (0..MONOMIALS * dim).map(|_| random.normal()).collect()
        })
        .collect();
    let mut random = Random::new(seed, 0);
    let mut values = vec![0.0; signals * dim];
    if dim == 0 {
        return values;
    }
    for (i, signal) in values.chunks_exact_mut(dim).enumerate() {
        let point = [(); 3].map(|()| random.uniform(-1.0, 1.0));
        for (monomial, column) in monomials(point).iter().zip(maps[i % groups].chunks_exact(dim)) {
            add_scaled(signal, *monomial, column);
        }
    }
    values
}

fn monomials([a, b, c]: [f64; 3]) -> [f64; MONOMIALS] {
    [
        1.0,
        a,
        b,
        c,
        a * a,
        a * b,
        a * c,
        b * b,
        b * c,
        c * c,
        a * a * a,
        a * a * b,
        a * a * c,
        a * b * c,
        b * b * b,
        b * b * a,
        b * b * c,
        c * c * c,
        c * c * a,
        c * c * b,
    ]
}
