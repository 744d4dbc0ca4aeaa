-- Codes back to vectors. Run 01_train.sql and 02_encode.sql first.
CREATE VIEW decoded AS
SELECT time, sparse_decode(code, (SELECT dictionary FROM 'out/dictionary.parquet')) AS v
FROM 'out/codes.parquet';

-- One sensor over an hour, decoded and original.
SELECT d.time, d.v[1] AS decoded, o.v[1] AS original
FROM decoded d JOIN 'sample-data/traffic.parquet' o USING (time)
WHERE d.time >= '2024-01-01T08:00:00' AND d.time < '2024-01-01T09:00:00'
ORDER BY d.time;

COPY (SELECT * FROM decoded ORDER BY time) TO 'out/decoded.parquet' OPTIONS ('format.compression' 'zstd(9)');
