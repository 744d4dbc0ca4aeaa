//! The Parquet types of columns that are kept. Arrow does not tell all of them apart: UUIDs are bytes there, JSON is text, and
//! times have no zone.

use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::Arc;

use arrow::datatypes::Schema;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{BasicTypeInfo, SchemaDescriptor, Type};

use super::{ArchiveError, Result};

/// The Parquet columns of Arrow's, with the types that columns of the same names have in another file.
pub(crate) fn parquet_types(schema: &Schema, known: Option<&SchemaDescriptor>) -> Result<SchemaDescriptor> {
    let converted = ArrowSchemaConverter::new().convert(schema)?;
    let known = known.into_iter().flat_map(|known| known.root_schema().get_fields());
    let known: HashMap<&str, &Arc<Type>> = known.map(|field| (field.name(), field)).collect();
    let root = converted.root_schema();
    let typed = |own: &Arc<Type>| match known.get(own.name()) {
        Some(known) => as_known(own, known),
        None => Ok(own.clone()),
    };
    let fields = root.get_fields().iter().map(typed).collect::<Result<_>>()?;
    let root = Type::group_type_builder(root.name()).with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// A column of ours with what a known one of the same shape says about its values.
fn as_known(own: &Arc<Type>, known: &Arc<Type>) -> Result<Arc<Type>> {
    let (info, known_info) = (own.get_basic_info(), known.get_basic_info());
    match (own.as_ref(), known.as_ref()) {
        (Type::PrimitiveType { .. }, Type::PrimitiveType { .. }) => {
            let is_same = info.name() == known_info.name() && info.repetition() == known_info.repetition();
            Ok(if is_same && tells_more(known, own) { known.clone() } else { own.clone() })
        }
        (Type::GroupType { fields, .. }, Type::GroupType { fields: known_fields, .. })
            if fields.len() == known_fields.len() =>
        {
            let typed = fields.iter().zip(known_fields).map(|(own, known)| as_known(own, known));
            let (logical, converted) = match known_info.logical_type_ref() {
                Some(LogicalType::Variant(_)) => (known_info.logical_type_ref(), known_info.converted_type()),
                _ => (info.logical_type_ref(), info.converted_type()),
            };
            let group = Type::group_type_builder(info.name())
                .with_repetition(info.repetition())
                .with_logical_type(logical.cloned())
                .with_converted_type(converted)
                .with_id(info.has_id().then(|| info.id()))
                .with_fields(typed.collect::<Result<_>>()?);
            Ok(Arc::new(group.build()?))
        }
        _ => Ok(own.clone()),
    }
}

/// Whether the same values mean more as one type than as another.
fn tells_more(known: &Type, own: &Type) -> bool {
    let (
        Type::PrimitiveType { physical_type: a, type_length: b, .. },
        Type::PrimitiveType { physical_type: x, type_length: y, .. },
    ) = (known, own)
    else {
        return false;
    };
    let (info, known) = (own.get_basic_info(), known.get_basic_info());
    // Days are 64 bits of milliseconds in Arrow where its own description says so, which Parquet has no type for.
    let are_days = known.converted_type() == ConvertedType::DATE
        && *a == PhysicalType::INT32
        && *x == PhysicalType::INT64
        && says_nothing(info);
    let is_same = a == x && b == y && !says_nothing(known) && have_one_unit(info, known);
    are_days || (is_same && !mean_the_same(info, known))
}

/// Numbers that are times count the same.
fn have_one_unit(one: &BasicTypeInfo, other: &BasicTypeInfo) -> bool {
    match (one.logical_type_ref(), other.logical_type_ref()) {
        (Some(LogicalType::Timestamp(one)), Some(LogicalType::Timestamp(other))) => one.unit == other.unit,
        (Some(LogicalType::Time(one)), Some(LogicalType::Time(other))) => one.unit == other.unit,
        _ => true,
    }
}

fn says_nothing(info: &BasicTypeInfo) -> bool {
    info.logical_type_ref().is_none() && info.converted_type() == ConvertedType::NONE
}

/// Whether what two types are said to be is one and the same, old words for it or new ones.
fn mean_the_same(one: &BasicTypeInfo, other: &BasicTypeInfo) -> bool {
    let have_one_old_word = one.converted_type() == other.converted_type();
    match (one.logical_type_ref(), other.logical_type_ref()) {
        (Some(one), Some(other)) => one == other,
        (None, None) => have_one_old_word,
        // Not all types have an old word.
        _ => have_one_old_word && one.converted_type() != ConvertedType::NONE,
    }
}

/// The first column of some names that means something else in one file than in another, though Arrow reads them alike.
pub(super) fn first_other<'a>(
    mut names: impl Iterator<Item = &'a str>,
    found: &SchemaDescriptor,
    original: &SchemaDescriptor,
) -> Option<&'a str> {
    let fields = |descriptor: &SchemaDescriptor| -> HashMap<String, Arc<Type>> {
        let fields = descriptor.root_schema().get_fields().iter();
        fields.map(|field| (field.name().to_string(), field.clone())).collect()
    };
    let (found, original) = (fields(found), fields(original));
    names.find(|name| match (found.get(*name), original.get(*name)) {
        (Some(found), Some(original)) => is_other(found, original),
        _ => false,
    })
}

fn is_other(found: &Type, original: &Type) -> bool {
    let (info, original_info) = (found.get_basic_info(), original.get_basic_info());
    match (found, original) {
        (Type::PrimitiveType { .. }, Type::PrimitiveType { .. }) => {
            !says_nothing(original_info) && !mean_the_same(info, original_info)
        }
        (Type::GroupType { fields, .. }, Type::GroupType { fields: original_fields, .. }) => {
            let is_variant =
                |info: &BasicTypeInfo| matches!(info.logical_type_ref(), Some(LogicalType::Variant(_)));
            let is_same =
                fields.len() == original_fields.len() && is_variant(info) == is_variant(original_info);
            !is_same || fields.iter().zip(original_fields).any(|(found, original)| is_other(found, original))
        }
        // Lists of two levels become lists of three.
        _ => false,
    }
}

/// A file's columns as Arrow has them. Arrow panics over descriptions of its own that it does not know.
pub(super) fn arrow_metadata(metadata: Arc<ParquetMetaData>) -> Result<ArrowReaderMetadata> {
    let read = catch_unwind(|| ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new()));
    let unknown = "it describes its columns in a way that this program does not know (ARROW:schema)";
    Ok(read.map_err(|_| ArchiveError::NotParquet(unknown.to_string()))??)
}
