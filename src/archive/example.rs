//! Some sensors as they were and as they would come back, with when that was: what is drawn.

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Float64Type, TimeUnit, TimestampMicrosecondType};
use arrow::util::display::array_value_to_string;

use super::Result;
use super::data_file_writer::Settings;
use super::detect::time_column;
use super::layout::{Layout, Table, column};
use super::placed::Placed;

/// Sensors that are shown, and signals of them.
const SENSORS: usize = 4;
const SIGNALS: usize = 600;

/// A sensor over some rows, as it was and as it comes back.
#[derive(Debug, Clone)]
pub struct Example {
    /// What the sensor is called: as SQL does where there is such a name.
    pub name: String,
    /// Where the values are along the axis.
    pub along: Vec<f64>,
    /// What the axis is.
    pub axis: String,
    /// The values; NaN where there is none.
    pub original: Vec<f64>,
    /// What comes back.
    pub decoded: Vec<f64>,
}

/// Some sensors of a block, evenly spread.
pub(super) fn examples(table: &Table, placed: &Placed, settings: &Settings) -> Result<Vec<Example>> {
    let width = placed.placement.sensors;
    let count = SENSORS.min(width);
    let (original, decoded) = placed.round_trip(table, settings, SIGNALS)?;
    let column = |values: &[f64], sensor: usize| -> Vec<f64> {
        values.chunks_exact(width.max(1)).map(|row| row[sensor]).collect()
    };
    let (along, axis) = along(table, placed, original.len() / width.max(1))?;
    let example = |i: usize| {
        let sensor = (2 * i + 1) * width / (2 * count);
        Example {
            name: name(table, sensor),
            along: along.clone(),
            axis: axis.clone(),
            original: column(&original, sensor),
            decoded: column(&decoded, sensor),
        }
    };
    Ok((0..count).map(example).collect())
}

fn name(table: &Table, sensor: usize) -> String {
    let named = |names: &[String]| names.get(sensor).cloned().unwrap_or_default();
    match &table.layout {
        Layout::List { column } => format!("{column}[{}]", sensor + 1),
        Layout::Wide { columns } => named(columns),
        Layout::Long { .. } => named(&table.series),
        Layout::Window { column, .. } => format!("{column}: value {} of each window", sensor + 1),
    }
}

/// When the first signals of a block were, and how that is counted; their numbers where nothing says it.
fn along(table: &Table, placed: &Placed, signals: usize) -> Result<(Vec<f64>, String)> {
    let numbers = || ((0..signals).map(|signal| signal as f64).collect(), "signal".to_string());
    let time = match &table.layout {
        Layout::Long { time, .. } => Some(column(&table.schema, time)?),
        _ => time_column(&table.schema).filter(|time| !table.values.contains(time)),
    };
    let Some(time) = time else { return Ok(numbers()) };
    let rows: UInt64Array = placed.placement.first_rows.iter().take(signals).map(|row| *row as u64).collect();
    let times = take(placed.rows.column(time), &rows, None)?;
    if times.data_type().is_temporal() {
        return Ok(since_the_first(&times).unwrap_or_else(numbers));
    }
    let Ok(values) = cast(&times, &DataType::Float64) else { return Ok(numbers()) };
    let values = values.as_primitive::<Float64Type>().iter().map(|value| value.unwrap_or(f64::NAN));
    Ok((values.collect(), table.schema.field(time).name().clone()))
}

/// Units of time in seconds, and from how many of them on the next one is taken.
const UNITS: [(&str, f64, f64); 4] = [
    ("seconds", 1.0, 180.0),
    ("minutes", 60.0, 180.0),
    ("hours", 3600.0, 96.0),
    ("days", 86_400.0, f64::MAX),
];

/// `None` for what is a duration or a time of day.
fn since_the_first(times: &ArrayRef) -> Option<(Vec<f64>, String)> {
    let micros = cast(times, &DataType::Timestamp(TimeUnit::Microsecond, None)).ok()?;
    let micros = micros.as_primitive::<TimestampMicrosecondType>();
    let first = (0..micros.len()).find(|row| micros.is_valid(*row))?;
    let start = micros.value(first) as f64;
    let seconds: Vec<f64> =
        micros.iter().map(|time| time.map_or(f64::NAN, |time| (time as f64 - start) / 1e6)).collect();
    let span = seconds.iter().fold(0.0, |span: f64, second| span.max(second.abs()));
    let (unit, size, _) = UNITS.iter().find(|(_, size, most)| span <= size * most)?;
    let along = seconds.into_iter().map(|second| second / size).collect();
    Some((along, format!("{unit} since {}", array_value_to_string(times, first).ok()?)))
}
