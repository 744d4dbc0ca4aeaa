//! What a data file says about itself, in its Parquet footer.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::file::metadata::ParquetMetaData;
use serde::{Deserialize, Serialize};

use super::drift::Drift;
use super::error_sums::ErrorSums;
use super::layout::{Layout, Table};
use super::quantiser::Bound;
use super::{ArchiveError, FORMAT_VERSION, Result};

/// The key of the description in the footer.
pub(crate) const KEY: &str = "sparrow";

/// The description of a data file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Footer {
    pub version: u32,
    /// The hash of the dictionary's content.
    pub dictionary: String,
    pub coder: String,
    pub lambda: f64,
    pub bound: Bound,
    pub layout: Layout,
    pub values: Vec<ValueColumns>,
    /// Sensors that are coded together at most.
    #[serde(default = "all_together", skip_serializing_if = "is_all_together")]
    pub group_sensors: usize,
    /// The column with the codes, after those that are kept.
    pub code_column: usize,
    /// Whether it is there. Residuals follow, a column for each group.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub has_codes: bool,
    /// A hash of what the file was made from.
    pub source: String,
    pub error: ErrorSums,
    /// What codes leave of the values, as NMAE, before residuals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<f64>,
    /// How its signals differ from those before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    pub row_groups: Vec<RowGroup>,
}

/// All sensors of a type are coded together.
pub(super) const ALL_TOGETHER: usize = usize::MAX >> 1;

fn all_together() -> usize {
    ALL_TOGETHER
}

fn is_all_together(group_sensors: &usize) -> bool {
    *group_sensors == ALL_TOGETHER
}

fn is_false(value: &bool) -> bool {
    !value
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

/// Neighbouring value columns of one type.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ValueColumns {
    /// The place of the first in the original table.
    position: usize,
    names: Vec<String>,
    #[serde(flatten)]
    data_type: ValueType,
    #[serde(default, skip_serializing_if = "is_false")]
    nullable: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ValueType {
    #[serde(rename = "type")]
    number: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<ListType>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ListType {
    kind: ListKind,
    item: String,
    #[serde(default, skip_serializing_if = "is_false")]
    item_nullable: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    item_metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ListKind {
    List,
    LargeList,
    FixedSizeList(i32),
}

/// One row group: its error, and the hashes of its column chunks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RowGroup {
    pub signals: usize,
    /// Absent where it is that of the file.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub error: Option<RowGroupError>,
    /// XXH3-64 of each column chunk's bytes, in hexadecimal.
    pub hashes: Vec<String>,
}

/// The errors of a row group's values.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RowGroupError {
    pub max_error: f64,
    pub nmae: f64,
    pub nrmse: f64,
}

const NUMBERS: [(&str, DataType); 10] = [
    ("float64", DataType::Float64),
    ("float32", DataType::Float32),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
];

impl ValueType {
    fn new(data_type: &DataType) -> Result<Self> {
        let (item, list) = match data_type {
            DataType::List(item) => (item.data_type(), Some((ListKind::List, item))),
            DataType::LargeList(item) => (item.data_type(), Some((ListKind::LargeList, item))),
            DataType::FixedSizeList(item, size) => {
                (item.data_type(), Some((ListKind::FixedSizeList(*size), item)))
            }
            number => (number, None),
        };
        let known = NUMBERS.iter().find(|(_, known)| known == item);
        let (name, _) = known
            .ok_or_else(|| ArchiveError::layout(format!("values of type {data_type} cannot be coded")))?;
        let list = list.map(|(kind, item)| ListType {
            kind,
            item: item.name().clone(),
            item_nullable: item.is_nullable(),
            item_metadata: item.metadata().clone().into_iter().collect(),
        });
        Ok(Self { number: (*name).to_string(), list })
    }

    fn data_type(&self) -> Result<DataType> {
        let known = NUMBERS.iter().find(|(name, _)| *name == self.number);
        let (_, number) = known.ok_or_else(|| ArchiveError::corrupt(format!("type {}", self.number)))?;
        Ok(match &self.list {
            None => number.clone(),
            Some(list) => {
                let item = Field::new(&list.item, number.clone(), list.item_nullable)
                    .with_metadata(list.item_metadata.clone().into_iter().collect());
                let item: FieldRef = Arc::new(item);
                match list.kind {
                    ListKind::List => DataType::List(item),
                    ListKind::LargeList => DataType::LargeList(item),
                    ListKind::FixedSizeList(size) => DataType::FixedSizeList(item, size),
                }
            }
        })
    }
}

impl ValueColumns {
    /// Describes the value columns of a table.
    pub fn of(table: &Table) -> Result<Vec<Self>> {
        let mut described: Vec<Self> = Vec::new();
        // The layout lists wide columns in its own order; here the order is the table's.
        let mut positions = table.values.clone();
        positions.sort_unstable();
        for position in positions {
            let field = table.schema.field(position);
            let data_type = ValueType::new(field.data_type())?;
            let metadata = field.metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            let alike = |last: &&mut Self| {
                last.position + last.names.len() == position
                    && last.data_type == data_type
                    && last.nullable == field.is_nullable()
                    && last.metadata == metadata
            };
            match described.last_mut().filter(alike) {
                Some(last) => last.names.push(field.name().clone()),
                None => described.push(Self {
                    position,
                    names: vec![field.name().clone()],
                    data_type,
                    nullable: field.is_nullable(),
                    metadata,
                }),
            }
        }
        Ok(described)
    }
}

impl Footer {
    /// The column with the residuals of a group, or the number of columns where there are so many groups.
    pub fn residual_column(&self, group: usize) -> usize {
        self.code_column + usize::from(self.has_codes) + group
    }

    /// Whether a file has a description, and so is one of an archive.
    pub fn is_in(metadata: &ParquetMetaData) -> bool {
        let pairs = metadata.file_metadata().key_value_metadata();
        let mut texts = pairs.into_iter().flatten().filter(|pair| pair.key == KEY).map(|pair| &pair.value);
        texts.any(|text| text.as_ref().is_some_and(|text| Self::parse(text).is_ok()))
    }

    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_str(text)?;
        if version > FORMAT_VERSION {
            return Err(ArchiveError::NewerVersion { found: version, known: FORMAT_VERSION });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The original table's columns, from the data file's.
    pub fn original_schema(&self, physical: &Schema) -> Result<SchemaRef> {
        let kept = physical.fields().get(..self.code_column).ok_or_else(missing)?;
        let mut fields: Vec<FieldRef> = kept.to_vec();
        for columns in &self.values {
            for (i, name) in columns.names.iter().enumerate() {
                let metadata = columns.metadata.clone().into_iter().collect();
                let field = Field::new(name, columns.data_type.data_type()?, columns.nullable)
                    .with_metadata(metadata);
                let position = columns.position + i;
                if position > fields.len() {
                    return Err(missing());
                }
                fields.insert(position, Arc::new(field));
            }
        }
        // Readers take all that a footer holds for metadata of the table.
        let mut metadata = physical.metadata().clone();
        metadata.remove(KEY);
        Ok(Arc::new(Schema::new_with_metadata(fields, metadata)))
    }
}

fn missing() -> ArchiveError {
    ArchiveError::corrupt("a column is missing")
}
