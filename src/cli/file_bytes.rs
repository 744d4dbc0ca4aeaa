//! `sparse_file_bytes(path)`: what a file weighs. Only in the command, which trusts its user with
//! the file system; embedders get the functions of `register_all`.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{AsArray, UInt64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

const NAME: &str = "sparse_file_bytes";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct FileBytes {
    signature: Signature,
}

impl FileBytes {
    pub fn new() -> Self {
        // Volatile: files change between statements.
        Self { signature: Signature::string(1, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for FileBytes {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let paths = cast(&args.args[0].to_array(args.number_rows)?, &DataType::Utf8)?;
        let size = |path: &str| {
            let metadata = std::fs::metadata(path);
            metadata.map(|file| file.len()).map_err(|error| exec_datafusion_err!("{NAME}: {path}: {error}"))
        };
        let sizes = paths.as_string::<i32>().iter().map(|path| path.map(size).transpose());
        Ok(ColumnarValue::Array(Arc::new(sizes.collect::<Result<UInt64Array>>()?)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    let section = DocSection { include: true, label: "Sparrow command", description: None };
    Documentation::builder(section, "The size of a local file in bytes.", "sparse_file_bytes(path)")
        .with_argument("path", "The path of a local file.")
        .build()
});
