//! `sparse_residual(v, dictionary [, options])`: what a dictionary cannot express of a vector.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, Float64Array, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use crate::columnar::{ColumnarError, to_vector_array, vector_type};
use crate::math::decoders;
use crate::sql::arguments::{check_dictionary, check_vector};
use crate::sql::coding::{Coded, OPTIONS, Settings};
use crate::sql::documentation::{document, signature};
use crate::sql::held::hold_dictionary;
use crate::sql::options::{Options, check_types};

const NAME: &str = "sparse_residual";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct Residual {
    signature: Signature,
}

impl Residual {
    pub fn new() -> Self {
        Self { signature: signature(vec![vector_type(), DataType::BinaryView], &[2, 3]) }
    }
}

fn fields() -> Fields {
    Fields::from(vec![
        Field::new("kernel", DataType::Float64, true),
        Field::new("elements", vector_type(), true),
    ])
}

impl ScalarUDFImpl for Residual {
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
            Settings::for_single_rows(&Options::from_scalar(NAME, OPTIONS, literal)?)?;
        }
        Ok(Arc::new(Field::new(NAME, DataType::Struct(fields()), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = Options::from_argument(NAME, OPTIONS, args.args.get(2))?;
        let settings = Settings::for_single_rows(&options)?;
        let vectors = args.args[0].to_array(args.number_rows)?;
        let names = [args.arg_fields[0].name().as_str(), args.arg_fields[1].name()];
        settings.map_codes(names, &vectors, &args.args[1], args.return_field.data_type(), residuals)
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        hold_dictionary(Self::new, args, 1)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

/// `||phi(y) - phi(X) w||` and, element by element, the vector minus what its code decodes to.
fn residuals(coded: Coded<'_>) -> std::result::Result<ArrayRef, ColumnarError> {
    let Coded { dictionary, signals, codes, present, lambda } = coded;
    let mut elements = decoders::decode(dictionary, &codes.rows().collect::<Vec<_>>())?;
    let dim = dictionary.dictionary().dim();
    for (decoded, signal) in elements.chunks_exact_mut(dim).zip(signals.rows()) {
        decoded.iter_mut().zip(*signal).for_each(|(decoded, value)| *decoded = value - *decoded);
    }
    let mut norms = codes.rows().zip(&codes.reports).map(|((_, weights), report)| {
        let penalty = lambda * weights.iter().map(|weight| weight.abs()).sum::<f64>();
        (2.0 * (report.objective - penalty)).max(0.0).sqrt()
    });
    let norms: Float64Array =
        present.iter().map(|present| if *present { norms.next() } else { None }).collect();
    let elements = to_vector_array(elements, dim, &present)?;
    let columns: Vec<ArrayRef> = vec![Arc::new(norms), elements];
    Ok(Arc::new(StructArray::try_new(fields(), columns, Some(NullBuffer::from(present)))?))
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "What a dictionary cannot express of a vector: a struct of `kernel`, the norm of the residual under the kernel (0 to 1 for rbf), and `elements`, the vector minus what its code decodes to. Nothing is stored. NULL vectors give NULL.",
        "sparse_residual(v, dictionary [, {coder, lambda, max_nonzeros, residual, tolerance, on_bad}])",
        "SELECT time, sparse_residual(v, (SELECT dictionary FROM 'd.parquet'))['kernel'] AS news FROM 'x.parquet' ORDER BY news DESC LIMIT 10",
        &[
            ("v", "A list of integers or floats, as long as the dictionary's atoms."),
            ("dictionary", "A dictionary made by sparse_train or sparse_dictionary."),
            ("options", "As for sparse_encode."),
        ],
    )
});
