//! What a Parquet footer declares, looked over before Parquet's own reader trusts it: that one makes room for as many row
//! groups, pages and children as it is told, whatever is there, and goes as deep into a schema as it is led.
//!
//! The reader does not look at the types of fields either, so that a field of another type would make it read other bytes
//! than were looked over here. Hence the tables below, of what it knows.

use super::bytes::Reader;
use super::{ArchiveError, Result};

/// A schema that is nested deeper is refused. Each list takes two levels.
const DEEPEST_SCHEMA: usize = 100;
/// Fields that nobody knows may be nested so deep.
const DEEPEST_FIELD: usize = 32;

/// What a field holds.
#[derive(Clone, Copy)]
enum Kind {
    Bool,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List(&'static Kind),
    Struct(Fields),
}

/// The fields of a struct by their numbers. Others are passed over.
type Fields = &'static [(i16, Kind)];

use Kind::{Binary, Bool, Byte, Double, I16, I32, I64, List, Struct};

const EMPTY: Kind = Struct(&[]);
const TIME: Kind = Struct(&[(1, Bool), (2, Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);
const LOGICAL_TYPE: Fields = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, I32)])),
];
const NUMBER_OF_CHILDREN: i16 = 5;
const SCHEMA_ELEMENT: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Binary),
    (NUMBER_OF_CHILDREN, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Struct(LOGICAL_TYPE)),
];
const STATISTICS: Kind =
    Struct(&[(1, Binary), (2, Binary), (3, I64), (4, I64), (5, Binary), (6, Binary), (7, Bool), (8, Bool)]);
const BOX: Kind = Struct(&[
    (1, Double),
    (2, Double),
    (3, Double),
    (4, Double),
    (5, Double),
    (6, Double),
    (7, Double),
    (8, Double),
]);
const KEY_VALUES: Kind = List(&Struct(&[(1, Binary), (2, Binary)]));
const COLUMN_METADATA: Kind = Struct(&[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Binary)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, KEY_VALUES),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, STATISTICS),
    (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]))),
    (14, I64),
    (15, I32),
    (16, Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))])),
    (17, Struct(&[(1, BOX), (2, List(&I32))])),
]);
const COLUMN_CHUNK: Kind = Struct(&[
    (1, Binary),
    (2, I64),
    (3, COLUMN_METADATA),
    (4, I64),
    (5, I32),
    (6, I64),
    (7, I32),
    (8, Struct(&[(1, EMPTY), (2, Struct(&[(1, List(&Binary)), (2, Binary)]))])),
    (9, Binary),
]);
const ROW_GROUP: Kind = Struct(&[
    (1, List(&COLUMN_CHUNK)),
    (2, I64),
    (3, I64),
    (4, List(&Struct(&[(1, I32), (2, Bool), (3, Bool)]))),
    (5, I64),
    (6, I64),
    (7, I16),
]);
const CIPHER: Kind = Struct(&[(1, Binary), (2, Binary), (3, Bool)]);
const SCHEMA: i16 = 2;
const METADATA: Fields = &[
    (1, I32),
    (SCHEMA, List(&Struct(SCHEMA_ELEMENT))),
    (3, I64),
    (4, List(&ROW_GROUP)),
    (5, KEY_VALUES),
    (6, Binary),
    (7, List(&Struct(&[(1, EMPTY), (2, EMPTY)]))),
    (8, Struct(&[(1, CIPHER), (2, CIPHER)])),
    (9, Binary),
];
const OFFSET_INDEX: Fields = &[(1, List(&Struct(&[(1, I64), (2, I32), (3, I64)]))), (2, List(&I64))];
const COLUMN_INDEX: Fields = &[
    (1, List(&Bool)),
    (2, List(&Binary)),
    (3, List(&Binary)),
    (4, I32),
    (5, List(&I64)),
    (6, List(&I64)),
    (7, List(&I64)),
];

/// Looks over the metadata of a file.
pub(super) fn check_metadata(bytes: &[u8]) -> Result<()> {
    Thrift(Reader(bytes)).metadata().map_err(|error| match error {
        ArchiveError::Corrupt(what) => ArchiveError::NotParquet(format!("its footer is damaged: {what}")),
        other => other,
    })
}

/// Looks over where the pages of a column chunk are.
pub(super) fn check_offset_index(bytes: &[u8]) -> Result<()> {
    Thrift(Reader(bytes)).structure(OFFSET_INDEX, 0)
}

/// Looks over what is in the pages of a column chunk.
pub(super) fn check_column_index(bytes: &[u8]) -> Result<()> {
    Thrift(Reader(bytes)).structure(COLUMN_INDEX, 0)
}

