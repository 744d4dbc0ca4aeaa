//! The rival coders against scikit-learn, SPAMS and numpy, and against each other.
//!
//! `tests/fixtures/make_rivals.py` makes the problems and tells how exact their solutions are.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use serde::Deserialize;
use sparrow::math::coders::{self, Form, evaluate};
use sparrow::math::synthetic::syn;
use sparrow::math::{
    CoderOptions, Codes, Dictionary, ExitReason, Kernel, PreparedDictionary, Signals, kernels,
};

use crate::support::{coders_of, project};

#[derive(Deserialize)]
struct Problems {
    omp: Vec<Problem>,
    lasso: Vec<Problem>,
    ridge: Vec<Problem>,
    group: Vec<GroupProblem>,
}

#[derive(Deserialize)]
struct Problem {
    kernel: String,
    parameters: BTreeMap<String, f64>,
    atoms: Vec<Vec<f64>>,
    signals: Vec<Vec<f64>>,
    weights: Vec<Vec<f64>>,
    lambda: Option<f64>,
    nonzeros: Option<usize>,
    residual: Option<f64>,
    fit: Option<Vec<f64>>,
    objective: Option<Vec<f64>>,
}

/// The same, with one objective for all signals together.
#[derive(Deserialize)]
struct GroupProblem {
    objective: f64,
    #[serde(flatten)]
    problem: Ungrouped,
}

#[derive(Deserialize)]
struct Ungrouped {
    kernel: String,
    parameters: BTreeMap<String, f64>,
    atoms: Vec<Vec<f64>>,
    signals: Vec<Vec<f64>>,
    weights: Vec<Vec<f64>>,
    lambda: f64,
}

fn problems() -> Problems {
    let text = std::fs::read_to_string(project("tests/fixtures/rivals.json")).expect("the fixture");
    serde_json::from_str(&text).expect("its format")
}

fn prepared(kernel: &str, parameters: &BTreeMap<String, f64>, atoms: &[Vec<f64>]) -> PreparedDictionary {
    let kernel = kernels::build(kernel, &|name| parameters.get(name).copied()).expect("a known kernel");
    let dictionary = Dictionary::new(atoms.concat(), atoms[0].len(), kernel, 1.0, None);
    PreparedDictionary::new(dictionary.expect("valid atoms")).expect("finite atoms")
}

fn encode(
    coder: &str,
    dictionary: &PreparedDictionary,
    signals: &[Vec<f64>],
    options: CoderOptions,
) -> Codes {
    let signals = Signals::new(signals.iter().map(Vec::as_slice).collect()).expect("signals");
    coders::by_name(coder).expect("a known coder").encode(dictionary, &signals, &options).expect("codes")
}

/// The largest difference of two sets of weights.
fn difference(codes: &Codes, expected: &[Vec<f64>]) -> f64 {
    let found = codes.weights.to_dense();
    let rows = expected.iter().enumerate();
    let pairs = rows.flat_map(|(i, row)| row.iter().enumerate().map(move |(j, weight)| (i, j, weight)));
    pairs.map(|(i, j, weight)| (found[[i, j]] - weight).abs()).fold(0.0, f64::max)
}

#[test]
fn komp_takes_the_atoms_and_weights_of_scikit_learn() {
    for problem in problems().omp {
        let dictionary = prepared(&problem.kernel, &problem.parameters, &problem.atoms);
        let mut options = CoderOptions::new(1.0).expect("options");
        if let Some(most) = problem.nonzeros {
            options = options.with_max_nonzeros(most).expect("a count");
        }
        if let Some(residual) = problem.residual {
            options = options.with_residual(residual).expect("a share");
        }
        let codes = encode("komp", &dictionary, &problem.signals, options);
        let off = difference(&codes, &problem.weights);
        let (most, residual) = (problem.nonzeros, problem.residual);
        assert!(off < 1e-9, "{} {most:?} {residual:?}: weights differ by {off}", problem.kernel);
        let expected = if most.is_some() { ExitReason::Truncated } else { ExitReason::Converged };
        for ((report, (_, weights)), fit) in
            codes.reports.iter().zip(codes.rows()).zip(problem.fit.iter().flatten())
        {
            let norm: f64 = weights.iter().map(|weight| weight.abs()).sum();
            assert!((report.objective - norm - fit).abs() < 1e-9 * fit.max(1.0));
            assert_eq!(report.exit, expected);
            assert!(report.gap < 1e-9, "least squares leaves nothing: {}", report.gap);
        }
    }
}

