//! The options of `CREATE EXTERNAL TABLE ... STORED AS SPARROW`: how rows that are inserted are coded.

use std::collections::HashMap;
use std::str::FromStr;

use datafusion::common::{Result, plan_datafusion_err, plan_err};

use super::external;
use crate::archive::{Bound, Job, Layout, LayoutRequest, LearnSettings};

const KNOWN: [&str; 14] = [
    "dictionary",
    "max_error",
    "max_relative_error",
    "lossless",
    "column",
    "columns",
    "long",
    "window",
    "atoms",
    "kernel",
    "sigma",
    "lambda",
    "seed",
    "threads",
];

/// Where a dictionary is, if one is given.
pub(super) fn dictionary(options: &HashMap<String, String>) -> Option<&str> {
    options.get("format.dictionary").or_else(|| options.get("dictionary")).map(String::as_str)
}

/// The job that inserting into a new archive is.
pub(super) fn parse(options: &HashMap<String, String>) -> Result<Job> {
    let mut given: HashMap<&str, &str> = HashMap::new();
    for (key, value) in options {
        // DataFusion takes options without a namespace to be the format's.
        let name = key.strip_prefix("format.").unwrap_or(key);
        let Some(known) = KNOWN.iter().find(|known| **known == name) else {
            return plan_err!("unknown option {name}; the options are {}", KNOWN.join(", "));
        };
        given.insert(known, value);
    }
    let text = |name: &str| given.get(name).map(ToString::to_string);
    let bounds: Vec<Bound> = [
        number(&given, "max_error")?.map(Bound::MaxError),
        number(&given, "max_relative_error")?.map(Bound::MaxRelativeError),
        number::<bool>(&given, "lossless")?.and_then(|lossless| lossless.then_some(Bound::Lossless)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let bound = match bounds[..] {
        [] => Bound::None,
        [bound] => bound.check().map_err(external)?,
        _ => return plan_err!("only one of max_error, max_relative_error and lossless can be given"),
    };
    let window: Option<usize> = number(&given, "window")?;
    let list = |names: String| names.split(',').map(|name| name.trim().to_string()).collect::<Vec<_>>();
    let layout = match (text("column"), text("columns"), text("long"), window) {
        (None, None, None, None) => LayoutRequest::Find,
        (Some(column), None, None, None) => LayoutRequest::Given(Layout::List { column }),
        (Some(column), None, None, Some(length)) => {
            LayoutRequest::Given(Layout::Window { column, series: None, length })
        }
        (None, Some(columns), None, None) => LayoutRequest::Columns(list(columns)),
        (None, None, Some(long), window) => match (<[String; 3]>::try_from(list(long)), window) {
            (Ok([_, series, column]), Some(length)) => {
                LayoutRequest::Given(Layout::Window { column, series: Some(series), length })
            }
            (Ok([time, series, value]), None) => LayoutRequest::Given(Layout::Long { time, series, value }),
            (Err(_), _) => return plan_err!("option long takes three columns: 'time,series,value'"),
        },
        _ => {
            return plan_err!(
                "only one of column, columns and long can be given, and window with column or long"
            );
        }
    };
    let learn = LearnSettings {
        atoms: number(&given, "atoms")?,
        kernel: text("kernel"),
        sigma: number(&given, "sigma")?,
        lambda: number(&given, "lambda")?,
        seed: number(&given, "seed")?.unwrap_or(0),
    };
    let threads = number(&given, "threads")?;
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    // Rows that are inserted are not those of an insert that was stopped.
    Ok(Job { layout, bound, dictionary: None, learn, threads, resume: false })
}

fn number<T: FromStr>(given: &HashMap<&str, &str>, name: &str) -> Result<Option<T>> {
    let parse =
        |text: &&str| text.parse().map_err(|_| plan_datafusion_err!("option {name} cannot be '{text}'"));
    given.get(name).map(parse).transpose()
}
