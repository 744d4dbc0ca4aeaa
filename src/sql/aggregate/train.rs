//! `sparse_train(v [, options])`: learns a dictionary from a bounded sample of the rows.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature};

use super::plain_columns::PlainColumns;
use super::sampling::VectorSample;
use super::state::options;
use super::watcher::Watcher;
use crate::columnar::{dictionary_to_bytes, vector_type};
use crate::math::learners::Target;
use crate::math::{LearnerOptions, Observer, kernels, learners};
use crate::sql::FunctionMemory;
use crate::sql::arguments::{check_vector, dictionary_field};
use crate::sql::documentation::{document, signature};
use crate::sql::errors::option_error;
use crate::sql::options::{Kind, Known, Options, check_types};

const NAME: &str = "sparse_train";
const OPTIONS: Known = &[
    ("atoms", Kind::Count),
    ("kernel", Kind::Text),
    ("sigma", Kind::Number),
    ("degree", Kind::Number),
    ("constant", Kind::Number),
    ("lambda", Kind::Number),
    ("learner", Kind::Text),
    ("max_iter", Kind::Count),
    ("tolerance", Kind::Number),
    ("sample", Kind::Count),
    ("seed", Kind::Count),
    ("target_nmae", Kind::Number),
    ("target_ratio", Kind::Number),
    ("max_error", Kind::Number),
];

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct Train {
    signature: Signature,
    watcher: Watcher,
    memory: FunctionMemory,
}

impl Train {
    pub fn new(observer: Arc<dyn Observer>, memory: FunctionMemory) -> Self {
        Self { signature: signature(vec![vector_type()], &[1, 2]), watcher: Watcher(observer), memory }
    }
}

/// The learner's options from the SQL options.
pub(super) fn learner_options(options: &Options) -> Result<LearnerOptions> {
    let size = |name| -> Result<Option<usize>> {
        Ok(options.count(name)?.map(|count| usize::try_from(count).unwrap_or(usize::MAX)))
    };
    let (atoms, max_iter, sample) = (size("atoms")?, size("max_iter")?, size("sample")?);
    let (kernel, learner) = (options.text("kernel")?, options.text("learner")?);
    let (sigma, lambda, tolerance) =
        (options.number("sigma")?, options.number("lambda")?, options.number("tolerance")?);
    let (degree, constant) = (options.number("degree")?, options.number("constant")?);
    let seed = options.count("seed")?;
    let target = target(options)?;
    let build = || -> crate::math::Result<LearnerOptions> {
        let mut learner_options = LearnerOptions::default().with_seed(seed.unwrap_or(0));
        if let Some(atoms) = atoms {
            learner_options = learner_options.with_atoms(atoms)?;
        }
        if let Some(kernel) = &kernel {
            learner_options = learner_options.with_kernel(kernel)?;
        }
        if let Some(sigma) = sigma {
            learner_options = learner_options.with_sigma(sigma)?;
        }
        if let Some(degree) = degree {
            learner_options = learner_options.with_degree(degree)?;
        }
        if let Some(constant) = constant {
            learner_options = learner_options.with_constant(constant)?;
        }
        if let Some(lambda) = lambda {
            learner_options = learner_options.with_lambda(lambda)?;
        }
        if let Some(learner) = &learner {
            learner_options = learner_options.with_learner(learner)?;
        }
        if let Some(max_iter) = max_iter {
            learner_options = learner_options.with_max_rounds(max_iter)?;
        }
        if let Some(tolerance) = tolerance {
            learner_options = learner_options.with_tolerance(tolerance)?;
        }
        if let Some(sample) = sample {
            learner_options = learner_options.with_sample(sample)?;
        }
        if let Some(target) = target {
            learner_options = learner_options.with_target(target)?;
        }
        learner_options.kernel_name()?;
        Ok(learner_options)
    };
    let built = build().map_err(|error| option_error(options.function(), error))?;
    // For a target the kernel is chosen, too, unless it is set.
    if target.is_none() || kernel.is_some() {
        let given = [("sigma", sigma), ("degree", degree), ("constant", constant)];
        let given = given.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| *name);
        check_parameters(options.function(), &built, given)?;
    }
    Ok(built)
}

