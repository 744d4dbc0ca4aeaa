//! An archive at one moment: its files, and what their footers say.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::stats::{ColumnStatistics, Statistics};
use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use futures::{FutureExt, StreamExt, TryStreamExt};
use percent_encoding::percent_decode_str;

use super::{external, statistics};
use crate::archive::{Archive, DataFile, FileEntry, listed};
use crate::columnar::hold_the_same;

/// An archive whose footers are known.
#[derive(Debug)]
pub(super) struct Opened {
    pub archive: Archive,
    pub files: Vec<Arc<ArchivedFile>>,
    /// The table's columns: those of the files, and those of the folders they are in.
    pub schema: SchemaRef,
    /// The columns of the files alone.
    pub columns: SchemaRef,
    /// Columns that are decoded in at least one file, and not kept.
    decoded: HashSet<usize>,
    statistics: OnceLock<Statistics>,
}

/// Footers that are fetched at the same time.
const FOOTERS_AT_ONCE: usize = 16;

/// A data file and the partition it is in.
#[derive(Debug)]
pub(super) struct ArchivedFile {
    pub file: DataFile,
    /// The values of the partition columns.
    pub partition: Vec<Option<String>>,
    /// Its columns as it declares them itself.
    declared: SchemaRef,
    statistics: OnceLock<Statistics>,
}

/// A file that was known before, or one whose footer has just been read.
enum Found {
    Known(Arc<ArchivedFile>),
    New(DataFile),
}

impl Found {
    /// Its columns as it declares them, and whether it is coded.
    fn declared(&self) -> (&SchemaRef, bool) {
        match self {
            Self::Known(known) => (&known.declared, known.file.coded.is_some()),
            Self::New(file) => (&file.schema, file.coded.is_some()),
        }
    }
}

impl Opened {
    /// Reads the footers of an archive's files, but for those that are `known`. Where a table has its columns already,
    /// the files must fit these.
    pub async fn new(archive: Archive, table: Option<&SchemaRef>, known: Option<&Self>) -> Result<Self> {
        // What is part of an archive does not change.
        let known = known.filter(|known| archive.continues(&known.archive));
        let open = |number: usize| {
            let archive = &archive;
            let opening = async move {
                if let Some(known) = known.and_then(|known| known.same_file(archive, number)) {
                    return Ok::<_, DataFusionError>(Found::Known(known));
                }
                archive.data_file(&archive.files()[number]).await.map(Found::New).map_err(external)
            };
            opening.boxed()
        };
        let opening: Vec<_> = (0..archive.files().len()).map(open).collect();
        let found: Vec<Found> =
            futures::stream::iter(opening).buffered(FOOTERS_AT_ONCE).try_collect().await?;
        // Files that are stored as they were may declare theirs in another way.
        let all = || found.iter().map(Found::declared);
        let declared = all().find(|(_, coded)| *coded).or(all().next()).map(|(declared, _)| declared.clone());
        let names = partition_columns(&archive, declared.as_deref());
        let (columns, schema) = match (declared, table) {
            (None, table) => {
                let schema = table.cloned().unwrap_or_else(|| Arc::new(Schema::empty()));
                (schema.clone(), schema)
            }
            (Some(declared), None) => (declared.clone(), with_partitions(&declared, &names)),
            (Some(declared), Some(table)) => {
                check_columns(&with_partitions(&declared, &names), table)?;
                let own: Vec<usize> = (0..declared.fields().len()).collect();
                (Arc::new(table.project(&own)?), table.clone())
            }
        };
        let in_partition = |(found, entry): (Found, &FileEntry)| match found {
            Found::Known(known) => known,
            Found::New(mut file) => {
                let declared = file.schema.clone();
                read_as(&mut file, &columns);
                let partition = names.iter().map(|name| partition_value(&entry.path, name)).collect();
                Arc::new(ArchivedFile { file, partition, declared, statistics: OnceLock::new() })
            }
        };
        let files: Vec<_> = found.into_iter().zip(archive.files()).map(in_partition).collect();
        if let Some(other) = files.iter().find(|other| other.file.schema.fields() != columns.fields()) {
            return plan_err!("{} has other columns than the archive's other files", other.file.path);
        }
        let coded = files.iter().filter_map(|file| file.file.coded.as_ref());
        let decoded = coded.flat_map(|coded| coded.table.values.iter().copied()).collect();
        Ok(Self { archive, files, schema, columns, decoded, statistics: OnceLock::new() })
    }

