"""Archives beside what users would pick instead; prints the tables of docs/benchmarks.md.

    pip install numpy pyarrow pysz
    cargo build --release
    python benches/archive.py target/release/sparrow FOLDER [rate] [speed] [memory]

FOLDER holds Parquet tables with a column `v` of vectors. Bytes are those of whole archives: codes, residuals, other
columns, footers, manifest, and the dictionary unless a column says otherwise. Peers are given the vectors alone.
"""
import io, json, os, subprocess, sys, tempfile, time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pysz import sz, szConfig, szErrorBoundMode

NAMES = ['rate', 'speed', 'memory']
if len(sys.argv) < 3 or not os.path.isfile(sys.argv[1]) or set(sys.argv[3:]) - set(NAMES):
    sys.exit(f'usage: archive.py SPARROW FOLDER [{"] [".join(NAMES)}]')
SPARROW, DATA = os.path.abspath(sys.argv[1]), sys.argv[2]
PARTS = sys.argv[3:] or NAMES
TABLES = [('planetlab_rtt_490', (0.01, 0.03, 0.06, 0.1)), ('metr_la_week1_207', (0.03, 0.06, 0.1)),
          ('electricity_321x840h', (0.03, 0.06, 0.1)), ('guangzhou_speed_500', (0.03, 0.06, 0.1))]


def sparrow(*arguments):
    out = subprocess.run([SPARROW, *map(str, arguments)], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out.splitlines()[-1]) if out.startswith((b'{', b'[')) else None


def vectors(path):
    lists = pq.read_table(path, columns=['v']).column(0).combine_chunks()
    return np.ascontiguousarray(np.asarray(lists.flatten(), dtype=float).reshape(len(lists), -1))


def sz3(values, bound):
    config = szConfig()
    config.errorBoundMode, config.absErrorBound, config.openmp = szErrorBoundMode.ABS, bound, True
    start = time.perf_counter()
    blob = sz.compress(values, config)[0]
    seconds = time.perf_counter() - start
    decoded = sz.decompress(blob, np.float64, values.shape)
    return len(blob), decoded[0] if isinstance(decoded, tuple) else decoded, seconds


def parquet_bytes(table):
    out = io.BytesIO()
    pq.write_table(table, out, compression='zstd', compression_level=9)
    return out.tell()


def nmae(values, decoded):
    return np.abs(values - decoded).sum() / np.abs(values).sum()


def row(*cells):
    print('| ' + ' | '.join(f'{cell:.4g}' if isinstance(cell, float) else str(cell) for cell in cells) + ' |')


def head(*names):
    row(*names)
    print('|' + '---|' * len(names))


def rate(folder):
    print('\n## Bytes at a bound on every value\n')
    head('table', 'bound', 'archive, bytes', 'dictionary, bytes', 'SZ3, bytes', 'Parquet + zstd, bytes', 'SZ3 / archive',
         'largest error / bound')
    for name, shares in TABLES:
        path = f'{DATA}/{name}.parquet'
        values = vectors(path)
        plain = parquet_bytes(pa.table({'v': pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])}))
        for share in shares:
            bound = float(share * 3 * values.std())
            archive = f'{folder}/{name}-{share}'
            made = sparrow('compress', path, '-o', archive, '--max-error', repr(float(bound)), '--format', 'json')
            checked = sparrow('verify', archive, '--against', path, '--format', 'json')
            assert not checked['problems'] and checked['max_error'] <= bound, checked
            rival, decoded, _ = sz3(values, bound)
            assert np.abs(values - decoded).max() <= bound * (1 + 1e-6)
            total, dictionary = made['archive_bytes'], made['dictionary_bytes']
            row(name, f'{share:.0%}', total, dictionary, rival, plain, rival / total, checked['max_error'] / bound)
    print('\n## Bytes without a bound, METR-LA at an NMAE of at most 0.05\n')
    head('what', 'NMAE', 'bytes')
    path = f'{DATA}/metr_la_week1_207.parquet'
    values = vectors(path)
    made = sparrow('compress', path, '-o', f'{folder}/unbounded', '--format', 'json')
    row('archive', made['nmae'], made['archive_bytes'])
    for share in np.arange(0.1, 0.3, 0.005):
        found = sz3(values, share * 3 * values.std())[:2]
        if nmae(values, found[1]) > 0.05:
            break
        best = found
    row('SZ3', nmae(values, best[1]), best[0])
    mean = values.mean(0)
    basis = np.linalg.svd(values - mean, full_matrices=False)[2]
    for count in range(1, 60):
        codes = (values - mean) @ basis[:count].T
        step = np.abs(codes).max() / 2**11
        whole = np.round(codes / step).astype(np.int16)
        error = nmae(values, mean + whole * step @ basis[:count])
        if error <= 0.05:
            size = parquet_bytes(pa.table({f'c{i}': pa.array(whole[:, i]) for i in range(count)}))
            stored = parquet_bytes(pa.table({'v': pa.array(basis[:count].astype('f4').ravel())}))
            row(f'PCA, {count} components', error, size + stored)
            break


