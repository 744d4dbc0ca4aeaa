-- Incidents: what the dictionary cannot express is news. A sensor is slow when it is far below what the other
-- sensors' code says, measured by how much it usually differs, for a quarter of an hour or more; slow
-- neighbours at the same time are one incident, at the place where most speed is lost. Six atoms hold the daily
-- pattern; with more, some would learn the incidents themselves.
CREATE VIEW residuals AS
SELECT time, unnest(range(0, array_length(r))) AS sensor, unnest(r) AS residual
FROM (SELECT time, sparse_residual(v, (SELECT sparse_train(v, {atoms: 6}) FROM 'sample-data/traffic.parquet'))['elements'] AS r
      FROM 'sample-data/traffic.parquet');

-- What is usual for a sensor at an hour of the day: the median, and how far from it the median row is (as a standard
-- deviation, and never less than that of the sensor's whole day). The default threshold is six times that.
CREATE TABLE slow AS
WITH middle AS (
    SELECT sensor, date_part('hour', time) AS hour, median(residual) AS usual FROM residuals GROUP BY sensor, hour),
differences AS (
    SELECT r.time, r.sensor, m.hour, r.residual - m.usual AS difference
    FROM residuals r JOIN middle m ON r.sensor = m.sensor AND date_part('hour', r.time) = m.hour),
hourly AS (SELECT sensor, hour, 1.4826 * median(abs(difference)) AS spread FROM differences GROUP BY sensor, hour),
daily AS (SELECT sensor, 1.4826 * median(abs(difference)) AS spread FROM differences GROUP BY sensor)
SELECT d.time, d.sensor, d.difference AS residual
FROM differences d
JOIN hourly h ON d.sensor = h.sensor AND d.hour = h.hour
JOIN daily a ON d.sensor = a.sensor
WHERE d.difference < -6 * greatest(h.spread, a.spread);

-- Stretches of one sensor without a gap of more than one interval.
CREATE TABLE stretches AS
SELECT sensor, min(time) AS first, max(time) AS last, min(residual) AS depth
FROM (SELECT *, sum(starts) OVER (PARTITION BY sensor ORDER BY time) AS stretch
      FROM (SELECT *, CASE WHEN time - lag(time) OVER (PARTITION BY sensor ORDER BY time) <= INTERVAL '10 minutes'
                           THEN 0 ELSE 1 END AS starts FROM slow))
GROUP BY sensor, stretch
HAVING count(*) >= 3;

-- The deepest stretch among the neighbours it overlaps stands for the incident.
SELECT s.sensor, s.first, s.last, s.depth AS miles_per_hour
FROM stretches s
WHERE NOT EXISTS (
    SELECT 1 FROM stretches o
    WHERE o.sensor <> s.sensor AND abs(o.sensor - s.sensor) <= 8
      AND o.first <= s.last AND o.last >= s.first AND o.depth < s.depth)
ORDER BY s.first, s.sensor;
