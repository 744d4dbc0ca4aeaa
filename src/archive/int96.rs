//! INT96 timestamps, as Spark and Impala write them: days and nanoseconds of a day, which reach further than the 64 bits of
//! nanoseconds that Arrow reads them as. Beyond these values would be wrong without a word.

use std::ops::RangeInclusive;
use std::sync::Arc;

use object_store::ObjectStoreExt;
use parquet::basic::Type;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::Int96Type;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::chunks::Chunks;
use super::job::Input;
use super::{ArchiveError, Result};

/// Julian days of which every nanosecond has a number: 1677-09-22 to 2262-04-10.
const DAYS: RangeInclusive<u32> = 2_333_837..=2_547_338;
const READ_AT_A_TIME: usize = 8192;

/// Fails if a timestamp of a file is out of reach.
pub(super) async fn check(input: &Input, metadata: &ParquetMetaData) -> Result<()> {
    let leaves = metadata.file_metadata().schema_descr().columns();
    for (leaf, column) in leaves.iter().enumerate() {
        if column.physical_type() != Type::INT96 {
            continue;
        }
        for group in metadata.row_groups() {
            let chunk = group.column(leaf);
            let (start, length) = chunk.byte_range();
            let bytes = input.store.get_range(&input.path, start..start.saturating_add(length)).await?;
            let bytes = Arc::new(Chunks::new(vec![(start, bytes)]));
            let pages = SerializedPageReader::new(bytes, chunk, group.num_rows().max(0) as usize, None)?;
            let mut reader = ColumnReaderImpl::<Int96Type>::new(column.clone(), Box::new(pages));
            loop {
                let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
                let (rows, _, _) = reader.read_records(
                    READ_AT_A_TIME,
                    Some(&mut definition).filter(|_| column.max_def_level() > 0),
                    Some(&mut repetition).filter(|_| column.max_rep_level() > 0),
                    &mut values,
                )?;
                if let Some(value) = values.iter().find(|value| !DAYS.contains(&value.data()[2])) {
                    return Err(ArchiveError::layout(format!(
                        "column {}: an INT96 timestamp on Julian day {}, beyond what 64 bits of nanoseconds reach (1677 to \
                         2262); write the column as TIMESTAMP in microseconds, or make such values NULL",
                        column.path(),
                        value.data()[2]
                    )));
                }
                if rows == 0 {
                    break;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::data_type::Int96;

    use super::*;

    /// The days at both ends fit into 64 bits as a whole, their neighbours do not.
    #[test]
    fn days_are_those_of_64_bits() {
        const NANOSECONDS: i128 = 86_400_000_000_000;
        let first = |day: u32| {
            let mut noon = Int96::new();
            noon.set_data(0, 0, day);
            i128::from(noon.to_seconds()) * 1_000_000_000
        };
        let fits = |nanoseconds: i128| i64::try_from(nanoseconds).is_ok();
        let whole = |day: u32| fits(first(day)) && fits(first(day) + NANOSECONDS - 1);
        assert!(whole(*DAYS.start()) && whole(*DAYS.end()));
        assert!(!whole(*DAYS.start() - 1) && !whole(*DAYS.end() + 1));
    }
}
