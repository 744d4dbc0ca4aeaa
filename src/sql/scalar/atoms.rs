//! `sparse_atoms(dictionary)`: the atoms as a list of vectors.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use crate::columnar::{ColumnarError, to_vector_array, vector_type};
use crate::math::Dictionary;
use crate::sql::arguments::{check_dictionary, describe_dictionaries};
use crate::sql::documentation::{document, signature};
use crate::sql::errors::data_error;

const NAME: &str = "sparse_atoms";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct Atoms {
    signature: Signature,
}

impl Atoms {
    pub fn new() -> Self {
        Self { signature: signature(vec![DataType::BinaryView], &[1]) }
    }
}

fn atom_field() -> FieldRef {
    Arc::new(Field::new_list_field(vector_type(), true))
}

impl ScalarUDFImpl for Atoms {
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
        Ok(Arc::new(Field::new(NAME, DataType::List(atom_field()), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        describe_dictionaries(NAME, &args, |dictionary, rows| {
            repeated(dictionary.dictionary(), rows)
                .map_err(|error| data_error(NAME, args.arg_fields[0].name(), error))
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

/// The atoms once for each of `rows` rows.
fn repeated(dictionary: &Dictionary, rows: usize) -> crate::columnar::Result<ArrayRef> {
    let atoms = dictionary.len();
    let total = dictionary.atoms().len().saturating_mul(rows);
    if i32::try_from(total).is_err() {
        return Err(ColumnarError::TooMany(total));
    }
    let vectors =
        to_vector_array(dictionary.atoms().repeat(rows), dictionary.dim(), &vec![true; rows * atoms])?;
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(atoms, rows));
    Ok(Arc::new(ListArray::try_new(atom_field(), offsets, vectors, None)?))
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "The atoms of a dictionary as a list of vectors, in the order that codes refer to.",
        "sparse_atoms(dictionary)",
        "SELECT unnest(sparse_atoms(dictionary)) AS atom FROM 'd.parquet'",
        &[("dictionary", "A dictionary made by sparse_train or sparse_dictionary.")],
    )
});
