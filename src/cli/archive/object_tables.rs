//! Tables written to an object store: all are uploaded first, and appear when the last one is whole.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, ObjectStore, ObjectStoreExt};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::schema::types::SchemaDescriptor;
use futures::StreamExt;

use super::super::output::{ParquetOutput, in_parts, writer_options};
use super::super::stores::Stored;
use super::decompress::{Restored, common_types, decoded};
use super::object_job::check_not_inside;
use super::upload::{Upload, Uploaded};
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
    let mut uploaded = Vec::new();
    let written = if one {
        upload_one(archive, target, &mut uploaded).await
    } else {
        upload_each(archive, target, &mut uploaded).await
    };
    match written.and_then(|restored| restored.check(replaces).map(|()| restored)) {
        Ok(restored) => {
            Uploaded::complete_all(uploaded).await?;
            Ok(restored)
        }
        Err(error) => {
            Uploaded::abandon_all(uploaded).await;
            Err(error)
        }
    }
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

pub(super) fn table_path(target: &Stored, entry: &FileEntry) -> Result<Path> {
    Ok(Path::parse(format!("{}/{}", target.path, entry.path))?)
}

async fn upload_one(archive: &Archive, target: &Stored, uploaded: &mut Vec<Uploaded>) -> Result<Restored> {
    let schema = archive.schema().await?;
    let types = common_types(archive, &schema).await?;
    let table = Table::begin(&target.store, target.path.clone(), schema, types).await?;
    let (table, rows) = table.filled(archive, archive.files()).await?;
    uploaded.push(table);
    Ok(Restored { files: archive.files().len(), rows, ..Restored::default() })
}

async fn upload_each(archive: &Archive, target: &Stored, uploaded: &mut Vec<Uploaded>) -> Result<Restored> {
    let mut restored = Restored::default();
    for entry in archive.files() {
        restored.add(entry, upload(archive, entry, target, uploaded).await)?;
    }
    Ok(restored)
}

async fn upload(
    archive: &Archive,
    entry: &FileEntry,
    target: &Stored,
    uploaded: &mut Vec<Uploaded>,
) -> Result<u64> {
    let file = archive.data_file(entry).await.with_context(|| format!("cannot read {}", entry.path))?;
    let (path, types) = (table_path(target, entry)?, file.parquet_types()?);
    let table = Table::begin(&target.store, path, file.schema.clone(), types).await?;
    let (table, rows) = table.filled(archive, std::slice::from_ref(entry)).await?;
    uploaded.push(table);
    Ok(rows)
}

/// A Parquet file on its way into an object store.
struct Table {
    schema: SchemaRef,
    writer: ArrowWriter<Vec<u8>>,
    upload: Upload,
}

impl Table {
    async fn begin(
        store: &Arc<dyn ObjectStore>,
        path: Path,
        schema: SchemaRef,
        types: SchemaDescriptor,
    ) -> Result<Self> {
        let options = writer_options(&schema, types, ParquetOutput::FAST)?;
        let writer = ArrowWriter::try_new_with_options(Vec::new(), schema.clone(), options)?;
        Ok(Self { schema, writer, upload: Upload::begin(store, path).await? })
    }

    /// Uploads the rows of these files, and keeps nothing of them: an archive may have many tables.
    async fn filled(mut self, archive: &Archive, files: &[FileEntry]) -> Result<(Uploaded, u64)> {
        let filled = async {
            let mut rows = 0;
            for entry in files {
                rows += self.add(archive, entry).await?;
            }
            self.writer.finish()?;
            self.send().await?;
            Ok(rows)
        };
        match filled.await {
            Ok(rows) => Ok((self.upload.end().await?, rows)),
            Err(error) => {
                self.upload.abandon().await;
                Err(error)
            }
        }
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

    /// Hands over what the writer has written.
    async fn send(&mut self) -> Result<()> {
        self.writer.sync()?;
        let bytes = std::mem::take(self.writer.inner_mut());
        self.upload.write(&bytes).await
    }
}