def tiled(path, gigabytes, wide=False):
    values = vectors(f'{DATA}/metr_la_week1_207.parquet')
    writer, written, week = None, 0, 0
    while written < gigabytes * 1e9:
        times = pa.array((np.arange(len(values)) + week * len(values)) * 300_000_000, type=pa.timestamp('us'))
        if wide:
            names = [f's{i}' for i in range(values.shape[1])]
            table = pa.table([times] + [pa.array(values[:, i]) for i in range(values.shape[1])], names=['t'] + names)
        else:
            offsets = pa.array(np.arange(0, values.size + 1, values.shape[1], dtype=np.int32))
            table = pa.table({'t': times, 'v': pa.ListArray.from_arrays(offsets, pa.array(values.ravel()))})
        writer = writer or pq.ParquetWriter(path, table.schema, compression='zstd')
        writer.write_table(table, row_group_size=len(values))
        written, week = written + values.nbytes, week + 1
    writer.close()
    return values, written, week


def timed(path, archive, values):
    bound = float(0.03 * 3 * values.std())
    seconds, rivals = [], []
    for _ in range(3):
        start = time.perf_counter()
        made = sparrow('compress', path, '-o', archive, '--overwrite', '--max-error', repr(bound), '--threads', 2, '--format', 'json')
        seconds.append(time.perf_counter() - start)
    # One after the other: what a run has freed the next one has sooner.
    for _ in range(3):
        size, _, rival = sz3(values, bound)
        rivals.append(rival)
    start = time.perf_counter()
    sparrow('decompress', archive, '-o', f'{archive}.back.parquet')
    back = time.perf_counter() - start
    os.remove(f'{archive}.back.parquet')
    head('what', 'MB/s of doubles, each of 3', 'best', 'bytes')
    rates = lambda seconds: ', '.join(f'{values.nbytes / each / 1e6:.0f}' for each in seconds)
    row('sparrow compress', rates(seconds), values.nbytes / min(seconds) / 1e6, made['archive_bytes'])
    row('SZ3', rates(rivals), values.nbytes / min(rivals) / 1e6, size)
    row('sparrow decompress', rates([back]), '', '')
    return bound


def speed(folder):
    path, archive = f'{folder}/gigabyte.parquet', f'{folder}/gigabyte'
    values, _, weeks = tiled(path, 1)
    print('\n## METR-LA tiled to 1 GB, bound 3 %, two threads\n')
    print('Sparrow reads and writes Parquet and reads every block back to check it; SZ3 works in memory and checks nothing. Tiling repeats\n'
          'rows: their sparse codes are remembered, and residuals of those that are repeated within a block (about 60 %) are foretold.\n')
    bound = timed(path, archive, np.tile(values, (weeks, 1)))
    os.remove(path)
    path = f'{folder}/traffic.parquet'
    sparrow('generate', 'traffic', '--days', 2275, '--seed', 3, '-o', path)
    print('\n## The same with 1 GB in which no row is repeated\n\n`sparrow generate traffic --days 2275 --seed 3`\n')
    timed(path, f'{folder}/traffic', vectors(path))
    os.remove(path)
    path, archive = f'{folder}/wide.parquet', f'{folder}/wide'
    tiled(path, 1, wide=True)
    made = sparrow('compress', path, '-o', archive, '--columns', 's*', '--max-error', repr(float(bound)), '--format', 'json')
    start = time.perf_counter()
    sparrow('decompress', archive, '-o', f'{folder}/wideback.parquet')
    whole = time.perf_counter() - start
    table = f"CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{archive}'"
    query = "SELECT avg(s17), count(*) FROM t WHERE t >= '1970-07-01' AND t < '1970-07-02'"
    start = time.perf_counter()
    subprocess.run([SPARROW, 'sql', '-c', f'{table}; {query}'], check=True, stdout=subprocess.DEVNULL)
    one = time.perf_counter() - start
    plan = subprocess.run([SPARROW, 'sql', '-c', f'{table}; EXPLAIN ANALYZE {query}'], stdout=subprocess.PIPE, check=True).stdout.decode()
    print('\n## One sensor over one day, wide archive of 1 GB\n')
    head('what', 'value')
    row('query, s (with the start of the program)', one)
    row('decompress, s', whole)
    row('decompress / query', whole / one)
    row('bytes read, as EXPLAIN ANALYZE tells', plan.split('bytes_read=')[1].split(',')[0])
    row('bytes of the archive', made['archive_bytes'])


def memory(folder):
    print('\n## Peak memory of compress\n')
    head('input', 'MiB')
    for gigabytes in (1, 10):
        path, archive = f'{folder}/m{gigabytes}.parquet', f'{folder}/m{gigabytes}'
        tiled(path, gigabytes)
        made = sparrow('compress', path, '-o', archive, '--max-error', 1, '--threads', 2, '--format', 'json')
        row(f'{gigabytes} GB', made['peak_memory_bytes'] / 2**20)
        os.remove(path)


with tempfile.TemporaryDirectory() as folder:
    for part in PARTS:
        {'rate': rate, 'speed': speed, 'memory': memory}[part](folder)
