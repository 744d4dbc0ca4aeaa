//! Options as one struct literal, the last argument: `{atoms: 64, lambda: 0.05}`.
//!
//! Names and types are checked when the query is planned, values as soon as they are known.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_datafusion_err, plan_err};
use datafusion::logical_expr::ColumnarValue;

/// What values an option takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Number,
    /// A whole number that is not negative.
    Count,
    Text,
    /// True or false.
    Flag,
}

/// The options that a function knows.
pub(super) type Known = &'static [(&'static str, Kind)];

/// Checks the names and types of an options argument; a missing one (`None`) is fine.
pub(super) fn check_types(function: &str, known: Known, argument: Option<&DataType>) -> Result<()> {
    let fields = match argument {
        None | Some(DataType::Null) => return Ok(()),
        Some(DataType::Struct(fields)) => fields,
        Some(other) => {
            return plan_err!(
                "{function}: options are a struct such as {{{}: ...}}, not {other}",
                known.first().map_or("name", |(name, _)| name)
            );
        }
    };
    for (place, field) in fields.iter().enumerate() {
        if fields[..place].iter().any(|before| before.name() == field.name()) {
            return plan_err!("{function}: option {} is given twice", field.name());
        }
        let Some((name, kind)) = known.iter().find(|(name, _)| *name == field.name()) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return plan_err!("{function}: unknown option '{}'; known: {}", field.name(), names.join(", "));
        };
        let data_type = field.data_type();
        let (fits, wanted) = match kind {
            Kind::Number | Kind::Count => (data_type.is_numeric(), "a number"),
            Kind::Text => (data_type.is_string(), "a text"),
            Kind::Flag => (*data_type == DataType::Boolean, "true or false"),
        };
        if !fits && !data_type.is_null() {
            return plan_err!("{function}: option {name} must be {wanted}, not {data_type}");
        }
    }
    Ok(())
}

/// Options whose names and types have been checked.
#[derive(Debug)]
pub(super) struct Options {
    function: &'static str,
    values: Vec<(String, ScalarValue)>,
}

impl Options {
    /// From an argument that was evaluated; `None` where there is none.
    pub fn from_argument(
        function: &'static str,
        known: Known,
        argument: Option<&ColumnarValue>,
    ) -> Result<Self> {
        let value = match argument {
            None => return Ok(Self { function, values: Vec::new() }),
            Some(ColumnarValue::Scalar(value)) => value.clone(),
            Some(ColumnarValue::Array(array)) => constant_of(function, array)?,
        };
        Self::from_scalar(function, known, &value)
    }

    /// From a constant.
    pub fn from_scalar(function: &'static str, known: Known, value: &ScalarValue) -> Result<Self> {
        check_types(function, known, Some(&value.data_type()))?;
        let ScalarValue::Struct(fields) = value else {
            return Ok(Self { function, values: Vec::new() });
        };
        let values = fields
            .fields()
            .iter()
            .zip(fields.columns())
            .map(|(field, column)| Ok((field.name().clone(), ScalarValue::try_from_array(column, 0)?)));
        Ok(Self { function, values: values.collect::<Result<_>>()? })
    }

    /// The function they were given to.
    pub fn function(&self) -> &'static str {
        self.function
    }

    fn get(&self, name: &str) -> Option<&ScalarValue> {
        let found = self.values.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value).filter(|value| !value.is_null())
    }

    /// A number.
    pub fn number(&self, name: &str) -> Result<Option<f64>> {
        self.get(name).map(|value| self.as_number(name, value)).transpose()
    }

    /// A whole number that is not negative.
    pub fn count(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        if let Ok(ScalarValue::UInt64(Some(count))) = value.cast_to(&DataType::UInt64) {
            // A cast drops fractions; what is not whole is refused.
            if self.as_number(name, value)?.fract() == 0.0 {
                return Ok(Some(count));
            }
        }
        plan_err!("{}: {name} must be a whole number that is not negative, not {value}", self.function)
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<Option<String>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.cast_to(&DataType::Utf8)? {
            ScalarValue::Utf8(text) => Ok(text),
            other => plan_err!("{}: {name} must be a text, not {other}", self.function),
        }
    }

    /// True or false.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name) {
            Some(ScalarValue::Boolean(flag)) => *flag,
            _ => None,
        }
    }

    fn as_number(&self, name: &str, value: &ScalarValue) -> Result<f64> {
        match value.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(Some(number))) => Ok(number),
            _ => Err(plan_datafusion_err!("{}: {name} must be a number, not {value}", self.function)),
        }
    }
}

/// The one value of an array whose rows are all equal, as engines that expand constants give it.
pub(super) fn constant_of(function: &str, array: &ArrayRef) -> Result<ScalarValue> {
    if array.is_empty() {
        return ScalarValue::try_from(array.data_type());
    }
    let first = array.slice(0, 1);
    if (1..array.len()).any(|row| array.slice(row, 1).as_ref() != first.as_ref()) {
        return exec_err!("{function}: options must be the same for all rows");
    }
    ScalarValue::try_from_array(array, 0)
}
