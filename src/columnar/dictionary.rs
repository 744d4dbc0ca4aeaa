//! A dictionary as bytes: a value that can be stored in any table.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `SPARROWD` |
//! | 4 | format version, little-endian |
//! | 16 | XXH3-128 of all that follows, little-endian |
//! | rest | Arrow IPC stream: one batch with a column `atom` (`FixedSizeList<Float64>`), one row per atom; everything else is JSON in the schema's metadata under `sparrow.dictionary` |
//!
//! The same dictionary gives the same bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, AsArray, FixedSizeListArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::{ColumnarError, Result};
use crate::math::{Choice, Dictionary, Round, Selection, Training, kernels};

/// The version that is written, and the latest that is read.
pub const FORMAT_VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"SPARROWD";
const HEADER: usize = 8 + 4 + 16;
const METADATA_KEY: &str = "sparrow.dictionary";

/// What the schema's metadata holds.
#[derive(Serialize, Deserialize)]
struct Description {
    kernel: String,
    parameters: BTreeMap<String, f64>,
    lambda: f64,
    training: Option<TrainingRecord>,
}

#[derive(Serialize, Deserialize)]
struct TrainingRecord {
    learner: String,
    seed: u64,
    atoms_requested: u64,
    rows_seen: u64,
    rows_skipped: u64,
    rows_sampled: u64,
    converged: bool,
    /// Objective, nonzeros, reseeded atoms of each round.
    history: Vec<(f64, u64, u32)>,
    /// Only where parameters were chosen for a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selection: Option<SelectionRecord>,
}

#[derive(Serialize, Deserialize)]
struct SelectionRecord {
    target: String,
    met: bool,
    rows_held_out: u64,
    ratio: f64,
    nmae: f64,
    max_error: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    codes_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    values_bytes: Option<u64>,
    tried: Vec<ChoiceRecord>,
}

/// Atoms, kernel, sigma, lambda, bytes, NMAE and largest error of a choice.
type ChoiceRecord = (u64, String, Option<f64>, f64, u64, f64, f64);

/// Writes a dictionary.
pub fn dictionary_to_bytes(dictionary: &Dictionary) -> Result<Vec<u8>> {
    let kernel = dictionary.kernel();
    let parameters = kernel.parameters().into_iter().map(|(name, value)| (name.to_string(), value));
    let description = Description {
        kernel: kernel.name().to_string(),
        parameters: parameters.collect(),
        lambda: dictionary.lambda(),
        training: dictionary.training().map(record),
    };
    let description =
        serde_json::to_string(&description).map_err(|e| ColumnarError::Corrupt(e.to_string()))?;
    let item = Arc::new(Field::new_list_field(DataType::Float64, false));
    let dim = i32::try_from(dictionary.dim()).map_err(|_| ColumnarError::TooMany(dictionary.dim()))?;
    let values = Arc::new(Float64Array::from(dictionary.atoms().to_vec()));
    let atoms = FixedSizeListArray::try_new(item, dim, values, None)?;
    let schema = Schema::new_with_metadata(
        vec![Field::new("atom", atoms.data_type().clone(), false)],
        HashMap::from([(METADATA_KEY.to_string(), description)]),
    );
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(atoms)])?;
    let mut bytes = vec![0; HEADER];
    let mut writer = StreamWriter::try_new(&mut bytes, batch.schema_ref())?;
    writer.write(&batch)?;
    writer.finish()?;
    drop(writer);
    let hash = XxHash3_128::oneshot(&bytes[HEADER..]);
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[12..HEADER].copy_from_slice(&hash.to_le_bytes());
    Ok(bytes)
}