/// How values are told apart in Thrift's compact encoding.
mod tag {
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const UUID: u8 = 13;
}

impl Kind {
    fn is_told_by(self, tag: u8) -> bool {
        match self {
            Bool => matches!(tag, tag::TRUE | tag::FALSE),
            Byte => tag == tag::BYTE,
            I16 => tag == tag::I16,
            I32 => tag == tag::I32,
            I64 => tag == tag::I64,
            Double => tag == tag::DOUBLE,
            Binary => tag == tag::BINARY,
            List(_) => tag == tag::LIST,
            Struct(_) => tag == tag::STRUCT,
        }
    }
}

fn known(fields: Fields, number: i16) -> Option<Kind> {
    fields.iter().find(|(known, _)| *known == number).map(|(_, kind)| *kind)
}

/// Values one after the other. Each takes a byte at least, so that nothing is longer than what is there.
struct Thrift<'a>(Reader<'a>);

impl Thrift<'_> {
    fn metadata(&mut self) -> Result<()> {
        let mut number = 0;
        while let Some(tag) = self.field(&mut number)? {
            match known(METADATA, number) {
                Some(List(Struct(element))) if number == SCHEMA => self.schema(tag, element)?,
                kind => self.value(tag, kind, 0)?,
            }
        }
        Ok(())
    }

    /// The tag of the next field of a struct, whose number follows that of the last one; `None` at the end.
    fn field(&mut self, number: &mut i16) -> Result<Option<u8>> {
        let header = self.0.byte()?;
        let (step, tag) = (header >> 4, header & 0x0F);
        if tag == 0 {
            return Ok(None);
        }
        *number = match step {
            0 => signed(self.0.varint()?) as i16,
            step => number.checked_add(i16::from(step)).ok_or_else(unknown)?,
        };
        Ok(Some(tag))
    }

    fn structure(&mut self, fields: Fields, depth: usize) -> Result<()> {
        let mut number = 0;
        while let Some(tag) = self.field(&mut number)? {
            self.value(tag, known(fields, number), depth)?;
        }
        Ok(())
    }

    /// The value of a field.
    fn value(&mut self, tag: u8, kind: Option<Kind>, depth: usize) -> Result<()> {
        if depth > DEEPEST_FIELD || kind.is_some_and(|kind| !kind.is_told_by(tag)) {
            return Err(unknown());
        }
        match tag {
            tag::TRUE | tag::FALSE => {}
            tag::BYTE => drop(self.0.byte()?),
            tag::I16 | tag::I32 | tag::I64 => drop(self.0.varint()?),
            tag::DOUBLE => drop(self.0.take(8)?),
            tag::UUID => drop(self.0.take(16)?),
            tag::BINARY => drop(self.0.part()?),
            tag::STRUCT => match kind {
                Some(Struct(fields)) => self.structure(fields, depth + 1)?,
                _ => self.structure(&[], depth + 1)?,
            },
            tag::LIST | tag::SET => {
                let (tag, count) = self.list()?;
                let element = match kind {
                    Some(List(element)) => Some(*element),
                    _ => None,
                };
                for _ in 0..count {
                    self.element(tag, element, depth + 1)?;
                }
            }
            tag::MAP => {
                let count = self.0.size(self.0.0.len())?;
                let tags = if count > 0 { self.0.byte()? } else { 0 };
                for _ in 0..count {
                    self.element(tags >> 4, None, depth + 1)?;
                    self.element(tags & 0x0F, None, depth + 1)?;
                }
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// A value in a list. There a truth is a byte, which Parquet's reader does not pass over where it does not know the list.
    fn element(&mut self, tag: u8, kind: Option<Kind>, depth: usize) -> Result<()> {
        match (tag, kind) {
            (tag::TRUE | tag::FALSE, Some(Bool)) => self.0.byte().map(drop),
            (tag::TRUE | tag::FALSE, _) => Err(unknown()),
            _ => self.value(tag, kind, depth),
        }
    }

    /// The tag of a list's values, and how many there are.
    fn list(&mut self) -> Result<(u8, usize)> {
        let header = self.0.byte()?;
        let count = match header >> 4 {
            15 => self.0.size(self.0.0.len())?,
            count => usize::from(count),
        };
        Ok((header & 0x0F, count))
    }

    /// The columns, groups of them before what is in them.
    fn schema(&mut self, tag: u8, element: Fields) -> Result<()> {
        if tag != tag::LIST {
            return Err(unknown());
        }
        let (tag, count) = self.list()?;
        // Children that the groups around are still to have.
        let mut missing: Vec<usize> = Vec::new();
        for _ in 0..count {
            if tag != tag::STRUCT {
                return Err(unknown());
            }
            let children = self.children(element)?;
            if children > count {
                return Err(ArchiveError::NotParquet(format!(
                    "its schema has {count} parts, and one of them claims {children}"
                )));
            }
            if let Some(last) = missing.last_mut() {
                *last -= 1;
            }
            if children > 0 {
                missing.push(children);
            }
            if missing.len() > DEEPEST_SCHEMA {
                return Err(ArchiveError::NotParquet(format!(
                    "its columns are nested deeper than {DEEPEST_SCHEMA} levels"
                )));
            }
            while missing.last() == Some(&0) {
                missing.pop();
            }
        }
        Ok(())
    }

    /// How many children a part of the schema has.
    fn children(&mut self, element: Fields) -> Result<usize> {
        let (mut number, mut children) = (0, 0);
        while let Some(tag) = self.field(&mut number)? {
            if number == NUMBER_OF_CHILDREN && tag == tag::I32 {
                // As it is read: what is negative is refused there.
                children = usize::try_from(signed(self.0.varint()?) as i32).unwrap_or(0);
            } else {
                self.value(tag, known(element, number), 1)?;
            }
        }
        Ok(children)
    }
}

/// Numbers with a sign are folded: 0, -1, 1, -2, ...
fn signed(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn unknown() -> ArchiveError {
    ArchiveError::NotParquet("its footer is not one of Parquet".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::bytes::{write_part, write_varint};

    fn folded(value: i64) -> u64 {
        (value << 1 ^ value >> 63) as u64
    }

    /// The part of a schema that has so many children.
    fn group(children: i64) -> Vec<u8> {
        let mut bytes = vec![0x35, 0, 0x18];
        write_part(&mut bytes, b"g");
        bytes.push(0x15);
        write_varint(&mut bytes, folded(children));
        bytes.push(0);
        bytes
    }

    /// Metadata with these parts of a schema, and with as many row groups as are claimed.
    fn metadata(parts: &[Vec<u8>], row_groups: u64) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xFC];
        write_varint(&mut bytes, parts.len() as u64);
        bytes.extend(parts.concat());
        bytes.extend([0x16, 0, 0x19, 0xFC]);
        write_varint(&mut bytes, row_groups);
        bytes.push(0);
        bytes
    }

    fn told(bytes: &[u8]) -> String {
        check_metadata(bytes).map_or_else(|error| error.to_string(), |()| "fine".to_string())
    }

    #[test]
    fn what_a_footer_claims_must_be_there() {
        assert_eq!(told(&metadata(&[group(0)], 0)), "fine");
        assert!(told(&metadata(&[group(0)], (1 << 31) - 1)).contains("a size of 2147483647 where at most"));
        assert!(told(&metadata(&[group((1 << 31) - 1)], 0)).contains("claims 2147483647"));
        let chain = |depth: usize| (0..=depth).map(|i| group(i64::from(i < depth))).collect::<Vec<_>>();
        assert_eq!(told(&metadata(&chain(DEEPEST_SCHEMA), 0)), "fine");
        assert!(told(&metadata(&chain(5000), 0)).contains("nested deeper than 100 levels"));
        // Children one beside the other are not deep.
        let wide: Vec<Vec<u8>> = std::iter::once(group(5000)).chain((0..5000).map(|_| group(0))).collect();
        assert_eq!(told(&metadata(&wide, 0)), "fine");
    }

    /// Else the bytes of a text could be read as fields that were not looked over.
    #[test]
    fn fields_have_the_types_that_they_are_read_as() {
        let mut text_for_version = vec![0x18];
        write_part(&mut text_for_version, b"\x02");
        text_for_version.push(0);
        assert!(told(&text_for_version).contains("not one of Parquet"));
        for offsets in [&[0x19, 0x05, 0][..], &[0x19, 0x1C, 0x15, 0, 0, 0], &[0x19, 0xFC, 0xFF, 0xFF, 0x7F]] {
            let is_fine = check_offset_index(offsets).is_ok();
            assert_eq!(is_fine, offsets.len() == 3, "{offsets:?}");
        }
    }

    #[test]
    fn nothing_makes_the_check_panic() {
        let whole = metadata(&[group(1), group(0)], 0);
        for end in 0..whole.len() {
            assert!(check_metadata(&whole[..end]).is_err());
        }
        for place in 0..whole.len() {
            for byte in 0..=255 {
                let mut changed = whole.clone();
                changed[place] = byte;
                let _ =
                    (check_metadata(&changed), check_column_index(&changed), check_offset_index(&changed));
            }
        }
        assert!(check_metadata(&[0xAC; 100_000]).is_err());
    }
}
