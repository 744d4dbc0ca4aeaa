"""What targets and estimates promise, and what archives then hold.

    python3 benches/targets.py target/release/sparrow FOLDER [GIGABYTE.parquet ...] [--only PART,...]

prints tables in Markdown: `predictions` of `sparrow estimate` beside what `sparrow compress` delivers; `targets` on
rows that the search never saw, beside the best of a grid over atoms, sigma and lambda judged in the same way; data
whose codes alone do not pay (`hopeless`); bytes under bounds and targets beside an exhaustive `grid` over atoms, kernels and
penalties, on the tables, their first 8, 12 and 24 sensors, and those of tables.py; and `ladders` of bounds and targets,
in which a looser one should never take more bytes. Needs numpy and pyarrow. The folder holds tables with a column `v`,
as docs/benchmarks.md describes them; further tables are only estimated and compressed.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tables import made

PARTS = ["predictions", "targets", "hopeless", "grid", "ladders"]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("sparrow")
parser.add_argument("data", type=Path)
parser.add_argument("large", nargs="*")
parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
parser.add_argument("--tables", default="", help="grid and ladders: only tables whose names contain this")
ARGUMENTS = parser.parse_args()
SPARROW, DATA, LARGE = ARGUMENTS.sparrow, ARGUMENTS.data, ARGUMENTS.large
NMAES, RATIOS = [0.02, 0.05, 0.10], [20, 50, 100]
SEGMENTS = 16
FOLDER = Path(tempfile.mkdtemp())


def run(*arguments):
    started = time.monotonic()
    done = subprocess.run([SPARROW, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{arguments}: {done.stderr}")
    text = done.stdout
    return json.loads(text) if "json" in arguments else text, time.monotonic() - started


def compress(table, *arguments):
    archive = FOLDER / "archive"
    report, seconds = run("compress", table, "-o", archive, "--overwrite", "--format", "json", *arguments)
    return archive, report, seconds


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*cells):
    print()
    row(*cells)
    row(*["---"] * len(cells))


def off(predicted, found):
    return f"{100 * (predicted / found - 1):+.1f} %" if found else "-"


def predictions(tables):
    header("table", "aim", "bytes predicted", "delivered", "off", "NMAE predicted", "delivered", "off", "estimate, s")
    worst = 0
    for table in tables:
        aims = ["--target-nmae", ",".join(map(str, NMAES)), "--target-ratio", ",".join(map(str, RATIOS))]
        estimate, seconds = run("estimate", table, *aims, "--format", "json")
        for line in estimate["ladder"]:
            # A bound is predicted for, too.
            if "target" not in line["aim"]:
                continue
            [(kind, value)] = line["aim"]["target"].items()
            _, report, _ = compress(table, f"--target-{kind}", value)
            found, nmae = report["archive_bytes"], report["nmae"]
            worst = max(worst, abs(line["bytes"] / found - 1), abs(line["nmae"] / nmae - 1) if nmae else 0)
            row(Path(table).stem, f"{kind} {value:g}", line["bytes"], found, off(line["bytes"], found),
                f"{line['nmae']:.4f}", f"{nmae:.4f}", off(line["nmae"], nmae), f"{seconds:.1f}")
    print(f"\nWorst: {100 * worst:.1f} %.")


def split(table):
    """Every fourth of sixteen runs of rows is kept from the search."""
    rows = pq.read_table(table)
    edges = np.linspace(0, len(rows), SEGMENTS + 1).astype(int)
    runs = [rows.slice(a, b - a) for a, b in zip(edges, edges[1:])]
    seen, unseen = FOLDER / "seen.parquet", FOLDER / "unseen.parquet"
    pq.write_table(pa.concat_tables(run for i, run in enumerate(runs) if i % 4 != 3), seen, compression="zstd")
    pq.write_table(pa.concat_tables(run for i, run in enumerate(runs) if i % 4 == 3), unseen, compression="zstd")
    values = sum(8 * len(v) for v in rows["v"].to_pylist())
    return seen, unseen, values


def judged(seen, unseen, *arguments):
    """Bytes of the archive with both parts, the error of the part that the search never saw, and that of all."""
    archive, _, seconds = compress(seen, *arguments)
    run("append", archive, unseen, "--format", "json")
    report, _ = run("inspect", archive, "--format", "json")
    files = {file["path"]: file for file in report["data_files"]}
    return report["archive_bytes"], files["unseen.parquet"]["nmae"], report["nmae"], seconds


def median_distance(seen):
    archive, _, _ = compress(seen, "--atoms", 16, "--kernel", "rbf")
    text = pq.read_table(archive / "dictionary.parquet")["description"][0].as_py()
    return json.loads(text)["parameters"]["sigma"]


def targets(tables):
    header("table", "target", "bytes", "NMAE unseen", "of all", "of target", "search, s", "grid: bytes", "NMAE unseen", "of all",
           "atoms, sigma, lambda", "bytes / grid", "grid, s")
    for table in tables:
        seen, unseen, values = split(table)
        sigma = median_distance(seen)
        grid, started = [], time.monotonic()
        for atoms in [2, 4, 8, 16, 32, 64, 128, 256]:
            for width in [0.5, 1.0, 2.0]:
                for penalty in [0.8, 0.4, 0.2, 0.1, 0.05]:
                    given = ["--atoms", atoms, "--sigma", width * sigma, "--lambda", penalty]
                    grid.append((*judged(seen, unseen, *given)[:3], f"{atoms}, {width:g} x median, {penalty:g}"))
        grid_seconds = time.monotonic() - started
        for nmae in NMAES:
            found, error, whole, seconds = judged(seen, unseen, "--target-nmae", nmae)
            # The grid knows the rows that the search has not seen: it must meet the target, or miss it by 5 % at most.
            best, nearly = (min((choice for choice in grid if max(choice[1:3]) <= limit * nmae), default=None) for limit in [1, 1.05])
            best = best or nearly
            row(table.stem, f"nmae {nmae:g}", found, f"{error:.4f}", f"{whole:.4f}", f"{100 * max(error, whole) / nmae:.0f} %",
                f"{seconds:.1f}", *beside(best, f"{found / best[0]:.2f} ({found / nearly[0]:.2f})" if best else ""), f"{grid_seconds:.0f}")
        for ratio in RATIOS:
            found, error, whole, seconds = judged(seen, unseen, "--target-ratio", ratio)
            met = [choice for choice in grid if choice[0] <= 1.05 * values / ratio]
            best = min(met, key=lambda choice: choice[1]) if met else None
            reached = values / found
            row(table.stem, f"ratio {ratio:g}", found, f"{error:.4f}", f"{whole:.4f}", f"{100 * reached / ratio:.0f} %",
                f"{seconds:.1f}", *beside(best, f"NMAE {error / best[1]:.2f}" if best else ""), f"{grid_seconds:.0f}")


def beside(best, compared):
    """The grid's best, as cells."""
    if best is None:
        return ["none meets it", "", "", "", ""]
    return [best[0], f"{best[1]:.4f}", f"{best[2]:.4f}", best[3], compared]