    /// A file of an archive that has all that this one has, if it is known.
    fn same_file(&self, archive: &Archive, number: usize) -> Option<Arc<ArchivedFile>> {
        let (before, now) = (self.archive.files().get(number)?, archive.files().get(number)?);
        let same = before.path == now.path && before.place() == now.place();
        same.then(|| self.files.get(number).cloned())?
    }

    /// Which columns are decoded, and not kept.
    pub fn is_decoded(&self, column: usize) -> bool {
        self.decoded.contains(&column)
    }

    /// Whether a filter is on kept columns alone.
    pub fn keeps(&self, filter: &Expr) -> bool {
        let is_kept = |name: &str| self.schema.index_of(name).is_ok_and(|index| !self.is_decoded(index));
        filter.column_refs().iter().all(|column| is_kept(&column.name))
    }

    /// What the footers say, put together once.
    pub fn statistics(&self) -> Result<&Statistics> {
        if let Some(known) = self.statistics.get() {
            return Ok(known);
        }
        let each = self.files.iter().map(|file| file.statistics(&self.schema));
        let each: Vec<&Statistics> = each.collect::<Result<_>>()?;
        let mut all = Statistics::try_merge_iter(each, &self.schema)?;
        for column in &self.decoded {
            // Of values that are coded nothing is known.
            all.column_statistics[*column] = ColumnStatistics::new_unknown();
        }
        Ok(self.statistics.get_or_init(|| all))
    }
}

impl ArchivedFile {
    fn statistics(&self, schema: &Schema) -> Result<&Statistics> {
        if let Some(known) = self.statistics.get() {
            return Ok(known);
        }
        let found = statistics::of_file(&self.file, schema)?;
        Ok(self.statistics.get_or_init(|| found))
    }
}

/// Gives the rows of a file these columns, where they hold the same.
fn read_as(file: &mut DataFile, columns: &SchemaRef) {
    file.read_as(columns);
    // Nobody else has what was just opened.
    if let Some(coded) = file.coded.as_mut().and_then(Arc::get_mut)
        && fits(&coded.table.schema, columns)
    {
        coded.table.schema = columns.clone();
        file.schema = columns.clone();
    }
}

/// Whether rows with the columns `found` are rows of a table: types are the same, but for what lists call their elements.
fn fits(found: &Schema, table: &Schema) -> bool {
    let mut pairs = found.fields().iter().zip(table.fields());
    hold_the_same(found.fields(), table.fields())
        && pairs.all(|(found, table)| table.is_nullable() || !found.is_nullable())
}

/// Fails where an archive has other columns than a table, and says which one.
fn check_columns(found: &Schema, table: &Schema) -> Result<()> {
    if fits(found, table) {
        return Ok(());
    }
    let told = |field: &Field| {
        let nullable = if field.is_nullable() { "" } else { " NOT NULL" };
        format!("{} {}{nullable}", field.name(), field.data_type())
    };
    let all = |schema: &Schema| schema.fields().iter().map(|field| told(field)).collect::<Vec<_>>();
    plan_err!(
        "the archive has other columns than the table: {}; the table has {}",
        listed(&all(found)),
        listed(&all(table))
    )
}

/// Columns, and after them those of the folders that files are in.
fn with_partitions(columns: &Schema, names: &[String]) -> SchemaRef {
    let partitions = names.iter().map(|name| Arc::new(Field::new(name, DataType::Utf8, true)));
    let fields: Vec<FieldRef> = columns.fields().iter().cloned().chain(partitions).collect();
    Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone()))
}

/// What stands for NULL in the name of a partition's folder.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The value that a file's path gives a partition column. Characters that folders cannot have are written as `%3A`.
fn partition_value(path: &str, name: &str) -> Option<String> {
    let parts = path.split('/').filter_map(|part| part.split_once('='));
    let (_, value) = parts.into_iter().find(|(of, _)| *of == name)?;
    let decoded = percent_decode_str(value).decode_utf8().unwrap_or(Cow::Borrowed(value));
    (value != NULL_PARTITION).then(|| decoded.into_owned())
}

/// The hive partitions that are no columns of the files.
fn partition_columns(archive: &Archive, file: Option<&Schema>) -> Vec<String> {
    let is_column = |name: &String| file.is_some_and(|schema| schema.index_of(name).is_ok());
    archive.partitions().into_iter().filter(|name| !is_column(name)).collect()
}
