//! What is said on the standard error.

use std::fmt::Display;
use std::io::Write;

/// Prints a line. Whoever reads it may have stopped reading, which is no reason to fail.
pub(super) fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A share of the values as users read it.
pub(super) fn percent(share: f64) -> String {
    /// More than this says no more than that: of zeros any share is infinite.
    const MANY: f64 = 100.0;
    if share > MANY { "many times the size".to_string() } else { format!("{:.2} %", 100.0 * share) }
}
