-- How good the codes are. Run 01_train.sql and 02_encode.sql first.
WITH pairs AS (
    SELECT o.v, c.code, sparse_decode(c.code, (SELECT dictionary FROM 'out/dictionary.parquet')) AS u
    FROM 'sample-data/traffic.parquet' o JOIN 'out/codes.parquet' c USING (time)
)
SELECT sparse_nmae(v, u) AS nmae,
       sparse_nrmse(v, u) AS nrmse,
       sparse_necr(v, u, 0.5) AS within_half_a_mile_per_hour,
       sum(array_length(v)) / (2.0 * sum(array_length(code))) AS ratio_by_count
FROM pairs;

-- The objective and the proof of its optimality, from codes at full precision.
WITH coded AS (
    SELECT v, sparse_encode(v, (SELECT dictionary FROM 'out/dictionary.parquet')) AS code
    FROM 'sample-data/traffic.parquet'
)
SELECT sum(o['objective']) AS objective, sum(o['fit']) AS fit, sum(o['penalty']) AS penalty, max(o['gap']) AS worst_gap
FROM (SELECT sparse_objective(v, code, (SELECT dictionary FROM 'out/dictionary.parquet')) AS o FROM coded);
