//! `sparse_dictionary_info(dictionary)`: what is known about a dictionary, as a struct.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, ListArray, StringArray, StructArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use crate::math::{Choice, Dictionary, Selection, Training};
use crate::sql::arguments::{check_dictionary, describe_dictionaries};
use crate::sql::documentation::{document, signature};

const NAME: &str = "sparse_dictionary_info";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct DictionaryInfo {
    signature: Signature,
}

impl DictionaryInfo {
    pub fn new() -> Self {
        Self { signature: signature(vec![DataType::BinaryView], &[1]) }
    }
}

fn round_fields() -> Fields {
    Fields::from(vec![
        Field::new("round", DataType::UInt32, true),
        Field::new("objective", DataType::Float64, true),
        Field::new("nonzeros", DataType::UInt64, true),
        Field::new("reseeded", DataType::UInt32, true),
    ])
}

fn choice_fields() -> Fields {
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    Fields::from(vec![
        field("atoms", DataType::UInt64),
        field("kernel", DataType::Utf8),
        field("sigma", DataType::Float64),
        field("lambda", DataType::Float64),
        field("bytes", DataType::UInt64),
        field("nmae", DataType::Float64),
        field("max_error", DataType::Float64),
    ])
}

fn choice_field() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(choice_fields()), true))
}

fn round_field() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(round_fields()), true))
}

fn fields() -> Fields {
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    Fields::from(vec![
        field("kernel", DataType::Utf8),
        field("sigma", DataType::Float64),
        field("degree", DataType::Float64),
        field("constant", DataType::Float64),
        field("lambda", DataType::Float64),
        field("atoms", DataType::UInt64),
        field("dim", DataType::UInt64),
        field("learner", DataType::Utf8),
        field("seed", DataType::UInt64),
        field("atoms_requested", DataType::UInt64),
        field("rows_seen", DataType::UInt64),
        field("rows_skipped", DataType::UInt64),
        field("rows_sampled", DataType::UInt64),
        field("rounds", DataType::UInt64),
        field("converged", DataType::Boolean),
        field("objective", DataType::Float64),
        field("history", DataType::List(round_field())),
        field("target", DataType::Utf8),
        field("target_met", DataType::Boolean),
        field("rows_held_out", DataType::UInt64),
        field("held_out_ratio", DataType::Float64),
        field("held_out_nmae", DataType::Float64),
        field("held_out_max_error", DataType::Float64),
        field("codes_bytes", DataType::UInt64),
        field("values_bytes", DataType::UInt64),
        field("search", DataType::List(choice_field())),
        field("note", DataType::Utf8),
    ])
}

