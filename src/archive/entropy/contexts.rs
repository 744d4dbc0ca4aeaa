//! Which frequencies a residual is coded with: contexts, and how those that are alike are merged.

use std::sync::LazyLock;

use super::integer::Integer;
use super::rans::{Share, Slots, Table};
use super::symbols::SYMBOLS;
use crate::archive::Result;
use crate::archive::bytes::Reader;
use crate::archive::{ArchiveError, bytes::write_varint};

/// Levels of how much the neighbours deviate.
pub(super) const NEIGHBOURS: u32 = 12;
/// Levels of how much a column deviates on average.
pub(super) const COLUMNS: u32 = 8;
/// Levels of how much the row has deviated so far.
pub(super) const ROW: u32 = 3;
/// Contexts, half of them for residuals whose sign can be guessed.
pub(super) const CONTEXTS: usize = (NEIGHBOURS * COLUMNS * ROW * 2) as usize;
/// Tables there can be for each half.
const MOST_TABLES: usize = 64;
/// What a table costs, roughly, in bits.
const TABLE_BITS: f64 = 8.0;
const SYMBOL_BITS: f64 = 11.0;

/// How often each symbol occurred in each context.
pub(super) type Counts = Vec<[u32; SYMBOLS]>;

/// Twice the binary logarithm of `value + 1`, roughly: twice the place of its highest bit, and the bit after it.
#[inline(always)]
pub(super) const fn log_level(value: u32) -> u32 {
    let value = value.saturating_add(1);
    let top = value.ilog2();
    let next = if top > 0 { value >> (top - 1) & 1 } else { 0 };
    2 * top + next
}

/// The same of a value below `2^24`, for many at once: floats have the bits that matter in front.
#[inline(always)]
pub(super) fn level_of_size(value: u32) -> u32 {
    const OF_ONE: u32 = 1.0f32.to_bits() >> 22;
    (((value as i32 + 1) as f32).to_bits() >> 22) - OF_ONE
}

/// What is left of a forecast, as far as it makes a difference to its neighbour's lean.
#[inline(always)]
pub(super) fn limited_lean(residual: impl Integer) -> i32 {
    residual.limited(4)
}

/// How much the row has deviated so far, from its mean size in 256ths.
#[inline(always)]
pub(super) fn row_level(mean: u32) -> u32 {
    (mean >> 5).min(2)
}

/// The mean once another size is known.
#[inline(always)]
pub(super) fn mean(mean: u32, size: u32) -> u32 {
    mean_of_small(mean, size.min(0xFFF))
}

/// The same of a size that is small.
#[inline(always)]
pub(super) fn mean_of_small(mean: u32, size: u32) -> u32 {
    (15 * mean + (size << 8)) >> 4
}

/// How much a column deviated lately: sizes of its last residuals, of one a period ago, and their mean in 256ths.
#[inline(always)]
pub(super) fn deviation(last: u32, before: u32, ago: u32, mean: u32) -> u32 {
    2 * last + before + 2 * ago + ((6 * mean) >> 8)
}

/// The mean of a column once another size is known.
#[inline(always)]
pub(super) fn column_mean(mean: u32, size: u32) -> u32 {
    mean - (mean >> 3) + (size.min(0xFFF) << 5)
}

/// The even context of what is known.
#[inline(always)]
pub(super) fn context(deviation: u32, column: u32, mean: u32) -> usize {
    let neighbours = u32::from(LEVELS[deviation.min(HIGHEST) as usize]);
    (((neighbours * COLUMNS + column) * ROW + row_level(mean)) * 2) as usize
}

/// Deviations from here on have the highest level.
pub(super) const HIGHEST: u32 = 47;
const LEVELS: [u8; HIGHEST as usize + 1] = {
    let mut levels = [0; HIGHEST as usize + 1];
    let mut value = 0;
    while value <= HIGHEST {
        levels[value as usize] = log_level(value) as u8;
        value += 1;
    }
    levels
};

/// What a column's level adds to a context.
pub(super) const OF_COLUMN: u32 = ROW * 2;

/// What deviations add to a context, beyond the highest that makes a difference, too.
pub(super) const LEVEL_CONTEXTS: [u16; 256] = {
    let mut contexts = [0; 256];
    let mut value = 0;
    while value < contexts.len() {
        let level = LEVELS[if value < HIGHEST as usize { value } else { HIGHEST as usize }];
        contexts[value] = level as u16 * (COLUMNS * OF_COLUMN) as u16;
        value += 1;
    }
    contexts
};

/// A table for every context.
#[derive(Debug)]
pub(super) struct Tables {
    of_context: Vec<u8>,
    tables: Vec<Table>,
}

impl Tables {
    /// Merges contexts as long as fewer bytes come out: each half is sorted by the size of its residuals,
    /// and neighbours in that order are merged, the most similar first.
    pub fn from_counts(counts: &Counts) -> Self {
        let mut of_context = vec![0; counts.len()];
        let mut tables = Vec::new();
        let logs: [f64; SYMBOLS] = std::array::from_fn(|symbol| (symbol as f64 + 1.0).ln());
        for half in 0..2 {
            let used = (half..counts.len()).step_by(2).filter(|i| counts[*i].iter().any(|count| *count > 0));
            let mut groups: Vec<Group> = used.map(|i| Group::new(i, &counts[i], &logs)).collect();
            groups.sort_by(|a, b| a.size.total_cmp(&b.size).then(a.members.cmp(&b.members)));
            merge(&mut groups);
            for group in groups {
                for member in &group.members {
                    of_context[*member] = tables.len() as u8;
                }
                tables.push(Table::from_counts(&group.counts));
            }
        }
        // Contexts that do not occur follow those before them, which makes longer runs.
        for context in 2..counts.len() {
            if counts[context].iter().all(|count| *count == 0) {
                of_context[context] = of_context[context - 2];
            }
        }
        if tables.is_empty() {
            tables.push(Table::from_counts(&[0; SYMBOLS]));
        }
        Self { of_context, tables }
    }

