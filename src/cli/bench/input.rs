//! The tables a benchmark works on, read into memory before anything is timed.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::DataType;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::cli::columns::find_column;
use crate::columnar::{Row, VectorColumn, dictionary_from_bytes, is_vector_type};
use crate::math::{Dictionary, Signals, kernels};

/// One column of a Parquet file: the named one, or the only one that `fits`.
fn column(path: &Path, name: Option<&str>, what: &str, fits: fn(&DataType) -> bool) -> Result<ArrayRef> {
    let context = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(context)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).with_context(context)?;
    let found = find_column(builder.schema().fields(), name, what, fits).with_context(context)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), [found]);
    let reader = builder.with_projection(mask).build().with_context(context)?;
    let batches = reader.collect::<std::result::Result<Vec<_>, _>>().with_context(context)?;
    let columns: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
    ensure!(!columns.is_empty(), "{} has no rows", path.display());
    Ok(concat(&columns)?)
}

/// The name of the column that [`Table::read`] reads.
pub(super) fn vector_column(path: &Path, name: Option<&str>) -> Result<String> {
    let context = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(context)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).with_context(context)?;
    let found =
        find_column(builder.schema().fields(), name, "vectors", is_vector_type).with_context(context)?;
    Ok(builder.schema().field(found).name().clone())
}

/// The vectors of a Parquet file, all of them whole.
pub(super) struct Table(VectorColumn);

impl Table {
    pub fn read(path: &Path, name: Option<&str>) -> Result<Self> {
        Ok(Self(VectorColumn::new(&column(path, name, "vectors", is_vector_type)?)?))
    }

    pub fn signals(&self) -> Result<Signals<'_>> {
        let row = |i: usize| match self.0.row(i) {
            Row::Values(values) => Ok(values),
            Row::Null => bail!("row {i} is NULL; a benchmark takes whole vectors only"),
            Row::NullElement { position, .. } => {
                bail!("row {i} is NULL at position {position}; a benchmark takes whole vectors only")
            }
        };
        Ok(Signals::new((0..self.0.len()).map(row).collect::<Result<_>>()?)?)
    }
}

/// A dictionary made by `sparse_train` or `sparse_dictionary`, or atoms as a column of vectors.
pub(super) fn dictionary(path: &Path, sigma: Option<f64>, lambda: Option<f64>) -> Result<Dictionary> {
    let binary = column(path, None, "dictionaries", DataType::is_binary);
    if let Ok(array) = binary {
        ensure!(
            array.len() == 1 && array.is_valid(0),
            "{} must hold one dictionary, in one row",
            path.display()
        );
        ensure!(
            sigma.is_none(),
            "{} holds a dictionary, which knows its sigma; --sigma is for plain vectors",
            path.display()
        );
        let bytes = cast(&array, &DataType::LargeBinary)?;
        let read = dictionary_from_bytes(bytes.as_binary::<i64>().value(0));
        return read.with_context(|| format!("cannot read {}", path.display()));
    }
    let atoms = Table::read(path, None).context("atoms must be the only column of vectors")?;
    let signals = atoms.signals()?;
    let (Some(sigma), Some(lambda)) = (sigma, lambda) else {
        bail!("{} holds plain vectors: give --sigma and --lambda as well", path.display());
    };
    let kernel = kernels::build(kernels::Rbf::NAME, &|_| Some(sigma))?;
    Ok(Dictionary::new(signals.rows().concat(), signals.dim(), kernel, lambda, None)?)
}
