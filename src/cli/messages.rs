//! What is said on the standard error.

use std::fmt::Display;
use std::io::Write;

/// Prints a line. Whoever reads it may have stopped reading, which is no reason to fail.
pub(super) fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
