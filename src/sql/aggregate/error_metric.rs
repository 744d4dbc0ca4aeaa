//! `sparse_nrmse(v, u)`, `sparse_nmae(v, u)`, `sparse_necr(v, u [, tolerance])`: how far decoded
//! vectors are from the originals (paper 1, A.5.3).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature};

use super::state::{constant, doubles_at, doubles_state, list_type, state_field};
use crate::columnar::{VectorColumn, vector_type};
use crate::math::ExactSum;
use crate::math::metrics::{DEFAULT_NECR_TOLERANCE, ErrorTotals};
use crate::sql::arguments::check_vector;
use crate::sql::documentation::{document, signature};
use crate::sql::errors::data_error;

/// Which number the totals become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Metric {
    Nrmse,
    Nmae,
    Necr,
}

/// One of the three functions.
#[derive(Debug)]
pub(in crate::sql) struct ErrorMetric {
    name: &'static str,
    metric: Metric,
    signature: Signature,
    documentation: Documentation,
}

impl PartialEq for ErrorMetric {
    fn eq(&self, other: &Self) -> bool {
        self.metric == other.metric
    }
}

impl Eq for ErrorMetric {}

impl std::hash::Hash for ErrorMetric {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.metric.hash(state);
    }
}

const PAIR: [(&str, &str); 2] = [("v", "The original vector."), ("u", "The decoded vector, as long as v.")];

impl ErrorMetric {
    pub fn nrmse() -> Self {
        let description = "Normalised root mean square error over pairs of vectors: |v - u| / |v|, all elements together. Pairs with a NULL vector and NULL elements are left out.";
        Self::new("sparse_nrmse", Metric::Nrmse, description, "sparse_nrmse(v, u)", &PAIR)
    }

    pub fn nmae() -> Self {
        let description = "Normalised mean absolute error over pairs of vectors: sum |v - u| / sum |v|. Pairs with a NULL vector and NULL elements are left out.";
        Self::new("sparse_nmae", Metric::Nmae, description, "sparse_nmae(v, u)", &PAIR)
    }

    pub fn necr() -> Self {
        let description = "Number of elements correctly reconstructed: |v - u| < tolerance. Pairs with a NULL vector and NULL elements are left out.";
        let arguments = [PAIR[0], PAIR[1], ("tolerance", "A constant number, 0.001 unless given.")];
        Self::new("sparse_necr", Metric::Necr, description, "sparse_necr(v, u [, tolerance])", &arguments)
    }

    fn new(
        name: &'static str,
        metric: Metric,
        description: &str,
        syntax: &str,
        arguments: &[(&str, &str)],
    ) -> Self {
        let arities: &[usize] = if metric == Metric::Necr { &[2, 3] } else { &[2] };
        let example = format!("SELECT {name}(v, sparse_decode(code, dictionary)) FROM t");
        Self {
            name,
            metric,
            signature: signature(vec![vector_type(), vector_type()], arities),
            documentation: document(description, syntax, &example, arguments),
        }
    }
}

