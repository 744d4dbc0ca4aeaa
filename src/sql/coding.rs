//! Coding a column, for the functions that do: options and rows.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::ColumnarValue;

use super::arguments::{by_dictionary, for_each_group};
use super::errors::{data_error, option_error};
use super::memory::FunctionMemory;
use super::options::{Kind, Known, Options};
use crate::columnar::{ColumnarError, Row, VectorColumn};
use crate::math::coders::{self, Form};
use crate::math::{
    Coder, CoderOptions, Codes, MathError, PreparedDictionary, Signals, check_vector as check_values,
};

/// What users may set of codes that they are given: how they are coded, and last what they are like.
pub(super) const OF_CODES: Known = &[
    ("lambda", Kind::Number),
    ("coder", Kind::Text),
    ("max_nonzeros", Kind::Count),
    ("residual", Kind::Number),
    ("tolerance", Kind::Number),
    ("on_bad", Kind::Text),
    ("compact", Kind::Flag),
];
/// What users may set of coding.
pub(super) const OPTIONS: Known = match OF_CODES.split_last() {
    Some((_, of_coding)) => of_coding,
    None => OF_CODES,
};

/// Rows that were coded over one dictionary.
pub(super) struct Coded<'a> {
    pub dictionary: &'a PreparedDictionary,
    /// The rows that have a vector, and their codes.
    pub signals: Signals<'a>,
    pub codes: Codes,
    /// Which rows those are.
    pub present: Vec<bool>,
    /// The penalty that the codes' objectives contain.
    pub lambda: f64,
}

/// The options with their values.
#[derive(Debug)]
pub(super) struct Settings {
    function: &'static str,
    coder: Arc<dyn Coder>,
    lambda: Option<f64>,
    max_nonzeros: Option<u64>,
    residual: Option<f64>,
    tolerance: Option<f64>,
    bad_becomes_null: bool,
    memory: FunctionMemory,
}

impl Settings {
    /// `default_coder` is used where none is named.
    pub fn new(options: &Options, default_coder: &str) -> Result<Self> {
        let function = options.function();
        let coder = options.text("coder")?;
        let coder = coders::by_name(coder.as_deref().unwrap_or(default_coder));
        let bad_becomes_null = match options.text("on_bad")?.as_deref() {
            None | Some("error") => false,
            Some("null") => true,
            Some(other) => return plan_err!("{function}: unknown on_bad '{other}'; known: error, null"),
        };
        let settings = Self {
            function,
            coder: coder.map_err(|error| option_error(function, error))?,
            lambda: options.number("lambda")?,
            max_nonzeros: options.count("max_nonzeros")?,
            residual: options.number("residual")?,
            tolerance: options.number("tolerance")?,
            bad_becomes_null,
            memory: FunctionMemory::default(),
        };
        settings.check_heeded()?;
        // Refuses bad values before there is a dictionary to take the default lambda from.
        settings.coder_options(1.0)?;
        Ok(settings)
    }

    /// The same for a function that works row by row: a coder that couples rows would make its answer
    /// depend on how batches are cut.
    pub fn for_single_rows(options: &Options) -> Result<Self> {
        let settings = Self::new(options, coders::names()[0])?;
        if settings.coder.form() == Form::Coupled {
            let (function, coder) = (settings.function, settings.coder.name());
            return plan_err!(
                "{function}: coder '{coder}' codes rows together; use sparse_encode_jointly(v, dictionary, \
                 {{coder: '{coder}'}}) OVER (PARTITION BY ...), which says which rows those are"
            );
        }
        Ok(settings)
    }

    /// The same for a function that codes more than a batch at a time.
    pub fn charged_to(self, memory: &FunctionMemory) -> Self {
        Self { memory: memory.clone(), ..self }
    }

    /// Bytes that coding so many rows holds: the rows and, where they are coded together, four numbers for each of them
    /// and every atom.
    fn workspace(&self, dictionary: &PreparedDictionary, rows: usize) -> usize {
        let (atoms, dim) = (dictionary.dictionary().len(), dictionary.dictionary().dim());
        let per_row = if self.coder.form() == Form::Coupled { dim + 4 * atoms } else { dim };
        rows.saturating_mul(per_row).saturating_mul(size_of::<f64>())
    }

