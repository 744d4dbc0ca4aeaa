//! INT96 timestamps, as Spark and Impala write them: days and nanoseconds of a day, which reach further than the 64 bits of
//! nanoseconds that Arrow reads them as. Beyond these values would be wrong without a word.

use std::sync::Arc;

use object_store::ObjectStoreExt;
use parquet::basic::Type;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, Int96, Int96Type};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::chunks::Chunks;
use super::job::Input;
use super::{ArchiveError, Result};

const READ_AT_A_TIME: usize = 8192;

/// Fails if a timestamp of a file is out of reach.
pub(super) async fn check(input: &Input, metadata: &ParquetMetaData) -> Result<()> {
    let leaves = metadata.file_metadata().schema_descr().columns();
    for (leaf, column) in leaves.iter().enumerate().filter(|(_, leaf)| leaf.physical_type() == Type::INT96) {
        each_value::<Int96Type>(input, metadata, leaf, |value| {
            if is_within_reach(value) {
                return Ok(());
            }
            Err(ArchiveError::layout(format!(
                "column {}: an INT96 timestamp on Julian day {}, beyond what 64 bits of nanoseconds reach (1677 to 2262); \
                 write the column as TIMESTAMP in microseconds, or make such values NULL",
                column.path(),
                value.data()[2]
            )))
        })
        .await?;
    }
    Ok(())
}

/// Looks at all values of a leaf.
pub(super) async fn each_value<T: DataType>(
    input: &Input,
    metadata: &ParquetMetaData,
    leaf: usize,
    look: impl Fn(&T::T) -> Result<()>,
) -> Result<()> {
    let column = metadata.file_metadata().schema_descr().column(leaf);
    for group in metadata.row_groups() {
        let chunk = group.column(leaf);
        let (start, length) = chunk.byte_range();
        let bytes = input.store.get_range(&input.path, start..start.saturating_add(length)).await;
        let bytes = bytes.map_err(ArchiveError::Unreadable)?;
        let bytes = Arc::new(Chunks::new(vec![(start, bytes)]));
        let pages = SerializedPageReader::new(bytes, chunk, group.num_rows().max(0) as usize, None)?;
        let mut reader = ColumnReaderImpl::<T>::new(column.clone(), Box::new(pages));
        loop {
            let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
            let (rows, _, _) = reader.read_records(
                READ_AT_A_TIME,
                Some(&mut definition).filter(|_| column.max_def_level() > 0),
                Some(&mut repetition).filter(|_| column.max_rep_level() > 0),
                &mut values,
            )?;
            values.iter().try_for_each(&look)?;
            if rows == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Whether 64 bits of nanoseconds since 1970 reach as far.
fn is_within_reach(value: &Int96) -> bool {
    const NANOSECONDS_IN_DAY: i128 = 86_400_000_000_000;
    const DAY_OF_1970: i128 = 2_440_588;
    let [low, high, day] = value.data() else { return false };
    // As Arrow reads them: both have a sign.
    let (day, high) = (i128::from(*day as i32), i128::from(*high as i32));
    let nanoseconds = (high << 32) + i128::from(*low);
    i64::try_from((day - DAY_OF_1970) * NANOSECONDS_IN_DAY + nanoseconds).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of 64 bits, and the nanoseconds beyond them.
    #[test]
    fn nanoseconds_are_those_of_64_bits() {
        const NANOSECONDS_IN_DAY: i64 = 86_400_000_000_000;
        let timestamp = |nanoseconds: i64, more: i64| {
            let (day, rest) = (
                nanoseconds.div_euclid(NANOSECONDS_IN_DAY),
                nanoseconds.rem_euclid(NANOSECONDS_IN_DAY) + more,
            );
            let mut value = Int96::new();
            value.set_data(rest as u32, (rest >> 32) as u32, (day + 2_440_588) as u32);
            value
        };
        for nanoseconds in [i64::MIN, -1, 0, 1, i64::MAX] {
            let value = timestamp(nanoseconds, 0);
            assert!(is_within_reach(&value) && value.to_nanos() == nanoseconds, "{nanoseconds}");
        }
        assert!(!is_within_reach(&timestamp(i64::MIN, -1)) && !is_within_reach(&timestamp(i64::MAX, 1)));
    }
}
