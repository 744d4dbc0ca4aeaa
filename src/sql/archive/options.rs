//! The options of `CREATE EXTERNAL TABLE ... STORED AS SPARROW`: how rows that are inserted are coded.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::error::DataFusionError;

use super::external;
use crate::archive::{Archive, ArchiveError, Bound, Job, LayoutRequest, LearnSettings, Target};
use crate::math::Dictionary;

const KNOWN: [&str; 17] = [
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
    "expect_rows",
    "threads",
];

/// Where a dictionary is, if one is given.
pub(super) fn dictionary(options: &HashMap<String, String>) -> Option<&str> {
    options.get("format.dictionary").or_else(|| options.get("dictionary")).map(String::as_str)
}

/// What a table was created with.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The job that inserting into a new archive is.
    pub job: Job,
    /// Blocks that are coded at the same time; as many as the session has partitions if it is not said.
    pub threads: Option<usize>,
    /// The seed, if one was given: 0 is also what a job has otherwise.
    seed: Option<u64>,
}

impl Default for Asked {
    /// Nothing in particular.
    fn default() -> Self {
        // Rows that are inserted are not those of an insert that was stopped.
        Self { job: Job { resume: false, ..Job::default() }, threads: None, seed: None }
    }
}

impl Asked {
    /// The same with a dictionary, from which all that is learned otherwise follows.
    pub fn with_dictionary(mut self, dictionary: Dictionary) -> Result<Self> {
        let LearnSettings { atoms, kernel, sigma, .. } = &self.job.learn;
        let given = [
            ("atoms", atoms.is_some()),
            ("kernel", kernel.is_some()),
            ("sigma", sigma.is_some()),
            ("seed", self.seed.is_some()),
            ("a target", self.job.target.is_some()),
        ];
        if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
            return plan_err!("nothing is learned where a dictionary is given; leave {name} out");
        }
        self.job.dictionary = Some(dictionary);
        Ok(self)
    }

    /// Refuses an archive, whose files have these columns, that was made with other options: rows that are added are coded
    /// as its others are, and what was asked for would be ignored. What was chosen for it may be named.
    pub fn check(&self, archive: &Archive, columns: &SchemaRef) -> Result<()> {
        let (asked, bound) = (self.job.bound, archive.bound());
        if asked != Bound::None && asked != bound {
            return plan_err!("the archive promises {bound}, which the options cannot change to {asked}");
        }
        if let LayoutRequest::Given(_) | LayoutRequest::Columns(_) = &self.job.layout {
            let asked = self.job.layout.layout(columns).map_err(planning)?;
            if !asked.is_like(archive.layout()) {
                return plan_err!(
                    "the archive has the layout {}, which the options cannot change to {}",
                    text_of(archive.layout())?,
                    text_of(&asked)?
                );
            }
        }
        if let Some(asked) = self.job.target
            && archive.target() != Some(asked)
        {
            let made_for = match archive.target() {
                Some(target) => format!("for the target {}", text_of(&target)?),
                None => "without a target".to_string(),
            };
            return plan_err!(
                "the archive was made {made_for}, which the options cannot change to {}",
                text_of(&asked)?
            );
        }
        if let Some(dictionary) = &self.job.dictionary
            && !archive.is_made_with(dictionary).map_err(external)?
        {
            return plan_err!(
                "the archive was made with another dictionary, which the options cannot change"
            );
        }
        let (asked, told, codebook) = (&self.job.learn, archive.learn_settings(), archive.codebook());
        let kernel = codebook.kernel();
        let sigma =
            kernel.parameters().into_iter().find(|(name, _)| *name == "sigma").map(|(_, sigma)| sigma);
        let names = [told.kernel.as_deref(), Some(kernel.name())];
        is_one_of("atoms", asked.atoms, [told.atoms, Some(codebook.atoms())])?;
        is_one_of("kernel", asked.kernel.as_deref(), names)?;
        is_one_of("sigma", asked.sigma, [told.sigma, sigma])?;
        is_one_of("lambda", asked.lambda, [told.lambda, Some(codebook.lambda())])?;
        is_one_of("expect_rows", asked.expect_rows, [told.expect_rows, None])?;
        is_one_of("seed", self.seed, [Some(told.seed), None])
    }
}

/// Whether an option is not given, or what the archive was made with: what was asked for then, or what came of it.
fn is_one_of<T: PartialEq + Display>(name: &str, asked: Option<T>, made_with: [Option<T>; 2]) -> Result<()> {
    let mut made_with = made_with.into_iter().flatten().peekable();
    let was = made_with.peek().map(T::to_string).unwrap_or_default();
    match asked {
        Some(asked) if made_with.all(|made_with| made_with != asked) => {
            plan_err!("the archive was made with {name} {was}, which the options cannot change to {asked}")
        }
        _ => Ok(()),
    }
}

/// A layout or a target as reports show it.
fn text_of(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// What options ask for.
pub(super) fn parse(options: &HashMap<String, String>) -> Result<Asked> {
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
    let seed = number(&given, "seed")?;
    let learn = LearnSettings {
        atoms: number(&given, "atoms")?,
        kernel: text("kernel").map(str::to_string),
        sigma: number(&given, "sigma")?,
        lambda: number(&given, "lambda")?,
        seed: seed.unwrap_or(0),
        expect_rows: number(&given, "expect_rows")?,
    };
    learn.check().map_err(planning)?;
    let target = Target::from_options(number(&given, "target_nmae")?, number(&given, "target_ratio")?);
    let target = target.map_err(planning)?;
    if target.is_some() && bound != Bound::None {
        return plan_err!("a target and a bound cannot both be given");
    }
    let Asked { job, .. } = Asked::default();
    Ok(Asked { job: Job { layout, bound, target, learn, ..job }, threads: number(&given, "threads")?, seed })
}

fn number<T: FromStr>(given: &HashMap<&str, &str>, name: &str) -> Result<Option<T>> {
    let parse =
        |text: &&str| text.parse().map_err(|_| plan_datafusion_err!("option {name} cannot be '{text}'"));
    given.get(name).map(parse).transpose()
}

fn planning(error: ArchiveError) -> DataFusionError {
    plan_datafusion_err!("{error}")
}
