//! Integers as narrow as they can be: small ones take less memory, and a processor does more of them at once.

use super::integer::Integer;

/// A matrix of integers, row after row.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::archive) enum Integers {
    /// All are between `-SMALL` and `SMALL`, so that sums of some do not overflow.
    Small(Vec<i32>),
    Wide(Vec<i64>),
}

impl Integers {
    /// Magnitudes of small integers are below this.
    pub const SMALL: u64 = 1 << 26;

    pub fn zeros(count: usize) -> Self {
        Self::Small(vec![0; count])
    }

    /// None yet, with room for so many.
    pub fn with_capacity(count: usize) -> Self {
        Self::Small(Vec::with_capacity(count))
    }

    /// Adds so many zeros.
    pub fn extend_zeros(&mut self, count: usize) {
        match self {
            Self::Small(values) => values.resize(values.len() + count, 0),
            Self::Wide(values) => values.resize(values.len() + count, 0),
        }
    }

    /// Whether an integer is a small one.
    #[inline(always)]
    pub fn is_small(value: i64) -> bool {
        value.unsigned_abs() < Self::SMALL
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Small(values) => values.len(),
            Self::Wide(values) => values.len(),
        }
    }

    #[inline(always)]
    pub fn get(&self, place: usize) -> i64 {
        match self {
            Self::Small(values) => values[place].into(),
            Self::Wide(values) => values[place],
        }
    }

    pub fn set(&mut self, place: usize, value: i64) {
        if let (Self::Small(values), false) = (&*self, Self::is_small(value)) {
            *self = Self::Wide(values.iter().map(|value| value.wide()).collect());
        }
        match self {
            Self::Small(values) => values[place] = value as i32,
            Self::Wide(values) => values[place] = value,
        }
    }
}

impl FromIterator<i64> for Integers {
    fn from_iter<I: IntoIterator<Item = i64>>(values: I) -> Self {
        let wide: Vec<i64> = values.into_iter().collect();
        match wide.iter().all(|value| Self::is_small(*value)) {
            true => Self::Small(wide.iter().map(|value| *value as i32).collect()),
            false => Self::Wide(wide),
        }
    }
}
