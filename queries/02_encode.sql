-- Replaces the vectors by their codes; every other column stays. Run 01_train.sql first.
-- Atom numbers fit into 16 bits and weights into 32. Atoms of a code ascend, so they pack well as
-- deltas; the bytes of weights compress better split by position. Encodings apply to the leaves
-- code.list.item.atom and code.list.item.weight, and only where dictionary encoding is off.
COPY (
    SELECT time,
           arrow_cast(sparse_encode(v, (SELECT dictionary FROM 'out/dictionary.parquet')),
                      'List(Struct("atom": UInt16, "weight": Float32))') AS code
    FROM 'sample-data/traffic.parquet'
    ORDER BY time
) TO 'out/codes.parquet' OPTIONS (
    'format.compression' 'zstd(9)',
    'format.dictionary_enabled' 'false',
    'format.encoding::time' 'delta_binary_packed',
    'format.encoding::code.list.item.atom' 'delta_binary_packed',
    'format.encoding::code.list.item.weight' 'byte_stream_split'
);

SELECT count(*) AS rows, sum(array_length(code)) AS nonzeros, avg(array_length(code)) AS nonzeros_per_row
FROM 'out/codes.parquet';
