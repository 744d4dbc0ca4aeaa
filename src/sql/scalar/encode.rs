//! `sparse_encode(v, dictionary [, options])`: vectors to sparse codes.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use crate::columnar::{code_type, compact_code_type, to_code_array, to_compact_code_array, vector_type};
use crate::sql::arguments::{check_dictionary, check_vector};
use crate::sql::coding::{OF_CODES, Settings};
use crate::sql::documentation::{document, signature};
use crate::sql::held::hold_dictionary;
use crate::sql::options::{Options, check_types};

const NAME: &str = "sparse_encode";

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
        check_types(NAME, OF_CODES, args.arg_fields.get(2).map(|field| field.data_type()))?;
        if let Some(Some(literal)) = args.scalar_arguments.get(2) {
            settings(&Options::from_scalar(NAME, OF_CODES, literal)?)?;
        }
        let compact = args.arg_fields.get(2).is_some_and(|field| names_compact(field.data_type()));
        let data_type = if compact { compact_code_type() } else { code_type() };
        Ok(Arc::new(Field::new(NAME, data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = Options::from_argument(NAME, OF_CODES, args.args.get(2))?;
        let settings = settings(&options)?;
        let vectors = args.args[0].to_array(args.number_rows)?;
        let names = [args.arg_fields[0].name().as_str(), args.arg_fields[1].name()];
        let codes_type = args.return_field.data_type();
        let to_array = if *codes_type == code_type() { to_code_array } else { to_compact_code_array };
        settings.map_codes(names, &vectors, &args.args[1], codes_type, |coded| {
            to_array(coded.codes, &coded.present)
        })
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        hold_dictionary(Self::new, args, 1)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

/// Whether options ask for compact codes, by their type: what a column is like is known before any value is.
fn names_compact(options: &DataType) -> bool {
    let DataType::Struct(fields) = options else { return false };
    fields.iter().any(|field| field.name() == "compact" && *field.data_type() == DataType::Boolean)
}

/// The options with their values.
fn settings(options: &Options) -> Result<Settings> {
    if options.flag("compact") == Some(false) {
        return plan_err!(
            "{NAME}: compact can only be true; leave it out for atoms of 32 bits and weights of 64"
        );
    }
    Settings::for_single_rows(options)
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "Encodes a vector as a sparse code over a dictionary: a list of struct<atom, weight>. NULL vectors give NULL.",
        "sparse_encode(v, dictionary [, {coder, lambda, max_nonzeros, residual, tolerance, on_bad, compact}])",
        "SELECT sparse_encode(v, (SELECT dictionary FROM 'd.parquet'), {lambda: 0.05}) AS code FROM 'x.parquet'",
        &[
            ("v", "A list of integers or floats, as long as the dictionary's atoms."),
            ("dictionary", "A dictionary made by sparse_train or sparse_dictionary."),
            (
                "options",
                "coder: 'fksc' (default), 'ksc', 'cd', 'kfss' or 'foso' minimise with a penalty on the weights; 'komp' and 'lpm' choose few atoms; 'kfmc' keeps the largest ridge weights. lambda: the penalty (default: the dictionary's). max_nonzeros: at most so many weights. residual: what komp may leave, as a share of the vector's norm (1e-3). tolerance: accepted optimality gap (1e-7, at least 1e-14). on_bad: 'error' (default) or 'null' for vectors with NULL, NaN or infinite elements. compact: true gives atoms of 16 bits and weights of 32, which take about half the bytes.",
            ),
        ],
    )
});