def hopeless():
    header("data", "without an aim stored as it was, because", "bytes", "with --target-nmae 0.05")
    random = np.random.default_rng(1)
    made = {
        "white noise, 5000 x 100": random.normal(size=(5000, 100)),
        "white noise around 50, 2000 x 20": 50 + random.normal(size=(2000, 20)),
        "random walks, 5000 x 100": np.cumsum(random.normal(size=(5000, 100)), 0),
        "random walks, 2000 x 20": 100 + np.cumsum(random.normal(size=(2000, 20)), 0),
        "constants, 5000 x 100": np.full((5000, 100), 3.25),
        "50 rows of METR-LA": np.array(pq.read_table(DATA / "metr_la_week1_207.parquet")["v"].to_pylist()[300:350]),
    }
    for name, values in made.items():
        table = FOLDER / "made.parquet"
        lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
        columns = {"t": np.arange(len(values)), "v": lists.cast(pa.list_(pa.float64()))}
        pq.write_table(pa.table(columns), table, compression="zstd")
        plain = compress(table)[1]
        rounded = compress(table, "--target-nmae", 0.05)[1]
        row(name, plain["does_not_pay"] if plain["stored_as_they_were"] else "-", plain["input_bytes"], rounded["archive_bytes"])


BOUNDS, TARGETS = [0.01, 0.03, 0.06, 0.10], [0.01, 0.02, 0.05]
# Finer than what is compared with the grid: what is looser by a little must not take more, either.
LADDER = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.10]