#[test]
fn coders_of_the_l1_form_reach_the_objective_of_spams() {
    for problem in problems().lasso {
        let dictionary = prepared(&problem.kernel, &problem.parameters, &problem.atoms);
        let lambda = problem.lambda.expect("a penalty");
        let expected = problem.objective.as_ref().expect("objectives");
        for name in coders_of(Form::L1) {
            let codes =
                encode(name, &dictionary, &problem.signals, CoderOptions::new(lambda).expect("options"));
            for (signal, (report, expected)) in codes.reports.iter().zip(expected).enumerate() {
                let relative = (report.objective - expected).abs() / expected;
                // A first-order method gets close and then crawls where atoms are alike.
                let accepted = if name == "foso" { 1e-5 } else { 1e-6 };
                assert!(relative < accepted, "{name}, {}, signal {signal}: {relative}", problem.kernel);
                let settled = name == "foso" || report.exit == ExitReason::Converged;
                assert!(settled, "{name}, {}, signal {signal}", problem.kernel);
            }
            let off = difference(&codes, &problem.weights);
            let accepted = if name == "foso" { 1e-2 } else { 1e-5 };
            assert!(off < accepted, "{name}, {}: weights differ by {off}", problem.kernel);
        }
    }
}

#[test]
fn kfmc_solves_the_ridge_system_and_keeps_the_largest_weights() {
    for problem in problems().ridge {
        let dictionary = prepared(&problem.kernel, &problem.parameters, &problem.atoms);
        let options = CoderOptions::new(problem.lambda.expect("a penalty")).expect("options");
        let all = encode("kfmc", &dictionary, &problem.signals, options);
        let off = difference(&all, &problem.weights);
        assert!(off < 1e-9, "{}: weights differ by {off}", problem.kernel);
        let few =
            encode("kfmc", &dictionary, &problem.signals, options.with_max_nonzeros(3).expect("a count"));
        for (signal, (atoms, weights)) in few.rows().enumerate() {
            assert_eq!(atoms.len(), 3);
            let full = &problem.weights[signal];
            for (atom, weight) in atoms.iter().zip(weights) {
                assert!((full[*atom as usize] - weight).abs() < 1e-9, "kept as it was");
            }
            if problem.kernel == "rbf" {
                let smallest = weights.iter().fold(f64::INFINITY, |least, weight| least.min(weight.abs()));
                let larger = full.iter().filter(|weight| weight.abs() > smallest + 1e-9).count();
                assert_eq!(larger, 2, "signal {signal}");
            }
        }
    }
}

#[test]
fn ksr_l21_finds_the_minimum_of_all_signals_together() {
    for GroupProblem { objective, problem } in problems().group {
        let dictionary = prepared(&problem.kernel, &problem.parameters, &problem.atoms);
        let options = CoderOptions::new(problem.lambda).expect("options");
        let codes = encode("ksr_l21", &dictionary, &problem.signals, options);
        let weights = codes.weights.to_dense();
        let norms: f64 = weights.columns().into_iter().map(|column| column.dot(&column).sqrt()).sum();
        let l1: f64 = codes.weights.data().iter().map(|weight| weight.abs()).sum();
        let found = codes.objective() + problem.lambda * (norms - l1);
        assert!(
            (found - objective).abs() < 1e-6 * objective,
            "{}: {found} against {objective}",
            problem.kernel
        );
        let off = difference(&codes, &problem.weights);
        assert!(off < 1e-3, "{}: weights differ by {off}", problem.kernel);
        for (atom, column) in weights.columns().into_iter().enumerate() {
            let unused = problem.weights.iter().all(|row| row[atom] == 0.0);
            let largest = column.iter().fold(0.0f64, |most, weight| most.max(weight.abs()));
            assert!(!unused || largest < 1e-4, "{}: atom {atom} with {largest}", problem.kernel);
        }
        let few = encode("ksr_l21", &dictionary, &problem.signals, options.with_max_nonzeros(2).expect("2"));
        assert!(few.rows().all(|(atoms, _)| atoms.len() <= 2));
    }
}

