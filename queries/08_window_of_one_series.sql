-- One series cut into windows of two hours (24 samples): each window is a vector.
CREATE VIEW windows AS
SELECT sensor, date_bin(INTERVAL '2 hours', time) AS window_start, array_agg(value ORDER BY time) AS v
FROM 'sample-data/traffic_long.parquet'
GROUP BY sensor, window_start
HAVING count(*) = 24;

CREATE TABLE window_dictionary AS SELECT sparse_train(v, {atoms: 48}) AS dictionary FROM windows;

WITH coded AS (
    SELECT sensor, v, sparse_encode(v, (SELECT dictionary FROM window_dictionary)) AS code FROM windows
)
SELECT sensor, count(*) AS windows, avg(array_length(code)) AS nonzeros_per_window,
       sparse_nmae(v, sparse_decode(code, (SELECT dictionary FROM window_dictionary))) AS nmae
FROM coded
GROUP BY sensor
ORDER BY sensor
LIMIT 5;
