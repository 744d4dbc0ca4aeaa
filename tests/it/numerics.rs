//! Coders, decoders and learners against independent references.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use sparrow::math::coders::{self, evaluate};
use sparrow::math::synthetic::syn;
use sparrow::math::{
    CoderOptions, Dictionary, ExitReason, Kernel, LearnerOptions, PreparedDictionary, Sample, Signals,
    decoders, kernels, learners,
};

use crate::support::{exact_coders, project};

#[derive(Deserialize)]
struct Case {
    kernel: String,
    parameters: BTreeMap<String, f64>,
    lambda: f64,
    atoms: Vec<Vec<f64>>,
    signals: Vec<Vec<f64>>,
    weights: Vec<Vec<f64>>,
    objective: Vec<f64>,
    decoded: Vec<Vec<f64>>,
    decoded_value: Vec<f64>,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(project("tests/fixtures/reference.json")).expect("the fixture");
    serde_json::from_str(&text).expect("its format")
}

impl Case {
    fn kernel(&self) -> Arc<dyn Kernel> {
        kernels::build(&self.kernel, &|name| self.parameters.get(name).copied()).expect("a known kernel")
    }

    fn dictionary(&self) -> PreparedDictionary {
        let dim = self.atoms[0].len();
        let dictionary = Dictionary::new(self.atoms.concat(), dim, self.kernel(), self.lambda, None);
        PreparedDictionary::new(dictionary.expect("valid atoms")).expect("finite atoms")
    }
}

#[test]
fn every_coder_finds_the_weights_that_numpy_finds_by_enumeration() {
    for case in cases() {
        let signals = Signals::new(case.signals.iter().map(Vec::as_slice).collect()).expect("signals");
        for name in exact_coders() {
            let coder = coders::by_name(name).expect("its own name");
            let options =
                CoderOptions::new(case.lambda).and_then(|o| o.with_tolerance(1e-12)).expect("options");
            let codes = coder.encode(&case.dictionary(), &signals, &options).expect("codes");
            for (row, expected) in case.weights.iter().enumerate() {
                let found = codes.weights.outer_view(row).expect("a row").to_dense();
                for (atom, weight) in expected.iter().enumerate() {
                    let difference = (found[atom] - weight).abs();
                    assert!(
                        difference < 1e-6,
                        "{name}, {}, signal {row}, atom {atom}: off by {difference}",
                        case.kernel
                    );
                }
                let report = codes.reports[row];
                assert!(
                    (report.objective - case.objective[row]).abs()
                        < 1e-9 * case.objective[row].abs().max(1.0)
                );
                assert_eq!(report.exit, ExitReason::Converged);
            }
        }
    }
}

#[test]
fn decoding_finds_a_pre_image_at_least_as_good_as_numpy_from_many_starts() {
    for case in cases() {
        let dictionary = case.dictionary();
        let kernel = case.kernel();
        let codes: Vec<(Vec<u32>, Vec<f64>)> = case.weights.iter().map(|row| sparse(row)).collect();
        let borrowed: Vec<(&[u32], &[f64])> =
            codes.iter().map(|(a, w)| (a.as_slice(), w.as_slice())).collect();
        let decoded = decoders::decode(&dictionary, &borrowed).expect("valid codes");
        let dim = case.atoms[0].len();
        for (row, y) in decoded.chunks_exact(dim).enumerate() {
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
            let k = |a: &[f64], b: &[f64]| kernel.pair(dot(a, b), dot(a, a), dot(b, b));
            let pull: f64 =
                case.atoms.iter().zip(&case.weights[row]).map(|(atom, weight)| weight * k(y, atom)).sum();
            let value = 0.5 * k(y, y) - pull;
            let best = case.decoded_value[row];
            assert!(
                value <= best + 1e-6 * best.abs().max(1.0),
                "{}, row {row}: {value} against {best}",
                case.kernel
            );
            if (value - best).abs() < 1e-9 && case.kernel != "polynomial" {
                for (found, expected) in y.iter().zip(&case.decoded[row]) {
                    assert!(
                        (found - expected).abs() < 1e-4 * expected.abs().max(1.0),
                        "{}: row {row}",
                        case.kernel
                    );
                }
            }
        }
    }
}

