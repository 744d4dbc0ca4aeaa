-- A table with a row per sensor and time: array_agg with ORDER BY makes one vector of each time.
-- The grid of all times and sensors puts a NULL where a row is missing; without it a gap would shift
-- the values behind it to the wrong sensors. Training skips vectors with NULLs, and encoding gives
-- them a NULL code with {on_bad: 'null'}.
CREATE VIEW vectors AS
SELECT t.time, array_agg(x.value ORDER BY s.sensor) AS v
FROM (SELECT DISTINCT time FROM 'sample-data/traffic_long.parquet') t
CROSS JOIN (SELECT DISTINCT sensor FROM 'sample-data/traffic_long.parquet') s
LEFT JOIN 'sample-data/traffic_long.parquet' x ON x.time = t.time AND x.sensor = s.sensor
GROUP BY t.time;

CREATE TABLE long_dictionary AS SELECT sparse_train(v, {atoms: 32}) AS dictionary FROM vectors;

-- And back to a row per sensor and time: sensors in the order of the vector.
CREATE VIEW decoded AS
SELECT time, unnest(sensors) AS sensor, unnest(v) AS value
FROM (
    SELECT time, sparse_decode(sparse_encode(v, (SELECT dictionary FROM long_dictionary), {on_bad: 'null'}),
                               (SELECT dictionary FROM long_dictionary)) AS v
    FROM vectors
) CROSS JOIN (
    SELECT array_agg(sensor ORDER BY sensor) AS sensors
    FROM (SELECT DISTINCT sensor FROM 'sample-data/traffic_long.parquet')
);

SELECT count(*) AS rows,
       avg(abs(d.value - o.value)) AS mean_error,
       sum(abs(d.value - o.value)) / sum(abs(o.value)) AS nmae
FROM decoded d JOIN 'sample-data/traffic_long.parquet' o USING (time, sensor);
