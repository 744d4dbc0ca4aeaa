"""How often `sparrow append` tells that data has changed: where it was changed on purpose, and where it was not.

    python3 benches/drift.py target/release/sparrow [DATA_FOLDER] [--aim max_error|lossless|codes|target|relative]
        [--atoms N] [--layout list|wide|long] [--later] [--folds N] [--tables NAME]

Of every table some blocks of consecutive rows are held out (with --later: the last 35 %), an archive is made of the
rest, and parts of the blocks, of 1 to 10 % of the table, are appended: as they are, and changed. Prints in Markdown how
many of 100 were told, by table and change, and of all tables by the signals of parts. `noise` has every sensor's mean and deviation, `double` twice the values,
`shift` every sensor in the next one's place, `permute` sensors in any order, `offset` three standard deviations of every
sensor added, `one` a single sensor doubled. Parts that a change leaves as they are do not count. Needs numpy and pyarrow.
The folder holds tables with a column `v`, of which the first 8, 12 and 24 sensors and all are taken; tables of tables.py
are made in any case.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tables import made

CHANGES = ["none", "noise", "double", "shift", "permute", "offset", "one"]
SHARES = [0.01, 0.02, 0.05, 0.1]
# Parts by their signals.
SIZES = {"fewer than 16": (0, 16), "16 to 63": (16, 64), "64 and more": (64, 10**9)}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("sparrow")
parser.add_argument("data", type=Path, nargs="?")
parser.add_argument("--aim", default="max_error")
parser.add_argument("--atoms")
parser.add_argument("--layout", default="list", choices=["list", "wide", "long"])
parser.add_argument("--later", action="store_true")
parser.add_argument("--folds", type=int, default=6)
parser.add_argument("--parts", type=int, default=6)
parser.add_argument("--tables", default="")
parser.add_argument("--told", action="store_true", help="print what is told of changes")
ARGUMENTS = parser.parse_args()
FOLDER = Path(tempfile.mkdtemp())


def run(*arguments):
    done = subprocess.run([ARGUMENTS.sparrow, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout)


def real():
    for path in sorted(ARGUMENTS.data.glob("*.parquet")) if ARGUMENTS.data else []:
        column = pq.read_table(path, columns=["v"])["v"].combine_chunks()
        values = column.flatten().to_numpy().reshape(len(column), -1).astype(float)
        for sensors in [8, 12, 24, values.shape[1]]:
            yield f"{path.stem}, {sensors}", values[:, :sensors]


def write(values, name, first_row=0):
    rows, sensors = values.shape
    times = pa.array(60_000_000 * (first_row + np.arange(rows)), pa.timestamp("us"))
    if ARGUMENTS.layout == "list":
        lists = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * sensors, values.ravel())
        table = pa.table({"time": times, "v": lists})
    elif ARGUMENTS.layout == "wide":
        table = pa.table({"time": times} | {f"s{i}": values[:, i] for i in range(sensors)})
    else:
        series = pa.array(np.tile([f"s{i}" for i in range(sensors)], rows))
        repeated = times.take(pa.array(np.repeat(np.arange(rows), sensors)))
        table = pa.table({"time": repeated, "series": series, "value": values.ravel()})
    pq.write_table(table, FOLDER / name)
    return FOLDER / name


def aim(values):
    spread = float(np.median(np.quantile(values, 0.75, axis=0) - np.quantile(values, 0.25, axis=0))) or 1.0
    found = {
        "max_error": ["--max-error", 0.05 * spread],
        "lossless": ["--lossless"],
        "relative": ["--max-relative-error", 0.01],
        "codes": [],
        "target": ["--target-nmae", 0.05],
    }[ARGUMENTS.aim]
    layout = ["--long", "time,series,value"] if ARGUMENTS.layout == "long" else []
    if ARGUMENTS.layout == "wide":
        layout = ["--columns", ",".join(f"s{i}" for i in range(values.shape[1]))]
    return found + layout + (["--atoms", ARGUMENTS.atoms] if ARGUMENTS.atoms else [])


def changed(part, values, random):
    sensors = part.shape[1]
    order = random.permutation(sensors)
    while sensors > 1 and (order == np.arange(sensors)).sum() > sensors // 8:
        order = random.permutation(sensors)
    one = part.copy()
    one[:, random.integers(sensors)] *= 2
    return {
        "none": part,
        "noise": part.mean(0) + part.std(0) * random.normal(size=part.shape),
        "double": 2 * part,
        "shift": np.roll(part, 1, 1),
        "permute": part[:, order],
        "offset": part + 3 * values.std(0),
        "one": one,
    }


def held_out(rows, random):
    """Blocks of consecutive rows: three of a tenth each, or all that is later."""
    if ARGUMENTS.later:
        return [(int(0.65 * rows), rows)]
    starts = [int((i + random.uniform(0, 0.5)) * rows / 3.5) for i in range(3)]
    return [(start, min(rows, start + rows // 10)) for start in starts]


def nothing():
    return {size: {change: [0, 0] for change in CHANGES} for size in SIZES}


def measure(name, values):
    random = np.random.default_rng(5)
    counts = nothing()
    rows = len(values)
    share = []
    for fold in range(1 if ARGUMENTS.later else ARGUMENTS.folds):
        blocks = held_out(rows, random)
        kept = np.ones(rows, bool)
        for start, end in blocks:
            kept[start:end] = False
        # Rows on both sides of what is held out are no neighbours: a file for each run.
        edges = np.flatnonzero(np.diff(np.concatenate([[0], kept, [0]])))
        runs = [write(values[a:b], f"learned{i}.parquet", a) for i, (a, b) in enumerate(edges.reshape(-1, 2))]
        archive = FOLDER / "archive"
        report = run("compress", *runs, "-o", archive, "--overwrite", "--format", "json", *aim(values))
        inspected = run("inspect", archive, "--format", "json")
        share.append((inspected["dictionary"]["atoms"], report["archive_bytes"]))
        parts = []
        for number in range(ARGUMENTS.parts * (ARGUMENTS.folds if ARGUMENTS.later else 1)):
            start, end = blocks[random.integers(len(blocks))]
            count = min(max(5, int(random.choice(SHARES) * rows)), end - start)
            first = int(random.integers(start, end - count + 1))
            part = values[first : first + count]
            for change, other in changed(part, values, random).items():
                if change == "none" or not np.allclose(other, part):
                    parts.append((change, count, write(other, f"{change}{number}.parquet", first)))
        report = run("append", archive, *[path for *_, path in parts], "--format", "json")
        told = {drift["file"]: drift for drift in report["drift"]}
        for change, count, path in parts:
            size = next(size for size, (least, most) in SIZES.items() if least <= count < most)
            counts[size][change][0] += path.name in told
            counts[size][change][1] += 1
            if ARGUMENTS.told and path.name in told:
                print("   ", change, told[path.name]["change"], told[path.name]["told"])
            path.unlink()
    return counts, share


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def cells(counts, sizes=tuple(SIZES)):
    """What was told of parts of these sizes, change by change."""
    sums = [[sum(counts[size][change][i] for size in sizes) for i in range(2)] for change in CHANGES]
    return [percent(told, of) for told, of in sums]


def percent(told, of):
    return "" if of == 0 else f"{100 * told / of:.0f}" if told in (0, of) else f"{100 * told / of:.1f}"


row("table", "atoms", "bytes", *CHANGES)
row(*["---"] * (3 + len(CHANGES)))
total = nothing()
for name, values in [*real(), *made()]:
    if ARGUMENTS.tables not in name:
        continue
    counts, share = measure(name, values)
    for size, changes in counts.items():
        for change, (told, of) in changes.items():
            total[size][change][0] += told
            total[size][change][1] += of
    atoms = sorted({atoms for atoms, _ in share})
    row(name, " ".join(map(str, atoms)), share[-1][1], *cells(counts))
row("all", "", "", *cells(total))
for size in SIZES:
    row(f"all, parts of {size} signals", "", "", *cells(total, [size]))