fn sparse(row: &[f64]) -> (Vec<u32>, Vec<f64>) {
    row.iter().enumerate().filter(|(_, w)| **w != 0.0).map(|(i, w)| (i as u32, *w)).unzip()
}

/// SynN with the first signals as atoms.
fn syn_problem(dim: usize, signals: usize, sigma: f64) -> (PreparedDictionary, Vec<f64>) {
    let values = syn(dim, dim + signals, 15, 5);
    let (atoms, rest) = values.split_at(dim * dim);
    let kernel = kernels::build("rbf", &|_| Some(sigma)).expect("rbf");
    let dictionary = Dictionary::new(atoms.to_vec(), dim, kernel, 0.01, None).expect("atoms");
    (PreparedDictionary::new(dictionary).expect("finite"), rest.to_vec())
}

#[test]
fn fksc_reaches_the_objective_of_converged_ksc_with_a_fraction_of_its_updates() {
    for (dim, signals, sigma) in [(360, 60, 17.0), (360, 30, 60.0), (600, 40, 20.0), (1000, 30, 20.0)] {
        let (dictionary, values) = syn_problem(dim, signals, sigma);
        let signals = Signals::from_flat(&values, dim).expect("signals");
        let run = |name: &str| {
            let options = CoderOptions::new(0.01).expect("options");
            coders::by_name(name).expect("known").encode(&dictionary, &signals, &options).expect("codes")
        };
        let (fast, plain) = (run("fksc"), run("ksc"));
        let relative = (fast.objective() - plain.objective()).abs() / plain.objective();
        assert!(relative < 1e-6, "Syn{dim}, sigma {sigma}: objectives differ by {relative}");
        assert!(fast.worst_gap() <= 1e-6, "Syn{dim}: gap {}", fast.worst_gap());
        let updates =
            |codes: &sparrow::math::Codes| codes.reports.iter().map(|r| r.updates).sum::<u64>() as f64;
        assert!(updates(&fast) < 0.05 * updates(&plain), "{} against {}", updates(&fast), updates(&plain));
        let rows: Vec<_> = (0..signals.len()).map(|i| codes_row(&fast, i)).collect();
        let borrowed: Vec<(&[u32], &[f64])> =
            rows.iter().map(|(a, w)| (a.as_slice(), w.as_slice())).collect();
        let checked = evaluate(&dictionary, &signals, &borrowed, 0.01).expect("valid codes");
        for (report, checked) in fast.reports.iter().zip(checked) {
            assert!((report.objective - checked.fit - checked.penalty).abs() < 1e-9);
            assert!(
                (report.gap - checked.gap).abs() < 1e-7,
                "{} reported, {} found",
                report.gap,
                checked.gap
            );
        }
    }
}

fn codes_row(codes: &sparrow::math::Codes, row: usize) -> (Vec<u32>, Vec<f64>) {
    let view = codes.weights.outer_view(row).expect("a row");
    (view.indices().to_vec(), view.data().to_vec())
}

#[test]
fn alike_and_equal_atoms_do_not_hinder_coding() {
    let mut atoms = syn(8, 6, 2, 1);
    let copy = atoms[..8].to_vec();
    atoms.extend_from_slice(&copy);
    atoms.extend(copy.iter().map(|v| v + 1e-9));
    let kernel = kernels::build("rbf", &|_| Some(5.0)).expect("rbf");
    let dictionary = PreparedDictionary::new(Dictionary::new(atoms, 8, kernel, 0.01, None).expect("atoms"))
        .expect("finite");
    let values = syn(8, 40, 2, 2);
    let signals = Signals::from_flat(&values, 8).expect("signals");
    for name in exact_coders() {
        let codes = coders::by_name(name).expect("known").encode(
            &dictionary,
            &signals,
            &CoderOptions::new(0.01).expect("options"),
        );
        assert!(codes.expect("codes").worst_gap() <= 1e-7, "{name}");
    }
}

#[test]
fn max_nonzeros_is_kept_and_refitted() {
    let (dictionary, values) = syn_problem(60, 50, 8.0);
    let signals = Signals::from_flat(&values, 60).expect("signals");
    let encode = |options: CoderOptions| {
        coders::by_name("fksc").expect("known").encode(&dictionary, &signals, &options)
    };
    let options = CoderOptions::new(0.001).expect("options");
    let (all, few) =
        (encode(options).expect("codes"), encode(options.with_max_nonzeros(3).expect("3")).expect("codes"));
    assert!(all.nonzeros() > 3 * signals.len());
    for row in 0..signals.len() {
        let view = few.weights.outer_view(row).expect("a row");
        assert!(view.nnz() <= 3);
        assert!(few.reports[row].objective >= all.reports[row].objective - 1e-12);
    }
}

