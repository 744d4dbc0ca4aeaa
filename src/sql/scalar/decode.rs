//! `sparse_decode(code, dictionary)`: sparse codes back to vectors.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use crate::columnar::{CodeColumn, code_type, to_vector_array, vector_type};
use crate::math::decoders;
use crate::sql::arguments::{by_dictionary, check_code, check_dictionary, for_each_group};
use crate::sql::documentation::{document, signature};
use crate::sql::errors::{data_error, with_batch_row};
use crate::sql::held::hold_dictionary;

const NAME: &str = "sparse_decode";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct Decode {
    signature: Signature,
}

impl Decode {
    pub fn new() -> Self {
        Self { signature: signature(vec![code_type(), DataType::BinaryView], &[2]) }
    }
}

impl ScalarUDFImpl for Decode {
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
        check_code(NAME, &args.arg_fields[0])?;
        check_dictionary(NAME, &args.arg_fields[1])?;
        Ok(Arc::new(Field::new(NAME, vector_type(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let column = args.arg_fields[0].name();
        let codes = args.args[0].to_array(args.number_rows)?;
        let codes = CodeColumn::new(&codes).map_err(|error| data_error(NAME, column, error))?;
        let groups = by_dictionary(NAME, args.arg_fields[1].name(), &args.args[1], args.number_rows)?;
        for_each_group(&groups, &vector_type(), |dictionary, rows| {
            let present: Vec<bool> = rows.iter().map(|row| codes.row(*row).is_some()).collect();
            let (coded_rows, coded): (Vec<usize>, Vec<_>) =
                rows.iter().filter_map(|row| codes.row(*row).map(|code| (*row, code))).unzip();
            let vectors = decoders::decode(dictionary, &coded)
                .map_err(|error| data_error(NAME, column, with_batch_row(error, &coded_rows)))?;
            to_vector_array(vectors, dictionary.dictionary().dim(), &present)
                .map_err(|error| data_error(NAME, column, error))
        })
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        hold_dictionary(Self::new, args, 1)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "Decodes a sparse code to the vector it stands for (the pre-image under the dictionary's kernel). NULL gives NULL.",
        "sparse_decode(code, dictionary)",
        "SELECT sparse_decode(code, (SELECT dictionary FROM 'd.parquet')) AS v FROM 'codes.parquet'",
        &[
            (
                "code",
                "A list of struct<atom, weight>, as sparse_encode gives it; narrower number types are fine.",
            ),
            ("dictionary", "The dictionary the code was made with."),
        ],
    )
});
