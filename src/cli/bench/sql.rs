//! The same encoding through SQL, from Parquet to Parquet.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use datafusion::arrow::array::{ArrayRef, BinaryViewArray};
use datafusion::arrow::record_batch::RecordBatch;

use super::Common;
use super::encode::Coding;
use crate::cli::progress::TrainingProgress;
use crate::cli::{runtime, session};
use crate::columnar::dictionary_to_bytes;
use crate::math::PreparedDictionary;

/// The shortest time of all repeats. As with the engine, the dictionary is prepared beforehand.
pub(super) fn encode(
    common: &Common,
    coding: &Coding,
    dictionary: &PreparedDictionary,
    output: &Path,
) -> Result<f64> {
    let session = session::session(Some(common.threads()), Arc::new(TrainingProgress::default()))?;
    let bytes = dictionary_to_bytes(dictionary.dictionary())?;
    let column: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([bytes]));
    session.register_batch("bench_dictionary", RecordBatch::try_from_iter([("dictionary", column)])?)?;
    let quoted = |path: &Path| path.display().to_string().replace('\'', "''");
    let column = common.vector_column()?.replace('"', "\"\"");
    let (lambda, tolerance) = (common.lambda.unwrap_or(dictionary.dictionary().lambda()), coding.tolerance);
    let select = format!(
        "SELECT sparse_encode(\"{column}\", (SELECT dictionary FROM bench_dictionary), \
         {{lambda: {lambda:e}, tolerance: {tolerance:e}, coder: '{}'}}) AS code FROM '{}'",
        coding.coder,
        quoted(&common.signals),
    );
    // Written aside, since the output may be a file that is read.
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let aside = tempfile::Builder::new().prefix(".sparrow-").tempdir_in(folder);
    let aside = aside.with_context(|| format!("cannot write into {}", folder.display()))?;
    let written = aside.path().join("codes.parquet");
    let statement = format!("COPY ({select}) TO '{}' STORED AS PARQUET", quoted(&written));
    let best = runtime()?.block_on(async {
        let mut best = f64::INFINITY;
        for _ in 0..=common.repeats {
            let start = Instant::now();
            session.sql(&statement).await?.collect().await.context("sparse_encode in SQL")?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok::<_, anyhow::Error>(best)
    })?;
    std::fs::rename(&written, output).with_context(|| format!("cannot write {}", output.display()))?;
    Ok(best)
}
