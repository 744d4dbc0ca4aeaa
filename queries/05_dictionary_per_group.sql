-- A dictionary for each group: here for working days and weekends.
CREATE TABLE dictionaries AS
SELECT date_part('dow', time) IN (0, 6) AS weekend, sparse_train(v, {atoms: 32}) AS dictionary
FROM 'sample-data/traffic.parquet'
GROUP BY weekend;

WITH coded AS (
    SELECT t.weekend, t.v, d.dictionary, sparse_encode(t.v, d.dictionary) AS code
    FROM (SELECT *, date_part('dow', time) IN (0, 6) AS weekend FROM 'sample-data/traffic.parquet') t
    JOIN dictionaries d USING (weekend)
)
SELECT weekend, count(*) AS rows, avg(array_length(code)) AS nonzeros_per_row,
       sparse_nmae(v, sparse_decode(code, dictionary)) AS nmae
FROM coded
GROUP BY weekend
ORDER BY weekend;