    /// An option that makes no difference to the coder is a mistake, as is one that it cannot do without.
    fn check_heeded(&self) -> Result<()> {
        let given = [
            ("lambda", self.lambda.is_some()),
            ("max_nonzeros", self.max_nonzeros.is_some()),
            ("residual", self.residual.is_some()),
            ("tolerance", self.tolerance.is_some()),
        ];
        let (heeds, requires) = (self.coder.heeds(), self.coder.requires());
        if let Some((name, _)) = given.iter().find(|(name, given)| !given && requires.contains(name)) {
            return plan_err!("{}: coder '{}' needs the option {name}", self.function, self.coder.name());
        }
        match given.iter().find(|(name, given)| *given && !heeds.contains(name)) {
            Some((name, _)) => plan_err!(
                "{}: coder '{}' has no option {name}; it has: {}",
                self.function,
                self.coder.name(),
                heeds.join(", ")
            ),
            None => Ok(()),
        }
    }

    fn coder_options(&self, default_lambda: f64) -> Result<CoderOptions> {
        let build = || {
            let mut options = CoderOptions::new(self.lambda.unwrap_or(default_lambda))?;
            if let Some(most) = self.max_nonzeros {
                options = options.with_max_nonzeros(usize::try_from(most).unwrap_or(usize::MAX))?;
            }
            if let Some(residual) = self.residual {
                options = options.with_residual(residual)?;
            }
            if let Some(tolerance) = self.tolerance {
                options = options.with_tolerance(tolerance)?;
            }
            Ok(options)
        };
        build().map_err(|error| option_error(self.function, error))
    }

    /// Codes a column, each row over its own dictionary; `result` makes rows of the given type of the codes.
    /// `names` are those of the two columns.
    pub fn map_codes(
        &self,
        names: [&str; 2],
        vectors: &ArrayRef,
        dictionaries: &ColumnarValue,
        result_type: &DataType,
        result: impl Fn(Coded<'_>) -> std::result::Result<ArrayRef, ColumnarError>,
    ) -> Result<ColumnarValue> {
        let [column, dictionary_column] = names;
        let failed = |error: ColumnarError| data_error(self.function, column, error);
        let vectors = VectorColumn::new(vectors).map_err(failed)?;
        let groups = by_dictionary(self.function, dictionary_column, dictionaries, vectors.len())?;
        for_each_group(&groups, result_type, |dictionary, rows| {
            let (signals, present) = self.usable(column, &vectors, dictionary, rows)?;
            let options = self.coder_options(dictionary.dictionary().lambda())?;
            let _reserved = self.memory.reserve(self.function, self.workspace(dictionary, signals.len()))?;
            let signals = Signals::new(signals).map_err(|error| failed(error.into()))?;
            let codes = self.coder.encode(dictionary, &signals, &options);
            let codes = codes.map_err(|error| failed(error.into()))?;
            result(Coded { dictionary, signals, codes, present, lambda: options.lambda() }).map_err(failed)
        })
    }

    /// The vectors of some rows that can be coded, and which rows those are.
    fn usable<'a>(
        &self,
        column: &str,
        vectors: &'a VectorColumn,
        dictionary: &PreparedDictionary,
        rows: &[usize],
    ) -> Result<(Vec<&'a [f64]>, Vec<bool>)> {
        let dim = dictionary.dictionary().dim();
        let mut signals = Vec::with_capacity(rows.len());
        let mut present = Vec::with_capacity(rows.len());
        for &row in rows {
            let problem = match vectors.row(row) {
                Row::Null => {
                    present.push(false);
                    continue;
                }
                Row::Values(values) if values.len() == dim => match check_values(values, row) {
                    Ok(()) => {
                        present.push(true);
                        signals.push(values);
                        continue;
                    }
                    Err(error) => ColumnarError::Math(error),
                },
                Row::NullElement { position, len } if len == dim => {
                    ColumnarError::NullElement { row, position }
                }
                // Not bad data but the wrong dictionary: an error in any case.
                Row::Values([]) => {
                    return Err(data_error(self.function, column, MathError::EmptyVector { row }));
                }
                Row::Values(_) | Row::NullElement { .. } => {
                    let found = vectors.elements(row).map_or(0, |elements| elements.len());
                    let error = MathError::Dimension { row, found, dimension: dim };
                    return Err(data_error(self.function, column, error));
                }
            };
            if !self.bad_becomes_null {
                return exec_err!(
                    "{}({column}): {problem} (rows are counted within the batch or window); \
                     {{on_bad: 'null'}} gives such rows a NULL code",
                    self.function
                );
            }
            present.push(false);
        }
        Ok((signals, present))
    }
}