#[test]
fn all_coders_of_the_l1_form_agree_on_larger_problems() {
    let (dim, atoms) = (60, 90);
    let values = syn(dim, atoms + 40, 6, 9);
    let (kept, rest) = values.split_at(dim * atoms);
    for (kernel, lambda) in [("rbf", 0.02), ("linear", 15.0), ("polynomial", 4000.0)] {
        let kernel = kernels::build(kernel, &|name| match name {
            "sigma" => Some(9.0),
            _ => None,
        });
        let kernel = kernel.expect("known");
        let dictionary = Dictionary::new(kept.to_vec(), dim, kernel.clone(), lambda, None).expect("atoms");
        let dictionary = PreparedDictionary::new(dictionary).expect("finite");
        let signals = Signals::from_flat(rest, dim).expect("signals");
        let options = CoderOptions::new(lambda).expect("options");
        let objective = |name: &str| {
            let coder = coders::by_name(name).expect("known");
            let codes = coder.encode(&dictionary, &signals, &options).expect("codes");
            let rows: Vec<_> = codes.rows().collect();
            let checked = evaluate(&dictionary, &signals, &rows, lambda).expect("valid codes");
            checked.iter().map(|code| code.fit + code.penalty).sum::<f64>()
        };
        let expected = objective("fksc");
        for name in coders_of(Form::L1) {
            let relative = (objective(name) - expected).abs() / expected;
            assert!(relative < 1e-6, "{name}, {}: {relative}", kernel.name());
        }
    }
}

/// Paper 4, Table I: errors 0.04, 0.14 and 0.33. Without noise any faithful pursuit finds the atoms and
/// stops at the residual, so this asks for more.
#[test]
fn komp_recovers_planted_codes() {
    let (dim, atoms, trials) = (125, 500, 50);
    for (nonzeros, accepted) in [(5, 0.001), (10, 0.001), (20, 0.01)] {
        let mut total = 0.0;
        for trial in 0..trials {
            let mut random = ChaCha8Rng::seed_from_u64(trial);
            let mut normal = || 0.5 * random.sample::<f64, _>(StandardNormal);
            let mut values: Vec<f64> = (0..dim * atoms).map(|_| normal()).collect();
            for atom in values.chunks_exact_mut(dim) {
                let norm = atom.iter().map(|value| value * value).sum::<f64>().sqrt();
                atom.iter_mut().for_each(|value| *value /= norm);
            }
            let mut planted = vec![0.0; atoms];
            for i in 0..nonzeros {
                planted[i * atoms / nonzeros] = normal();
            }
            let mut signal = vec![0.0; dim];
            for (atom, weight) in values.chunks_exact(dim).zip(&planted) {
                signal.iter_mut().zip(atom).for_each(|(y, x)| *y += weight * x);
            }
            let kernel = kernels::build("linear", &|_| None).expect("linear");
            let dictionary = Dictionary::new(values, dim, kernel, 1.0, None).expect("atoms");
            let dictionary = PreparedDictionary::new(dictionary).expect("finite");
            let codes = encode("komp", &dictionary, &[signal], CoderOptions::new(1.0).expect("options"));
            let found = codes.weights.outer_view(0).expect("a row").to_dense();
            let off: f64 = planted.iter().zip(found.iter()).map(|(a, b)| (a - b) * (a - b)).sum();
            let norm: f64 = planted.iter().map(|weight| weight * weight).sum();
            total += (off / norm).sqrt();
        }
        let error = total / trials as f64;
        println!("KOMP, {nonzeros} planted nonzeros: mean error {error:.1e}");
        assert!(error < accepted, "{nonzeros} nonzeros: {error}");
    }
}

