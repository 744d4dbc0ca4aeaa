//! `INSERT INTO` an archive: rows become a data file.

use std::fmt;
use std::hash::Hasher;
use std::io::Read;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;
use twox_hash::XxHash3_64;

use super::external;
use super::place::Place;
use crate::archive::{ArchiveError, Input, Job, compress};

/// Rows are held in memory until a row group has so many bytes.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// How often rows are coded again because others have changed the archive meanwhile.
const TRIES: usize = 100;

/// Collects rows in a temporary file, and then compresses it into the archive.
#[derive(Debug)]
pub(super) struct ArchiveSink {
    place: Arc<Place>,
}

impl ArchiveSink {
    pub fn new(place: Arc<Place>) -> Self {
        Self { place }
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
        let disk = &context.runtime_env().disk_manager;
        let file = disk.create_tmp_file("rows for an archive")?;
        let Some(path) = file.path() else {
            return exec_err!("the session has no folder for temporary files, which inserting needs");
        };
        let properties = WriterProperties::builder().set_max_row_group_bytes(Some(ROW_GROUP_BYTES)).build();
        let mut writer =
            ArrowWriter::try_new(std::fs::File::create(path)?, self.place.schema.clone(), Some(properties))?;
        let reservation = MemoryConsumer::new("ArchiveSink").register(context.memory_pool());
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            let batch = RecordBatch::try_new(self.place.schema.clone(), batch?.columns().to_vec())?;
            count += batch.num_rows() as u64;
            writer.write(&batch)?;
            reservation.try_resize(writer.memory_size())?;
        }
        writer.close()?;
        drop(reservation);
        if count == 0 {
            return Ok(0);
        }
        // One at a time: the next one must see what this one has added.
        let _guard = self.place.inserting.lock().await;
        let content = content_name(path)?;
        let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        let path = Path::from_absolute_path(path)?;
        let job = Job { threads: self.threads(context), ..self.place.asked.job.clone() };
        for _ in 0..TRIES {
            // What others have begun meanwhile must be what the table promises.
            let opened = self.place.current().await?;
            let number = opened.as_ref().map_or(0, |opened| opened.archive.files().len());
            let name = format!("insert-{number:06}-{content}.parquet");
            let input = Input { store: store.clone(), path: path.clone(), name };
            let inputs = std::slice::from_ref(&input);
            let report = match &opened {
                Some(opened) => opened.archive.append(inputs, &job, &()).await,
                None => compress(inputs, &self.place.store, &self.place.folder, &job, &()).await,
            };
            match report {
                // Another process has begun the archive, replaced it, or inserted the same rows.
                Err(ArchiveError::Exists(_) | ArchiveError::Taken(_) | ArchiveError::Replaced) => continue,
                Err(error) => return Err(external(error)),
                Ok(report) => {
                    if let Some((_, error)) = report.failed.first() {
                        return exec_err!("the rows could not be compressed: {error}");
                    }
                    // The rows are there, and must not be inserted again: whatever is wrong with reading them, the next
                    // query tells, which looks again anyway.
                    let _ = self.place.current().await;
                    return Ok(count);
                }
            }
        }
        exec_err!("others change the archive all the time, and nothing was inserted; try again")
    }
}

impl ArchiveSink {
    /// Blocks that are coded at the same time.
    fn threads(&self, context: &TaskContext) -> usize {
        let partitions = context.session_config().target_partitions();
        self.place.asked.threads.unwrap_or(partitions).max(1)
    }
}

/// What tells files of different content apart.
fn content_name(path: &std::path::Path) -> Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut hasher = XxHash3_64::new();
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(format!("{:016x}", hasher.finish())),
            count => hasher.write(&part[..count]),
        }
    }
}
