//! Numbers and names on the command line.

use crate::math::Dictionary;

/// A whole number from 1 to `MOST`.
pub(super) fn parse_count<const MOST: usize>(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=MOST).contains(&number) => Ok(number),
        _ => Err(format!("not a whole number from 1 to {MOST}")),
    }
}

/// How many atoms: none at all, too.
pub(super) fn parse_atoms(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(number) if number <= Dictionary::MOST_ATOMS => Ok(number),
        _ => Err(format!("not a whole number from 0 to {}", Dictionary::MOST_ATOMS)),
    }
}

/// A finite number greater than zero.
pub(super) fn parse_positive(text: &str) -> std::result::Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("not a number greater than zero".to_string()),
    }
}

/// A share: a number between zero and one.
pub(super) fn parse_share(text: &str) -> std::result::Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number < 1.0 => Ok(number),
        _ => Err("not a number between zero and one".to_string()),
    }
}

/// A finite number greater than one.
pub(super) fn parse_ratio(text: &str) -> std::result::Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number > 1.0 && number.is_finite() => Ok(number),
        _ => Err("not a number greater than one".to_string()),
    }
}
