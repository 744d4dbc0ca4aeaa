//! `sparse_update(dictionary, v [, options])`: goes on learning from a dictionary with new rows.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature};

use super::sampling::VectorSample;
use super::state::{options, state_field};
use super::train::learner_options;
use super::watcher::Watcher;
use crate::columnar::{dictionary_from_bytes, dictionary_to_bytes, vector_type};
use crate::math::{LearnerOptions, Observer, learners};
use crate::sql::FunctionMemory;
use crate::sql::arguments::{check_dictionary, check_vector, dictionary_field};
use crate::sql::documentation::{document, signature};
use crate::sql::errors::data_error;
use crate::sql::options::{Kind, Known, check_types};

const NAME: &str = "sparse_update";
const OPTIONS: Known = &[
    ("lambda", Kind::Number),
    ("max_iter", Kind::Count),
    ("tolerance", Kind::Number),
    ("sample", Kind::Count),
    ("seed", Kind::Count),
];

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct Update {
    signature: Signature,
    watcher: Watcher,
    memory: FunctionMemory,
}

impl Update {
    pub fn new(observer: Arc<dyn Observer>, memory: FunctionMemory) -> Self {
        Self {
            signature: signature(vec![DataType::BinaryView, vector_type()], &[2, 3]),
            watcher: Watcher(observer),
            memory,
        }
    }
}

impl AggregateUDFImpl for Update {
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
        check_dictionary(NAME, &fields[0])?;
        check_vector(NAME, &fields[1])?;
        check_types(NAME, OPTIONS, fields.get(2).map(|field| field.data_type()))?;
        Ok(dictionary_field(NAME))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let options = learner_options(&options(NAME, OPTIONS, &args, 2)?)?;
        Ok(Box::new(UpdateAccumulator {
            column: args.expr_fields[0].name().clone(),
            dictionary: None,
            sample: VectorSample::new(NAME, args.expr_fields[1].name(), &options),
            options,
            watcher: self.watcher.clone(),
            memory: self.memory.clone(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let mut fields = VectorSample::state_fields(&args);
        fields.push(state_field(&args, "dictionary", DataType::Binary));
        Ok(fields)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

#[derive(Debug)]
struct UpdateAccumulator {
    column: String,
    /// The group's dictionary, once a row has shown it.
    dictionary: Option<Vec<u8>>,
    options: LearnerOptions,
    sample: VectorSample,
    watcher: Watcher,
    memory: FunctionMemory,
}

impl UpdateAccumulator {
    /// Remembers the dictionary of the first row and refuses others.
    fn see_dictionaries(&mut self, array: &ArrayRef) -> Result<()> {
        let array = cast(array, &DataType::BinaryView)?;
        let mut last = None;
        for bytes in array.as_binary_view().iter().flatten() {
            // Rows mostly repeat one value in one place.
            if last == Some(bytes.as_ptr_range()) {
                continue;
            }
            last = Some(bytes.as_ptr_range());
            match &self.dictionary {
                None => {
                    let failed = |error| data_error(NAME, &self.column, error);
                    let atoms = dictionary_from_bytes(bytes).map_err(failed)?.len();
                    // What learning needs depends on it.
                    self.options =
                        self.options.clone().with_atoms(atoms).map_err(|error| failed(error.into()))?;
                    self.dictionary = Some(bytes.to_vec());
                }
                Some(known) if known == bytes => {}
                Some(_) => {
                    return exec_err!(
                        "{NAME}({}): several dictionaries in one group; GROUP BY what tells them apart",
                        self.column
                    );
                }
            }
        }
        Ok(())
    }
}

impl Accumulator for UpdateAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.see_dictionaries(&values[0])?;
        self.sample.offer(&values[1])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (sample, dictionaries) = states.split_at(states.len() - 1);
        self.see_dictionaries(&dictionaries[0])?;
        self.sample.merge(sample)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut state = self.sample.state()?;
        state.push(ScalarValue::Binary(self.dictionary.clone()));
        Ok(state)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(bytes) = &self.dictionary else { return Ok(ScalarValue::BinaryView(None)) };
        let dictionary =
            dictionary_from_bytes(bytes).map_err(|error| data_error(NAME, &self.column, error))?;
        let observer = self.watcher.0.as_ref();
        let _reserved = self.memory.reserve(NAME, self.sample.workspace(&self.options))?;
        let learned = learners::update(&dictionary, &self.sample.sample, &self.options, observer);
        let updated = match learned.map_err(|error| self.sample.error(error))? {
            Some(updated) => dictionary_to_bytes(&updated).map_err(|error| self.sample.error(error))?,
            // Nothing new: the dictionary as it was.
            None => bytes.clone(),
        };
        Ok(ScalarValue::BinaryView(Some(updated)))
    }

    fn size(&self) -> usize {
        let dictionary = self.dictionary.as_ref().map_or(0, Vec::len);
        size_of_val(self) + dictionary + self.sample.size(&self.options, &self.memory)
    }
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "Goes on learning from a dictionary with new rows: same kernel, same atoms to start from, and the same bytes for the same rows whatever their order. Atoms that the new rows do not use stay as they are. NULL vectors are ignored; without usable rows the dictionary comes back as it was.",
        "sparse_update(dictionary, v [, {lambda, max_iter, tolerance, sample, seed}])",
        "SELECT sparse_update(dictionary, v) AS dictionary FROM 'new.parquet', 'd.parquet'",
        &[
            ("dictionary", "The dictionary to start from; the same in all rows of a group."),
            ("v", "A list of integers or floats, as long as the dictionary's atoms."),
            (
                "options",
                "lambda: penalty on weights (default: the dictionary's); max_iter: most rounds (30); tolerance: relative fall of the objective that ends learning (1e-3); sample: distinct rows learned from (4096); seed: of the sample (0).",
            ),
        ],
    )
});