def every_table():
    """Names and values of the tables at hand, of their first sensors, and of those that are made."""
    for table in sorted(DATA.glob("*.parquet")):
        values = np.array(pq.read_table(table)["v"].to_pylist(), dtype=float)
        for sensors in [8, 12, 24, values.shape[1]]:
            yield f"{table.stem}, {sensors} sensors", np.ascontiguousarray(values[:, :sensors])
    yield from made()


def written():
    table = FOLDER / "every.parquet"
    for name, values in every_table():
        if ARGUMENTS.tables not in name:
            continue
        times = pa.array(1_700_000_000_000_000 + 300_000_000 * np.arange(len(values)), pa.timestamp("us"))
        lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
        pq.write_table(pa.table({"time": times, "v": lists.cast(pa.list_(pa.float64()))}), table, compression="zstd")
        # Of a typical sensor, whatever outliers and sentinels there are.
        middle = np.median(values, axis=0)
        deviation = 1.48 * np.median(np.abs(values - middle)) or values.std() or 1.0
        rows = np.random.default_rng(0).integers(0, len(values), (2, 500))
        distance = np.median(np.linalg.norm(values[rows[0]] - values[rows[1]], axis=1)) or 1.0
        yield name, table, deviation, distance


def choices(distance):
    """Everything that can be set: one line for each of a grid."""
    yield ["--atoms", 0]
    yield ["--atoms", 1]
    for atoms in [2, 4, 8, 16, 32, 64, 128, 256]:
        for kernel in [["linear"], *(["rbf", "--sigma", width * distance] for width in [0.5, 1.0, 2.0])]:
            for penalty in [0.8, 0.4, 0.2, 0.1, 0.05] if kernel[0] == "rbf" else [None]:
                yield ["--atoms", atoms, "--kernel", *kernel, *(["--lambda", penalty] if penalty else [])]


def grid():
    header("table", "aim", "bytes", "NMAE", "search, s", "grid: bytes", "with", "bytes / grid", "grid, s")
    worst = slowest = 0
    for name, table, deviation, distance in written():
        aims = [("--max-error", 3 * deviation * share) for share in BOUNDS]
        for flag, value in aims + [("--target-nmae", nmae) for nmae in TARGETS]:
            _, report, seconds = compress(table, flag, value)
            found, started, tried = report["archive_bytes"], time.monotonic(), []
            for choice in choices(distance):
                _, other, _ = compress(table, flag, value, *choice)
                met = flag == "--max-error" or other["nmae"] <= value
                tried += [(other["archive_bytes"], " ".join(map(str, choice)))] if met else []
            grid_seconds = time.monotonic() - started
            best, how = min(tried)
            worst, slowest = max(worst, found / best), max(slowest, seconds / grid_seconds)
            row(name, f"{flag[2:]} {value:.3g}", found, f"{report['nmae']:.4f}", f"{seconds:.1f}", best, how, f"{found / best:.3f}",
                f"{grid_seconds:.0f}")
    print(f"\nWorst: {worst:.3f} times the grid's bytes, in {slowest:.3f} of its time.")


def ladders():
    header("table", "aims, from tight to loose", "bytes", "looser that take more")
    total = 0
    for name, table, deviation, _ in written():
        for flag, values in [("--max-error", [3 * deviation * share for share in LADDER]), ("--target-nmae", TARGETS)]:
            found = [compress(table, flag, value)[1]["archive_bytes"] for value in values]
            more = sum(b > a for i, a in enumerate(found) for b in found[i + 1:])
            total += more
            row(name, f"{flag[2:]} " + ", ".join(f"{value:.3g}" for value in values), ", ".join(map(str, found)), more)
    print(f"\nPairs in which the looser takes more bytes: {total}.")


if __name__ == "__main__":
    tables = sorted(DATA.glob("*.parquet"))
    parts = {
        "predictions": lambda: predictions([*tables, *LARGE]), "targets": lambda: targets(tables), "hopeless": hopeless,
        "grid": grid, "ladders": ladders,
    }
    for part in ARGUMENTS.only.split(","):
        parts[part]()
