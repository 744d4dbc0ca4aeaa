//! What the engine promises whatever the machine: counts of updates and allocations, and codes that are
//! optimal although most similarities are known to single precision only.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rayon::prelude::*;
use sparrow::math::coders::{self, evaluate};
use sparrow::math::synthetic::syn;
use sparrow::math::{Code, CoderOptions, Dictionary, ExitReason, PreparedDictionary, Signals, kernels};

use crate::support::run_alone;

/// Counts allocations of the whole process.
pub struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// A dictionary of the first `atoms` vectors of SynN, and the others.
fn problem(dim: usize, atoms: usize, signals: usize, sigma: f64) -> (PreparedDictionary, Vec<f64>) {
    let mut values = syn(dim, atoms + signals, 15, 1);
    let signals = values.split_off(atoms * dim);
    let kernel: Arc<_> = kernels::build("rbf", &|_| Some(sigma)).expect("a width");
    let dictionary = Dictionary::new(values, dim, kernel, 0.01, None).expect("atoms");
    (PreparedDictionary::new(dictionary).expect("finite"), signals)
}

#[test]
fn fksc_does_under_5_percent_of_the_updates_of_ksc_at_the_same_objective() {
    let (dictionary, values) = problem(1000, 1000, 12, 20.0);
    let signals = Signals::from_flat(&values, 1000).expect("signals");
    let options = CoderOptions::new(0.01).expect("options");
    let [fast, plain] = ["fksc", "ksc"].map(|name| {
        coders::by_name(name).expect("known").encode(&dictionary, &signals, &options).expect("codes")
    });
    assert!((fast.objective() - plain.objective()).abs() < 1e-6 * plain.objective());
    let updates = |codes: &sparrow::math::Codes| codes.reports.iter().map(|r| r.updates).sum::<u64>();
    assert!(20 * updates(&fast) < updates(&plain), "{} against {}", updates(&fast), updates(&plain));
}

#[test]
fn coding_allocates_per_block_not_per_signal() {
    run_alone("engine::allocations_of_coding");
}

#[test]
#[ignore = "run by coding_allocates_per_block_not_per_signal in a process of its own"]
fn allocations_of_coding() {
    for (dim, atoms, most) in [(24, 64, None), (24, 64, Some(3)), (200, 200, None)] {
        let (dictionary, values) = problem(dim, atoms, 8192, 4.0);
        let mut options = CoderOptions::new(0.05).expect("options");
        if let Some(most) = most {
            options = options.with_max_nonzeros(most).expect("options");
        }
        let coder = coders::by_name("fksc").expect("known");
        let count = |signals: usize| {
            let signals = Signals::from_flat(&values[..signals * dim], dim).expect("signals");
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            coder.encode(&dictionary, &signals, &options).expect("codes");
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        count(8192);
        let (fewer, more) = (count(4096), count(8192));
        let per_signal = more.saturating_sub(fewer) as f64 / 4096.0;
        assert!(per_signal < 0.1, "{per_signal} allocations a signal ({fewer}, {more})");
    }
}

/// The gap of every code, computed in double precision from the signals.
fn worst_gap(dictionary: &PreparedDictionary, signals: &Signals<'_>, codes: &[Code<'_>], lambda: f64) -> f64 {
    let evaluations = evaluate(dictionary, signals, codes, lambda).expect("evaluated");
    evaluations.iter().fold(0.0, |worst, evaluation| evaluation.gap.max(worst))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    // Sizes at which products are made in single precision; widths and scales that make that precise,
    // coarse, or useless.
    #[test]
    fn codes_from_single_precision_products_are_optimal(
        dim in 128usize..300, atoms in 128usize..220, width in 0.05f64..3.0, scale in prop_oneof![-3i32..6, -60i32..14], stray in -3i32..18,
        lambda in prop_oneof![1e-4f64..0.5, Just(1e-12), Just(1e-40)], seed in 0u64..1000,
    ) {
        let mut values = syn(dim, atoms + 20, 4, seed);
        let unit = 10f64.powi(scale);
        values.iter_mut().for_each(|value| *value *= unit);
        let mut signals = values.split_off(atoms * dim);
        // One signal far away, and one atom itself.
        signals[..dim].iter_mut().for_each(|value| *value *= 10f64.powi(stray));
        signals[dim..2 * dim].copy_from_slice(&values[..dim]);
        let sigma = width * unit * (dim as f64).sqrt();
        let kernel = kernels::build("rbf", &|_| Some(sigma)).expect("a width");
        let dictionary = Dictionary::new(values, dim, kernel, 0.01, None).expect("atoms");
        let dictionary = PreparedDictionary::new(dictionary).expect("finite");
        let batch = Signals::from_flat(&signals, dim).expect("signals");
        let options = CoderOptions::new(lambda).expect("options");
        let coder = coders::by_name("fksc").expect("known");
        let codes = coder.encode(&dictionary, &batch, &options).expect("codes");
        prop_assert!(codes.reports.iter().all(|report| report.exit == ExitReason::Converged));
        let rows: Vec<Code<'_>> = codes.rows().collect();
        let gap = worst_gap(&dictionary, &batch, &rows, lambda);
        prop_assert!(gap <= 1.1 * CoderOptions::DEFAULT_TOLERANCE, "gap {gap}");
        prop_assert!(codes.worst_gap() <= 1.1 * CoderOptions::DEFAULT_TOLERANCE, "reported {}", codes.worst_gap());
        // One by one, the same bits.
        for (row, code) in rows.iter().enumerate() {
            let one = Signals::new(vec![batch.row(row)]).expect("a signal");
            let alone = coder.encode(&dictionary, &one, &options).expect("codes");
            prop_assert_eq!(alone.rows().next(), Some(*code));
        }
    }
}

