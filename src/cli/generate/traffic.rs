//! `sparrow generate traffic`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampMillisecondArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;

use crate::cli::WrongUsage;
use crate::cli::output::ParquetOutput;
use crate::cli::parse::parse_count;
use crate::columnar::{to_vector_array, vector_type};
use crate::math::synthetic::{INTERVAL_MINUTES, Incident, Traffic, TrafficOptions, traffic};

/// 2024-01-01, a Monday, in milliseconds.
const FIRST_DAY: i64 = 1_704_067_200_000;
const INTERVAL: i64 = INTERVAL_MINUTES as i64 * 60_000;
/// Values written at a time, about.
const VALUES_AT_A_TIME: usize = 1 << 20;

/// How the speeds are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// time, v: one list over all sensors per interval
    List,
    /// time and a column per sensor: s000, s001, ...
    Wide,
    /// time, sensor, value: one row per sensor and interval
    Long,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TrafficArguments {
    /// Number of sensors
    #[arg(long, default_value = "200", value_parser = parse_count::<100_000>)]
    sensors: usize,
    /// Number of days, the first a Monday
    #[arg(long, default_value = "7", value_parser = parse_count::<36_500>)]
    days: usize,
    /// The same seed gives the same data
    #[arg(long, default_value = "0")]
    seed: u64,
    /// The day, from 0, on which bottlenecks and speed limits change for good
    #[arg(long)]
    drift_day: Option<usize>,
    /// How the speeds are laid out
    #[arg(long, value_enum, default_value = "list")]
    layout: Layout,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Also write the planted incidents to this file
    #[arg(long, value_name = "FILE")]
    incidents: Option<PathBuf>,
}

pub(super) fn run(arguments: &TrafficArguments) -> Result<()> {
    let options = TrafficOptions {
        sensors: arguments.sensors,
        days: arguments.days,
        seed: arguments.seed,
        drift_day: arguments.drift_day,
        ..TrafficOptions::default()
    };
    if let Some(day) = arguments.drift_day.filter(|day| *day >= arguments.days) {
        let last = arguments.days.saturating_sub(1);
        return Err(WrongUsage(format!("--drift-day {day} is after the last day, {last}")).into());
    }
    let mut network = traffic(&options);
    let schema = schema(arguments.layout, arguments.sensors);
    let mut file = ParquetOutput::create(&arguments.output, Arc::clone(&schema))?;
    let mut first = 0;
    loop {
        let speeds = next_rows(&mut network, arguments.sensors);
        let rows = speeds.len() / arguments.sensors;
        if rows == 0 {
            break;
        }
        let times: Vec<i64> = (first..first + rows).map(time_of).collect();
        file.write(&batch(arguments.layout, &schema, &times, speeds, arguments.sensors)?)?;
        first += rows;
    }
    file.finish()?;
    match &arguments.incidents {
        Some(path) => {
            let incidents = incident_batch(network.incidents())?;
            let mut file = ParquetOutput::create(path, incidents.schema())?;
            file.write(&incidents)?;
            file.finish()
        }
        None => Ok(()),
    }
}

fn time_of(row: usize) -> i64 {
    FIRST_DAY + row as i64 * INTERVAL
}

/// The next rows of the network, one after the other.
fn next_rows(network: &mut Traffic, sensors: usize) -> Vec<f64> {
    let mut speeds = Vec::new();
    let mut row = vec![0.0; sensors];
    while speeds.len() < VALUES_AT_A_TIME && network.next_row(&mut row) {
        speeds.extend_from_slice(&row);
    }
    speeds
}

fn sensor_name(sensor: usize) -> String {
    format!("s{sensor:03}")
}

fn time_field(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Millisecond, None), false)
}

fn schema(layout: Layout, sensors: usize) -> SchemaRef {
    let mut fields = vec![time_field("time")];
    match layout {
        Layout::List => fields.push(Field::new("v", vector_type(), true)),
        Layout::Wide => {
            fields
                .extend((0..sensors).map(|sensor| Field::new(sensor_name(sensor), DataType::Float64, false)));
        }
        Layout::Long => {
            fields.push(Field::new("sensor", DataType::Utf8, false));
            fields.push(Field::new("value", DataType::Float64, false));
        }
    }
    Arc::new(Schema::new(fields))
}

fn batch(
    layout: Layout,
    schema: &SchemaRef,
    times: &[i64],
    speeds: Vec<f64>,
    sensors: usize,
) -> Result<RecordBatch> {
    let timestamps = |times: Vec<i64>| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(times)) };
    let columns = match layout {
        Layout::List => {
            vec![timestamps(times.to_vec()), to_vector_array(speeds, sensors, &vec![true; times.len()])?]
        }
        Layout::Wide => {
            let column = |sensor: usize| -> ArrayRef {
                Arc::new(Float64Array::from_iter_values(speeds.iter().skip(sensor).step_by(sensors).copied()))
            };
            std::iter::once(timestamps(times.to_vec())).chain((0..sensors).map(column)).collect()
        }
        Layout::Long => {
            let repeated = times.iter().flat_map(|time| std::iter::repeat_n(*time, sensors)).collect();
            let names: Vec<String> = (0..sensors).map(sensor_name).collect();
            let names = StringArray::from_iter_values((0..speeds.len()).map(|i| &names[i % sensors]));
            vec![timestamps(repeated), Arc::new(names), Arc::new(Float64Array::from(speeds))]
        }
    };
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn incident_batch(incidents: &[Incident]) -> Result<RecordBatch> {
    let times = |row: fn(&Incident) -> usize| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from_iter_values(incidents.iter().map(|i| time_of(row(i)))))
    };
    let sensors = StringArray::from_iter_values(incidents.iter().map(|i| sensor_name(i.sensor)));
    let positions = Int64Array::from_iter_values(incidents.iter().map(|i| i.sensor as i64));
    let severity = Float64Array::from_iter_values(incidents.iter().map(|i| i.severity));
    let reach = Int64Array::from_iter_values(incidents.iter().map(|i| i.reach as i64));
    Ok(RecordBatch::try_from_iter([
        ("sensor", Arc::new(sensors) as ArrayRef),
        ("position", Arc::new(positions)),
        ("start", times(|i| i.start)),
        ("end", times(|i| i.end)),
        ("severity", Arc::new(severity)),
        ("reach", Arc::new(reach)),
    ])?)
}