    /// The tables, and runs of contexts of one half that share one.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        write_varint(bytes, self.tables.len() as u64);
        self.tables.iter().for_each(|table| table.write(bytes));
        for half in 0..2 {
            let halved: Vec<u8> = self.of_context[half..].iter().step_by(2).copied().collect();
            for run in halved.chunk_by(|a, b| a == b) {
                bytes.push(run[0]);
                write_varint(bytes, run.len() as u64);
            }
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let count = reader.size(2 * MOST_TABLES)?;
        let tables = (0..count).map(|_| Table::read(reader)).collect::<Result<Vec<Table>>>()?;
        let mut of_context = vec![0; CONTEXTS];
        for half in 0..2 {
            let mut context = half;
            while context < CONTEXTS {
                let table = reader.byte()?;
                if usize::from(table) >= count {
                    return Err(ArchiveError::corrupt("a context has no table"));
                }
                let run = reader.size((CONTEXTS + 1 - context) / 2)?;
                if run == 0 {
                    return Err(ArchiveError::corrupt("an empty run of contexts"));
                }
                for _ in 0..run {
                    of_context[context] = table;
                    context += 2;
                }
            }
        }
        Ok(Self { of_context, tables })
    }

    /// The shares of all symbols of every table, and which table each context has.
    pub fn shares(&self) -> (Vec<[Share; SYMBOLS]>, &[u8]) {
        (self.tables.iter().map(Table::shares).collect(), &self.of_context)
    }

    /// Where to look for symbols.
    pub fn slots(&self) -> Vec<Slots> {
        self.tables.iter().map(Table::slots).collect()
    }

    /// The same for every context.
    pub fn of_contexts<'a>(&self, slots: &'a [Slots]) -> [&'a Slots; CONTEXTS] {
        std::array::from_fn(|context| &slots[usize::from(self.of_context[context])])
    }
}

/// Contexts that share a table.
struct Group {
    members: Vec<usize>,
    counts: [u32; SYMBOLS],
    bits: f64,
    /// The mean logarithm of the symbols.
    size: f64,
}

impl Group {
    fn new(context: usize, counts: &[u32; SYMBOLS], logs: &[f64; SYMBOLS]) -> Self {
        let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
        let logs = counts.iter().zip(logs).map(|(count, log)| log * f64::from(*count));
        Self { members: vec![context], counts: *counts, bits: bits(counts), size: logs.sum::<f64>() / total }
    }
}

fn merge(groups: &mut Vec<Group>) {
    let sum = |a: &Group, b: &Group| -> [u32; SYMBOLS] { std::array::from_fn(|i| a.counts[i] + b.counts[i]) };
    let gain = |a: &Group, b: &Group| a.bits + b.bits - bits(&sum(a, b));
    let mut gains: Vec<f64> = groups.windows(2).map(|pair| gain(&pair[0], &pair[1])).collect();
    while let Some((best, most)) = gains.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)) {
        if most <= 0.0 && groups.len() <= MOST_TABLES {
            return;
        }
        let other = groups.remove(best + 1);
        let group = &mut groups[best];
        group.counts = sum(group, &other);
        group.bits = bits(&group.counts);
        group.members.extend(other.members);
        gains.remove(best);
        if best > 0 {
            gains[best - 1] = gain(&groups[best - 1], &groups[best]);
        }
        if best < gains.len() {
            gains[best] = gain(&groups[best], &groups[best + 1]);
        }
    }
}

/// What symbols with these counts take, with their table.
fn bits(counts: &[u32; SYMBOLS]) -> f64 {
    let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    let (mut total, mut bits) = (0, TABLE_BITS);
    for count in counts[..used].iter().filter(|count| **count > 0) {
        total += count;
        bits += SYMBOL_BITS - times_its_log(*count);
    }
    bits + times_its_log(total)
}

/// Counts whose logarithms are known: most are small, and merging asks for hundreds of thousands of them.
const KNOWN_LOGS: usize = 1 << 12;

/// `count log2(count)`.
fn times_its_log(count: u32) -> f64 {
    static KNOWN: LazyLock<Vec<f64>> = LazyLock::new(|| (0..KNOWN_LOGS).map(|i| product(i as f64)).collect());
    fn product(count: f64) -> f64 {
        if count > 0.0 { count * count.log2() } else { 0.0 }
    }
    KNOWN.get(count as usize).copied().unwrap_or_else(|| product(f64::from(count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::entropy::integer::LARGEST_SIZE;

    #[test]
    fn both_ways_to_levels_agree() {
        let largest = 10 * LARGEST_SIZE;
        let steps = (0..1 << 16).chain((0..largest).step_by(997)).chain((0..24).flat_map(|bit| {
            let power = 1u32 << bit;
            [power.saturating_sub(2), power - 1, power]
        }));
        for value in steps.filter(|value| *value <= largest) {
            assert_eq!(level_of_size(value), log_level(value), "{value}");
        }
    }
}
