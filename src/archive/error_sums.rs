//! Errors of decoded values: `NMAE = sum |v - u| / sum |v|`, `NRMSE = sqrt(sum (v - u)^2 / sum v^2)`.

/// To so many digits: what is recorded should be readable. JSON has no infinities.
pub(crate) fn rounded(value: f64, digits: usize) -> f64 {
    let value = value.min(f64::MAX);
    let text = format!("{value:.0$e}", digits.saturating_sub(1));
    text.parse().ok().filter(|rounded: &f64| rounded.is_finite()).unwrap_or(value)
}

/// Sums that errors are computed from.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ErrorSums {
    pub values: u64,
    pub max: f64,
    pub absolute: f64,
    pub square: f64,
    pub value_absolute: f64,
    pub value_square: f64,
}

impl ErrorSums {
    /// Sums that have overflowed end at the largest number: JSON has no infinities.
    fn limited(self) -> Self {
        let Self { values, .. } = self;
        let [max, absolute, square, value_absolute, value_square] =
            [self.max, self.absolute, self.square, self.value_absolute, self.value_square]
                .map(|sum| sum.min(f64::MAX));
        Self { values, max, absolute, square, value_absolute, value_square }
    }

    /// As they are recorded: digits that nobody needs take space in every file. The largest error is what it is.
    pub fn recorded(self) -> Self {
        const DIGITS: usize = 9;
        let [absolute, square, value_absolute, value_square] =
            [self.absolute, self.square, self.value_absolute, self.value_square]
                .map(|sum| rounded(sum, DIGITS));
        Self { absolute, square, value_absolute, value_square, ..self }
    }

    pub fn merge(&mut self, other: &Self) {
        self.values += other.values;
        self.max = self.max.max(other.max);
        self.absolute += other.absolute;
        self.square += other.square;
        self.value_absolute += other.value_absolute;
        self.value_square += other.value_square;
        *self = self.limited();
    }

    pub fn nmae(&self) -> f64 {
        if self.absolute == 0.0 { 0.0 } else { (self.absolute / self.value_absolute).min(f64::MAX) }
    }

    pub fn nrmse(&self) -> f64 {
        if self.square == 0.0 { 0.0 } else { (self.square / self.value_square).sqrt().min(f64::MAX) }
    }
}

/// Sums that a processor does at once.
pub(super) const LANES: usize = 8;

/// The sum of all lanes, always in the same order.
pub(super) fn sum(lanes: &[f64; LANES]) -> f64 {
    lanes.iter().sum()
}

/// The same sums while values are added, some at a time and always in the same order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ErrorLanes {
    values: u64,
    max: [f64; LANES],
    absolute: [f64; LANES],
    square: [f64; LANES],
    value_absolute: [f64; LANES],
    value_square: [f64; LANES],
}

impl ErrorLanes {
    /// Adds values that are finite, as are the decoded ones.
    #[inline(always)]
    pub fn add_all(&mut self, values: &[f64], decoded: &[f64]) {
        self.values += values.len() as u64;
        let (values, rest) = values.as_chunks::<LANES>();
        let (decoded, rest_decoded) = decoded.as_chunks::<LANES>();
        for (values, decoded) in values.iter().zip(decoded) {
            for lane in 0..LANES {
                self.add_to(lane, values[lane], (values[lane] - decoded[lane]).abs());
            }
        }
        for (value, decoded) in rest.iter().zip(rest_decoded) {
            self.add_to(0, *value, (value - decoded).abs());
        }
    }

    /// Adds one value and how far off it comes back, if both are numbers.
    #[inline(always)]
    pub fn add(&mut self, value: f64, difference: f64) {
        if value.is_finite() && !difference.is_nan() {
            self.values += 1;
            self.add_to(0, value, difference);
        }
    }

    #[inline(always)]
    fn add_to(&mut self, lane: usize, value: f64, difference: f64) {
        self.max[lane] = if difference > self.max[lane] { difference } else { self.max[lane] };
        self.absolute[lane] += difference;
        self.square[lane] += difference * difference;
        self.value_absolute[lane] += value.abs();
        self.value_square[lane] += value * value;
    }

    pub fn sums(&self) -> ErrorSums {
        ErrorSums {
            values: self.values,
            max: self.max.iter().copied().fold(0.0, f64::max),
            absolute: sum(&self.absolute),
            square: sum(&self.square),
            value_absolute: sum(&self.value_absolute),
            value_square: sum(&self.value_square),
        }
    }
}
