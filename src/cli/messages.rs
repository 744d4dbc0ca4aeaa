//! What is said on the standard error, and how texts that come from files reach a terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;

/// Prints a line. Whoever reads it may have stopped reading, which is no reason to fail.
pub(super) fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{}", on_one_line(&line.to_string()));
}

/// Prints a text that may have several lines.
pub(super) fn tell_lines(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{}", printable(&text.to_string()));
}

/// A text that does nothing to a terminal but be read: names of columns and files may hold anything. In JSON it means the same.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// The same without line breaks.
pub(super) fn on_one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

fn escaped(text: &str, is_plain: impl Fn(char) -> bool) -> Cow<'_, str> {
    let acts = |c: char| (c.is_control() || turns_text(c)) && !is_plain(c);
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if !acts(c) => out.push(c),
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            c => out += &format!("\\u{:04x}", u32::from(c)),
        }
    }
    Cow::Owned(out)
}

/// Line breaks of Unicode, and what makes text run the other way.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A share of the values as users read it.
pub(super) fn percent(share: f64) -> String {
    /// More than this says no more than that: of zeros any share is infinite.
    const MANY: f64 = 100.0;
    if share > MANY { "many times the size".to_string() } else { format!("{:.2} %", 100.0 * share) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_a_terminal_that_acts_on_it() {
        let name = "a\u{1b}[2J\u{9b}1m\rb\n\u{202e}c\u{7f}";
        assert_eq!(on_one_line(name), "a\\u001b[2J\\u009b1m\\rb\\n\\u202ec\\u007f");
        assert_eq!(printable("one\n\ttwo\u{7}"), "one\n\ttwo\\u0007");
        assert!(matches!(on_one_line("naïve 温度"), Cow::Borrowed(_)));
        let json = serde_json::to_string(name).expect("JSON");
        assert_eq!(serde_json::from_str::<String>(&printable(&json)).expect("JSON"), name);
    }
}
