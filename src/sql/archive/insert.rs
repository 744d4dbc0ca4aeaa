//! `INSERT INTO` an archive: rows become a data file.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;

use super::external;
use super::table::Place;
use crate::archive::{Input, Job, compress};

/// Collects rows in a temporary file, and then compresses it into the archive.
#[derive(Debug)]
pub(super) struct ArchiveSink {
    place: Arc<Place>,
    job: Job,
    schema: SchemaRef,
}

impl ArchiveSink {
    pub fn new(place: Arc<Place>, job: Job, schema: SchemaRef) -> Self {
        Self { place, job, schema }
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
        &self.schema
    }

    async fn write_all(&self, mut rows: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let disk = &context.runtime_env().disk_manager;
        let file = disk.create_tmp_file("rows for an archive")?;
        let Some(path) = file.path() else {
            return exec_err!("the session has no folder for temporary files, which inserting needs");
        };
        let mut writer = ArrowWriter::try_new(std::fs::File::create(path)?, self.schema.clone(), None)?;
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            count += batch.num_rows() as u64;
            let batch = datafusion::arrow::array::RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec())?;
            writer.write(&batch)?;
        }
        writer.close()?;
        if count == 0 {
            return Ok(0);
        }
        let path = Path::from_absolute_path(path)?;
        let opened = self.place.opened()?;
        let number = opened.as_ref().map_or(0, |opened| opened.archive.files().len());
        let input = Input { store: Arc::new(LocalFileSystem::new()), path, name: format!("insert-{number:06}.parquet") };
        let inputs = std::slice::from_ref(&input);
        let report = match &opened {
            Some(opened) => opened.archive.append(inputs, self.job.threads, &()).await,
            None => compress(inputs, &self.place.store, &self.place.folder, &self.job, &()).await,
        };
        let report = report.map_err(external)?;
        match report.failed.first() {
            Some((_, error)) => Err(exec_datafusion_err!("the rows could not be compressed: {error}")),
            None => {
                self.place.refresh().await?;
                Ok(count)
            }
        }
    }
}
