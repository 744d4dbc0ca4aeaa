//! Finding out how a table holds its signals, from its columns and some of its rows.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use arrow::row::{RowConverter, SortField};

use super::layout::{Layout, item_type, told_of_other_numbers};
use super::number::Number;
use super::{ArchiveError, Result};

/// Names that say that a number is a time.
const TIME_NAMES: [&str; 9] = ["t", "ts", "time", "timestamp", "date", "datetime", "hour", "step", "index"];
/// Windows where no period is seen.
const USUAL_WINDOW: usize = 64;
const WINDOWS: std::ops::Range<usize> = 8..2048;
/// Values whose period is looked for.
const PERIOD_VALUES: usize = 8192;
/// Samples of a day, a week or an hour at usual rates: a period that is hardly different was meant to be one of them.
const NATURAL: [usize; 11] = [24, 48, 60, 96, 144, 168, 288, 336, 672, 720, 1440];
/// A series repeats itself if values a period apart are at least so much alike.
const PERIODIC: f64 = 0.3;

/// The likely layout of a table of so many rows that begins with these.
pub(super) fn detect(rows: &RecordBatch, total_rows: u64) -> Result<Layout> {
    let schema = rows.schema();
    let name = |column: usize| schema.field(column).name().clone();
    let is_list = |column: &usize| {
        item_type(schema.field(*column).data_type()).is_some_and(|item| Number::of(item).is_some())
    };
    let all = 0..schema.fields().len();
    if let Some(column) = all.clone().filter(is_list).max_by_key(|column| {
        // Of several, the first with the longest lists.
        let lists = crate::columnar::Lists::new(rows.column(*column).as_ref());
        let longest =
            lists.map_or(0, |lists| lists.ranges.iter().map(|range| range.len()).max().unwrap_or(0));
        (longest, std::cmp::Reverse(*column))
    }) {
        return Ok(Layout::List { column: name(column) });
    }
    let is_number = |column: &usize| Number::of(schema.field(*column).data_type()).is_some();
    let is_float =
        |column: &usize| matches!(schema.field(*column).data_type(), DataType::Float32 | DataType::Float64);
    let time = time_column(&schema);
    let other = |column: &usize| Some(*column) != time;
    let mut values: Vec<usize> = all.clone().filter(is_float).filter(other).collect();
    let repeats =
        |column: &usize| distinct(&[rows.column(*column)]).is_ok_and(|count| 2 * count <= rows.num_rows());
    if values.is_empty() {
        // Integers may be values, unless they number something.
        values = all
            .clone()
            .filter(is_number)
            .filter(other)
            .filter(|column| !is_identifier(&name(*column)))
            .collect();
    }
    let text = |column: &usize| {
        let data_type = schema.field(*column).data_type();
        data_type.is_string() || matches!(data_type, DataType::Dictionary(..))
    };
    match values[..] {
        [] => Err(ArchiveError::layout(told_of_other_numbers(&schema).unwrap_or_else(|| {
            "no column of lists of numbers and none of numbers: there is nothing to compress".to_string()
        }))),
        [value] => {
            let key = |column: &usize| *column != value && other(column) && repeats(column);
            let series = all.clone().filter(key).find(text);
            let series = series.or_else(|| all.clone().filter(key).find(is_number)).map(name);
            match (time, series) {
                (Some(time), Some(series)) if repeats(&time) => {
                    Ok(Layout::Long { time: name(time), series, value: name(value) })
                }
                (_, series) => {
                    let length = in_enough_windows(period(rows.column(value))?, total_rows);
                    let interleaved = series.is_some();
                    Ok(Layout::Window { column: name(value), series, length, interleaved })
                }
            }
        }
        [first, ..] => {
            // Several readings of each device at each time: the first is coded, the others are kept as they are.
            let series = all.clone().filter(repeats).find(text);
            let many =
                |series: usize| distinct(&[rows.column(series)]).is_ok_and(|count| count > values.len());
            let is_key = |time: usize, series: usize| {
                let columns = [rows.column(time), rows.column(series)];
                distinct(&columns).is_ok_and(|count| count == rows.num_rows())
            };
            match (time.filter(repeats), series) {
                (Some(time), Some(series)) if many(series) && is_key(time, series) => {
                    Ok(Layout::Long { time: name(time), series: name(series), value: name(first) })
                }
                _ => Ok(Layout::Wide { columns: values.into_iter().map(name).collect() }),
            }
        }
    }
}

/// The column that says when a row was: the first with times, or a number that is called so.
pub(super) fn time_column(schema: &Schema) -> Option<usize> {
    let is_temporal = |field: &Arc<Field>| field.data_type().is_temporal();
    let is_named = |field: &Arc<Field>| {
        Number::of(field.data_type()).is_some() && TIME_NAMES.contains(&field.name().to_lowercase().as_str())
    };
    let mut fields = schema.fields().iter();
    fields.clone().position(is_temporal).or_else(|| fields.position(is_named))
}

