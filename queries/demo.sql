-- Train, encode, decode and evaluate two weeks of 200 road sensors.
COPY (SELECT sparse_train(v) AS dictionary FROM 'sample-data/traffic.parquet')
TO 'out/demo_dictionary.parquet' OPTIONS ('format.compression' 'zstd(9)', 'format.dictionary_enabled' 'false');

COPY (
    SELECT time,
           arrow_cast(sparse_encode(v, (SELECT dictionary FROM 'out/demo_dictionary.parquet')),
                      'List(Struct("atom": UInt16, "weight": Float32))') AS code
    FROM 'sample-data/traffic.parquet'
    ORDER BY time
) TO 'out/demo_codes.parquet' OPTIONS (
    'format.compression' 'zstd(9)',
    'format.dictionary_enabled' 'false',
    'format.encoding::time' 'delta_binary_packed',
    'format.encoding::code.list.item.atom' 'delta_binary_packed',
    'format.encoding::code.list.item.weight' 'byte_stream_split'
);

COPY (
    SELECT time, sparse_decode(code, (SELECT dictionary FROM 'out/demo_dictionary.parquet')) AS v
    FROM 'out/demo_codes.parquet'
    ORDER BY time
) TO 'out/demo_decoded.parquet' OPTIONS ('format.compression' 'zstd(9)');

-- Bytes as they lie on disk; the time column is in all of them.
CREATE VIEW bytes AS
SELECT (SELECT 8 * (count(*) + sum(array_length(v))) FROM 'sample-data/traffic.parquet') AS raw,
       sparse_file_bytes('sample-data/traffic.parquet') AS parquet_zstd,
       sparse_file_bytes('out/demo_codes.parquet') AS codes,
       sparse_file_bytes('out/demo_dictionary.parquet') AS dictionary;

SELECT what, bytes, round(raw * 1.0 / bytes, 1) AS ratio
FROM (
    SELECT 1 AS i, 'values as doubles' AS what, raw AS bytes, raw FROM bytes
    UNION ALL SELECT 2, 'Parquet + zstd', parquet_zstd, raw FROM bytes
    UNION ALL SELECT 3, 'Sparrow: codes + dictionary', codes + dictionary, raw FROM bytes
    UNION ALL SELECT 4, 'Sparrow: codes alone', codes, raw FROM bytes
)
ORDER BY i;

SELECT round(sparse_nmae(o.v, d.v), 4) AS nmae,
       round(sparse_nrmse(o.v, d.v), 4) AS nrmse,
       round(avg(array_length(c.code)), 2) AS nonzeros_per_row,
       array_length(any_value(o.v)) AS sensors
FROM 'sample-data/traffic.parquet' o
JOIN 'out/demo_decoded.parquet' d USING (time)
JOIN 'out/demo_codes.parquet' c USING (time);

SELECT o.time, round(o.v[18], 1) AS original, round(d.v[18], 1) AS decoded
FROM 'sample-data/traffic.parquet' o JOIN 'out/demo_decoded.parquet' d ON o.time = d.time
WHERE o.time >= '2024-01-03T07:00:00' AND o.time < '2024-01-03T08:00:00'
ORDER BY o.time;
