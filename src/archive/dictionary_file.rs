//! `dictionary.parquet`: one row with the codebook and its description.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde::{Deserialize, Serialize};

use super::choose::{Target, Tried};
use super::codebook::Codebook;
use super::drift::Promise;
use super::layout::Layout;
use super::learn::LearnSettings;
use super::parquet_footer::rows_of;
use super::quantiser::Bound;
use super::{ArchiveError, FORMAT_VERSION, Result};
use crate::math::kernels;

pub(crate) const FILE_NAME: &str = "dictionary.parquet";

/// What is known about a codebook besides its atoms.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Description {
    pub version: u32,
    pub kernel: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, f64>,
    pub lambda: f64,
    pub layout: Layout,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<String>,
    /// The promise on the error of every value.
    pub bound: Bound,
    /// What values are rounded to, where that is tighter than the promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounding: Option<Bound>,
    /// Signals learned from; 0 for a dictionary that was given.
    pub learned_from: u64,
    /// Weights are multiples of so many of their units.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight_step: i16,
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub learn: LearnSettings,
    /// What learning promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// Why tables are stored as they were, where a dictionary does not pay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// What was compared to choose the parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<Tried>,
}

fn one() -> i16 {
    1
}

fn is_one(step: &i16) -> bool {
    *step == 1
}

fn is_default(learn: &LearnSettings) -> bool {
    *learn == LearnSettings::default()
}

/// The name of the dictionary's file of a generation: the first is `dictionary.parquet`.
pub(crate) fn file_name(generation: u32) -> String {
    if generation == 0 { FILE_NAME.to_string() } else { format!("dictionary-{generation}.parquet") }
}

/// Whether a file of an archive would be taken for one of its dictionaries.
pub(crate) fn is_file_name(name: &str) -> bool {
    let number = name.strip_prefix("dictionary-").and_then(|rest| rest.strip_suffix(".parquet"));
    name == FILE_NAME || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

impl Description {
    pub fn new(
        codebook: &Codebook,
        layout: Layout,
        series: Vec<String>,
        bound: Bound,
        learned_from: u64,
    ) -> Self {
        let kernel = codebook.kernel();
        let parameters = kernel.parameters().into_iter().map(|(name, value)| (name.to_string(), value));
        Self {
            version: FORMAT_VERSION,
            kernel: kernel.name().to_string(),
            parameters: parameters.collect(),
            lambda: codebook.lambda(),
            layout,
            series,
            bound,
            rounding: None,
            learned_from,
            weight_step: codebook.weight_step(),
            target: None,
            learn: LearnSettings::default(),
            promise: None,
            kept: None,
            search: Vec::new(),
        }
    }

    /// What values are rounded to.
    pub fn rounding(&self) -> Bound {
        self.rounding.unwrap_or(self.bound)
    }
}

pub(crate) fn write(codebook: &Codebook, description: &Description) -> Result<Vec<u8>> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("description", DataType::Utf8, false),
        Field::new("codebook", DataType::Binary, false),
    ]));
    let text = serde_json::to_string(description)?;
    let columns: Vec<Arc<dyn Array>> =
        vec![Arc::new(StringArray::from(vec![text])), Arc::new(BinaryArray::from(vec![codebook.bytes()]))];
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    let properties = WriterProperties::builder()
        .set_created_by("sparrow".to_string())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(9)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_enabled(false)
        .build();
    let mut bytes = Vec::new();
    // Text and bytes are found as such without the Arrow schema.
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(&mut bytes, schema, options)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(bytes)
}

pub(crate) fn read(bytes: Bytes) -> Result<(Codebook, Description)> {
    let wrong = || ArchiveError::corrupt("it is not an archive's dictionary");
    let mut reader = rows_of(bytes)?;
    let batch = reader.next().ok_or_else(wrong)??;
    let column = |name: &str| batch.column_by_name(name).ok_or_else(wrong);
    let text = column("description")?.as_string_opt::<i32>().ok_or_else(wrong)?;
    let content = column("codebook")?.as_binary_opt::<i32>().ok_or_else(wrong)?;
    if batch.num_rows() != 1 {
        return Err(wrong());
    }
    let description: Description = serde_json::from_str(text.value(0))?;
    if description.version > FORMAT_VERSION {
        return Err(ArchiveError::NewerVersion { found: description.version, known: FORMAT_VERSION });
    }
    let kernel = kernels::build(&description.kernel, &|name| description.parameters.get(name).copied())?;
    let codebook = Codebook::read(content.value(0), description.lambda, description.weight_step, kernel)?;
    Ok((codebook, description))
}
