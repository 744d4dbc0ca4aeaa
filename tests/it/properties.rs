//! Invariants that hold for any input.

use std::sync::Arc;

use crate::support::exact_coders;
use datafusion::arrow::array::{
    ArrayRef, AsArray, FixedSizeListArray, Float32Array, Float64Array, Int16Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use proptest::prelude::*;
use sparrow::columnar::{
    CodeColumn, Row, VectorColumn, dictionary_from_bytes, dictionary_to_bytes, to_code_array, to_vector_array,
};
use sparrow::math::{
    CoderOptions, Dictionary, ExitReason, PreparedDictionary, Signals, coders, decoders, kernels,
};

fn dictionaries() -> impl Strategy<Value = (Dictionary, usize)> {
    (1usize..6, 1usize..8, 0usize..3).prop_flat_map(|(dim, atoms, kernel)| {
        // Atoms of very different lengths.
        let values = prop::collection::vec((-5.0f64..5.0, -4i32..3), dim * atoms);
        let values = values.prop_map(|v| v.into_iter().map(|(m, e)| m * 10f64.powi(e)).collect::<Vec<_>>());
        (values, 0.1f64..4.0, 0.001f64..1.0).prop_map(move |(values, sigma, lambda)| {
            let name = kernels::names()[kernel];
            let parameter = |name: &str| (name == "sigma").then_some(sigma);
            let kernel = kernels::build(name, &parameter).expect("valid");
            (Dictionary::new(values, dim, kernel, lambda, None).expect("valid"), dim)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn codes_are_optimal_sparse_and_never_worse_than_nothing(
        (dictionary, dim) in dictionaries(), values in prop::collection::vec(-6.0f64..6.0, 30), lambda in 0.001f64..2.0,
    ) {
        let prepared = PreparedDictionary::new(dictionary).expect("finite");
        let values = &values[..values.len() / dim * dim];
        let signals = Signals::from_flat(values, dim).expect("signals");
        let kernel = prepared.dictionary().kernel().clone();
        let mut objectives = Vec::new();
        let mut scale_of_all = 1.0;
        for name in exact_coders() {
            let options = CoderOptions::new(lambda).expect("options");
            let codes = coders::by_name(name).expect("known").encode(&prepared, &signals, &options).expect("codes");
            for (row, report) in codes.reports.iter().enumerate() {
                let y = signals.row(row);
                let square: f64 = y.iter().map(|v| v * v).sum();
                let own = kernel.self_similarity(square);
                let scale = own.max(1.0);
                scale_of_all += scale;
                prop_assert!(report.objective <= 0.5 * own + 1e-9 * scale, "{name}: worse than w = 0");
                prop_assert!(report.objective >= -1e-9 * scale);
                if name == "fksc" || name == "kfss" {
                    prop_assert_eq!(report.exit, ExitReason::Converged, "gap {}", report.gap);
                }
                let view = codes.weights.outer_view(row).expect("a row");
                prop_assert!(view.data().iter().all(|w| *w != 0.0 && w.is_finite()));
                prop_assert!(view.indices().windows(2).all(|pair| pair[0] < pair[1]));
            }
            objectives.push(codes.objective());
        }
        // Coordinate descent may run out of rounds where atoms are alike; it is then above.
        for objective in &objectives {
            prop_assert!(objectives[0] <= objective + 1e-6 * scale_of_all, "fksc first: {objectives:?}");
        }
    }

    #[test]
    fn decoding_is_finite_and_bytes_round_trip((dictionary, dim) in dictionaries(), weights in prop::collection::vec(-2.0f64..2.0, 8)) {
        let bytes = dictionary_to_bytes(&dictionary).expect("bytes");
        let read = dictionary_from_bytes(&bytes).expect("readable");
        prop_assert_eq!(read.atoms(), dictionary.atoms());
        prop_assert_eq!(dictionary_to_bytes(&read).expect("bytes"), bytes);
        let prepared = PreparedDictionary::new(dictionary).expect("finite");
        let atoms: Vec<u32> = (0..prepared.dictionary().len() as u32).collect();
        let weights = &weights[..atoms.len()];
        // Cancelling weights and repeated atoms, too.
        let cancelling = [(&[0, 0][..], &[1.0, -1.0][..]), (&[0, atoms[atoms.len() - 1]], &[weights[0], -weights[0]])];
        let codes = [(&atoms[..], weights), (&[], &[]), cancelling[0], cancelling[1]];
        let decoded = decoders::decode(&prepared, &codes).expect("decoded");
        prop_assert_eq!(decoded.len(), 4 * dim);
        prop_assert!(decoded.iter().all(|v| v.is_finite()), "{:?}", decoded);
    }

    #[test]
    fn a_single_atom_decodes_to_itself((dictionary, dim) in dictionaries()) {
        prop_assume!(dictionary.kernel().name() == "rbf");
        let prepared = PreparedDictionary::new(dictionary).expect("finite");
        let atom = prepared.dictionary().atom(0).to_vec();
        let largest = prepared.dictionary().atoms().iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let decoded = decoders::decode(&prepared, &[(&[0], &[1.0])]).expect("decoded");
        for (a, b) in decoded.iter().zip(&atom) {
            prop_assert!((a - b).abs() < 1e-12 * largest.max(1.0));
        }
        prop_assert_eq!(decoded.len(), dim);
    }

    #[test]
    fn every_list_layout_and_number_type_reads_the_same(values in prop::collection::vec(-100i16..100, 0..40), dim in 1usize..5, absent in 0usize..12) {
        let rows = values.len() / dim;
        let values = &values[..rows * dim];
        let present: Vec<bool> = (0..rows).map(|row| row != absent).collect();
        let kept: Vec<f64> = values.chunks_exact(dim).zip(&present).filter(|(_, p)| **p).flat_map(|(v, _)| v.iter().map(|v| f64::from(*v))).collect();
        let list = to_vector_array(kept, dim, &present).expect("a list");
        let of = |item: DataType| Arc::new(Field::new_list_field(item, true));
        let mut arrays: Vec<ArrayRef> = vec![list.clone()];
        for item in [DataType::Int16, DataType::Int64, DataType::Float32, DataType::Float16, DataType::Float64] {
            arrays.push(cast(&list, &DataType::List(of(item.clone()))).expect("a cast"));
            arrays.push(cast(&list, &DataType::LargeList(of(item.clone()))).expect("a cast"));
            arrays.push(cast(&list, &DataType::ListView(of(item.clone()))).expect("a cast"));
            arrays.push(cast(&list, &DataType::LargeListView(of(item))).expect("a cast"));
        }
        let nulls = list.nulls().cloned();
        let fixed = Int16Array::from(values.to_vec());
        arrays.push(Arc::new(FixedSizeListArray::try_new(of(DataType::Int16), dim as i32, Arc::new(fixed), nulls.clone()).expect("a list")));
        let fixed: Float32Array = values.iter().map(|v| Some(f32::from(*v))).collect();
        arrays.push(Arc::new(FixedSizeListArray::try_new(of(DataType::Float32), dim as i32, Arc::new(fixed), nulls).expect("a list")));
        for array in arrays {
            let column = VectorColumn::new(&array).expect("vectors");
            for row in 0..rows {
                match column.row(row) {
                    Row::Null => prop_assert!(!present[row]),
                    Row::Values(found) => {
                        let expected: Vec<f64> = values[row * dim..(row + 1) * dim].iter().map(|v| f64::from(*v)).collect();
                        prop_assert_eq!(found, &expected[..], "{}", array.data_type());
                    }
                    Row::NullElement { .. } => prop_assert!(false, "no NULL elements here"),
                }
            }
            // A slice reads like the rows it holds.
            if rows > 2 {
                let sliced = VectorColumn::new(&array.slice(1, rows - 2)).expect("vectors");
                prop_assert_eq!(sliced.row(0), column.row(1));
            }
        }
    }

    #[test]
    fn code_columns_round_trip((dictionary, dim) in dictionaries(), values in prop::collection::vec(-6.0f64..6.0, 24)) {
        let prepared = PreparedDictionary::new(dictionary).expect("finite");
        let signals = Signals::from_flat(&values[..24 / dim * dim], dim).expect("signals");
        let codes = coders::by_name("fksc").expect("known").encode(&prepared, &signals, &CoderOptions::new(0.01).expect("options")).expect("codes");
        let mut present = vec![true; signals.len()];
        present.insert(1, false);
        let weights = codes.weights.clone();
        let array = to_code_array(codes, &present).expect("an array");
        let column = CodeColumn::new(&array).expect("codes");
        prop_assert!(column.row(1).is_none());
        for row in 0..signals.len() {
            let view = weights.outer_view(row).expect("a row");
            let stored = column.row(if row == 0 { 0 } else { row + 1 }).expect("not NULL");
            prop_assert_eq!(stored, (view.indices(), view.data()));
        }
        let doubles: &Float64Array = array.as_list::<i32>().values().as_struct().column(1).as_primitive();
        prop_assert_eq!(doubles.len(), weights.nnz());
    }
}
