//! `sparse_dictionary(v [, options] [ORDER BY ...])`: given vectors as the atoms of a dictionary.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature};

use super::state::{doubles_at, doubles_state, list_at, list_state, list_type, options, state_field};
use super::train::learner_options;
use crate::columnar::{ColumnarError, Row, VectorColumn, dictionary_to_bytes, vector_type};
use crate::math::{Dictionary, LearnerOptions, MathError, Signals, check_vector as check_values};
use crate::sql::arguments::{check_vector, dictionary_field};
use crate::sql::documentation::{document, signature};
use crate::sql::errors::data_error;
use crate::sql::options::{Kind, Known, check_types};

const NAME: &str = "sparse_dictionary";
const OPTIONS: Known = &[
    ("kernel", Kind::Text),
    ("sigma", Kind::Number),
    ("degree", Kind::Number),
    ("constant", Kind::Number),
    ("lambda", Kind::Number),
];
const MOST_ATOMS: usize = Dictionary::MOST_ATOMS;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct GivenDictionary {
    signature: Signature,
}

impl GivenDictionary {
    pub fn new() -> Self {
        Self { signature: signature(vec![vector_type()], &[1, 2]) }
    }
}

impl AggregateUDFImpl for GivenDictionary {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("return_field is used instead")
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        check_vector(NAME, &fields[0])?;
        check_types(NAME, OPTIONS, fields.get(1).map(|field| field.data_type()))?;
        Ok(dictionary_field(NAME))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let options = learner_options(&options(NAME, OPTIONS, &args, 1)?)?;
        let keys = args
            .order_bys
            .iter()
            .map(|key| Ok(SortField::new_with_options(key.expr.data_type(args.schema)?, key.options)));
        Ok(Box::new(GivenAccumulator {
            column: args.expr_fields[0].name().clone(),
            options,
            keys: RowConverter::new(keys.collect::<Result<_>>()?)?,
            arguments: args.exprs.len(),
            dim: None,
            atoms: Vec::new(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![
            state_field(&args, "keys", list_type(DataType::LargeBinary)),
            state_field(&args, "values", list_type(DataType::Float64)),
        ])
    }

    /// Atoms carry their keys and are sorted at the end, so any order of input will do.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

type KeyedAtom = (Box<[u8]>, Box<[f64]>);

#[derive(Debug)]
struct GivenAccumulator {
    column: String,
    options: LearnerOptions,
    /// Turns the ORDER BY values of a row into bytes that compare like them.
    keys: RowConverter,
    /// Arguments that precede the ORDER BY values.
    arguments: usize,
    dim: Option<usize>,
    /// Each atom with its key.
    atoms: Vec<KeyedAtom>,
}

impl GivenAccumulator {
    /// Adds one atom; `row` is its number in the batch, for errors.
    fn add(&mut self, row: usize, key: &[u8], values: &[f64]) -> Result<()> {
        let error = |error: MathError| data_error(NAME, &self.column, error);
        let expected = *self.dim.get_or_insert(values.len());
        if values.is_empty() {
            return Err(error(MathError::EmptyVector { row }));
        }
        if values.len() != expected {
            return Err(error(MathError::Length { row, expected, found: values.len() }));
        }
        check_values(values, row).map_err(error)?;
        if self.atoms.len() >= MOST_ATOMS {
            return exec_err!(
                "{NAME}({}): more than {MOST_ATOMS} rows; sparse_train makes a few atoms of many rows",
                self.column
            );
        }
        self.atoms.push((key.into(), values.into()));
        Ok(())
    }

    /// By key, and by content where keys are equal or absent: the same rows give the same bytes.
    fn sort(&mut self) {
        self.atoms.sort_by(|(a_key, a), (b_key, b)| {
            let by_content = || {
                let unequal = a.iter().zip(b.iter()).map(|(x, y)| x.total_cmp(y)).find(|order| order.is_ne());
                unequal.unwrap_or(std::cmp::Ordering::Equal)
            };
            a_key.cmp(b_key).then_with(by_content)
        });
    }

    fn values(&self) -> Vec<f64> {
        self.atoms.iter().flat_map(|(_, values)| values.iter().copied()).collect()
    }
}

impl Accumulator for GivenAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let column = self.column.clone();
        let wrong = |error: ColumnarError| data_error(NAME, &column, error);
        let vectors = VectorColumn::new(&values[0]).map_err(wrong)?;
        let order_by = values.get(self.arguments..).unwrap_or(&[]);
        let keys = (!order_by.is_empty()).then(|| self.keys.convert_columns(order_by)).transpose()?;
        for row in 0..vectors.len() {
            match vectors.row(row) {
                Row::Null => {}
                Row::Values(values) => {
                    let key = keys.as_ref().map(|keys| keys.row(row));
                    self.add(row, key.as_ref().map_or(&[], |key| key.data()), values)?;
                }
                Row::NullElement { position, .. } => {
                    return Err(wrong(ColumnarError::NullElement { row, position }));
                }
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for row in 0..states[0].len() {
            let keys = list_at(&states[0], row)?;
            let keys = keys.as_binary::<i64>();
            let values = doubles_at(&states[1], row)?;
            if !keys.is_empty() {
                let vectors = values.chunks_exact(values.len() / keys.len());
                for (position, (key, vector)) in keys.iter().zip(vectors).enumerate() {
                    self.add(position, key.unwrap_or_default(), vector)?;
                }
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let keys = LargeBinaryArray::from_iter_values(self.atoms.iter().map(|(key, _)| key));
        Ok(vec![list_state(Arc::new(keys))?, doubles_state(self.values())?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(dim) = self.dim else { return Ok(ScalarValue::BinaryView(None)) };
        self.sort();
        let build = || -> crate::columnar::Result<Vec<u8>> {
            let rows = self.atoms.iter().map(|(_, values)| &**values).collect();
            let signals = Signals::new(rows)?;
            let kernel = self.options.kernel(&signals)?;
            let lambda = self.options.lambda(kernel.as_ref(), &signals);
            dictionary_to_bytes(&Dictionary::new(self.values(), dim, kernel, lambda, None)?)
        };
        Ok(ScalarValue::BinaryView(Some(build().map_err(|error| data_error(NAME, &self.column, error))?)))
    }

    fn size(&self) -> usize {
        let key = self.atoms.first().map_or(0, |(key, _)| key.len());
        size_of_val(self) + self.atoms.capacity() * (32 + key + 8 * self.dim.unwrap_or(0))
    }
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "Makes a dictionary of given vectors, one atom of each as it is. ORDER BY inside the call numbers the atoms; without it they are numbered by their content.",
        "sparse_dictionary(v [, {kernel, sigma, degree, constant, lambda}] [ORDER BY i])",
        "SELECT sparse_dictionary(v, {kernel: 'rbf', sigma: 20} ORDER BY i) AS dictionary FROM 'atoms.parquet'",
        &[
            ("v", "A list of integers or floats; all rows of one length."),
            ("options", "kernel, sigma, degree, constant, lambda: as in sparse_train."),
        ],
    )
});
