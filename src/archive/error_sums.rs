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
    pub fn add(&mut self, value: f64, decoded: f64) {
        if value.is_finite() && decoded.is_finite() {
            let difference = (value - decoded).abs();
            self.values += 1;
            self.max = self.max.max(difference);
            self.absolute += difference;
            self.square += difference * difference;
            self.value_absolute += value.abs();
            self.value_square += value * value;
        }
    }

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
