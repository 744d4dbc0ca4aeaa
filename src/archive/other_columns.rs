//! How a table's columns differ from those of an archive, in words.

use arrow::datatypes::{Field, FieldRef, SchemaRef};

/// A column's type, and what else tells it from others of its name.
fn kind(field: &Field) -> String {
    let nullable = if field.is_nullable() { "nullable" } else { "not nullable" };
    let metadata = if field.metadata().is_empty() { "" } else { ", with metadata" };
    format!("{} ({nullable}{metadata})", field.data_type())
}

/// How a table's columns differ from those of the archive.
pub(super) fn other_columns(found: &SchemaRef, expected: &SchemaRef) -> String {
    let differs = found.fields().iter().find(|field| !expected.fields().iter().any(|other| other == *field));
    let missing = expected.fields().iter().find(|field| !found.fields().iter().any(|other| other == *field));
    let named = |field: &FieldRef| expected.field_with_name(field.name()).ok().cloned();
    let what = match (differs, missing) {
        (Some(field), _) if named(field).is_some() => {
            let known = named(field).map(|known| kind(&known)).unwrap_or_default();
            format!("column {} is {}, there it is {known}", field.name(), kind(field))
        }
        (Some(field), _) => format!("column {} ({}) is not one of them", field.name(), field.data_type()),
        (None, Some(field)) => format!("column {} ({}) is missing", field.name(), field.data_type()),
        (None, None) => "their order is another".to_string(),
    };
    format!("its columns are not those of the archive's other tables: {what}")
}
