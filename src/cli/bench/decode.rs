//! `sparrow bench decode`.

use anyhow::Result;
use clap::Args;

use super::super::report::Report;
use super::Common;
use super::encode::{Coding, encode};
use super::input::Table;
use crate::math::metrics::{DEFAULT_NECR_TOLERANCE, ErrorTotals};
use crate::math::{Code, decoders};

#[derive(Debug, Args)]
pub(in crate::cli) struct DecodeArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    coding: Coding,
}

pub(super) fn run(arguments: &DecodeArguments) -> Result<()> {
    let DecodeArguments { common, coding } = arguments;
    let table = Table::read(&common.signals, common.column.as_deref())?;
    let mut report = Report::default();
    common.on_threads(|| {
        let coded = encode(common, coding, &table, &mut report)?;
        let codes: Vec<Code<'_>> = coded.codes.rows().collect();
        // Made once per dictionary, as the gram matrix is.
        let start = std::time::Instant::now();
        decoders::decode(&coded.dictionary, &codes[..codes.len().min(1)])?;
        report.add("prepare_decode_s", start.elapsed().as_secs_f64());
        let (decode_s, decoded) = common.best(|| Ok(decoders::decode(&coded.dictionary, &codes)?))?;
        let mut errors = ErrorTotals::default();
        for (signal, decoded) in coded.signals.rows().iter().zip(decoded.chunks_exact(coded.signals.dim())) {
            errors.add(signal.iter().copied().zip(decoded.iter().copied()), DEFAULT_NECR_TOLERANCE);
        }
        report.add("nonzeros", coded.codes.nonzeros());
        report.add("encode_s", coded.encode_s);
        report.add("decode_s", decode_s);
        report.add("decoded_mb_per_s", 8e-6 * decoded.len() as f64 / decode_s);
        report.add("nmae", errors.nmae());
        Ok(())
    })?;
    report.print(common.format)
}
