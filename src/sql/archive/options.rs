//! The options of `CREATE EXTERNAL TABLE ... STORED AS SPARROW`: how rows that are inserted are coded.

use std::collections::HashMap;
use std::str::FromStr;

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::error::DataFusionError;

use crate::archive::{ArchiveError, Bound, Job, LayoutRequest, LearnSettings, Target};

const KNOWN: [&str; 16] = [
    "dictionary",
    "target_nmae",
    "target_ratio",
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
    let text = |name: &str| given.get(name).copied();
    let lossless = number(&given, "lossless")?.unwrap_or(false);
    let bound =
        Bound::from_options(number(&given, "max_error")?, number(&given, "max_relative_error")?, lossless);
    let window = number(&given, "window")?;
    let layout = LayoutRequest::from_options(text("column"), text("columns"), text("long"), window);
    let (bound, layout) = (bound.map_err(planning)?, layout.map_err(planning)?);
    let learn = LearnSettings {
        atoms: number(&given, "atoms")?,
        kernel: text("kernel").map(str::to_string),
        sigma: number(&given, "sigma")?,
        lambda: number(&given, "lambda")?,
        seed: number(&given, "seed")?.unwrap_or(0),
    };
    let target = Target::from_options(number(&given, "target_nmae")?, number(&given, "target_ratio")?);
    let target = target.map_err(planning)?;
    let threads = number(&given, "threads")?;
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    // Rows that are inserted are not those of an insert that was stopped.
    Ok(Job { layout, bound, target, learn, threads, resume: false, ..Job::default() })
}

fn number<T: FromStr>(given: &HashMap<&str, &str>, name: &str) -> Result<Option<T>> {
    let parse =
        |text: &&str| text.parse().map_err(|_| plan_datafusion_err!("option {name} cannot be '{text}'"));
    given.get(name).map(parse).transpose()
}

fn planning(error: ArchiveError) -> DataFusionError {
    plan_datafusion_err!("{error}")
}
