//! `sparse_objective(v, code, dictionary [, options])`: how good a code is, with evidence.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, Float64Array, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use crate::columnar::{CodeColumn, ColumnarError, Row, VectorColumn, code_type, vector_type};
use crate::math::coders::{Evaluation, evaluate};
use crate::math::{Code, MathError, Positive, PreparedDictionary, Signals};
use crate::sql::arguments::{by_dictionary, check_code, check_dictionary, check_vector, for_each_group};
use crate::sql::documentation::{document, signature};
use crate::sql::errors::{data_error, option_error, with_batch_row};
use crate::sql::held::hold_dictionary;
use crate::sql::options::{Kind, Known, Options, check_types};

const NAME: &str = "sparse_objective";
const OPTIONS: Known = &[("lambda", Kind::Number)];

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct Objective {
    signature: Signature,
}

impl Objective {
    pub fn new() -> Self {
        Self { signature: signature(vec![vector_type(), code_type(), DataType::BinaryView], &[3, 4]) }
    }
}

fn fields() -> Fields {
    let number = |name: &str| Field::new(name, DataType::Float64, true);
    Fields::from(vec![number("objective"), number("fit"), number("penalty"), number("gap")])
}

fn lambda(options: &Options) -> Result<Option<f64>> {
    let lambda = options.number("lambda")?;
    let checked = lambda.map(|value| Positive::new("lambda", value)).transpose();
    Ok(checked.map_err(|error| option_error(NAME, error))?.map(Positive::get))
}

impl ScalarUDFImpl for Objective {
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
        check_code(NAME, &args.arg_fields[1])?;
        check_dictionary(NAME, &args.arg_fields[2])?;
        check_types(NAME, OPTIONS, args.arg_fields.get(3).map(|field| field.data_type()))?;
        if let Some(Some(literal)) = args.scalar_arguments.get(3) {
            lambda(&Options::from_scalar(NAME, OPTIONS, literal)?)?;
        }
        Ok(Arc::new(Field::new(NAME, DataType::Struct(fields()), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lambda = lambda(&Options::from_argument(NAME, OPTIONS, args.args.get(3))?)?;
        let column = args.arg_fields[0].name();
        let wrong = |error: ColumnarError| data_error(NAME, column, error);
        let vectors = VectorColumn::new(&args.args[0].to_array(args.number_rows)?).map_err(wrong)?;
        let codes = CodeColumn::new(&args.args[1].to_array(args.number_rows)?)
            .map_err(|error| data_error(NAME, args.arg_fields[1].name(), error))?;
        let groups = by_dictionary(NAME, args.arg_fields[2].name(), &args.args[2], args.number_rows)?;
        for_each_group(&groups, args.return_field.data_type(), |dictionary, rows| {
            objectives(lambda, &vectors, &codes, dictionary, rows).map_err(wrong)
        })
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        hold_dictionary(Self::new, args, 2)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

fn objectives(
    lambda: Option<f64>,
    vectors: &VectorColumn,
    codes: &CodeColumn,
    dictionary: &PreparedDictionary,
    rows: &[usize],
) -> crate::columnar::Result<ArrayRef> {
    let dimension = dictionary.dictionary().dim();
    let (mut pairs, mut pair_rows) = (Vec::new(), Vec::new());
    for &row in rows {
        let (values, code) = match (vectors.row(row), codes.row(row)) {
            (Row::Null, _) | (_, None) => continue,
            (Row::NullElement { position, .. }, _) => {
                return Err(ColumnarError::NullElement { row, position });
            }
            (Row::Values(values), Some(code)) => (values, code),
        };
        if values.len() != dimension {
            return Err(MathError::Dimension { row, found: values.len(), dimension }.into());
        }
        pairs.push((values, code));
        pair_rows.push(row);
    }
    let (signals, codes): (Vec<&[f64]>, Vec<Code<'_>>) = pairs.into_iter().unzip();
    let lambda = lambda.unwrap_or(dictionary.dictionary().lambda());
    let evaluations = evaluate(dictionary, &Signals::new(signals)?, &codes, lambda)
        .map_err(|error| with_batch_row(error, &pair_rows))?;
    let mut next = pair_rows.iter().zip(&evaluations).peekable();
    let by_row: Vec<Option<&Evaluation>> =
        rows.iter().map(|row| next.next_if(|(of, _)| *of == row).map(|(_, evaluation)| evaluation)).collect();
    let number = |value: fn(&Evaluation) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter(by_row.iter().map(|evaluation| evaluation.map(value))))
    };
    let columns =
        vec![number(|e| e.fit + e.penalty), number(|e| e.fit), number(|e| e.penalty), number(|e| e.gap)];
    let nulls: NullBuffer = by_row.iter().map(Option::is_some).collect();
    Ok(Arc::new(StructArray::try_new(fields(), columns, Some(nulls))?))
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "How well a code represents a vector: struct of the objective, its fit 1/2 |phi(v) - phi(X) w|^2, its penalty lambda |w|_1, and the optimality gap (0 for the exact minimum).",
        "sparse_objective(v, code, dictionary [, {lambda}])",
        "SELECT max(sparse_objective(v, code, (SELECT dictionary FROM 'd.parquet'))['gap']) FROM 'codes.parquet'",
        &[
            ("v", "The vector that was encoded."),
            ("code", "Its code."),
            ("dictionary", "The dictionary it was encoded with."),
            ("options", "lambda: the penalty it was encoded with (default: the dictionary's)."),
        ],
    )
});
