//! Tables written to an object store: all are uploaded first, and appear when the last one is whole.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, ObjectStore, ObjectStoreExt, WriteMultipart};
use datafusion::parquet::arrow::ArrowWriter;
use futures::StreamExt;

use super::super::output::{ParquetOutput, in_parts, properties};
use super::super::stores::Stored;
use super::decompress::{Restored, decoded};
use super::object_job::check_not_inside;
use crate::archive::{Archive, FileEntry};

/// Writes an archive's tables, as one file or one for each of the archive's.
pub(super) async fn write(
    archive: &Archive,
    target: &Stored,
    shown: &str,
    one: bool,
    overwrite: bool,
) -> Result<Restored> {
    check_not_inside(target, shown).await?;
    let replaces = if one {
        is_there(target, shown).await?
    } else {
        are_tables_there(archive, target, shown, overwrite).await?
    };
    if replaces && !overwrite {
        bail!("{shown} exists already; choose another place or pass --overwrite");
    }
    let mut tables: Vec<Table> = Vec::new();
    let written = if one {
        upload_one(archive, target, &mut tables).await
    } else {
        upload_each(archive, target, &mut tables).await
    };
    let restored = match written.and_then(|restored| restored.check(replaces).map(|()| restored)) {
        Ok(restored) => restored,
        Err(error) => {
            for table in tables {
                table.abandon().await;
            }
            return Err(error);
        }
    };
    for table in tables {
        table.upload.finish().await.with_context(|| format!("cannot write {}", table.path))?;
    }
    Ok(restored)
}

async fn is_there(target: &Stored, shown: &str) -> Result<bool> {
    match target.store.head(&target.path).await {
        Ok(_) => Ok(true),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
    }
}

/// Whether there is anything below a prefix. It is replaced only where all of it is written again.
async fn are_tables_there(archive: &Archive, target: &Stored, shown: &str, overwrite: bool) -> Result<bool> {
    let names: HashSet<Path> =
        archive.files().iter().map(|entry| table_path(target, entry)).collect::<Result<_>>()?;
    let mut listing = target.store.list(Some(&target.path).filter(|path| !path.is_root()));
    let mut is_any = false;
    while let Some(found) = listing.next().await {
        let path = found.with_context(|| format!("cannot list {shown}"))?.location;
        if overwrite && !names.contains(&path) {
            bail!("{path} is not in the archive: {shown} is not overwritten");
        }
        is_any = true;
    }
    Ok(is_any)
}

fn table_path(target: &Stored, entry: &FileEntry) -> Result<Path> {
    Ok(Path::parse(format!("{}/{}", target.path, entry.path))?)
}

async fn upload_one(archive: &Archive, target: &Stored, tables: &mut Vec<Table>) -> Result<Restored> {
    let schema = archive.schema().await?;
    let mut restored = Restored::default();
    tables.push(Table::begin(&target.store, target.path.clone(), schema).await?);
    if let Some(table) = tables.last_mut() {
        for entry in archive.files() {
            restored.rows += table.add(archive, entry).await?;
            restored.files += 1;
        }
        table.end().await?;
    }
    Ok(restored)
}

async fn upload_each(archive: &Archive, target: &Stored, tables: &mut Vec<Table>) -> Result<Restored> {
    let mut restored = Restored::default();
    for entry in archive.files() {
        restored.add(entry, upload(archive, entry, target, tables).await)?;
    }
    Ok(restored)
}

async fn upload(
    archive: &Archive,
    entry: &FileEntry,
    target: &Stored,
    tables: &mut Vec<Table>,
) -> Result<u64> {
    let file = archive.data_file(entry).await.with_context(|| format!("cannot read {}", entry.path))?;
    let path = table_path(target, entry)?;
    let mut table = Table::begin(&target.store, path, file.schema.clone()).await?;
    let mut rows = table.add(archive, entry).await;
    if rows.is_ok()
        && let Err(error) = table.end().await
    {
        rows = Err(error);
    }
    match &rows {
        Ok(_) => tables.push(table),
        Err(_) => table.abandon().await,
    }
    rows
}

/// A Parquet file on its way into an object store.
struct Table {
    path: Path,
    schema: SchemaRef,
    writer: ArrowWriter<Vec<u8>>,
    upload: WriteMultipart,
}

impl Table {
    async fn begin(store: &Arc<dyn ObjectStore>, path: Path, schema: SchemaRef) -> Result<Self> {
        let properties = properties(&schema, ParquetOutput::FAST)?;
        let writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
        let upload = store.put_multipart(&path).await.with_context(|| format!("cannot write {path}"))?;
        Ok(Self { path, schema, writer, upload: WriteMultipart::new(upload) })
    }

    async fn add(&mut self, archive: &Archive, entry: &FileEntry) -> Result<u64> {
        let mut decoded = std::pin::pin!(decoded(archive, entry, &self.schema).await?);
        let mut rows = 0;
        while let Some(batch) = decoded.next().await {
            let batch: RecordBatch = batch?;
            rows += batch.num_rows() as u64;
            for some in in_parts(&batch) {
                self.writer.write(&some)?;
                self.send().await?;
            }
        }
        Ok(rows)
    }

    /// The store keeps the parts of uploads that nobody ends.
    async fn abandon(self) {
        let _ = self.upload.abort().await;
    }

    async fn end(&mut self) -> Result<()> {
        self.writer.finish()?;
        self.send().await
    }

    /// Hands over what the writer has written.
    async fn send(&mut self) -> Result<()> {
        const PARTS_IN_FLIGHT: usize = 4;
        self.writer.sync()?;
        let bytes = std::mem::take(self.writer.inner_mut());
        if !bytes.is_empty() {
            self.upload.wait_for_capacity(PARTS_IN_FLIGHT).await?;
            self.upload.put(bytes.into());
        }
        Ok(())
    }
}