impl ScalarUDFImpl for DictionaryInfo {
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
        check_dictionary(NAME, &args.arg_fields[0])?;
        Ok(Arc::new(Field::new(NAME, DataType::Struct(fields()), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        describe_dictionaries(NAME, &args, |dictionary, rows| info(dictionary.dictionary(), rows))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

/// The same struct for each of `rows` rows.
fn info(dictionary: &Dictionary, rows: usize) -> Result<ArrayRef> {
    let parameters = dictionary.kernel().parameters();
    let parameter = |name: &str| parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let training = dictionary.training();
    let selection = training.and_then(|training| training.selection.as_ref());
    let text = |value: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![value; rows])) };
    let number = |value: Option<f64>| -> ArrayRef { Arc::new(Float64Array::from(vec![value; rows])) };
    let count = |value: Option<u64>| -> ArrayRef { Arc::new(UInt64Array::from(vec![value; rows])) };
    let note = note(dictionary);
    let columns: Vec<ArrayRef> = vec![
        text(Some(dictionary.kernel().name())),
        number(parameter("sigma")),
        number(parameter("degree")),
        number(parameter("constant")),
        number(Some(dictionary.lambda())),
        count(Some(dictionary.len() as u64)),
        count(Some(dictionary.dim() as u64)),
        text(training.map(|t| t.learner.as_str())),
        count(training.map(|t| t.seed)),
        count(training.map(|t| t.atoms_requested)),
        count(training.map(|t| t.rows_seen)),
        count(training.map(|t| t.rows_skipped)),
        count(training.map(|t| t.rows_sampled)),
        count(training.map(|t| t.history.len() as u64)),
        Arc::new(BooleanArray::from(vec![training.map(|t| t.converged); rows])),
        number(training.map(Training::objective)),
        history(training, rows)?,
        text(selection.map(|s| s.target.as_str())),
        Arc::new(BooleanArray::from(vec![selection.map(|s| s.met); rows])),
        count(selection.map(|s| s.rows_held_out)),
        number(selection.map(|s| s.ratio)),
        number(selection.map(|s| s.nmae)),
        number(selection.map(|s| s.max_error)),
        count(selection.and_then(|s| s.codes_bytes)),
        count(selection.and_then(|s| s.values_bytes)),
        search(selection, rows)?,
        text(note.as_deref()),
    ];
    Ok(Arc::new(StructArray::try_new(fields(), columns, None)?))
}

/// What a user should know and would not look for.
fn note(dictionary: &Dictionary) -> Option<String> {
    let training = dictionary.training()?;
    let fewer = (dictionary.len() as u64) < training.atoms_requested;
    let fewer = fewer.then(|| {
        format!(
            "{} atoms were asked for, but there were only {} distinct usable rows: one atom was made of each",
            training.atoms_requested, training.rows_sampled
        )
    });
    let skipped = (training.rows_skipped > 0).then(|| {
        format!("{} rows with missing, non-finite or too large elements were left out", training.rows_skipped)
    });
    let missed = training.selection.as_ref().filter(|selection| !selection.met).map(|selection| {
        format!(
            "{} was not reached on rows that were held out: NMAE {:.4}, largest error {:.4}, ratio {:.1}; an archive keeps a \
             bound whatever the dictionary",
            selection.target, selection.nmae, selection.max_error, selection.ratio
        )
    });
    let bytes =
        training.selection.as_ref().and_then(|selection| selection.codes_bytes.zip(selection.values_bytes));
    let larger = bytes.filter(|(codes, values)| codes > values).map(|(codes, values)| {
        format!(
            "codes and dictionary take about {codes} bytes as plain columns, more than the {values} of the vectors \
             themselves; {{compact: true}} in sparse_encode gives smaller codes, an archive smaller ones yet"
        )
    });
    let notes: Vec<String> = fewer.into_iter().chain(skipped).chain(missed).chain(larger).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn history(training: Option<&Training>, rows: usize) -> Result<ArrayRef> {
    let rounds = training.map_or(&[][..], |training| &training.history).repeat(rows);
    let each = rounds.len() / rows.max(1);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values((0..rounds.len()).map(|i| (i % each) as u32 + 1))),
        Arc::new(Float64Array::from_iter_values(rounds.iter().map(|round| round.objective))),
        Arc::new(UInt64Array::from_iter_values(rounds.iter().map(|round| round.nonzeros))),
        Arc::new(UInt32Array::from_iter_values(rounds.iter().map(|round| round.reseeded))),
    ];
    let rounds = StructArray::try_new(round_fields(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(each, rows));
    Ok(Arc::new(ListArray::try_new(round_field(), offsets, Arc::new(rounds), None)?))
}

/// What was tried to reach a target.
fn search(selection: Option<&Selection>, rows: usize) -> Result<ArrayRef> {
    let tried = selection.map_or(&[][..], |selection| &selection.tried);
    let each = tried.len();
    let tried: Vec<&Choice> = std::iter::repeat_n(tried, rows).flatten().collect();
    let numbers = |of: fn(&Choice) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(tried.iter().map(|choice| of(choice))))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(tried.iter().map(|choice| choice.atoms))),
        Arc::new(StringArray::from_iter_values(tried.iter().map(|choice| &choice.kernel))),
        Arc::new(Float64Array::from_iter(tried.iter().map(|choice| choice.sigma))),
        numbers(|choice| choice.lambda),
        Arc::new(UInt64Array::from_iter_values(tried.iter().map(|choice| choice.bytes))),
        numbers(|choice| choice.nmae),
        numbers(|choice| choice.max_error),
    ];
    let choices = StructArray::try_new(choice_fields(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(each, rows));
    Ok(Arc::new(ListArray::try_new(choice_field(), offsets, Arc::new(choices), None)?))
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "What is known about a dictionary: kernel and parameters, size, and how it was trained (rows seen, skipped and sampled, objective per round, whether it converged; what was tried for a target).",
        "sparse_dictionary_info(dictionary)",
        "SELECT sparse_dictionary_info(dictionary)['sigma'] FROM 'd.parquet'",
        &[("dictionary", "A dictionary made by sparse_train or sparse_dictionary.")],
    )
});
