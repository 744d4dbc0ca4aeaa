//! Micro-benchmarks: the product, the kernel, coders, decoding, learning and the SQL functions, on SynN.
//!
//!     cargo bench --bench engine

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::prelude::{SessionConfig, SessionContext};
use sparrow::math::coders::Form;
use sparrow::math::synthetic::syn;
use sparrow::math::{
    CoderOptions, Dictionary, LearnerOptions, PreparedDictionary, Sample, Signals, coders, decoders, kernels,
    learners,
};

const DIM: usize = 360;
const SIGNALS: usize = 500;

fn dictionary(atoms: &[f64], kernel: &str) -> PreparedDictionary {
    let kernel = kernels::build(kernel, &|name| (name == "sigma").then_some(17.0)).expect("a kernel");
    let dictionary = Dictionary::new(atoms.to_vec(), DIM, kernel, 0.01, None).expect("atoms");
    PreparedDictionary::new(dictionary).expect("finite")
}

fn problem() -> (PreparedDictionary, Vec<f64>) {
    let values = syn(DIM, DIM + SIGNALS, 15, 5);
    let (atoms, signals) = values.split_at(DIM * DIM);
    (dictionary(atoms, "rbf"), signals.to_vec())
}

/// The gram matrix is a product and a kernel; the difference between kernels is the exponential.
fn gram(criterion: &mut Criterion) {
    let atoms = syn(DIM, DIM, 15, 5);
    let signals = Signals::from_flat(&atoms[..DIM], DIM).expect("a signal");
    let options = CoderOptions::new(1e6).expect("options");
    for kernel in ["linear", "rbf"] {
        criterion.bench_function(&format!("gram/{kernel}/syn360"), |bencher| {
            // A penalty that leaves no nonzeros: nothing but the gram matrix is computed.
            let code =
                |prepared| coders::by_name("fksc").expect("known").encode(&prepared, &signals, &options);
            bencher.iter_batched(|| dictionary(&atoms, kernel), code, criterion::BatchSize::LargeInput);
        });
    }
}

fn encode(criterion: &mut Criterion) {
    let (dictionary, values) = problem();
    // So large a penalty that codes are empty leaves the product and the kernel.
    let slow = ["ksc", "cd", "foso"];
    let others = coders::names().into_iter().skip(1);
    let others = others.map(|name| (name, 0.01, if slow.contains(&name) { 10 } else { SIGNALS }));
    for (name, lambda, count) in [("fksc", 10.0, SIGNALS), ("fksc", 0.01, SIGNALS)].into_iter().chain(others)
    {
        let coder = coders::by_name(name).expect("known");
        let mut options = CoderOptions::new(lambda).expect("options");
        if coder.form() != Form::L1 {
            options = options.with_max_nonzeros(5).expect("options");
        }
        let signals = Signals::from_flat(&values[..count * DIM], DIM).expect("signals");
        criterion.bench_function(&format!("encode/{name}/lambda {lambda}/syn360x{count}"), |bencher| {
            bencher.iter(|| coder.encode(&dictionary, black_box(&signals), &options));
        });
    }
}

fn decode(criterion: &mut Criterion) {
    let (dictionary, values) = problem();
    let signals = Signals::from_flat(&values, DIM).expect("signals");
    let options = CoderOptions::new(0.01).expect("options");
    let coder = coders::by_name("fksc").expect("known");
    let codes = coder.encode(&dictionary, &signals, &options).expect("codes");
    let rows: Vec<_> = codes.rows().collect();
    criterion.bench_function("decode/syn360x500", |bencher| {
        bencher.iter(|| decoders::decode(&dictionary, black_box(&rows)))
    });
}

fn learn(criterion: &mut Criterion) {
    let values = syn(DIM, SIGNALS, 15, 5);
    let mut sample = Sample::new(SIGNALS, 0);
    values.chunks_exact(DIM).for_each(|v| sample.offer(0, v).expect("equal lengths"));
    let options =
        LearnerOptions::default().with_atoms(64).and_then(|o| o.with_max_rounds(5)).expect("options");
    criterion.bench_function("learn/syn360x500x64/5 rounds", |bencher| {
        bencher.iter(|| learners::learn(black_box(&sample), &options, &()));
    });
}

fn sql(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut session = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    sparrow::sql::register_all(&mut session).expect("functions register");
    let run = |statement: &str| {
        runtime.block_on(async { session.sql(statement).await?.collect().await }).expect("it runs")
    };
    run("CREATE TABLE t AS SELECT [sin(i), cos(i * 0.1), i % 7, i % 11, sin(i * 0.01), 1.0, i % 3, i % 5] AS v
         FROM (SELECT unnest(range(0, 50000)) AS i)");
    run("CREATE TABLE d AS SELECT sparse_train(v, {atoms: 32}) AS d FROM t");
    run("CREATE TABLE c AS SELECT sparse_encode(v, (SELECT d FROM d)) AS c FROM t");
    for (name, expression) in [
        ("sparse_train", "SELECT sparse_train(v, {atoms: 32, max_iter: 3}) FROM t"),
        ("sparse_encode", "SELECT count(sparse_encode(v, (SELECT d FROM d))) FROM t"),
        ("sparse_decode", "SELECT count(sparse_decode(c, (SELECT d FROM d))) FROM c"),
    ] {
        criterion.bench_function(&format!("sql/{name}/50000x8"), |bencher| {
            bencher.iter(|| run(black_box(expression)));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = gram, encode, decode, learn, sql
}
criterion_main!(benches);