/// Whether rows are in no order of a column: in that of neighbours hardly any goes back.
pub(super) fn is_shuffled(column: &ArrayRef) -> Result<bool> {
    const OFTEN: usize = 8;
    let converter = RowConverter::new(vec![SortField::new(column.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(column))?;
    let back = (1..rows.num_rows()).filter(|row| rows.row(*row) < rows.row(row - 1)).count();
    Ok(OFTEN * back > rows.num_rows())
}

fn is_identifier(name: &str) -> bool {
    let name = name.to_lowercase();
    name == "id" || name.ends_with("_id")
}

/// How many different values columns have, side by side.
fn distinct(columns: &[&ArrayRef]) -> Result<usize> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let columns: Vec<ArrayRef> = columns.iter().map(|column| (*column).clone()).collect();
    let rows = RowConverter::new(fields)?.convert_columns(&columns)?;
    Ok(rows.iter().map(|row| row.data()).collect::<HashSet<_>>().len())
}

/// After how many values a series is most like itself.
fn period(column: &ArrayRef) -> Result<usize> {
    let numbers = cast(&column.slice(0, column.len().min(PERIOD_VALUES)), &DataType::Float64)?;
    let values: Vec<f64> =
        numbers.as_primitive::<Float64Type>().iter().flatten().filter(|v| v.is_finite()).collect();
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let values: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let power: f64 = values.iter().map(|value| value * value).sum();
    let last = WINDOWS.end.min(values.len() / 3);
    if !power.is_normal() || last <= WINDOWS.start + 1 {
        return Ok(USUAL_WINDOW.min(column.len()).max(1));
    }
    let alike: Vec<f64> = (0..=last)
        .map(|lag| {
            let products: f64 = values.iter().zip(&values[lag..]).map(|(a, b)| a * b).sum();
            products / power * values.len() as f64 / (values.len() - lag) as f64
        })
        .collect();
    let peaks: Vec<usize> = (WINDOWS.start..last)
        .filter(|lag| {
            alike[*lag] > PERIODIC && alike[*lag] >= alike[lag - 1] && alike[*lag] >= alike[lag + 1]
        })
        .collect();
    let highest = peaks.iter().map(|lag| alike[*lag]).fold(0.0, f64::max);
    // Multiples of a period are periods, too.
    let Some(found) = peaks.into_iter().find(|lag| alike[*lag] >= 0.95 * highest) else {
        return Ok(USUAL_WINDOW.min(column.len()).max(1));
    };
    // After some periods the difference counts as often.
    let times = last / found;
    let as_good = |natural: &usize| {
        let then = alike.get(times * natural).or_else(|| alike.get(*natural));
        then.is_some_and(|then| *then >= 0.98 * alike[times * found])
            && natural.abs_diff(found) <= 1 + found / 100
    };
    Ok(NATURAL.into_iter().find(as_good).unwrap_or(found))
}

/// A half, a quarter or less of a period where there are too few whole ones to learn from.
fn in_enough_windows(period: usize, rows: u64) -> usize {
    const ENOUGH: u64 = 128;
    const SHORTEST: usize = 16;
    let halves = std::iter::successors(Some(period), |length| {
        (length % 2 == 0 && length / 2 >= SHORTEST).then_some(length / 2)
    });
    halves.into_iter().find(|length| rows / *length as u64 >= ENOUGH).unwrap_or(period)
}

/// The arguments of `sparrow compress` that say so.
pub(super) fn arguments(layout: &Layout, names: &[&str]) -> Vec<String> {
    let pair = |flag: &str, value: String| vec![flag.to_string(), value];
    match layout {
        Layout::List { column } => pair("--column", column.clone()),
        Layout::Wide { columns } => pair("--columns", pattern(columns, names)),
        Layout::Long { time, series, value } => pair("--long", format!("{time},{series},{value}")),
        Layout::Window { column, series: None, length, .. } => {
            [pair("--column", column.clone()), pair("--window", length.to_string())].concat()
        }
        Layout::Window { column, series: Some(series), length, .. } => {
            // The time is not looked at.
            let time = names
                .iter()
                .find(|name| *name != column && *name != series)
                .unwrap_or(&series.as_str())
                .to_string();
            [pair("--long", format!("{time},{series},{column}")), pair("--window", length.to_string())]
                .concat()
        }
    }
}

/// `prefix*` where that means these columns and no others, else their names.
fn pattern(columns: &[String], names: &[&str]) -> String {
    let shared = columns.iter().skip(1).fold(columns.first().map_or("", String::as_str), |shared, name| {
        let same = shared.char_indices().zip(name.chars()).take_while(|((_, a), b)| a == b);
        same.last().map_or("", |((i, a), _)| &shared[..i + a.len_utf8()])
    });
    let shared = shared.trim_end_matches(|c: char| c.is_ascii_digit());
    let matching = names.iter().filter(|name| name.starts_with(shared)).count();
    if matching == columns.len() && !shared.contains('*') { format!("{shared}*") } else { columns.join(",") }
}
