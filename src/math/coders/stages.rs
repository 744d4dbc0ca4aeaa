//! Parts of the work of coding on their own, for benchmarks.

use super::batch::map_blocks;
use super::similarities::{ExactBlock, ScreenedBlock, SimilarityBlock};
use crate::math::product::inner_products;
use crate::math::signals::Rows;
use crate::math::{PreparedDictionary, Result, Signals};

/// Part of the work of coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The product of all signals with all atoms, in double precision.
    Product,
    /// All similarities as `fksc` uses them.
    Kernel,
}

/// Does part of the work of coding.
pub(crate) fn run_stage(dictionary: &PreparedDictionary, signals: &Signals<'_>, stage: Stage) -> Result<()> {
    let gram = dictionary.gram()?;
    let done = match stage {
        Stage::Product => map_blocks(signals.len(), |reused: &mut (Rows, Vec<f64>), range| {
            reused.0.fill(&signals.rows()[range.clone()], dictionary.centre(), range.start)?;
            inner_products(reused.0.all(), gram.rows.all(), &mut reused.1);
            Ok(())
        }),
        Stage::Kernel if gram.screen.is_some() => {
            map_blocks(signals.len(), |block: &mut ScreenedBlock, range| {
                block.fill(dictionary, gram, signals, range)
            })
        }
        Stage::Kernel => map_blocks(signals.len(), |block: &mut ExactBlock, range| {
            block.fill(dictionary, gram, signals, range)
        }),
    };
    done.map(|_| ())
}
