//! Dictionaries as bytes: golden files, and every way of being broken.

use sparrow::columnar::{ColumnarError, dictionary_from_bytes, dictionary_to_bytes};
use sparrow::math::{Dictionary, Round, Training, kernels};

use crate::support::project;

fn sample() -> Dictionary {
    let kernel = kernels::build("rbf", &|_| Some(1.25)).expect("rbf");
    let history = vec![
        Round { objective: 0.1 + 0.2, nonzeros: 7, reseeded: 1 },
        Round { objective: 0.25, nonzeros: 6, reseeded: 0 },
    ];
    let training = Training {
        learner: "kscdl".to_string(),
        seed: u64::MAX,
        atoms_requested: 3,
        rows_seen: 10,
        rows_skipped: 1,
        rows_sampled: 2,
        history,
        converged: true,
        selection: None,
    };
    Dictionary::new(vec![1.0, -2.5, 1.0 / 3.0, 4e-300, 5.0, -0.0], 3, kernel, 0.05, Some(training))
        .expect("valid")
}

/// `UPDATE_GOLDEN=1` writes the file anew, for a new format version.
#[test]
fn version_1_is_read_and_written_as_it_always_was() {
    let path = project("tests/golden/dictionary_v1.bin");
    let bytes = dictionary_to_bytes(&sample()).expect("bytes");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &bytes).expect("written");
    }
    let golden = std::fs::read(path).expect("the golden file");
    let read = dictionary_from_bytes(&golden).expect("readable");
    assert_eq!(read.atoms(), sample().atoms());
    assert_eq!(read.training(), sample().training());
    assert_eq!((read.lambda(), read.dim(), read.kernel().parameters()), (0.05, 3, vec![("sigma", 1.25)]));
    assert!(bytes == golden, "the same dictionary must give the same bytes");
}

#[test]
fn every_flipped_byte_and_every_truncation_is_noticed() {
    let bytes = dictionary_to_bytes(&sample()).expect("bytes");
    for length in 0..bytes.len() {
        let error = dictionary_from_bytes(&bytes[..length]).expect_err("truncated");
        assert!(
            matches!(error, ColumnarError::NotADictionary(_) | ColumnarError::Corrupt(_)),
            "{length}: {error}"
        );
    }
    for position in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[position] ^= 0x20;
        assert!(dictionary_from_bytes(&broken).is_err(), "byte {position}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(dictionary_from_bytes(&longer).is_err());
}

#[test]
fn a_newer_version_says_so() {
    let mut bytes = dictionary_to_bytes(&sample()).expect("bytes");
    bytes[8] = 2;
    let error = dictionary_from_bytes(&bytes).expect_err("newer").to_string();
    assert_eq!(error, "the dictionary has format version 2, this program reads up to 1; use a newer sparrow");
}
