//! Reports for people: a line per figure, and lists of things as tables below. JSON has all digits.

use serde_json::{Map, Value};

use super::messages::on_one_line;
use crate::archive::listed;

/// Digits that are read.
const DIGITS: usize = 6;
/// What is longer is not lined up.
const WIDEST: usize = 80;

/// Named values as text.
pub(super) fn text<'a>(named: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let mut parts = Parts::default();
    named.for_each(|(name, value)| parts.add(name.to_string(), value));
    let width = parts.figures.iter().map(|(name, _)| name.chars().count().min(WIDEST)).max().unwrap_or(0);
    let figures = parts.figures.iter().map(|(name, value)| format!("{name:width$}  {value}\n"));
    let tables = parts.tables.iter().map(|(name, rows)| format!("\n{name}\n{}", table(rows)));
    figures.chain(tables).collect()
}

/// The parts of a thing, if it is there.
type Row<'a> = Option<&'a Map<String, Value>>;

#[derive(Default)]
struct Parts<'a> {
    figures: Vec<(String, String)>,
    tables: Vec<(String, Vec<Row<'a>>)>,
}

impl<'a> Parts<'a> {
    fn add(&mut self, name: String, value: &'a Value) {
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                inner.iter().for_each(|(part, value)| self.add(format!("{name}.{part}"), value))
            }
            // What is absent is a row of its own.
            Value::Array(items) if items.iter().any(Value::is_object) => {
                self.tables.push((name, items.iter().map(Value::as_object).collect()));
            }
            value => self.figures.push((name, cell(value))),
        }
    }
}

/// A value in one line.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_string(),
        Value::String(text) => on_one_line(text).into_owned(),
        Value::Number(number) if number.is_f64() => number.as_f64().map(readable).unwrap_or_default(),
        Value::Array(items) if items.is_empty() => "-".to_string(),
        Value::Object(inner) if inner.is_empty() => "-".to_string(),
        Value::Array(items) => listed(&items.iter().map(cell).collect::<Vec<_>>()),
        other => other.to_string(),
    }
}

fn readable(number: f64) -> String {
    let rounded = format!("{number:.0$e}", DIGITS - 1).parse().unwrap_or(number);
    // As JSON has it: tiny and huge ones with an exponent.
    Value::from(rounded).to_string()
}

/// Things that have the same parts: columns of text first, since they say what a row is about.
fn table(rows: &[Row<'_>]) -> String {
    let mut names: Vec<&String> = Vec::new();
    for name in rows.iter().flatten().flat_map(|row| row.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let is_text = |name: &str| rows.iter().flatten().any(|row| row.get(name).is_some_and(Value::is_string));
    names.sort_by_key(|name| !is_text(name));
    let columns: Vec<Vec<String>> = names
        .iter()
        .map(|name| {
            let cells =
                rows.iter().map(|row| row.and_then(|row| row.get(*name)).map_or("-".to_string(), cell));
            let column: Vec<String> = std::iter::once(name.to_string()).chain(cells).collect();
            let width = column.iter().map(|cell| cell.chars().count().min(WIDEST)).max().unwrap_or(0);
            let padded = column.into_iter().map(|cell| match is_text(name) {
                true => format!("{cell:width$}"),
                false => format!("{cell:>width$}"),
            });
            padded.collect()
        })
        .collect();
    let line = |row: usize| columns.iter().map(|column| column[row].as_str()).collect::<Vec<_>>().join("  ");
    (0..=rows.len()).map(|row| format!("  {}\n", line(row).trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_first_and_lists_of_things_are_tables() {
        let files = serde_json::json!([
            {"bytes": 10, "nmae": 0.123_456_789, "path": "a.parquet"},
            {"bytes": 1200, "nmae": null, "path": "long.parquet"},
        ]);
        let bound = serde_json::json!({"max_error": 0.5});
        let (failed, names, none) =
            (serde_json::json!([]), serde_json::json!(["a", "b"]), serde_json::json!({}));
        let promises = serde_json::json!([null, {"left": 1}]);
        let named = [
            ("files", &files),
            ("bound", &bound),
            ("failed", &failed),
            ("names", &names),
            ("none", &none),
            ("promises", &promises),
        ];
        let expected = "\
bound.max_error  0.5
failed           -
names            a, b
none             -

files
  path          bytes      nmae
  a.parquet        10  0.123457
  long.parquet   1200         -

promises
  left
     -
     1
";
        assert_eq!(text(named.into_iter()), expected);
    }

    #[test]
    fn numbers_of_any_size_are_short() {
        for (number, expected) in
            [(1e300, "1e+300"), (-0.0, "-0.0"), (1.0 / 3.0, "0.333333"), (2.5e-9, "2.5e-9")]
        {
            assert_eq!(readable(number), expected);
        }
    }
}