#[test]
fn learning_lowers_the_objective_every_round_and_beats_its_start() {
    let values = syn(24, 400, 4, 3);
    let mut sample = Sample::new(1000, 0);
    values.chunks_exact(24).for_each(|v| sample.offer(0, v).expect("equal lengths"));
    for kernel in kernels::names() {
        let options =
            LearnerOptions::default().with_kernel(kernel).and_then(|o| o.with_atoms(30)).expect("options");
        let learned = learners::learn(&sample, &options, &()).expect("learned").expect("not empty");
        let history = &learned.training().expect("a record").history;
        assert!(history.len() > 2, "{kernel}: {history:?}");
        for pair in history.windows(2).filter(|pair| pair[0].reseeded == 0) {
            assert!(pair[1].objective <= pair[0].objective * (1.0 + 1e-9), "{kernel}: {history:?}");
        }
        let (first, last) = (history[0].objective, history[history.len() - 1].objective);
        assert!(last < 0.97 * first, "{kernel}: {first} to {last}");
    }
}

#[test]
fn scdl_learns_the_linear_problem() {
    let values = syn(24, 400, 4, 3);
    let mut sample = Sample::new(1000, 0);
    values.chunks_exact(24).for_each(|v| sample.offer(0, v).expect("equal lengths"));
    let learn = |options: LearnerOptions| {
        let options = options.with_atoms(30).and_then(|o| o.with_max_rounds(60)).expect("options");
        learners::learn(&sample, &options, &()).expect("learned").expect("not empty")
    };
    let linear = learn(LearnerOptions::default().with_learner("scdl").expect("known"));
    assert_eq!(linear.kernel().name(), "linear");
    let training = linear.training().expect("a record");
    assert_eq!(training.learner, "scdl");
    for pair in training.history.windows(2).filter(|pair| pair[0].reseeded == 0) {
        assert!(pair[1].objective <= pair[0].objective * (1.0 + 1e-9), "{:?}", training.history);
    }
    // Block coordinate descent needs no step length, and is not worse than steps along the gradient.
    let gradient = learn(LearnerOptions::default().with_kernel("linear").expect("known"));
    let (found, other) = (training.objective(), gradient.training().expect("a record").objective());
    assert!(found < 1.02 * other, "{found} against {other} of kscdl");
    let error = LearnerOptions::default()
        .with_learner("scdl")
        .and_then(|o| o.with_kernel("rbf"))
        .and_then(|o| o.kernel_name().map(str::to_string))
        .expect_err("another kernel");
    assert!(error.to_string().contains("scdl is for the linear kernel, not for rbf"), "{error}");
}

#[test]
fn signals_that_look_alike_under_the_kernel_are_learned_too() {
    // Under the linear kernel all of these are nearly parallel.
    let mut network = sparrow::math::synthetic::traffic(&sparrow::math::synthetic::TrafficOptions {
        sensors: 40,
        days: 3,
        ..Default::default()
    });
    let (mut sample, mut row) = (Sample::new(4096, 0), vec![0.0; 40]);
    while network.next_row(&mut row) {
        sample.offer(0, &row).expect("equal lengths");
    }
    for kernel in kernels::names() {
        let options = LearnerOptions::default().with_kernel(kernel).expect("options");
        let learned = learners::learn(&sample, &options, &()).expect("learned").expect("not empty");
        let training = learned.training().expect("a record");
        let (first, best) = (training.history[0].objective, training.objective());
        assert!(best < 0.99 * first, "{kernel}: {:?}", training.history);
    }
}

