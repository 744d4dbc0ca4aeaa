//! `sparse_encode_jointly(v, dictionary [, options]) OVER (PARTITION BY ...)`: codes of rows that depend on
//! each other.
//!
//! The l2,1 form wants rows to share atoms, so a code depends on which rows are coded with it. As a window
//! function the query says which: all rows of a partition of the window that have the same dictionary,
//! whatever the frame. The answer does not depend on batches, on partitions of the engine, or on the order of
//! rows. All of a partition's rows are held in memory, with four numbers for every row and atom, and charged to the pool.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, LimitEffect, PartitionEvaluator, Signature, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use crate::columnar::{code_field, code_type, to_code_array, vector_type};
use crate::sql::FunctionMemory;
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
    memory: FunctionMemory,
}

impl EncodeJointly {
    pub fn new(memory: FunctionMemory) -> Self {
        Self { signature: signature(vec![vector_type(), DataType::BinaryView], &[2, 3]), memory }
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
        // Constant options are read, and refused, when the query is planned.
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let constant = args.input_exprs().get(2).map(|options| options.evaluate(&nothing));
        let constant = match constant {
            None => Some(Options::from_argument(NAME, OPTIONS, None)?),
            Some(Ok(ColumnarValue::Scalar(value))) => Some(Options::from_scalar(NAME, OPTIONS, &value)?),
            Some(_) => None,
        };
        let settings = constant.map(|options| settings_of(&options, &self.memory)).transpose()?;
        Ok(Box::new(Evaluator { names: [name(0), name(1)], settings, memory: self.memory.clone() }))
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
    /// `None` where options come with the rows.
    settings: Option<Settings>,
    memory: FunctionMemory,
}

fn settings_of(options: &Options, memory: &FunctionMemory) -> Result<Settings> {
    Ok(Settings::new(options, DEFAULT_CODER)?.charged_to(memory))
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            return Ok(new_empty_array(&code_type()));
        }
        let of_rows = match &self.settings {
            Some(_) => None,
            None => {
                let options = ColumnarValue::Array(Arc::clone(&values[2]));
                let options = Options::from_argument(NAME, OPTIONS, Some(&options))?;
                Some(settings_of(&options, &self.memory)?)
            }
        };
        // Cannot be absent: it is one or the other.
        let Some(settings) = self.settings.as_ref().or(of_rows.as_ref()) else {
            return internal_err!("options are neither constant nor in the rows");
        };
        let dictionaries = ColumnarValue::Array(Arc::clone(&values[1]));
        let names = [self.names[0].as_str(), &self.names[1]];
        let codes = settings.map_codes(names, &values[0], &dictionaries, &code_type(), |coded| {
            to_code_array(coded.codes, &coded.present)
        })?;
        codes.into_array(rows)
    }
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "Encodes the rows of a window's partition together, whatever its frame, so that they share atoms: the l2,1 form, whose penalty is the norm of each atom's weights over all these rows. NULL vectors give NULL and have no say; rows with different dictionaries do not share. Memory, charged to the session's pool: four numbers for every row and atom of a partition.",
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