/// Reads a dictionary; nothing is believed before the hash has been checked.
pub fn dictionary_from_bytes(bytes: &[u8]) -> Result<Dictionary> {
    if bytes.len() < 8 || &bytes[..8] != MAGIC {
        let start: String = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let what = if bytes.is_empty() {
            "no bytes".to_string()
        } else {
            format!("{} bytes starting with {start}", bytes.len())
        };
        return Err(ColumnarError::NotADictionary(what));
    }
    if bytes.len() < HEADER {
        return Err(ColumnarError::Corrupt(format!("only {} bytes", bytes.len())));
    }
    // Cannot fail: the slices have the lengths of the arrays.
    let version = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
    let hash = u128::from_le_bytes(bytes[12..HEADER].try_into().unwrap());
    if version > FORMAT_VERSION {
        return Err(ColumnarError::NewerVersion { found: version, known: FORMAT_VERSION });
    }
    if version == 0 || XxHash3_128::oneshot(&bytes[HEADER..]) != hash {
        return Err(ColumnarError::Corrupt("its content does not match its hash".to_string()));
    }
    let mut reader = StreamReader::try_new(&bytes[HEADER..], None)?;
    let unreadable = |what: &str| ColumnarError::Corrupt(what.to_string());
    let schema = reader.schema();
    let description = schema.metadata().get(METADATA_KEY).ok_or_else(|| unreadable("no description"))?;
    let description: Description =
        serde_json::from_str(description).map_err(|e| ColumnarError::Corrupt(e.to_string()))?;
    let batch = reader.next().ok_or_else(|| unreadable("no atoms"))??;
    let atoms = batch.columns().first().and_then(|column| column.as_fixed_size_list_opt());
    let atoms = atoms.ok_or_else(|| unreadable("atoms are not vectors"))?;
    let values = atoms.values().as_primitive_opt::<Float64Type>();
    let values = values.ok_or_else(|| unreadable("atoms are not doubles"))?;
    let kernel = kernels::build(&description.kernel, &|name| description.parameters.get(name).copied())?;
    let dim = atoms.value_length() as usize;
    let training = description.training.map(training);
    Ok(Dictionary::new(values.values().to_vec(), dim, kernel, description.lambda, training)?)
}

fn record(training: &Training) -> TrainingRecord {
    let history = training.history.iter().map(|r| (r.objective, r.nonzeros, r.reseeded)).collect();
    TrainingRecord {
        learner: training.learner.clone(),
        seed: training.seed,
        atoms_requested: training.atoms_requested,
        rows_seen: training.rows_seen,
        rows_skipped: training.rows_skipped,
        rows_sampled: training.rows_sampled,
        converged: training.converged,
        history,
        selection: training.selection.as_ref().map(selection_record),
    }
}

fn selection_record(selection: &Selection) -> SelectionRecord {
    let tried = selection
        .tried
        .iter()
        .map(|c| (c.atoms, c.kernel.clone(), c.sigma, c.lambda, c.bytes, c.nmae, c.max_error));
    SelectionRecord {
        target: selection.target.clone(),
        met: selection.met,
        rows_held_out: selection.rows_held_out,
        ratio: selection.ratio,
        nmae: selection.nmae,
        max_error: selection.max_error,
        codes_bytes: selection.codes_bytes,
        values_bytes: selection.values_bytes,
        tried: tried.collect(),
    }
}

fn selection(record: SelectionRecord) -> Selection {
    let choice = |(atoms, kernel, sigma, lambda, bytes, nmae, max_error)| Choice {
        atoms,
        kernel,
        sigma,
        lambda,
        bytes,
        nmae,
        max_error,
    };
    Selection {
        target: record.target,
        met: record.met,
        rows_held_out: record.rows_held_out,
        ratio: record.ratio,
        nmae: record.nmae,
        max_error: record.max_error,
        codes_bytes: record.codes_bytes,
        values_bytes: record.values_bytes,
        tried: record.tried.into_iter().map(choice).collect(),
    }
}

fn training(record: TrainingRecord) -> Training {
    let round = |(objective, nonzeros, reseeded)| Round { objective, nonzeros, reseeded };
    Training {
        learner: record.learner,
        seed: record.seed,
        atoms_requested: record.atoms_requested,
        rows_seen: record.rows_seen,
        rows_skipped: record.rows_skipped,
        rows_sampled: record.rows_sampled,
        converged: record.converged,
        history: record.history.into_iter().map(round).collect(),
        selection: record.selection.map(selection),
    }
}
