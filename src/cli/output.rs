//! Files that appear whole or not at all.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_writer::ArrowWriterOptions;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::metadata::KeyValue;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::schema::types::SchemaDescriptor;

use super::messages::printable;
use crate::archive::{parquet_types, sync_name, sync_open};

/// Readers hold a row group's column at a time, and vectors are long.
const ROW_GROUP_BYTES: usize = 32 << 20;
/// Rows handed to the writer at a time, between which it may start a new row group.
const ROWS_AT_A_TIME: usize = 1024;

/// A Parquet file that is written beside its destination and renamed when it is complete.
pub(super) struct ParquetOutput<'a> {
    writer: ArrowWriter<tempfile::NamedTempFile>,
    path: &'a Path,
}

impl<'a> ParquetOutput<'a> {
    pub fn create(path: &'a Path, schema: SchemaRef) -> anyhow::Result<Self> {
        let types = parquet_types(&schema, None)?;
        Self::create_with(path, schema, types, Self::DENSE)
    }

    /// Levels of zstd: small files that are written once, and tables that are written as fast as may be.
    const DENSE: i32 = 9;
    pub const FAST: i32 = 1;

    pub fn create_with(
        path: &'a Path,
        schema: SchemaRef,
        types: SchemaDescriptor,
        level: i32,
    ) -> anyhow::Result<Self> {
        let file = temporary_beside(path)?;
        let options = writer_options(&schema, types, level)?;
        let writer = ArrowWriter::try_new_with_options(file, schema, options)?;
        Ok(Self { writer, path })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        for some in in_parts(batch) {
            self.writer.write(&some).with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        Ok(())
    }

    pub fn finish(self) -> anyhow::Result<()> {
        self.finish_as(true)
    }

    /// Fails where a file has appeared since, unless that is to be replaced.
    pub fn finish_as(self, replaces: bool) -> anyhow::Result<()> {
        let path = self.path;
        let file = self.into_file()?;
        let cannot = || format!("cannot write {}", path.display());
        sync_open(file.as_file()).with_context(cannot)?;
        let put = if replaces { file.persist(path) } else { file.persist_noclobber(path) };
        put.with_context(cannot)?;
        sync_name(path).with_context(cannot)
    }

    /// The same in a folder that is yet to be put in its place, and on the disk before that.
    pub fn finish_aside(self) -> anyhow::Result<()> {
        let path = self.path;
        self.into_file()?
            .persist(path)
            .map(|_| ())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn into_file(self) -> anyhow::Result<tempfile::NamedTempFile> {
        let file =
            self.writer.into_inner().with_context(|| format!("cannot write {}", self.path.display()))?;
        make_readable(&file);
        Ok(file)
    }
}

/// A batch in so few rows at a time that row groups do not become too large.
pub(super) fn in_parts(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    (0..rows).step_by(ROWS_AT_A_TIME).map(move |start| batch.slice(start, ROWS_AT_A_TIME.min(rows - start)))
}

/// How a table with these Parquet types is written.
pub(super) fn writer_options(
    schema: &SchemaRef,
    types: SchemaDescriptor,
    level: i32,
) -> anyhow::Result<ArrowWriterOptions> {
    let properties = properties(schema, level)?;
    Ok(ArrowWriterOptions::new().with_properties(properties).with_parquet_schema(types))
}

fn properties(schema: &SchemaRef, level: i32) -> anyhow::Result<WriterProperties> {
    let builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(level)?))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        // Readers that do not know Arrow look for it here.
        .set_key_value_metadata(Some(key_values(schema)));
    Ok(builder.build())
}

/// How many bytes a batch takes as a Parquet file.
pub(super) fn parquet_bytes(batch: &RecordBatch) -> anyhow::Result<usize> {
    let properties = properties(&batch.schema(), ParquetOutput::DENSE)?;
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
    writer.write(batch)?;
    Ok(writer.into_inner()?.len())
}

/// Refuses an output that would only fail, or destroy an input, after the work is done.
pub(super) fn check_text_output(path: Option<&Path>, inputs: &[String]) -> anyhow::Result<()> {
    let Some(output) = path else { return Ok(()) };
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "cannot write {}: {} is not a folder", output.display(), folder.display());
    ensure!(!output.is_dir(), "cannot write {}: it is a folder", output.display());
    let same = |path: &Path, input: &String| Path::new(input).canonicalize().is_ok_and(|input| input == path);
    let is_input = output.canonicalize().is_ok_and(|path| inputs.iter().any(|input| same(&path, input)));
    ensure!(!is_input, "{} is the table itself; name another output", output.display());
    Ok(())
}

/// Writes a text to a file, whole or not at all, or to standard output.
pub(super) fn write_text(path: Option<&Path>, text: &str) -> anyhow::Result<()> {
    let Some(path) = path else {
        std::io::stdout().lock().write_all(printable(text).as_bytes())?;
        return Ok(());
    };
    let cannot = || format!("cannot write {}", path.display());
    let mut file = temporary_beside(path)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    make_readable(&file);
    sync_open(file.as_file()).with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    sync_name(path).with_context(cannot)
}

/// A file in the same folder, to be renamed when it is whole.
fn temporary_beside(path: &Path) -> anyhow::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::Builder::new().prefix(".sparrow-").tempfile_in(folder);
    file.with_context(|| format!("cannot write into {}", folder.display()))
}

/// Temporary files are private; results are as readable as any new file.
#[cfg(unix)]
fn make_readable(file: &tempfile::NamedTempFile) {
    use std::os::unix::fs::PermissionsExt;
    // Where this fails the file is merely private.
    let _ = file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644));
}

#[cfg(not(unix))]
fn make_readable(_file: &tempfile::NamedTempFile) {}

fn key_values(schema: &SchemaRef) -> Vec<KeyValue> {
    let mut pairs: Vec<KeyValue> =
        schema.metadata().iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    pairs.sort_by(|a, b| a.key.cmp(&b.key));
    pairs
}
