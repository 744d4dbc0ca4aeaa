//! Intervals of Parquet have months, days and milliseconds; those that Arrow reads have one or the others, and what is left
//! would be lost without a word.

use arrow::datatypes::{DataType, IntervalUnit, Schema};
use parquet::basic::ConvertedType;
use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType};
use parquet::file::metadata::ParquetMetaData;

use super::int96::each_value;
use super::job::Input;
use super::{ArchiveError, Result};

/// Fails if an interval of a file has what Arrow leaves out.
pub(super) async fn check(input: &Input, metadata: &ParquetMetaData, schema: &Schema) -> Result<()> {
    let leaves = metadata.file_metadata().schema_descr();
    for leaf in 0..leaves.num_columns() {
        let column = leaves.column(leaf);
        if column.converted_type() != ConvertedType::INTERVAL || column.type_length() != 12 {
            continue;
        }
        let read_as = schema.field(leaves.get_column_root_idx(leaf)).data_type();
        let (months, rest) = (holds(read_as, IntervalUnit::YearMonth), holds(read_as, IntervalUnit::DayTime));
        each_value::<FixedLenByteArrayType>(input, metadata, leaf, |value| {
            let lost = match (has_months(value), has_rest(value)) {
                // Of columns that hold both kinds nobody knows which is which.
                (true, _) if rest || !months => "months",
                (_, true) if months || !rest => "days or milliseconds",
                _ => return Ok(()),
            };
            Err(ArchiveError::layout(format!(
                "column {}: an INTERVAL with {lost}, which would be lost, since Arrow reads the column without them; write it as \
                 text, or as columns of integers",
                column.path()
            )))
        })
        .await?;
    }
    Ok(())
}

fn holds(data_type: &DataType, unit: IntervalUnit) -> bool {
    match data_type {
        DataType::Interval(own) => *own == unit,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => holds(item.data_type(), unit),
        DataType::Struct(fields) => fields.iter().any(|field| holds(field.data_type(), unit)),
        DataType::Dictionary(_, values) => holds(values, unit),
        _ => false,
    }
}

fn has_months(interval: &FixedLenByteArray) -> bool {
    interval.data().iter().take(4).any(|byte| *byte != 0)
}

fn has_rest(interval: &FixedLenByteArray) -> bool {
    interval.data().iter().skip(4).any(|byte| *byte != 0)
}
