-- A table with a column per sensor: make_array turns its columns into a vector, and indexing turns
-- a decoded vector back into columns.
CREATE VIEW vectors AS
SELECT time, make_array(
    s000, s001, s002, s003, s004, s005, s006, s007,
    s008, s009, s010, s011, s012, s013, s014, s015,
    s016, s017, s018, s019, s020, s021, s022, s023
) AS v
FROM 'sample-data/traffic_wide.parquet';

CREATE TABLE wide_dictionary AS SELECT sparse_train(v, {atoms: 32}) AS dictionary FROM vectors;

CREATE VIEW decoded AS
SELECT time, sparse_decode(sparse_encode(v, (SELECT dictionary FROM wide_dictionary)),
                           (SELECT dictionary FROM wide_dictionary)) AS v
FROM vectors;

SELECT d.time, o.s000, round(d.v[1], 1) AS s000_decoded, o.s012, round(d.v[13], 1) AS s012_decoded
FROM decoded d JOIN 'sample-data/traffic_wide.parquet' o USING (time)
ORDER BY d.time
LIMIT 5;

SELECT sparse_nmae(o.v, d.v) AS nmae FROM vectors o JOIN decoded d USING (time);
