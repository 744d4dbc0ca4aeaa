//! JSON of results: NULL is `null`, and what JSON has no number for is a text.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, AsArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::{
    Encoder, EncoderFactory, EncoderOptions, NullableEncoder, WriterBuilder, make_encoder,
};

/// How results are written.
pub(super) fn writer() -> WriterBuilder {
    WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(AllFloats))
}

/// Finite numbers are written as they are otherwise.
static PLAIN: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

/// Writes infinities and NaN as PostgreSQL and Spark do, `"Infinity"`, `"-Infinity"` and `"NaN"`: as `null` they would be
/// taken for NULL.
#[derive(Debug)]
struct AllFloats;

impl EncoderFactory for AllFloats {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        if !matches!(array.data_type(), DataType::Float16 | DataType::Float32 | DataType::Float64) {
            return Ok(None);
        }
        let values = cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone();
        let finite = make_encoder(field, array, &PLAIN)?;
        let nulls = array.nulls().cloned();
        Ok(Some(NullableEncoder::new(Box::new(AnyFloat { values, finite }), nulls)))
    }
}

struct AnyFloat<'a> {
    values: Float64Array,
    finite: NullableEncoder<'a>,
}

impl Encoder for AnyFloat<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text: &[u8] = match self.values.value(row) {
            f64::INFINITY => b"\"Infinity\"",
            f64::NEG_INFINITY => b"\"-Infinity\"",
            value if value.is_nan() => b"\"NaN\"",
            _ => return self.finite.encode(row, out),
        };
        out.extend_from_slice(text);
    }
}
