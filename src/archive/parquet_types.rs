//! The Parquet types of columns that are kept. Arrow does not tell all of them apart: UUIDs are bytes there, JSON is text, and
//! times have no zone.

use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::Arc;

use arrow::datatypes::Schema;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{SchemaDescriptor, Type};

use super::{ArchiveError, Result};

/// The Parquet columns of Arrow's, with the types that columns of the same names have in another file.
pub(crate) fn parquet_types(schema: &Schema, known: Option<&SchemaDescriptor>) -> Result<SchemaDescriptor> {
    let converted = ArrowSchemaConverter::new().convert(schema)?;
    let known = known.into_iter().flat_map(|known| known.root_schema().get_fields());
    let known: HashMap<&str, &Arc<Type>> = known.map(|field| (field.name(), field)).collect();
    let root = converted.root_schema();
    let typed = |own: &Arc<Type>| match known.get(own.name()) {
        Some(known) if tells_more(known, own) => (*known).clone(),
        _ => own.clone(),
    };
    let fields = root.get_fields().iter().map(typed).collect();
    let root = Type::group_type_builder(root.name()).with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// Whether the same bytes mean more as one type than as another.
fn tells_more(known: &Type, own: &Type) -> bool {
    let (
        Type::PrimitiveType { physical_type: a, type_length: b, basic_info: c, .. },
        Type::PrimitiveType { physical_type: x, type_length: y, basic_info: z, .. },
    ) = (known, own)
    else {
        return false;
    };
    let is_same = a == x && b == y && c.repetition() == z.repetition();
    is_same && c.logical_type_ref().is_some() && c.logical_type_ref() != z.logical_type_ref()
}

/// A file's columns as Arrow has them. Arrow panics over descriptions of its own that it does not know.
pub(super) fn arrow_metadata(metadata: Arc<ParquetMetaData>) -> Result<ArrowReaderMetadata> {
    let read = catch_unwind(|| ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new()));
    let unknown = "it describes its columns in a way that this program does not know (ARROW:schema)";
    Ok(read.map_err(|_| ArchiveError::NotParquet(unknown.to_string()))??)
}
