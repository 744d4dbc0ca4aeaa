//! `INSERT INTO` an archive: rows are collected in a temporary file, which then becomes a data file.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::metadata::RowGroupMetaData;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;

use super::insertion::Insertion;
use super::place::Place;

/// Rows are held in memory until a row group has so many bytes.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// Collects rows in a temporary file, and then compresses it into the archive.
#[derive(Debug)]
pub(super) struct ArchiveSink {
    place: Arc<Place>,
}

impl ArchiveSink {
    pub fn new(place: Arc<Place>) -> Self {
        Self { place }
    }

    /// Blocks that are coded at the same time.
    fn threads(&self, context: &TaskContext) -> usize {
        let partitions = context.session_config().target_partitions();
        self.place.asked.threads.unwrap_or(partitions).max(1)
    }
}

impl DisplayAs for ArchiveSink {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArchiveSink: location={}", self.place.folder)
    }
}

#[async_trait]
impl DataSink for ArchiveSink {
    fn schema(&self) -> &SchemaRef {
        &self.place.schema
    }

    async fn write_all(
        &self,
        mut rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let file = context.runtime_env().disk_manager.create_tmp_file("rows for an archive")?;
        if file.path().is_none() {
            return exec_err!("the session has no folder for temporary files, which inserting needs");
        }
        let schema = &self.place.schema;
        let properties = WriterProperties::builder().set_max_row_group_bytes(Some(ROW_GROUP_BYTES)).build();
        // What it writes counts towards the session's temporary files.
        let mut writer = ArrowWriter::try_new(file.open_writer()?, schema.clone(), Some(properties))?;
        let reservation = MemoryConsumer::new("ArchiveSink").register(context.memory_pool());
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            let batch = of_types(&batch?, schema)?;
            count += batch.num_rows() as u64;
            writer.write(&batch)?;
            reservation.try_resize(writer.memory_size())?;
        }
        let metadata = writer.finish()?;
        writer.inner_mut().finish()?;
        drop(writer);
        reservation.free();
        if count == 0 {
            return Ok(0);
        }
        let chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
        let values = chunks.map(|chunk| chunk.num_values().max(0) as usize).sum();
        let insertion = Insertion {
            place: self.place.clone(),
            file,
            values,
            threads: self.threads(context),
            reservation,
            // One at a time: the next one must see what this one has added.
            _turn: self.place.inserting.clone().lock_owned().await,
        };
        insertion.run().await?;
        Ok(count)
    }
}

/// Rows as a table has them. In SQL they come with its types, through the DataFrame API with any that can be cast.
fn of_types(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    // A value that cannot be cast is an error, and not NULL.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = |(column, field): (&ArrayRef, &FieldRef)| match column.data_type() == field.data_type() {
        true => Ok(column.clone()),
        false => cast_with_options(column, field.data_type(), &options)
            .map_err(|error| exec_datafusion_err!("column {}: {error}", field.name())),
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(cast).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
