//! Reading and writing the small parts of a block.

use super::{ArchiveError, Result};

/// Bytes read one part after the other; running out of them is an error, never a panic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// A number in groups of seven bits, the lowest first; all but the last have the top bit set.
    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ArchiveError::corrupt("a number is too long"))
    }

    /// A number that something in memory will be as large as.
    pub fn size(&mut self, most: usize) -> Result<usize> {
        let value = self.varint()?;
        match usize::try_from(value) {
            Ok(size) if size <= most => Ok(size),
            _ => Err(ArchiveError::corrupt(format!("a size of {value} where at most {most} can be"))),
        }
    }

    /// A part that is preceded by its length.
    pub fn part(&mut self) -> Result<&'a [u8]> {
        let length = self.size(self.0.len())?;
        self.take(length)
    }
}

fn cut_short() -> ArchiveError {
    ArchiveError::corrupt("the data ends too early")
}

pub(super) fn write_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

pub(super) fn write_part(bytes: &mut Vec<u8>, part: &[u8]) {
    write_varint(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}
