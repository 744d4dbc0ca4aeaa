//! Which frequencies a residual is coded with: contexts, and how those that are alike are merged.

use super::rans::Table;
use super::symbols::SYMBOLS;
use crate::archive::Result;
use crate::archive::bytes::Reader;
use crate::archive::{ArchiveError, bytes::write_varint};

/// Levels of how much the neighbours deviate.
pub(super) const NEIGHBOURS: u32 = 12;
/// Levels of how much a column deviates on average.
pub(super) const COLUMNS: u32 = 8;
/// Levels of how much the row has deviated so far.
pub(super) const ROW: u32 = 4;
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
pub(super) fn log_level(value: u32) -> u32 {
    let value = value.saturating_add(1);
    let top = value.ilog2();
    let next = if top > 0 { value >> (top - 1) & 1 } else { 0 };
    2 * top + next
}

/// A table for every context.
#[derive(Debug)]
pub(super) struct Tables {
    of_context: Vec<u8>,
    tables: Vec<Table>,
    /// Where the table of each context begins among `starts`.
    places: Vec<u32>,
    /// The starts of all tables, one table after the other: coding looks at nothing else.
    starts: Vec<u32>,
}

impl Tables {
    /// Merges contexts as long as fewer bytes come out: each half is sorted by the size of its residuals,
    /// and neighbours in that order are merged, the most similar first.
    pub fn from_counts(counts: &Counts) -> Self {
        let mut of_context = vec![0; counts.len()];
        let mut tables = Vec::new();
        for half in 0..2 {
            let used = (half..counts.len()).step_by(2).filter(|i| counts[*i].iter().any(|count| *count > 0));
            let mut groups: Vec<Group> = used.map(|i| Group::new(i, &counts[i])).collect();
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
        Self::new(of_context, tables)
    }

    fn new(of_context: Vec<u8>, tables: Vec<Table>) -> Self {
        let mut starts = Vec::new();
        let mut of_table = Vec::with_capacity(tables.len());
        for table in &tables {
            of_table.push(starts.len() as u32);
            starts.extend_from_slice(table.starts());
        }
        let places = of_context.iter().map(|table| of_table[usize::from(*table)]).collect();
        Self { of_context, tables, places, starts }
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
        Ok(Self::new(of_context, tables))
    }

    /// The starts of a context's table, and those of the tables after it.
    #[inline(always)]
    pub fn starts(&self, context: usize) -> &[u32] {
        &self.starts[self.places[context] as usize..]
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
    fn new(context: usize, counts: &[u32; SYMBOLS]) -> Self {
        let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
        let logs =
            counts.iter().enumerate().map(|(symbol, count)| (symbol as f64 + 1.0).ln() * f64::from(*count));
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
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    let used = counts.iter().map(|count| f64::from(*count)).filter(|count| *count > 0.0);
    used.map(|count| SYMBOL_BITS - count * (count / total).log2()).sum::<f64>() + TABLE_BITS
}