#[test]
fn codes_do_not_depend_on_batches_unless_the_form_couples_them() {
    let (dim, atoms) = (20, 40);
    let values = syn(dim, atoms + 300, 4, 3);
    let (kept, rest) = values.split_at(dim * atoms);
    let kernel = kernels::build("rbf", &|_| Some(6.0)).expect("rbf");
    let dictionary = Dictionary::new(kept.to_vec(), dim, kernel, 0.05, None).expect("atoms");
    let dictionary = PreparedDictionary::new(dictionary).expect("finite");
    let options = CoderOptions::new(0.05).and_then(|o| o.with_max_nonzeros(4)).expect("options");
    for name in coders::names() {
        let coder = coders::by_name(name).expect("known");
        let run = |values: &[f64]| {
            coder
                .encode(&dictionary, &Signals::from_flat(values, dim).expect("signals"), &options)
                .expect("codes")
        };
        let whole = run(rest);
        let (first, second) = rest.split_at(37 * dim);
        let parts = [run(first), run(second)];
        let same = whole.rows().eq(parts.iter().flat_map(|part| part.rows()));
        assert_eq!(same, coder.form() != Form::Coupled, "{name}");
        assert!(whole.rows().eq(run(rest).rows()), "{name} gives the same codes again");
        assert!(whole.rows().all(|(atoms, _)| atoms.len() <= 4 && atoms.is_sorted()), "{name}");
    }
}

#[test]
fn nothing_breaks_on_odd_dictionaries_and_options() {
    // Equal atoms, a zero atom, one atom alone, opposite atoms; a zero signal and one far away.
    let odd: [&[f64]; 4] = [
        &[1.0, 2.0, 1.0, 2.0, 3.0, 1.0],
        &[0.0, 0.0, 1.0, 1.0],
        &[2.0, -1.0],
        &[1.0, 0.0, -1.0, 0.0, 0.0, 0.1],
    ];
    let signals = [vec![0.0, 0.0], vec![1.0, 2.0], vec![1e6, -1e6], vec![1.0, 0.0]];
    let penalties_and_tolerances = [(0.1, 1e-7), (1e-7, 1e-7), (1e3, 1e-7), (0.01, 0.02), (0.1, 1e-14)];
    for kernel in kernels::names() {
        let kernel: std::sync::Arc<dyn Kernel> = kernels::build(kernel, &|_| Some(1.0)).expect("known");
        for (atoms, name) in
            odd.iter().flat_map(|atoms| coders::names().into_iter().map(move |name| (atoms, name)))
        {
            let dictionary = Dictionary::new(atoms.to_vec(), 2, kernel.clone(), 0.1, None).expect("atoms");
            let dictionary = PreparedDictionary::new(dictionary).expect("finite");
            for ((lambda, tolerance), most) in penalties_and_tolerances
                .into_iter()
                .flat_map(|pair| [1, 2, usize::MAX].map(|most| (pair, most)))
            {
                let options = CoderOptions::new(lambda)
                    .and_then(|o| o.with_tolerance(tolerance))
                    .and_then(|o| o.with_max_nonzeros(most))
                    .expect("options");
                let codes = encode(name, &dictionary, &signals, options);
                let weights = codes.weights.data();
                assert!(weights.iter().all(|w| w.is_finite() && *w != 0.0), "{name}, {kernel:?}: {codes:?}");
                let judged = codes.reports.iter().all(|r| r.objective.is_finite() && r.gap.is_finite());
                assert!(judged, "{name}, {kernel:?}, lambda {lambda}, tolerance {tolerance}: {codes:?}");
                assert!(codes.rows().all(|(atoms, _)| atoms.len() <= most), "{name}: {codes:?}");
            }
        }
    }
}

#[test]
fn l1_coders_agree_where_steps_and_norms_are_treacherous() {
    // The top eigenvector is orthogonal to ones; norms differ by eight orders of magnitude.
    let cases: [(&[f64], [f64; 2]); 3] = [
        (&[1.0, 0.0, -1.0, 0.0, 0.0, 0.1], [1.0, 0.0]),
        (&[1.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0, -1.0], [1.0, 0.5]),
        (&[1e8, 0.0, 0.0, 1.0], [5e-8, 1.0]),
    ];
    let kernel = kernels::build("linear", &|_| None).expect("linear");
    for (atoms, signal) in cases {
        let dictionary = Dictionary::new(atoms.to_vec(), 2, kernel.clone(), 0.1, None).expect("atoms");
        let dictionary = PreparedDictionary::new(dictionary).expect("finite");
        for lambda in [0.1, 1e-4] {
            let objective = |name: &str| {
                let codes = encode(
                    name,
                    &dictionary,
                    &[signal.to_vec()],
                    CoderOptions::new(lambda).expect("options"),
                );
                codes.objective()
            };
            let expected = objective("fksc");
            for name in coders_of(Form::L1) {
                // Coordinates of so different norms are not for a first-order method.
                if name == "foso" && atoms[0] == 1e8 {
                    continue;
                }
                let found = objective(name);
                assert!(
                    (found - expected).abs() < 1e-5 * expected,
                    "{name}, {atoms:?}: {found} against {expected}"
                );
            }
        }
    }
}

