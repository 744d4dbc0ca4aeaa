-- Learns a dictionary from a column of vectors: one row, one value, stored in a table of its own.
COPY (
    SELECT sparse_train(v, {atoms: 64, lambda: 0.1}) AS dictionary
    FROM 'sample-data/traffic.parquet'
) TO 'out/dictionary.parquet' OPTIONS ('format.compression' 'zstd(9)', 'format.dictionary_enabled' 'false');

-- What it learned from, and how it went.
SELECT info['kernel'] AS kernel, info['sigma'] AS sigma, info['atoms'] AS atoms, info['dim'] AS dim,
       info['rows_seen'] AS rows_seen, info['rows_sampled'] AS rows_sampled, info['rounds'] AS rounds,
       info['converged'] AS converged
FROM (SELECT sparse_dictionary_info(dictionary) AS info FROM 'out/dictionary.parquet');

SELECT round['round'] AS round, round['objective'] AS objective, round['nonzeros'] AS nonzeros, round['reseeded'] AS reseeded
FROM (SELECT unnest(sparse_dictionary_info(dictionary)['history']) AS round FROM 'out/dictionary.parquet')
ORDER BY round;
