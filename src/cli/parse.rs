//! Numbers on the command line.

/// A whole number from 1 to `MOST`.
pub(super) fn parse_count<const MOST: usize>(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=MOST).contains(&number) => Ok(number),
        _ => Err(format!("not a whole number from 1 to {MOST}")),
    }
}
