//! `INSERT INTO` an archive: rows are collected in a temporary file, which then becomes a data file.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};
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
            let batch = RecordBatch::try_new(schema.clone(), batch?.columns().to_vec())?;
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
