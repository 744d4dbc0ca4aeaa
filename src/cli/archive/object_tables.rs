//! Tables written to an object store: all are uploaded first, and appear when the last one is whole.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, ObjectStore, ObjectStoreExt, WriteMultipart};
use datafusion::parquet::arrow::ArrowWriter;
use futures::{StreamExt, TryStreamExt};

use super::super::output::{ParquetOutput, in_parts, properties};
use super::super::stores::Stored;
use super::decompress::decoded;
use crate::archive::{Archive, FileEntry};

/// Writes an archive's tables, as one file or one for each of the archive's; gives the number of rows.
pub(super) async fn write(
    archive: &Archive,
    target: &Stored,
    shown: &str,
    one: bool,
    overwrite: bool,
) -> Result<u64> {
    let old = if one { existing_file(target, shown).await? } else { existing_tables(target, shown).await? };
    if !old.is_empty() && !overwrite {
        bail!("{shown} exists already; choose another place or pass --overwrite");
    }
    let mut tables: Vec<Table> = Vec::new();
    let written = if one {
        upload_one(archive, target, &mut tables).await
    } else {
        upload_each(archive, target, &mut tables).await
    };
    let rows = match written {
        Ok(rows) => rows,
        Err(error) => {
            for table in tables {
                // The store keeps the parts of uploads that nobody ends.
                let _ = table.upload.abort().await;
            }
            return Err(error);
        }
    };
    let new: HashSet<Path> = tables.iter().map(|table| table.path.clone()).collect();
    for table in tables {
        table.upload.finish().await.with_context(|| format!("cannot write {}", table.path))?;
    }
    for path in old.iter().filter(|path| !new.contains(*path)) {
        target.store.delete(path).await.with_context(|| format!("cannot remove {path}"))?;
    }
    Ok(rows)
}

async fn existing_file(target: &Stored, shown: &str) -> Result<Vec<Path>> {
    match target.store.head(&target.path).await {
        Ok(_) => Ok(vec![target.path.clone()]),
        Err(object_store::Error::NotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
    }
}

/// The tables below a prefix. Where there is anything else, nothing is replaced.
async fn existing_tables(target: &Stored, shown: &str) -> Result<Vec<Path>> {
    let listing = target.store.list(Some(&target.path).filter(|path| !path.is_root()));
    let found: Vec<Path> = listing
        .map_ok(|object| object.location)
        .try_collect()
        .await
        .with_context(|| format!("cannot list {shown}"))?;
    if found.iter().any(|path| path.extension() != Some("parquet")) {
        bail!("{shown} holds more than Parquet tables; it is not overwritten");
    }
    Ok(found)
}

async fn upload_one(archive: &Archive, target: &Stored, tables: &mut Vec<Table>) -> Result<u64> {
    let schema = archive.schema().await?;
    tables.push(Table::begin(&target.store, target.path.clone(), schema).await?);
    let mut rows = 0;
    if let Some(table) = tables.last_mut() {
        for entry in archive.files() {
            rows += table.add(archive, entry).await?;
        }
        table.end().await?;
    }
    Ok(rows)
}

async fn upload_each(archive: &Archive, target: &Stored, tables: &mut Vec<Table>) -> Result<u64> {
    let mut rows = 0;
    for entry in archive.files() {
        let path = Path::parse(format!("{}/{}", target.path, entry.path))?;
        let schema = archive.data_file(entry).await?.schema;
        tables.push(Table::begin(&target.store, path, schema).await?);
        if let Some(table) = tables.last_mut() {
            rows += table.add(archive, entry).await?;
            table.end().await?;
        }
    }
    Ok(rows)
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
