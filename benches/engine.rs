//! Micro-benchmarks of the numerics: coders, decoding and learning on SynN.
//!
//!     cargo bench --bench engine

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sparrow::math::synthetic::syn;
use sparrow::math::{
    CoderOptions, Dictionary, LearnerOptions, PreparedDictionary, Sample, Signals, coders, decoders, kernels,
    learners,
};

const DIM: usize = 360;
const SIGNALS: usize = 500;

fn problem() -> (PreparedDictionary, Vec<f64>) {
    let values = syn(DIM, DIM + SIGNALS, 15, 5);
    let (atoms, signals) = values.split_at(DIM * DIM);
    let kernel = kernels::build("rbf", &|_| Some(17.0)).expect("rbf");
    let dictionary = Dictionary::new(atoms.to_vec(), DIM, kernel, 0.01, None).expect("atoms");
    (PreparedDictionary::new(dictionary).expect("finite"), signals.to_vec())
}

fn encode(criterion: &mut Criterion) {
    let (dictionary, values) = problem();
    let options = CoderOptions::new(0.01).expect("options");
    for (name, count) in [("fksc", SIGNALS), ("ksc", 10)] {
        let coder = coders::by_name(name).expect("known");
        let signals = Signals::from_flat(&values[..count * DIM], DIM).expect("signals");
        criterion.bench_function(&format!("encode/{name}/syn360x{count}"), |bencher| {
            bencher.iter(|| coder.encode(&dictionary, black_box(&signals), &options));
        });
    }
}

fn decode(criterion: &mut Criterion) {
    let (dictionary, values) = problem();
    let signals = Signals::from_flat(&values, DIM).expect("signals");
    let codes = coders::by_name("fksc").expect("known").encode(
        &dictionary,
        &signals,
        &CoderOptions::new(0.01).expect("options"),
    );
    let codes = codes.expect("codes").weights;
    let rows: Vec<_> =
        codes.outer_iterator().map(|row| (row.indices().to_vec(), row.data().to_vec())).collect();
    let rows: Vec<_> = rows.iter().map(|(atoms, weights)| (atoms.as_slice(), weights.as_slice())).collect();
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

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = encode, decode, learn }
criterion_main!(benches);
