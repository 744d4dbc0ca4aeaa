//! The levels of a page of lists, looked at run by run: where lists begin, and whether anything is missing.
//!
//! Levels are runs of one number, and groups of eight numbers of a few bits each (Parquet's hybrid of run lengths and packed
//! bits). A list of many values is one or two runs, so that a page takes as long as it has lists, not values.

use parquet::basic::Encoding;
use parquet::column::page::Page;

use super::bytes::Reader;

/// A page of values without levels, and where lists begin in it.
pub(super) struct Unlevelled {
    pub page: Page,
    /// Places among the page's values.
    pub starts: Vec<usize>,
    pub values: usize,
}

/// Takes the levels off a data page, which begins at most so many lists. `None` where something is missing in it, where it
/// begins more, or where it is written in a way that only Parquet's own reader knows.
pub(super) fn unlevelled(page: Page, largest_definition: i16, most_lists: usize) -> Option<Unlevelled> {
    let width = u16::BITS - largest_definition.unsigned_abs().leading_zeros();
    match page {
        Page::DataPage {
            buf,
            num_values,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics,
        } => {
            let values = num_values as usize;
            let mut reader = Reader(&buf);
            let repetitions = sized(&mut reader)?;
            let starts = starts(Runs::new(repetitions, 1, values), most_lists)?;
            if !all_are(Runs::new(sized(&mut reader)?, width, values), largest_definition)? {
                return None;
            }
            let buf = buf.slice(buf.len() - reader.0.len()..);
            let (def_level_encoding, rep_level_encoding) = (Encoding::RLE, Encoding::RLE);
            let page = Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics,
            };
            Some(Unlevelled { page, starts, values })
        }
        Page::DataPageV2 {
            buf,
            num_values,
            encoding,
            num_nulls: 0,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed,
            statistics,
        } => {
            let values = num_values as usize;
            let mut reader = Reader(&buf);
            let repetitions = reader.take(rep_levels_byte_len as usize).ok()?;
            let definitions = reader.take(def_levels_byte_len as usize).ok()?;
            let starts = starts(Runs::new(repetitions, 1, values), most_lists)?;
            if !all_are(Runs::new(definitions, width, values), largest_definition)? {
                return None;
            }
            let buf = buf.slice(buf.len() - reader.0.len()..);
            let page = Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls: 0,
                num_rows,
                def_levels_byte_len: 0,
                rep_levels_byte_len: 0,
                is_compressed,
                statistics,
            };
            Some(Unlevelled { page, starts, values })
        }
        _ => None,
    }
}

/// Bytes behind their number, four bytes long.
fn sized<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(reader.array().ok()?);
    reader.take(length as usize).ok()
}

/// Some levels that follow each other.
enum Run<'a> {
    /// The same one so many times.
    Same(u8, usize),
    /// So many, packed.
    Packed(&'a [u8], usize),
}

/// Levels of a few bits, run by run.
struct Runs<'a> {
    bytes: Reader<'a>,
    width: u32,
    left: usize,
}

impl<'a> Runs<'a> {
    fn new(bytes: &'a [u8], width: u32, count: usize) -> Self {
        Self { bytes: Reader(bytes), width, left: count }
    }

    /// The next run, none after the last; an error where bytes are not what they should be.
    fn next(&mut self) -> Option<Option<Run<'a>>> {
        if self.left == 0 {
            return Some(None);
        }
        let header = self.bytes.varint().ok()?;
        let length = usize::try_from(header >> 1).ok()?;
        let run = if header & 1 == 0 {
            Run::Same(self.bytes.byte().ok()?, length.min(self.left))
        } else {
            let packed = self.bytes.take(length.checked_mul(self.width as usize)?).ok()?;
            // The last group may be filled up.
            Run::Packed(packed, length.checked_mul(8)?.min(self.left))
        };
        let (Run::Same(_, count) | Run::Packed(_, count)) = run;
        self.left -= count;
        // A run of none would be one of many.
        (count > 0).then_some(Some(run))
    }
}

