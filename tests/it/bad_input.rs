//! Bad input gets an error that says what, where and what to do; nothing panics.

use crate::support::{failure, number, query, session, try_query};

async fn with_dictionary() -> datafusion::prelude::SessionContext {
    let session = session();
    query(&session, "CREATE TABLE d AS SELECT sparse_dictionary(v, {sigma: 1.0, lambda: 0.1}) AS d FROM (VALUES ([0.0, 0.0]), ([1.0, 1.0])) t(v)").await;
    session
}

#[tokio::test]
async fn errors_name_the_place_and_the_remedy() {
    let session = with_dictionary().await;
    let d = "(SELECT d FROM d)";
    let cases = [
        // Lengths.
        (
            "SELECT sparse_train(v) FROM (VALUES ([1.0, 2.0]), ([1.0, 2.0, 3.0])) t(v)".to_string(),
            "row 1 has a vector of length 3, expected 2",
        ),
        (
            format!("SELECT sparse_encode([1.0, 2.0, 3.0], {d})"),
            "row 0 has a vector of length 3, but the dictionary has dimension 2",
        ),
        (
            "SELECT sparse_dictionary(v) FROM (VALUES ([1.0]), ([1.0, 2.0])) t(v)".to_string(),
            "row 1 has a vector of length",
        ),
        (
            "SELECT sparse_nmae(v, [1.0]) FROM (VALUES ([1.0]), ([1.0, 2.0])) t(v)".to_string(),
            "row 1 has vectors of different lengths, 2 and 1",
        ),
        (format!("SELECT sparse_encode(arrow_cast([], 'List(Float64)'), {d})"), "row 0 has an empty vector"),
        ("SELECT sparse_train(arrow_cast([], 'List(Float64)'))".to_string(), "row 0 has an empty vector"),
        // Types.
        (format!("SELECT sparse_encode('text', {d})"), "must be a list of integers or floats, not Utf8"),
        (format!("SELECT sparse_encode(['a', 'b'], {d})"), "must be a list of integers or floats"),
        ("SELECT sparse_train(1.5)".to_string(), "must be a list of integers or floats, not Float64"),
        (
            "SELECT sparse_encode([1.0, 2.0], 'dictionary')".to_string(),
            "must be a dictionary, as sparse_train or sparse_dictionary makes it",
        ),
        (format!("SELECT sparse_decode([1, 2], {d})"), "must be a code, a list of struct<atom, weight>"),
        // Options that would make no difference, or that say two things.
        (
            "SELECT sparse_train(v, {kernel: 'linear', sigma: 3}) FROM (VALUES ([1.0, 2.0])) t(v)"
                .to_string(),
            "sparse_train: kernel 'linear' has no option sigma, nor any other",
        ),
        (
            "SELECT sparse_train(v, {degree: 3}) FROM (VALUES ([1.0, 2.0])) t(v)".to_string(),
            "sparse_train: kernel 'rbf' has no option degree; it has: sigma",
        ),
        (
            "SELECT sparse_train(v, {learner: 'scdl', constant: 1}) FROM (VALUES ([1.0, 2.0])) t(v)"
                .to_string(),
            "sparse_train: kernel 'linear' has no option constant",
        ),
        (
            "SELECT sparse_dictionary(v, {kernel: 'polynomial', sigma: 1}) FROM (VALUES ([1.0, 2.0])) t(v)"
                .to_string(),
            "sparse_dictionary: kernel 'polynomial' has no option sigma; it has: degree, constant",
        ),
        (
            "SELECT sparse_train(v, {atoms: 8, atoms: 16}) FROM (VALUES ([1.0, 2.0])) t(v)".to_string(),
            "sparse_train: option atoms is given twice",
        ),
        (
            format!("SELECT sparse_encode([1.0, 2.0], {d}, {{lambda: 0.1, coder: 'cd', lambda: 0.2}})"),
            "sparse_encode: option lambda is given twice",
        ),
        // Not a dictionary.
        (
            "SELECT sparse_atoms(X'0102030405060708090a')".to_string(),
            "not a dictionary: 10 bytes starting with 0102030405060708",
        ),
        ("SELECT sparse_atoms(X'')".to_string(), "not a dictionary: no bytes"),
        // Elements.
        (
            format!("SELECT sparse_encode(v, {d}) FROM (VALUES ([1.0, 2.0]), ([1.0, 'NaN'::double])) t(v)"),
            "row 1, position 1: NaN is not a finite number",
        ),
        (
            format!("SELECT sparse_encode(['Infinity'::double, 1.0], {d})"),
            "row 0, position 0: inf is not a finite number",
        ),
        (format!("SELECT sparse_encode([1.0, NULL], {d})"), "row 0, position 1: NULL element"),
        (format!("SELECT sparse_encode([1e200, 1.0], {d})"), "too large to be squared; scale the column"),
        (
            "SELECT sparse_nrmse([1.0, 'NaN'::double], [1.0, 2.0])".to_string(),
            "row 0, position 1: NaN is not a finite number",
        ),
        // Codes.
        (
            format!("SELECT sparse_decode([{{atom: 7, weight: 1.0}}], {d})"),
            "code names atom 7, but the dictionary has 2 atoms",
        ),
        (format!("SELECT sparse_decode([{{atom: -1, weight: 1.0}}], {d})"), "-1"),
        (
            format!("SELECT sparse_decode([{{atom: 1, weight: 'NaN'::double}}], {d})"),
            "the weight of atom 1 is NaN",
        ),
        (
            format!("SELECT sparse_decode([{{atom: 1, weight: arrow_cast(NULL, 'Float64')}}], {d})"),
            "NULL atom or weight",
        ),
        (
            format!("SELECT sparse_objective([1.0, 1.0], [{{atom: 9, weight: 1.0}}], {d})"),
            "code names atom 9",
        ),
        // Rows are counted with NULLs, and a row that is skipped does not decide the length.
        (
            "SELECT sparse_train(v) FROM (VALUES (NULL), (['NaN'::double]), ([1.0, 2.0]), ([3.0])) t(v)"
                .to_string(),
            "sparse_train(v): row 3 has a vector of length 1, expected 2",
        ),
        ("SELECT sparse_nrmse([1e200], [0.0])".to_string(), "too large to be added up; scale the columns"),
        // Options.
        (
            "SELECT sparse_train(v, {sigma: 1e-200}) FROM (VALUES ([1.0])) t(v)".to_string(),
            "sigma must be between 1e-150 and 1e150",
        ),
        (
            "SELECT sparse_train(v, {atoms: 100000}) FROM (VALUES ([1.0])) t(v)".to_string(),
            "atoms must be at most 8192",
        ),
        (
            format!("SELECT sparse_encode([1.0, 2.0], {d}, {{tolerance: 1e-300}})"),
            "tolerance must be at least 1e-14",
        ),
        (
            "SELECT sparse_dictionary(v, {sigma: 0}) FROM (VALUES ([1.0])) t(v)".to_string(),
            "sparse_dictionary: sigma must be a finite number greater than zero, not 0",
        ),
        (
            format!("SELECT sparse_encode([1.0, 2.0], {d}, {{lamda: 0.1}})"),
            "unknown option 'lamda'; known: lambda, coder, max_nonzeros, residual, tolerance, on_bad",
        ),
        (
            "SELECT sparse_train(v, {atom: 3}) FROM (VALUES ([1.0])) t(v)".to_string(),
            "unknown option 'atom'; known: atoms, kernel",
        ),
        (
            format!("SELECT sparse_encode([1.0, 2.0], {d}, {{lambda: 'x'}})"),
            "option lambda must be a number, not Utf8",
        ),
        (
            format!("SELECT sparse_encode([1.0, 2.0], {d}, 0.1)"),
            "options are a struct such as {lambda: ...}, not Float64",
        ),
        (
            format!("SELECT sparse_encode([1.0, 2.0], {d}, {{coder: 'omp'}})"),
            "unknown coder 'omp'; known: fksc, ksc",
        ),
        (
            format!("SELECT sparse_encode([1.0, 2.0], {d}, {{on_bad: 'skip'}})"),
            "unknown on_bad 'skip'; known: error, null",
        ),
        (
            format!("SELECT sparse_encode([1.0, 2.0], {d}, {{max_nonzeros: 0}})"),
            "max_nonzeros must be at least 1, not 0",
        ),
        (
            "SELECT sparse_train(v, {kernel: 'rbg'}) FROM (VALUES ([1.0])) t(v)".to_string(),
            "unknown kernel 'rbg'; known: rbf, linear, polynomial",
        ),
        (
            "SELECT sparse_train(v, {learner: 'ksvd'}) FROM (VALUES ([1.0])) t(v)".to_string(),
            "unknown learner 'ksvd'; known: kscdl",
        ),
        (
            "SELECT sparse_train(v, {degree: 2.5, kernel: 'polynomial'}) FROM (VALUES ([1.0])) t(v)"
                .to_string(),
            "degree must be a whole number",
        ),
        (
            "SELECT sparse_train(v, {atoms: 2.5}) FROM (VALUES ([1.0])) t(v)".to_string(),
            "atoms must be a whole number",
        ),
        ("SELECT sparse_necr([1.0], [1.0], -1)".to_string(), "tolerance must be greater than zero"),
        (
            "SELECT sparse_train(v, {atoms: x}) FROM (VALUES ([1.0], 3)) t(v, x)".to_string(),
            "must be a constant",
        ),
    ];
    for (sql, expected) in cases {
        let error = failure(&session, &sql).await;
        assert!(error.contains(expected), "{sql}\n  gave: {error}\n  expected: {expected}");
    }
}