/// A parameter that the kernel does not have is a mistake.
fn check_parameters(
    function: &str,
    options: &LearnerOptions,
    mut given: impl Iterator<Item = &'static str>,
) -> Result<()> {
    let failed = |error| option_error(function, error);
    let kernel = kernels::build(options.kernel_name().map_err(failed)?, &|_| None).map_err(failed)?;
    let known: Vec<&str> = kernel.parameters().into_iter().map(|(name, _)| name).collect();
    match given.find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) if known.is_empty() => {
            plan_err!("{function}: kernel '{}' has no option {name}, nor any other", kernel.name())
        }
        Some(name) => {
            plan_err!(
                "{function}: kernel '{}' has no option {name}; it has: {}",
                kernel.name(),
                known.join(", ")
            )
        }
    }
}

/// What parameters are to be chosen for.
fn target(options: &Options) -> Result<Option<Target>> {
    let mut targets = Vec::new();
    targets.extend(options.number("target_nmae")?.map(Target::Nmae));
    targets.extend(options.number("target_ratio")?.map(Target::Ratio));
    targets.extend(options.number("max_error")?.map(Target::MaxError));
    match targets[..] {
        [] => Ok(None),
        [target] => Ok(Some(target)),
        _ => plan_err!(
            "{}: only one of target_nmae, target_ratio and max_error can be given",
            options.function()
        ),
    }
}

impl AggregateUDFImpl for Train {
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
        Ok(Box::new(TrainAccumulator {
            sample: VectorSample::new(NAME, args.expr_fields[0].name(), &options),
            options,
            watcher: self.watcher.clone(),
            memory: self.memory.clone(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(VectorSample::state_fields(&args))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

#[derive(Debug)]
struct TrainAccumulator {
    options: LearnerOptions,
    sample: VectorSample,
    watcher: Watcher,
    memory: FunctionMemory,
}

impl Accumulator for TrainAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sample.offer(&values[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.sample.merge(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.sample.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let _reserved = self.memory.reserve(NAME, self.sample.workspace(&self.options))?;
        let learned =
            learners::learn_for(&self.sample.sample, &self.options, &PlainColumns, self.watcher.0.as_ref());
        let learned = learned.map_err(|error| self.sample.error(error))?;
        let bytes = learned.map(|dictionary| dictionary_to_bytes(&dictionary)).transpose();
        Ok(ScalarValue::BinaryView(bytes.map_err(|error| self.sample.error(error))?))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sample.size(&self.options, &self.memory)
    }
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    document(
        "Learns a dictionary from a column of vectors: the same rows and seed give the same bytes, whatever their order. NULL vectors are ignored, vectors with missing elements skipped and counted. No usable row gives NULL.",
        "sparse_train(v [, {atoms, kernel, sigma, degree, constant, lambda, learner, max_iter, tolerance, sample, seed, target_nmae, target_ratio, max_error}])",
        "COPY (SELECT sparse_train(v, {atoms: 64, lambda: 0.05}) AS dictionary FROM 'x.parquet') TO 'd.parquet'",
        &[
            ("v", "A list of integers or floats; all rows of one length."),
            (
                "options",
                "atoms: how many (64, at most 8192); kernel: 'rbf' (default), 'linear' or 'polynomial'; sigma: width of rbf (default: the median distance between rows); degree, constant: of polynomial (2, 1); lambda: penalty on weights (default: 0.1 of the mean self-similarity); learner: 'kscdl' (default) or 'scdl', which learns linear dictionaries; max_iter: most rounds (30); tolerance: relative fall of the objective that ends learning (1e-3); sample: distinct rows learned from (4096); seed: of the sample (0). With one of target_nmae (mean absolute error over mean absolute value), target_ratio (bytes as doubles over bytes of codes and dictionary as plain columns, which COPY writes) and max_error (no element off by more), atoms, kernel, sigma and lambda are chosen where they are not set, on rows that were held out; sparse_dictionary_info tells how.",
            ),
        ],
    )
});