impl AggregateUDFImpl for ErrorMetric {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("return_field is used instead")
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        check_vector(self.name, &fields[0])?;
        check_vector(self.name, &fields[1])?;
        let tolerance = fields.get(2).map(|field| field.data_type());
        if let Some(tolerance) = tolerance.filter(|t| !t.is_numeric() && !t.is_null()) {
            return plan_err!("{}: tolerance must be a number, not {tolerance}", self.name);
        }
        let data_type = if self.metric == Metric::Necr { DataType::UInt64 } else { DataType::Float64 };
        Ok(Arc::new(Field::new(self.name, data_type, true)))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return not_impl_err!("{}(DISTINCT ...): use a subquery with SELECT DISTINCT", self.name);
        }
        let tolerance = match constant(self.name, &args, 2)?
            .map(|value| value.cast_to(&DataType::Float64))
            .transpose()?
        {
            None | Some(ScalarValue::Float64(None)) => DEFAULT_NECR_TOLERANCE,
            Some(ScalarValue::Float64(Some(tolerance))) if tolerance > 0.0 => tolerance,
            Some(other) => {
                return plan_err!("{}: tolerance must be greater than zero, not {other}", self.name);
            }
        };
        let columns = format!("{}, {}", args.expr_fields[0].name(), args.expr_fields[1].name());
        Ok(Box::new(ErrorAccumulator {
            name: self.name,
            metric: self.metric,
            columns,
            tolerance,
            totals: ErrorTotals::default(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![
            state_field(&args, "correct", DataType::UInt64),
            state_field(&args, "count", DataType::UInt64),
            state_field(&args, "sums", list_type(DataType::Float64)),
        ])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

#[derive(Debug)]
struct ErrorAccumulator {
    name: &'static str,
    metric: Metric,
    columns: String,
    tolerance: f64,
    totals: ErrorTotals,
}

impl Accumulator for ErrorAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let vectors =
            |array| VectorColumn::new(array).map_err(|error| data_error(self.name, &self.columns, error));
        let (originals, decoded) = (vectors(&values[0])?, vectors(&values[1])?);
        for row in 0..originals.len() {
            let (Some(v), Some(u)) = (originals.elements(row), decoded.elements(row)) else { continue };
            if v.len() != u.len() {
                return exec_err!(
                    "{}({}): row {row} has vectors of different lengths, {} and {}",
                    self.name,
                    self.columns,
                    v.len(),
                    u.len()
                );
            }
            let mut bad = None;
            let pairs = v.zip(u).enumerate().filter_map(|(position, pair)| match pair {
                (Some(v), Some(u)) if v.is_finite() && u.is_finite() => Some((v, u)),
                (Some(v), Some(u)) => {
                    bad.get_or_insert((position, if v.is_finite() { u } else { v }));
                    None
                }
                _ => None,
            });
            self.totals.add(pairs, self.tolerance);
            if let Some((position, value)) = bad {
                return exec_err!(
                    "{}({}): row {row}, position {position}: {value} is not a finite number",
                    self.name,
                    self.columns
                );
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (correct, count) =
            (states[0].as_primitive::<UInt64Type>(), states[1].as_primitive::<UInt64Type>());
        for row in 0..states[0].len() {
            let sums = doubles_at(&states[2], row)?;
            let &[a, b, c, d, e, f, g, h] = sums.as_slice() else {
                return exec_err!("{}: a state arrived with {} sums, not 8", self.name, sums.len());
            };
            self.totals.merge(&ErrorTotals {
                squared_error: ExactSum { high: a, low: b },
                squared_value: ExactSum { high: c, low: d },
                absolute_error: ExactSum { high: e, low: f },
                absolute_value: ExactSum { high: g, low: h },
                correct: correct.value(row),
                count: count.value(row),
            });
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let ErrorTotals { squared_error, squared_value, absolute_error, absolute_value, correct, count } =
            self.totals;
        let sums = [squared_error, squared_value, absolute_error, absolute_value];
        let sums = sums.iter().flat_map(|sum| [sum.high, sum.low]).collect();
        Ok(vec![ScalarValue::UInt64(Some(correct)), ScalarValue::UInt64(Some(count)), doubles_state(sums)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if !self.totals.is_finite() {
            return exec_err!(
                "{}({}): values are too large to be added up; scale the columns",
                self.name,
                self.columns
            );
        }
        let seen = self.totals.count > 0;
        Ok(match self.metric {
            Metric::Nrmse => ScalarValue::Float64(self.totals.nrmse().filter(|_| seen)),
            Metric::Nmae => ScalarValue::Float64(self.totals.nmae().filter(|_| seen)),
            Metric::Necr => ScalarValue::UInt64(seen.then(|| self.totals.necr())),
        })
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.columns.capacity()
    }
}
