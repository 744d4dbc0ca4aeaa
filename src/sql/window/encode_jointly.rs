//! `sparse_encode_jointly(v, dictionary [, options]) OVER (PARTITION BY ...)`: codes of rows that depend on
//! each other.
//!
//! The l2,1 form wants rows to share atoms, so a code depends on which rows are coded with it. As a window
//! function the query says which, and the answer does not depend on batches or partitions of the engine.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, LimitEffect, PartitionEvaluator, Signature, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use crate::columnar::{code_field, code_type, vector_type};
use crate::sql::arguments::{check_dictionary, check_vector};
use crate::sql::coding::{OPTIONS, Settings};
use crate::sql::documentation::{document, signature};
use crate::sql::options::{Options, check_types};

const NAME: &str = "sparse_encode_jointly";
const DEFAULT_CODER: &str = "ksr_l21";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct EncodeJointly {
    signature: Signature,
}

impl EncodeJointly {
    pub fn new() -> Self {
        Self { signature: signature(vec![vector_type(), DataType::BinaryView], &[2, 3]) }
    }
}

impl WindowUDFImpl for EncodeJointly {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let fields = args.input_fields();
        check_vector(NAME, &fields[0])?;
        check_dictionary(NAME, &fields[1])?;
        check_types(NAME, OPTIONS, fields.get(2).map(|field| field.data_type()))?;
        Ok(Arc::new(code_field(args.name())))
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let name = |i: usize| args.input_fields()[i].name().clone();
        Ok(Box::new(Evaluator { names: [name(0), name(1)] }))
    }

    /// A limit on the rows that come out does not limit the rows that a code depends on.
    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

/// Codes one partition of the window.
#[derive(Debug)]
struct Evaluator {
    names: [String; 2],
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            return Ok(new_empty_array(&code_type()));
        }
        let options = values.get(2).map(|array| ColumnarValue::Array(Arc::clone(array)));
        let options = Options::from_argument(NAME, OPTIONS, options.as_ref())?;
        let settings = Settings::new(&options, DEFAULT_CODER)?;
        let dictionaries = ColumnarValue::Array(Arc::clone(&values[1]));
        let names = [self.names[0].as_str(), &self.names[1]];
        settings.encode(names, &values[0], &dictionaries)?.into_array(rows)
    }
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "Encodes the rows of a window's partition together, so that they share atoms: the l2,1 form, whose penalty is the norm of each atom's weights over all these rows. NULL vectors give NULL.",
        "sparse_encode_jointly(v, dictionary [, {coder, lambda, max_nonzeros, tolerance, on_bad}]) OVER (PARTITION BY ...)",
        "SELECT day, sparse_encode_jointly(v, dictionary, {lambda: 0.5}) OVER (PARTITION BY day) AS code FROM 'x.parquet', 'd.parquet'",
        &[
            ("v", "A list of integers or floats, as long as the dictionary's atoms."),
            ("dictionary", "A dictionary made by sparse_train or sparse_dictionary."),
            (
                "options",
                "lambda: penalty (default: the dictionary's); max_nonzeros: of each row at most so many weights, the largest; tolerance: accepted duality gap as a share of the rows' self-similarities (1e-7); coder: 'ksr_l21' (default) or any coder of sparse_encode; on_bad: 'error' (default) or 'null' for vectors with NULL, NaN or infinite elements.",
            ),
        ],
    )
});
