//! `dictionary.parquet`: one row with the codebook and its description.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde::{Deserialize, Serialize};

use super::codebook::Codebook;
use super::layout::Layout;
use super::quantiser::Bound;
use super::{ArchiveError, FORMAT_VERSION, Result};
use crate::math::kernels;

pub(crate) const FILE_NAME: &str = "dictionary.parquet";

/// What is known about a codebook besides its atoms.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Description {
    pub version: u32,
    pub kernel: String,
    pub parameters: BTreeMap<String, f64>,
    pub lambda: f64,
    pub layout: Layout,
    pub series: Vec<String>,
    /// The promise on the error of every value.
    pub bound: Bound,
    /// Signals learned from; 0 for a dictionary that was given.
    pub learned_from: u64,
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
            learned_from,
        }
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
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(bytes)
}

pub(crate) fn read(bytes: Bytes) -> Result<(Codebook, Description)> {
    let wrong = || ArchiveError::corrupt("it is not an archive's dictionary");
    let mut reader = ParquetRecordBatchReaderBuilder::try_new(bytes)?.build()?;
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
    let codebook = Codebook::read(content.value(0), description.lambda, kernel)?;
    Ok((codebook, description))
}