/// Several atoms that depend on others at once: one from which nothing is gained must not keep the
/// solver from those from which something is.
#[test]
fn every_dependent_atom_is_looked_at() {
    let atoms = [-3.328, 37.353, -1.829, -3.973, 0.000193, 341.423, 0.0].to_vec();
    let kernel = kernels::build("polynomial", &|_| None).expect("defaults are valid");
    let dictionary = Dictionary::new(atoms, 1, kernel, 0.01, None).expect("finite atoms");
    let dictionary = PreparedDictionary::new(dictionary).expect("a gram matrix of 7 atoms");
    let values: Vec<f64> = (-60..60).map(|i| 0.1 * f64::from(i)).collect();
    let signals = Signals::from_flat(&values, 1).expect("finite signals");
    let options = CoderOptions::new(0.6285859).expect("a positive lambda");
    let codes = coders::by_name("fksc").unwrap().encode(&dictionary, &signals, &options).expect("codes");
    for (value, report) in values.iter().zip(&codes.reports) {
        assert_eq!(report.exit, ExitReason::Converged, "signal {value}: {report:?}");
    }
}

/// A thread of a pool that waits for others takes up other work meanwhile, which may need the same dictionary.
#[test]
fn a_fresh_dictionary_is_prepared_by_many_tasks_at_once() {
    const DICTIONARIES: u64 = 100;
    const DIM: usize = 16;
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().expect("threads");
        let options = CoderOptions::new(0.05).expect("options");
        for seed in 0..DICTIONARIES {
            // The gram matrix of many atoms is made in parts; foso needs more of a small one.
            let (name, atoms, tasks) = if seed % 2 == 0 { ("fksc", 300, 64) } else { ("foso", 24, 8) };
            let mut values = syn(DIM, atoms + tasks, 4, seed);
            let signals = values.split_off(atoms * DIM);
            let kernel = kernels::build("rbf", &|_| Some(4.0)).expect("a width");
            let dictionary = Dictionary::new(values, DIM, kernel, 0.01, None).expect("atoms");
            let dictionary = PreparedDictionary::new(dictionary).expect("finite");
            let coder = coders::by_name(name).expect("known");
            let encode = |signals: &[f64]| {
                let signals = Signals::from_flat(signals, DIM).expect("signals");
                coder.encode(&dictionary, &signals, &options).expect("codes")
            };
            let codes: Vec<_> = pool.install(|| signals.par_chunks(DIM).map(encode).collect());
            let together = encode(&signals);
            assert!(codes.iter().flat_map(|codes| codes.rows()).eq(together.rows()));
        }
        done.send(()).expect("somebody waits");
    });
    is_done.recv_timeout(std::time::Duration::from_secs(120)).expect("it neither hangs nor fails");
}
