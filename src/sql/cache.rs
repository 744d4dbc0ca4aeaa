//! Dictionaries parsed once per process, found again by the hash of their bytes.
//!
//! A query hands the same bytes to a function with every batch of every partition. Parsing them and computing the gram
//! matrix is much work, and even hashing them is some for a small batch: where arrays share them they are known by their place.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::{Array, BinaryViewArray};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use twox_hash::XxHash3_128;

use crate::columnar::{ColumnarError, dictionary_from_bytes};
use crate::math::PreparedDictionary;

/// Bytes of prepared dictionaries that are kept; one that is larger than half of it counts as half.
const CAPACITY: u64 = 1 << 30;
const EXPECTED_DICTIONARIES: usize = 1000;

type Key = u128;
type Prepared = Arc<PreparedDictionary>;

#[derive(Clone)]
struct Size;

impl Weighter<Key, Prepared> for Size {
    fn weight(&self, _key: &Key, dictionary: &Prepared) -> u64 {
        let (atoms, dim) = (dictionary.dictionary().len() as u64, dictionary.dictionary().dim() as u64);
        // With both matrices, though they are computed only when asked for. One that is larger than
        // the cache would not be kept at all, and be parsed anew for every batch.
        (8 * (4 * atoms * dim + 2 * atoms * atoms)).clamp(1, CAPACITY / 2)
    }
}

/// Bytes that stay in memory so that nothing else can be at their place.
const HELD_CAPACITY: u64 = 1 << 28;

/// Where bytes are, and how many.
type Place = (usize, usize);

/// A dictionary whose bytes are in memory for as long as this is.
#[derive(Clone)]
struct Held {
    bytes: BinaryViewArray,
    /// The other cache decides how long it lives.
    dictionary: Weak<PreparedDictionary>,
}

#[derive(Clone)]
struct HeldSize;

impl Weighter<Place, Held> for HeldSize {
    fn weight(&self, _place: &Place, held: &Held) -> u64 {
        held.bytes.get_buffer_memory_size().max(1) as u64
    }
}

static PARSED: AtomicU64 = AtomicU64::new(0);
static CACHE: LazyLock<Cache<Key, Prepared, Size>> = LazyLock::new(|| cache(CAPACITY, Size));
static PLACES: LazyLock<Cache<Place, Held, HeldSize>> = LazyLock::new(|| cache(HELD_CAPACITY, HeldSize));

fn cache<K: Eq + Hash, V: Clone, W: Weighter<K, V> + Clone>(capacity: u64, weighter: W) -> Cache<K, V, W> {
    let options = OptionsBuilder::new()
        .estimated_items_capacity(EXPECTED_DICTIONARIES)
        .weight_capacity(capacity)
        .shards(1)
        .build()
        // Cannot fail: both capacities are set.
        .unwrap();
    Cache::with_options(options, weighter, DefaultHashBuilder::default(), DefaultLifecycle::default())
}

/// How many dictionaries this process has parsed; a query over any number of rows adds one for each
/// dictionary it uses for the first time.
pub fn dictionaries_parsed() -> u64 {
    PARSED.load(Ordering::Relaxed)
}

/// The dictionary in these bytes. Threads that ask for the same one wait for the first.
pub(super) fn prepared(bytes: &[u8]) -> Result<Prepared, ColumnarError> {
    CACHE.get_or_insert_with(&XxHash3_128::oneshot(bytes), || {
        PARSED.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(PreparedDictionary::new(dictionary_from_bytes(bytes)?)?))
    })
}

/// The same for a value of an array that a whole query shares, which is not looked at where it was seen before.
pub(super) fn prepared_at(values: &BinaryViewArray, row: usize) -> Result<Prepared, ColumnarError> {
    let bytes = values.value(row);
    let place = (bytes.as_ptr() as usize, bytes.len());
    if let Some(known) = PLACES.get(&place).and_then(|held| held.dictionary.upgrade()) {
        return Ok(known);
    }
    let dictionary = prepared(bytes)?;
    PLACES.insert(place, Held { bytes: values.slice(row, 1), dictionary: Arc::downgrade(&dictionary) });
    Ok(dictionary)
}