#[test]
fn lpm_stops_at_a_fixed_point_of_its_round() {
    let (dim, count, most) = (10, 30, 4);
    let values = syn(dim, count + 40, 3, 7);
    let (atoms, rest) = values.split_at(dim * count);
    let sigma = 4.0;
    let kernel = kernels::build("rbf", &|_| Some(sigma)).expect("rbf");
    let dictionary = Dictionary::new(atoms.to_vec(), dim, kernel, 0.1, None).expect("atoms");
    let dictionary = PreparedDictionary::new(dictionary).expect("finite");
    let signals: Vec<Vec<f64>> = rest.chunks_exact(dim).map(<[f64]>::to_vec).collect();
    let options = CoderOptions::new(0.1).and_then(|o| o.with_max_nonzeros(most)).expect("options");
    let codes = encode("lpm", &dictionary, &signals, options);
    let similarity = |a: &[f64], b: &[f64]| {
        let square: f64 = a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum();
        (-square / (2.0 * sigma * sigma)).exp()
    };
    let atom = |i: usize| &atoms[i * dim..(i + 1) * dim];
    // Entries of this kernel are positive, so a power iteration from ones finds the largest eigenvalue.
    let mut direction = vec![1.0; count];
    let mut curvature = 0.0;
    for _ in 0..500 {
        let image: Vec<f64> = (0..count)
            .map(|i| (0..count).map(|j| similarity(atom(i), atom(j)) * direction[j]).sum())
            .collect();
        curvature = image.iter().fold(0.0f64, |most, value| most.max(*value));
        direction = image.iter().map(|value| value / curvature).collect();
    }
    for (signal, (chosen, weights)) in signals.iter().zip(codes.rows()) {
        assert_eq!(chosen.len(), most);
        let left = |i: usize| {
            let fitted: f64 =
                chosen.iter().zip(weights).map(|(j, w)| w * similarity(atom(i), atom(*j as usize))).sum();
            similarity(signal, atom(i)) - fitted
        };
        let smallest = weights.iter().fold(f64::INFINITY, |least, w| least.min(w.abs()));
        for i in 0..count {
            if chosen.contains(&(i as u32)) {
                assert!(left(i).abs() < 1e-9, "least squares on the support");
            } else {
                assert!(
                    left(i).abs() / curvature <= smallest * 1.02,
                    "atom {i} would replace one of {chosen:?}"
                );
            }
        }
    }
}

#[test]
fn codes_of_signals_coded_together_do_not_depend_on_their_order() {
    let (dim, atoms) = (8, 12);
    let mut values = syn(dim, atoms + 200, 3, 4);
    // Equal signals, too.
    let repeated = values[dim * atoms..dim * (atoms + 3)].to_vec();
    values.extend_from_slice(&repeated);
    let kernel = kernels::build("rbf", &|_| Some(6.0)).expect("rbf");
    let dictionary = Dictionary::new(values[..dim * atoms].to_vec(), dim, kernel, 0.5, None).expect("atoms");
    let dictionary = PreparedDictionary::new(dictionary).expect("finite");
    let signals: Vec<Vec<f64>> = values[dim * atoms..].chunks_exact(dim).map(<[f64]>::to_vec).collect();
    let options = CoderOptions::new(0.5).expect("options");
    let forwards = encode("ksr_l21", &dictionary, &signals, options);
    let backwards: Vec<Vec<f64>> = signals.iter().rev().cloned().collect();
    let backwards = encode("ksr_l21", &dictionary, &backwards, options);
    let count = signals.len();
    assert!((0..count).all(|i| forwards.row(i) == backwards.row(count - 1 - i)));
}
