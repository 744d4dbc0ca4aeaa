//! The functions as expressions, for the DataFrame API.
//!
//! ```
//! use datafusion::prelude::*;
//! use sparrow::sql::expr_fn::{options, sparse_train};
//!
//! let dictionary = sparse_train(col("v"), Some(options([("atoms", lit(16)), ("lambda", lit(0.1))])));
//! assert_eq!(
//!     dictionary.to_string(),
//!     "sparse_train(v, named_struct(Utf8(\"atoms\"), Int32(16), Utf8(\"lambda\"), Float64(0.1)))"
//! );
//! ```

use std::sync::{Arc, LazyLock};

use datafusion::functions::core::named_struct;
use datafusion::logical_expr::{AggregateUDF, Expr, ScalarUDF, WindowUDF, lit};

use super::{FunctionMemory, aggregate, scalar, window};

/// An options literal: `options([("atoms", lit(64))])` is `{atoms: 64}`.
pub fn options<'a>(values: impl IntoIterator<Item = (&'a str, Expr)>) -> Expr {
    named_struct().call(values.into_iter().flat_map(|(name, value)| [lit(name), value]).collect())
}

fn call(function: &LazyLock<Arc<ScalarUDF>>, arguments: Vec<Expr>, options: Option<Expr>) -> Expr {
    function.call(arguments.into_iter().chain(options).collect())
}

fn aggregate(function: &LazyLock<Arc<AggregateUDF>>, arguments: Vec<Expr>, options: Option<Expr>) -> Expr {
    function.call(arguments.into_iter().chain(options).collect())
}

static ENCODE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(scalar::Encode::new().into()));
static DECODE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(scalar::Decode::new().into()));
static ATOMS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(scalar::Atoms::new().into()));
static INFO: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(scalar::DictionaryInfo::new().into()));
static OBJECTIVE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(scalar::Objective::new().into()));
static RESIDUAL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(scalar::Residual::new().into()));
static UPDATE: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Arc::new(aggregate::Update::new(Arc::new(()), FunctionMemory::default()).into()));
static TRAIN: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Arc::new(aggregate::Train::new(Arc::new(()), FunctionMemory::default()).into()));
static GIVEN: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Arc::new(aggregate::GivenDictionary::new().into()));
static NRMSE: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Arc::new(aggregate::ErrorMetric::nrmse().into()));
static NMAE: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Arc::new(aggregate::ErrorMetric::nmae().into()));
static NECR: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Arc::new(aggregate::ErrorMetric::necr().into()));

static ENCODE_JOINTLY: LazyLock<Arc<WindowUDF>> =
    LazyLock::new(|| Arc::new(window::EncodeJointly::new(FunctionMemory::default()).into()));

/// Vectors to sparse codes.
pub fn sparse_encode(v: Expr, dictionary: Expr, options: Option<Expr>) -> Expr {
    call(&ENCODE, vec![v, dictionary], options)
}

/// Vectors of a window's partition to sparse codes that share atoms.
pub fn sparse_encode_jointly(v: Expr, dictionary: Expr, options: Option<Expr>) -> Expr {
    ENCODE_JOINTLY.call([v, dictionary].into_iter().chain(options).collect())
}

/// Sparse codes back to vectors.
pub fn sparse_decode(code: Expr, dictionary: Expr) -> Expr {
    call(&DECODE, vec![code, dictionary], None)
}

/// The atoms of a dictionary.
pub fn sparse_atoms(dictionary: Expr) -> Expr {
    call(&ATOMS, vec![dictionary], None)
}

/// What is known about a dictionary.
pub fn sparse_dictionary_info(dictionary: Expr) -> Expr {
    call(&INFO, vec![dictionary], None)
}

/// Objective, fit, penalty and optimality gap of codes.
pub fn sparse_objective(v: Expr, code: Expr, dictionary: Expr, options: Option<Expr>) -> Expr {
    call(&OBJECTIVE, vec![v, code, dictionary], options)
}

/// What a dictionary cannot express of vectors.
pub fn sparse_residual(v: Expr, dictionary: Expr, options: Option<Expr>) -> Expr {
    call(&RESIDUAL, vec![v, dictionary], options)
}

/// Goes on learning from a dictionary.
pub fn sparse_update(dictionary: Expr, v: Expr, options: Option<Expr>) -> Expr {
    aggregate(&UPDATE, vec![dictionary, v], options)
}

/// Learns a dictionary.
pub fn sparse_train(v: Expr, options: Option<Expr>) -> Expr {
    aggregate(&TRAIN, vec![v], options)
}

/// Makes a dictionary of given vectors.
pub fn sparse_dictionary(v: Expr, options: Option<Expr>) -> Expr {
    aggregate(&GIVEN, vec![v], options)
}

/// Normalised root mean square error.
pub fn sparse_nrmse(v: Expr, u: Expr) -> Expr {
    aggregate(&NRMSE, vec![v, u], None)
}

/// Normalised mean absolute error.
pub fn sparse_nmae(v: Expr, u: Expr) -> Expr {
    aggregate(&NMAE, vec![v, u], None)
}

/// Number of elements correctly reconstructed, to within `tolerance` (0.001 unless given).
pub fn sparse_necr(v: Expr, u: Expr, tolerance: Option<Expr>) -> Expr {
    aggregate(&NECR, vec![v, u], tolerance)
}