#[test]
fn atoms_of_very_different_norms_are_coded_alike_by_all() {
    let kernel = kernels::build("linear", &|_| None).expect("linear");
    let atoms = vec![1e8, 0.0, 0.0, 1.0];
    let dictionary = PreparedDictionary::new(Dictionary::new(atoms, 2, kernel, 0.1, None).expect("atoms"))
        .expect("finite");
    let signals = Signals::new(vec![&[0.0, 1.0], &[1e8, 0.0]]).expect("signals");
    for name in exact_coders() {
        let codes = coders::by_name(name).expect("known").encode(
            &dictionary,
            &signals,
            &CoderOptions::new(0.1).expect("options"),
        );
        let weights = codes.expect("codes").weights.to_dense();
        assert!(
            (weights[[0, 1]] - 0.9).abs() < 1e-6 && (weights[[1, 0]] - 1.0).abs() < 1e-6,
            "{name}: {weights:?}"
        );
    }
}

#[test]
fn one_atom_far_away_does_not_cost_the_others_their_digits() {
    let values = syn(12, 60, 3, 8);
    let (near, signals) = values.split_at(12 * 20);
    let signals = Signals::from_flat(signals, 12).expect("signals");
    let encode = |atoms: Vec<f64>| {
        let kernel = kernels::build("rbf", &|_| Some(5.0)).expect("rbf");
        let dictionary = Dictionary::new(atoms, 12, kernel, 0.01, None).expect("atoms");
        let dictionary = PreparedDictionary::new(dictionary).expect("finite");
        let options = CoderOptions::new(0.01).expect("options");
        coders::by_name("fksc").expect("known").encode(&dictionary, &signals, &options).expect("codes")
    };
    let without = encode(near.to_vec());
    let with = encode([near, &[1e9; 12]].concat());
    for row in 0..signals.len() {
        let ((atoms, weights), (same_atoms, same_weights)) = (without.row(row), with.row(row));
        assert_eq!(atoms, same_atoms, "row {row}");
        for (weight, same) in weights.iter().zip(same_weights) {
            assert!((weight - same).abs() < 1e-9, "row {row}: {weight} and {same}");
        }
    }
}

#[test]
fn similarities_that_overflow_are_an_error() {
    let kernel = kernels::build("polynomial", &|_| Some(16.0)).expect("polynomial");
    let dictionary = |atom: f64| {
        Dictionary::new(vec![atom, 2.0], 2, kernel.clone(), 0.1, None)
            .and_then(PreparedDictionary::new)
            .expect("finite")
    };
    let signals = Signals::new(vec![&[1e30, 2.0]]).expect("signals");
    for dictionary in [dictionary(1e30), dictionary(1.0)] {
        let error = coders::by_name("fksc").expect("known").encode(
            &dictionary,
            &signals,
            &CoderOptions::new(0.1).expect("options"),
        );
        assert!(matches!(error, Err(sparrow::math::MathError::Overflow { .. })), "{error:?}");
    }
}

#[test]
fn unused_atoms_are_reseeded() {
    // Most signals lie so close together that a few atoms do for all of them, and five lie far away.
    let mut sample = Sample::new(1000, 0);
    for i in 0..300 {
        sample.offer(0, &[f64::from(i) / 300.0, 0.0]).expect("equal lengths");
    }
    for i in 0..5 {
        sample.offer(0, &[1000.0 * f64::from(i), -500.0]).expect("equal lengths");
    }
    let options = LearnerOptions::default().with_atoms(20).and_then(|o| o.with_sigma(10.0)).expect("options");
    let learned = learners::learn(&sample, &options, &()).expect("learned").expect("not empty");
    let training = learned.training().expect("a record");
    assert!(training.history[0].reseeded > 0, "{:?}", training.history);
    // Each outlier has an atom of its own in the end.
    for i in 0..5 {
        let near = |atom: usize| {
            (learned.atom(atom)[0] - 1000.0 * f64::from(i)).abs() < 1.0
                && (learned.atom(atom)[1] + 500.0).abs() < 1.0
        };
        assert!((0..learned.len()).any(near), "outlier {i}: {:?}", training.history);
    }
}

#[test]
fn a_cancelled_training_says_so() {
    struct Stop;
    impl sparrow::math::Observer for Stop {
        fn on_round(&self, _: &sparrow::math::Progress) -> std::ops::ControlFlow<()> {
            std::ops::ControlFlow::Break(())
        }
    }
    let mut sample = Sample::new(10, 0);
    sample.offer(0, &[1.0]).expect("a vector");
    let error = learners::learn(&sample, &LearnerOptions::default(), &Stop).expect_err("cancelled");
    assert_eq!(error, sparrow::math::MathError::Cancelled);
}
