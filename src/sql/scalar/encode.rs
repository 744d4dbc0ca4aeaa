//! `sparse_encode(v, dictionary [, options])`: vectors to sparse codes.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use crate::columnar::{ColumnarError, Row, VectorColumn, code_field, code_type, to_code_array, vector_type};
use crate::math::{
    Coder, CoderOptions, MathError, PreparedDictionary, Signals, check_vector as check_values, coders,
};
use crate::sql::arguments::{by_dictionary, check_dictionary, check_vector, for_each_group};
use crate::sql::documentation::{document, signature};
use crate::sql::errors::{data_error, option_error};
use crate::sql::options::{Kind, Known, Options, check_types};

const NAME: &str = "sparse_encode";
const OPTIONS: Known = &[
    ("lambda", Kind::Number),
    ("coder", Kind::Text),
    ("max_nonzeros", Kind::Count),
    ("tolerance", Kind::Number),
    ("on_bad", Kind::Text),
];

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct Encode {
    signature: Signature,
}

impl Encode {
    pub fn new() -> Self {
        Self { signature: signature(vec![vector_type(), DataType::BinaryView], &[2, 3]) }
    }
}

/// The options with their values.
struct Settings {
    coder: Arc<dyn Coder>,
    lambda: Option<f64>,
    max_nonzeros: Option<u64>,
    tolerance: Option<f64>,
    bad_becomes_null: bool,
}

impl Settings {
    fn new(options: &Options) -> Result<Self> {
        let coder = options.text("coder")?;
        let coder = coder.unwrap_or_else(|| coders::names()[0].to_string());
        let bad_becomes_null = match options.text("on_bad")?.as_deref() {
            None | Some("error") => false,
            Some("null") => true,
            Some(other) => return plan_err!("{NAME}: unknown on_bad '{other}'; known: error, null"),
        };
        let settings = Self {
            coder: coders::by_name(&coder).map_err(|error| option_error(NAME, error))?,
            lambda: options.number("lambda")?,
            max_nonzeros: options.count("max_nonzeros")?,
            tolerance: options.number("tolerance")?,
            bad_becomes_null,
        };
        // Refuses bad values before there is a dictionary to take the default lambda from.
        settings.coder_options(1.0)?;
        Ok(settings)
    }

    fn coder_options(&self, default_lambda: f64) -> Result<CoderOptions> {
        let build = || {
            let mut options = CoderOptions::new(self.lambda.unwrap_or(default_lambda))?;
            if let Some(most) = self.max_nonzeros {
                options = options.with_max_nonzeros(usize::try_from(most).unwrap_or(usize::MAX))?;
            }
            if let Some(tolerance) = self.tolerance {
                options = options.with_tolerance(tolerance)?;
            }
            Ok(options)
        };
        build().map_err(|error| option_error(NAME, error))
    }
}

impl ScalarUDFImpl for Encode {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("return_field_from_args is used instead")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        check_vector(NAME, &args.arg_fields[0])?;
        check_dictionary(NAME, &args.arg_fields[1])?;
        check_types(NAME, OPTIONS, args.arg_fields.get(2).map(|field| field.data_type()))?;
        if let Some(Some(literal)) = args.scalar_arguments.get(2) {
            Settings::new(&Options::from_scalar(NAME, OPTIONS, literal)?)?;
        }
        Ok(Arc::new(code_field(NAME)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let settings = Settings::new(&Options::from_argument(NAME, OPTIONS, args.args.get(2))?)?;
        let column: &Field = &args.arg_fields[0];
        let vectors = args.args[0].to_array(args.number_rows)?;
        let vectors = VectorColumn::new(&vectors).map_err(|error| data_error(NAME, column.name(), error))?;
        let groups = by_dictionary(NAME, args.arg_fields[1].name(), &args.args[1], args.number_rows)?;
        for_each_group(&groups, &code_type(), |dictionary, rows| {
            encode(&settings, column.name(), &vectors, dictionary, rows)
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

fn encode(
    settings: &Settings,
    column: &str,
    vectors: &VectorColumn,
    dictionary: &PreparedDictionary,
    rows: &[usize],
) -> Result<ArrayRef> {
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
            Row::NullElement { position, len } if len == dim => ColumnarError::NullElement { row, position },
            // Not bad data but the wrong dictionary: an error in any case.
            Row::Values([]) => return Err(data_error(NAME, column, MathError::EmptyVector { row })),
            Row::Values(_) | Row::NullElement { .. } => {
                let found = vectors.elements(row).map_or(0, |elements| elements.len());
                let error = MathError::Dimension { row, found, dimension: dim };
                return Err(data_error(NAME, column, error));
            }
        };
        if !settings.bad_becomes_null {
            return exec_err!(
                "{NAME}({column}): {problem} (rows are counted within the batch); \
                 {{on_bad: 'null'}} gives such rows a NULL code"
            );
        }
        present.push(false);
    }
    let options = settings.coder_options(dictionary.dictionary().lambda())?;
    let signals = Signals::new(signals).map_err(|error| data_error(NAME, column, error))?;
    let codes = settings.coder.encode(dictionary, &signals, &options);
    let codes = codes.map_err(|error| data_error(NAME, column, error))?;
    to_code_array(codes, &present).map_err(|error| data_error(NAME, column, error))
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "Encodes a vector as a sparse code over a dictionary: a list of struct<atom, weight>. NULL vectors give NULL.",
        "sparse_encode(v, dictionary [, {lambda, coder, max_nonzeros, tolerance, on_bad}])",
        "SELECT sparse_encode(v, (SELECT dictionary FROM 'd.parquet'), {lambda: 0.05}) AS code FROM 'x.parquet'",
        &[
            ("v", "A list of integers or floats, as long as the dictionary's atoms."),
            ("dictionary", "A dictionary made by sparse_train or sparse_dictionary."),
            (
                "options",
                "lambda: penalty on weights (default: the dictionary's); coder: 'fksc' (default) or 'ksc'; max_nonzeros: keep at most so many weights; tolerance: accepted optimality gap (1e-7, at least 1e-14); on_bad: 'error' (default) or 'null' for vectors with NULL, NaN or infinite elements.",
            ),
        ],
    )
});
