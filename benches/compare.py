"""Sparrow beside what users would pick instead, in one run on one machine; prints the tables of docs/benchmarks.md.

    pip install numpy pyarrow spams-bin pysz
    cargo build --release
    python benches/compare.py target/release/sparrow

Every figure is the best of several repeats; only ratios within one run mean something.
"""
import json, os, subprocess, sys, tempfile, time

THREADS = 2
# Peers get as many threads as Sparrow; libraries look at this when they are loaded.
os.environ.update({f'{library}_NUM_THREADS': str(THREADS) for library in ('OMP', 'OPENBLAS', 'MKL')})

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import spams
from pysz import sz, szConfig, szErrorBoundMode

NAMES = ['encode', 'small', 'sql', 'learn', 'memory']
if len(sys.argv) < 2 or not os.path.isfile(sys.argv[1]) or set(sys.argv[2:]) - set(NAMES):
    sys.exit(f'usage: compare.py SPARROW [{"] [".join(NAMES)}]')
SPARROW = os.path.abspath(sys.argv[1])
REPEATS = 15
SIGMA, LAMBDA = 20.0, 0.01


def sparrow(*arguments):
    """Runs the command; gives its report, if it has one, and the most memory it held, in MiB."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([SPARROW, *map(str, arguments)], stdout=out)
        peak = 0.0
        # Not the system's count for children, which includes what this process held when it made them.
        while process.poll() is None:
            with open(f'/proc/{process.pid}/status') as status:
                held = [line.split() for line in status if line.startswith('VmHWM')]
            peak = max([peak] + [int(fields[1]) / 1024 for fields in held])
            time.sleep(0.005)
        assert process.returncode == 0, arguments
        out.seek(0)
        text = out.read()
    return (json.loads(text) if text.startswith(b'{') else None), peak


def bench(what, *arguments, repeats=REPEATS, threads=THREADS):
    return sparrow('bench', what, *arguments, '--repeats', repeats, '--threads', threads, '--format', 'json')[0]


def syn(name, dim, rows, seed=1):
    sparrow('generate', 'syn', '--dim', dim, '--signals', rows, '--seed', seed, '-o', name)
    return read(name)


def read(name):
    lists = pq.read_table(name, columns=['v']).column(0).combine_chunks()
    return np.asarray(lists.flatten()).reshape(len(lists), -1)


def write(name, rows):
    offsets = np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32)
    lists = pa.ListArray.from_arrays(offsets, np.ascontiguousarray(rows).ravel())
    pq.write_table(pa.table({'v': lists}), name, row_group_size=max(1, 2**22 // rows.shape[1]))


def best(work, repeats=REPEATS):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def rbf(a, b, sigma):
    distances = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * (a @ b.T)
    return np.exp(np.maximum(distances, 0) / (-2 * sigma * sigma))


def lasso(signals, gram, similarities, lam):
    return spams.lasso(np.asfortranarray(signals.T), Q=gram, q=np.asfortranarray(similarities.T), lambda1=lam,
                       mode=2, numThreads=THREADS)


def objective(codes, gram, similarities, lam):
    fit = 0.5 * (1 - 2 * (similarities * codes).sum(1) + ((codes @ gram) * codes).sum(1))
    return float((fit + lam * np.abs(codes).sum(1)).sum())


def peers(signals, atoms, sigma, lam, repeats=REPEATS):
    """Seconds of the product, of the kernel and of SPAMS, and the objective SPAMS reaches."""
    gram = np.asfortranarray(rbf(atoms, atoms, sigma))
    product, _ = best(lambda: signals @ atoms.T, repeats)
    kernel, similarities = best(lambda: rbf(signals, atoms, sigma), repeats)
    solve, codes = best(lambda: lasso(signals, gram, similarities, lam), repeats)
    return product, kernel, solve, objective(codes.T.toarray(), gram, similarities, lam)


def table(title, header, rows):
    print(f'\n### {title}\n\n| ' + ' | '.join(header) + ' |\n|' + '---|' * len(header))
    for row in rows:
        print('| ' + ' | '.join(f'{cell:.4g}' if isinstance(cell, float) else str(cell) for cell in row) + ' |')
    sys.stdout.flush()


def split(dim, atoms, rows):
    values = syn('all.parquet', dim, atoms + rows)
    write('a.parquet', values[:atoms])
    write('s.parquet', values[atoms:])
    return values[atoms:], values[:atoms]


def encode():
    rows, plain = [], []
    for dim, sigma in [(1000, SIGMA), (1400, SIGMA), (360, 17.0), (360, 60.0)]:
        signals, atoms = split(dim, dim, 1500 if dim == 360 else dim)
        files = ['--signals', 's.parquet', '--dictionary', 'a.parquet', '--sigma', sigma, '--lambda', LAMBDA]
        ours = bench('encode', *files)
        product, kernel, solve, theirs = peers(signals, atoms, sigma, LAMBDA)
        seconds = ours['encode_s']
        rows.append((f'n = {dim}, sigma {sigma:g}', seconds, product, kernel + solve, solve, seconds / product,
                     (kernel + solve) / seconds, solve / seconds, ours['objective'] / theirs - 1, ours['worst_gap']))
        if dim >= 1000:
            ksc = bench('encode', *files, '--coder', 'ksc', repeats=1)
            plain.append((f'n = {dim}', seconds, ksc['encode_s'], ksc['encode_s'] / seconds,
                          ours['objective'] / ksc['objective'] - 1, ours['updates'] / ksc['updates']))
    table('Encode, signals as many as atoms (1500 signals for n = 360), lambda 0.01',
          ['SynN', 'fksc, s', 'numpy product, s', 'numpy kernel + SPAMS, s', 'SPAMS alone, s', 'fksc / product',
           'peers / fksc', 'SPAMS / fksc', 'objective against SPAMS', 'worst gap'], rows)
    table('fksc against ksc', ['SynN', 'fksc, s', 'ksc, s', 'ksc / fksc', 'objective', 'updates'], plain)


def small():
    generator = np.random.default_rng(3)
    hours = np.arange(24)
    def days(count):
        size = generator.normal(size=(count, 2, 1))
        shift = hours + generator.uniform(0, 24, (count, 1))
        shapes = size[:, 0] * np.sin(2 * np.pi * shift / 24) + size[:, 1] * np.cos(4 * np.pi * shift / 24)
        return 5 + shapes + 0.3 * generator.normal(size=(count, 24))
    atoms, signals = days(64), days(1_000_000)
    write('a.parquet', atoms)
    write('s.parquet', signals)
    ours = bench('encode', '--signals', 's.parquet', '--dictionary', 'a.parquet', '--sigma', 3, '--lambda', 0.05,
                 repeats=3)
    gram = np.asfortranarray(rbf(atoms, atoms, 3.0))
    def batches():
        for start in range(0, len(signals), 8192):
            some = signals[start:start + 8192]
            lasso(some, gram, rbf(some, atoms, 3.0), 0.05)
    theirs, _ = best(batches, 2)
    table('A million signals of 24, 64 atoms, lambda 0.05', ['fksc, s', 'numpy + SPAMS in batches of 8192, s', 'ratio'],
          [(ours['encode_s'], theirs, theirs / ours['encode_s'])])


def sql():
    split(1000, 1000, 20_000)
    ours = bench('encode', '--signals', 's.parquet', '--dictionary', 'a.parquet', '--sigma', SIGMA, '--lambda', LAMBDA,
                 '--sql', 'codes.parquet', repeats=5)
    table('sparse_encode in SQL, Parquet to Parquet, 20,000 signals of 1000', ['engine, s', 'SQL, s', 'SQL / engine'],
          [(ours['encode_s'], ours['sql_s'], ours['sql_over_engine'])])


def learn_decode_threads():
    signals, _ = split(1000, 1000, 2000)
    files = ['--signals', 's.parquet', '--dictionary', 'a.parquet', '--sigma', SIGMA, '--lambda', LAMBDA]
    train = {t: bench('train', *files, repeats=3, threads=t) for t in (1, 2)}
    encode = {t: bench('encode', *files, threads=t) for t in (1, 2)}
    assert all(report['rounds'] == 20 for report in train.values()), 'learning ended early'
    table('Learning, 2000 signals of 1000, 1000 atoms, 20 rounds',
          ['threads', 'learn, s', 'encode once before, s', 'encode once after, s', 'learn / 20 encodes before',
           'learn / 20 encodes after'],
          [(t, train[t]['train_s'], encode[t]['encode_s'], train[t]['encode_s'],
            train[t]['train_s'] / encode[t]['encode_s'] / 20, train[t]['train_s'] / train[t]['encode_s'] / 20)
           for t in (1, 2)])
    table('Two threads against one', ['encode', 'learn', 'the bare product'],
          [(encode[1]['encode_s'] / encode[2]['encode_s'], train[1]['train_s'] / train[2]['train_s'],
            encode[1]['gemm_s'] / encode[2]['gemm_s'])])
    decode = bench('decode', *files)
    rows = [('Sparrow', decode['decode_s'], decode['decoded_mb_per_s'], decode['nmae'])]
    for share in (0.1, 0.5):
        settings = szConfig()
        settings.errorBoundMode = szErrorBoundMode.ABS
        settings.absErrorBound = float(share * np.abs(signals).mean())
        blob = sz.compress(np.ascontiguousarray(signals), settings)[0]
        seconds, restored = best(lambda: sz.decompress(blob, np.float64, signals.shape))
        restored = restored[0] if isinstance(restored, tuple) else restored
        nmae = np.abs(signals - restored).sum() / np.abs(signals).sum()
        rows.append((f'SZ3, bound {share:g} of the mean', seconds, signals.nbytes / 1e6 / seconds, float(nmae)))
    table(f'Decode, 2000 signals of 1000, {decode["nonzeros"] / 2000:.1f} nonzeros each (encoding them takes '
          f'{decode["encode_s"]:.3f} s)', ['', 'seconds', 'MB/s', 'NMAE'], rows)


def memory():
    rows = []
    syn('a.parquet', 200, 128)
    sparrow('sql', '-c', "COPY (SELECT sparse_dictionary(v, {sigma: 15, lambda: 0.05}) AS d FROM 'a.parquet') TO 'd.parquet'")
    for count in (40_000, 400_000):
        write('s.parquet', syn('all.parquet', 200, count))
        _, peak = sparrow('sql', '--threads', THREADS, '-c', "COPY (SELECT sparse_encode(v, (SELECT d FROM 'd.parquet')) AS c FROM "
                          "'s.parquet') TO 'c.parquet'")
        rows.append((count, peak))
    rows[1] += (rows[1][1] / rows[0][1],)
    rows[0] += (1.0,)
    table('Peak memory of sparse_encode in SQL, signals of 200', ['rows', 'MiB', 'ratio'], rows)


PARTS = dict(zip(NAMES, [encode, small, sql, learn_decode_threads, memory]))
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for part in sys.argv[2:] or PARTS:
        PARTS[part]()