/// Where levels of one bit are 0; `None` if that is at more than so many places.
fn starts(mut runs: Runs<'_>, most: usize) -> Option<Vec<usize>> {
    let (mut starts, mut place) = (Vec::new(), 0);
    while let Some(run) = runs.next()? {
        match run {
            // A few bytes may claim any number of them.
            Run::Same(0, count) if starts.len() + count > most => return None,
            Run::Same(0, count) => {
                starts.extend(place..place + count);
                place += count;
            }
            Run::Same(_, count) => place += count,
            Run::Packed(bytes, count) => {
                for (i, byte) in bytes.iter().enumerate() {
                    let mut zeros = !byte;
                    while zeros != 0 {
                        let bit = 8 * i + zeros.trailing_zeros() as usize;
                        starts.extend((bit < count).then_some(place + bit));
                        zeros &= zeros - 1;
                    }
                }
                place += count;
            }
        }
    }
    (starts.len() <= most).then_some(starts)
}

/// Whether all levels are the same.
fn all_are(mut runs: Runs<'_>, level: i16) -> Option<bool> {
    let width = runs.width as usize;
    while let Some(run) = runs.next()? {
        let same = match run {
            Run::Same(found, _) => i16::from(found) == level,
            Run::Packed(bytes, count) => (0..count * width).all(|bit| {
                let is_set = bytes[bit / 8] >> (bit % 8) & 1;
                i16::from(is_set) == level >> (bit % width) & 1
            }),
        };
        if !same {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_and_packed_groups_are_told() {
        // Three zeros, eight packed (0 1 1 1 1 1 1 0), four ones; of which 14 are there.
        let bytes = [3 << 1, 0, 1 << 1 | 1, 0b0111_1110, 4 << 1, 1];
        assert_eq!(starts(Runs::new(&bytes, 1, 14), 5), Some(vec![0, 1, 2, 3, 10]));
        assert_eq!(starts(Runs::new(&bytes, 1, 5), 5), Some(vec![0, 1, 2, 3]));
        // More than there is, and more than there can be.
        assert_eq!(starts(Runs::new(&bytes, 1, 16), 5), None);
        assert_eq!(starts(Runs::new(&bytes, 1, 14), 4), None);
        assert_eq!(starts(Runs::new(&[0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 0], 1, i32::MAX as usize), 100), None);
        // Five times 3, then eight packed of two bits.
        let threes = [5 << 1, 3, 1 << 1 | 1, 0xFF, 0xFF];
        assert_eq!(all_are(Runs::new(&threes, 2, 13), 3), Some(true));
        let other = [5 << 1, 3, 1 << 1 | 1, 0xFF, 0xBF];
        assert_eq!(all_are(Runs::new(&other, 2, 12), 3), Some(true));
        assert_eq!(all_are(Runs::new(&other, 2, 13), 3), Some(false));
    }

    /// Where levels of one page end, its values begin; lists may go on from the page before.
    #[test]
    fn pages_lose_their_levels() {
        let (repetitions, definitions) = ([1 << 1 | 1, 0b0000_0110], [5 << 1, 3]);
        let levels = [&repetitions[..], &definitions].map(|runs| [&2u32.to_le_bytes(), runs].concat());
        let first = Page::DataPage {
            buf: [levels.concat(), vec![7; 40]].concat().into(),
            num_values: 5,
            encoding: Encoding::PLAIN,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let second = Page::DataPageV2 {
            buf: [&repetitions[..], &definitions, &[7; 40]].concat().into(),
            num_values: 5,
            encoding: Encoding::PLAIN,
            num_nulls: 0,
            num_rows: 3,
            def_levels_byte_len: 2,
            rep_levels_byte_len: 2,
            is_compressed: false,
            statistics: None,
        };
        for page in [first, second] {
            let found = unlevelled(page.clone(), 3, 3).expect("nothing is missing");
            assert_eq!((found.starts, found.values), (vec![0, 3, 4], 5));
            assert_eq!(found.page.buffer().as_ref(), [7; 40]);
            // Something is missing, and more lists than there are rows.
            assert!(unlevelled(page.clone(), 2, 3).is_none());
            assert!(unlevelled(page, 3, 2).is_none());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), count in 0usize..400) {
            let _ = starts(Runs::new(&bytes, 1, count), 300);
            let _ = all_are(Runs::new(&bytes, 2, count), 3);
        }
    }
}
