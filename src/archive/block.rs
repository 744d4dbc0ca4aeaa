//! A block of signals: coded and decoded as a whole, since residuals know their neighbours.

use super::cells::{Cell, Cells, Group, gather};
use super::codebook::Codebook;
use super::data_file_writer::Settings;
use super::entropy::{Integer, Integers};
use super::error_sums::ErrorSums;
use super::left::Left;
use super::number::{Number, by_number};
use super::predictor::Predictor;
use super::quantiser::Quantiser;
use super::residuals::Residuals;
use super::rounding::round_group;
use super::sparse_codes::{WholeCode, sparse_codes};
use super::{ArchiveError, Result};
use crate::math::vectorised;

/// A coded block: a code for every signal, and the rest of every group.
#[derive(Debug)]
pub(crate) struct CodedBlock {
    pub codes: Vec<WholeCode>,
    pub groups: Vec<Vec<u8>>,
    pub error: ErrorSums,
    /// What the codes alone leave, for every [`CHUNK`] signals: this is what tells that a dictionary ages.
    pub left: Vec<Left>,
}

/// Signals whose errors are added up.
pub(crate) const CHUNK: usize = 64;

/// What a block is coded for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Purpose {
    /// Its bytes are written: what comes back from them is checked.
    Publish,
    /// To see what it leads to.
    Trial,
}

/// Codes a block.
pub(crate) fn encode(
    settings: &Settings,
    groups: &[Group],
    cells: &Cells,
    purpose: Purpose,
) -> Result<CodedBlock> {
    let codebook = settings.codebook.as_ref();
    let codes = sparse_codes(codebook, groups, cells)?;
    let mut coded = CodedBlock {
        left: vec![Left::default(); codes.len().div_ceil(CHUNK)],
        codes,
        groups: Vec::with_capacity(groups.len()),
        error: ErrorSums::default(),
    };
    for group in groups {
        let part = gather(cells, group);
        let predictor = Predictor::new(codebook, group);
        let residuals = round_group(group, settings, &part, &predictor, &mut coded)?;
        let bytes = residuals.write(group.sensors.len());
        // The last word before a block is written. Rounding has compared every value with what these residuals make of
        // it; here it is seen that a reader finds the same residuals.
        if purpose == Purpose::Publish
            && Residuals::read(&bytes, group.sensors.len(), &part.state)? != residuals
        {
            return Err(ArchiveError::corrupt("a block does not come back as it was written"));
        }
        coded.groups.push(bytes);
    }
    Ok(coded)
}

/// Decodes one group of a block. `present` says which of its cells there are.
pub(crate) fn decode(
    codebook: &Codebook,
    group: &Group,
    codes: &[WholeCode],
    bytes: &[u8],
    present: &[Cell],
) -> Result<Cells> {
    if codes.iter().flatten().any(|(atom, _)| usize::from(*atom) >= codebook.atoms()) {
        return Err(ArchiveError::corrupt("a code names an atom that the dictionary does not have"));
    }
    let (number, width) = (group.number()?, group.sensors.len());
    if width == 0 || present.len() != codes.len() * width {
        return Err(ArchiveError::corrupt("a block has another number of codes than of signals"));
    }
    let residuals = Residuals::read(bytes, width, present)?;
    let predictor = Predictor::new(codebook, group);
    let mut raw = vec![0; present.len()];
    vectorised(
        #[inline(always)]
        || by_number!(number, restore(&residuals, codes, &predictor, &mut raw)),
    );
    for (place, exception) in &residuals.exceptions {
        let slot =
            raw.get_mut(*place).ok_or_else(|| ArchiveError::corrupt("an exception is out of range"))?;
        *slot = *exception;
    }
    Ok(Cells { sensors: width, raw: raw.into(), state: residuals.state })
}

/// The values of all integers.
#[inline(always)]
fn restore(
    number: Number,
    residuals: &Residuals,
    codes: &[WholeCode],
    predictor: &Predictor,
    raw: &mut [u64],
) {
    let (width, quantiser) = (predictor.width(), residuals.quantiser);
    let mut memory = predictor.memory();
    let mut predictions = vec![0.0; width];
    for (signal, (code, raw)) in codes.iter().zip(raw.chunks_exact_mut(width)).enumerate() {
        predictor.predict(code, &mut memory, &mut predictions);
        let cells = signal * width..(signal + 1) * width;
        match (&residuals.integers, quantiser) {
            (_, Quantiser::Prediction) => {
                for (raw, prediction) in raw.iter_mut().zip(&predictions) {
                    *raw = number.nearest(*prediction);
                }
            }
            (Integers::Small(integers), _) => {
                restore_row(number, quantiser, &integers[cells], &predictions, raw);
            }
            (Integers::Wide(integers), _) => {
                restore_row(number, quantiser, &integers[cells], &predictions, raw);
            }
        }
    }
}

#[inline(always)]
fn restore_row<T: Integer>(
    number: Number,
    quantiser: Quantiser,
    integers: &[T],
    predictions: &[f64],
    raw: &mut [u64],
) {
    let cells = raw.iter_mut().zip(integers).zip(predictions);
    cells
        .for_each(|((raw, integer), prediction)| *raw = quantiser.value(number, integer.wide(), *prediction));
}