#[tokio::test]
async fn zero_negative_and_nan_parameters_are_refused() {
    let session = with_dictionary().await;
    for value in ["0", "-1", "-0.5", "'NaN'::double", "'Infinity'::double"] {
        for option in ["lambda", "sigma", "tolerance"] {
            let error = failure(
                &session,
                &format!("SELECT sparse_train(v, {{{option}: {value}}}) FROM (VALUES ([1.0])) t(v)"),
            )
            .await;
            assert!(
                error.contains(&format!("{option} must be a finite number greater than zero")),
                "{option}: {value}: {error}"
            );
        }
        for option in ["atoms", "sample", "max_iter"] {
            let error = failure(
                &session,
                &format!("SELECT sparse_train(v, {{{option}: {value}}}) FROM (VALUES ([1.0])) t(v)"),
            )
            .await;
            assert!(error.contains(&format!("{option} must be")), "{option}: {value}: {error}");
        }
        let error = failure(
            &session,
            &format!("SELECT sparse_encode([1.0, 2.0], (SELECT d FROM d), {{lambda: {value}}})"),
        )
        .await;
        assert!(error.contains("lambda must be a finite number greater than zero"), "{value}: {error}");
    }
}

#[tokio::test]
async fn unusual_tables_train() {
    let session = session();
    let info = |table: &str, field: &str| {
        format!(
            "SELECT CAST(sparse_dictionary_info(sparse_train(v, {{atoms: 5}}))['{field}'] AS DOUBLE) FROM {table}"
        )
    };
    for (table, atoms) in [
        ("(VALUES ([1.0, 2.0])) t(v)", 1.0),
        ("(VALUES ([3.0])) t(v)", 1.0),
        ("(SELECT [1.0, 2.0] AS v FROM (SELECT unnest(range(0, 100)) AS i))", 1.0),
        ("(SELECT [CAST(i AS DOUBLE)] AS v FROM (SELECT unnest(range(0, 100)) AS i))", 5.0),
        ("(SELECT [5.0, CAST(i AS DOUBLE), 5.0] AS v FROM (SELECT unnest(range(0, 3)) AS i))", 3.0),
        ("(SELECT [0.0, 0.0] AS v)", 1.0),
        ("(SELECT [i * 1e150, 1e-300] AS v FROM (SELECT unnest(range(0, 9)) AS i))", 5.0),
        ("(SELECT [i * 1e-200] AS v FROM (SELECT unnest(range(0, 9)) AS i))", 5.0),
    ] {
        assert_eq!(number(&session, &info(table, "atoms")).await, atoms, "{table}");
        for kernel in ["rbf", "linear", "polynomial"] {
            // Whatever the kernel makes of it: an answer or an error, and no panic.
            let dictionary =
                format!("(SELECT sparse_train(v, {{atoms: 5, kernel: '{kernel}'}}) FROM {table})");
            let _ = try_query(
                &session,
                &format!("SELECT sparse_decode(sparse_encode(v, {dictionary}), {dictionary}) FROM {table}"),
            )
            .await;
        }
    }
    let fewer = "SELECT sparse_dictionary_info(sparse_train(v, {atoms: 5}))['note'] LIKE '5 atoms were asked for, but there were only 1 distinct%' FROM (VALUES ([1.0])) t(v)";
    assert_eq!(
        number(&session, &fewer.replace("SELECT s", "SELECT CAST(s").replace(" FROM", " AS INT) FROM")).await,
        1.0
    );
}
