//! About how much memory a job takes that adds one table, for whoever has only so much.

use super::learn::MOST_CELLS;
use super::placed::BLOCK_VALUES;

/// What learning has of every value it looks at, in bytes: its row, its cell, the number that is learned from, and the
/// block that is tried on.
const LEARNED_BYTES: usize = 4 * 8;
/// What coding has of every value of a block: its row, its cell and the state of that, the integer, what is predicted of
/// it, and the bytes that become of it.
const CODED_BYTES: usize = 6 * 8;
/// Blocks that are read ahead or wait to be written.
const BLOCKS_BESIDE: usize = 2;

/// Bytes that are held while a table of so many values is learned from, which is before any of it is coded.
pub(crate) fn learning_bytes(values: usize) -> usize {
    values.min(MOST_CELLS) * LEARNED_BYTES
}

/// Bytes that are held while so many of its blocks are coded at the same time.
pub(crate) fn coding_bytes(values: usize, threads: usize) -> usize {
    let blocks = values.div_ceil(BLOCK_VALUES).min(threads.saturating_add(BLOCKS_BESIDE));
    blocks * values.min(BLOCK_VALUES) * CODED_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_what_there_is_up_to_a_limit() {
        assert!(learning_bytes(1000) < learning_bytes(2000));
        assert_eq!(learning_bytes(1 << 30), learning_bytes(1 << 40));
        // A single block takes what it takes, on however many threads.
        assert_eq!(coding_bytes(1000, 1), coding_bytes(1000, 64));
        assert!(coding_bytes(1 << 40, 2) < coding_bytes(1 << 40, 4));
    }
}
