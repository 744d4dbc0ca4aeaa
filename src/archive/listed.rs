//! Names in a message.

/// Names that are told of many.
const SHOWN: usize = 8;

/// Names one after the other; of many the first, and how many more there are.
pub(crate) fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let shown = names.iter().take(if names.len() > SHOWN + 1 { SHOWN } else { names.len() });
    let told: Vec<&str> = shown.map(AsRef::as_ref).collect();
    match names.len() - told.len() {
        0 => told.join(", "),
        more => format!("{} and {} more", told.join(", "), grouped(more)),
    }
}

/// A count with a comma after each thousand.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_the_first_are_told() {
        let names: Vec<String> = (0..5000).map(|i| format!("s{i}")).collect();
        assert_eq!(listed(&names), "s0, s1, s2, s3, s4, s5, s6, s7 and 4,992 more");
        assert_eq!(listed(&names[..9]), "s0, s1, s2, s3, s4, s5, s6, s7, s8");
        assert_eq!(listed::<&str>(&[]), "");
        assert_eq!([999, 1000, 1_234_567].map(grouped), ["999", "1,000", "1,234,567"]);
    }
}
