-- A table with a row per sensor and time: array_agg with ORDER BY makes one vector of each time.
CREATE VIEW vectors AS
SELECT time, array_agg(value ORDER BY sensor) AS v
FROM 'sample-data/traffic_long.parquet'
GROUP BY time;

CREATE TABLE long_dictionary AS SELECT sparse_train(v, {atoms: 32}) AS dictionary FROM vectors;

-- And back to a row per sensor and time: sensors in the order of the vector.
CREATE VIEW decoded AS
SELECT time, unnest(sensors) AS sensor, unnest(v) AS value
FROM (
    SELECT time, sparse_decode(sparse_encode(v, (SELECT dictionary FROM long_dictionary)),
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
