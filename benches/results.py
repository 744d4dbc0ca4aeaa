"""Makes docs/results.md: the tables and figures of paper 1, on real tables and on generated data.

    python3 benches/results.py target/release/sparrow FOLDER > docs/results.md

Everything comes out of the command given; a second run gives the same figures, times aside. Takes about
eighteen minutes on two cores. With `quick` as a third argument it makes a small part of everything, to see that it runs.
"""
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if len(sys.argv) not in (3, 4):
    sys.exit(__doc__)
SPARROW, DATA = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
QUICK = sys.argv[3:] == ["quick"]
SEEDS = 1 if QUICK else 3
FOLDER = Path(tempfile.mkdtemp())
STARTED = time.time()

FAST, SLOW = ["fksc", "kfss", "komp", "lpm", "kfmc"], ["ksr_l21", "cd", "ksc", "foso"]
CODERS = FAST + SLOW
NAMES = {"fksc": "FKSC", "kfss": "KFSS", "komp": "KOMP", "lpm": "LPM", "kfmc": "KFMC", "ksr_l21": "KSR-L2,1",
         "cd": "CD", "ksc": "KSC", "foso": "FOSO", "alone": "FKSC, penalty alone"}


def sparrow(*arguments):
    done = subprocess.run([SPARROW, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"sparrow {' '.join(map(str, arguments))[:200]}: {done.stderr}")
    print(f"{time.time() - STARTED:6.0f} s  sparrow {' '.join(map(str, arguments))[:100]}", file=sys.stderr)
    return done.stdout


def rows(sql):
    return json.loads(sparrow("sql", "--format", "json", "-c", sql))


def evaluate(table, *arguments):
    return json.loads(sparrow("evaluate", table, *arguments, "--threads", 2, "--format", "json"))


def syn(dim, signals):
    path = FOLDER / f"syn{dim}.parquet"
    if not path.exists():
        sparrow("generate", "syn", "--dim", dim, "--signals", signals, "-o", path)
    return path


def file(name):
    return DATA / f"{name}.parquet"


# Loads of clients differ by orders of magnitude: each is divided by its largest in the training rows.
ELECTRICITY = f"""WITH flat AS (SELECT t, unnest(range(0, array_length(v))) AS i, unnest(v) AS x FROM '{file("electricity_321x840h")}'),
largest AS (SELECT i, max(abs(x)) AS m FROM flat WHERE t < 630 GROUP BY i)
SELECT t, array_agg(CASE WHEN m > 0 THEN x / m ELSE x END ORDER BY flat.i) AS v
FROM flat JOIN largest ON flat.i = largest.i GROUP BY t ORDER BY t"""

SLICES = ["--train-where", "slice <= 3", "--test-where", "slice = 4"]
NODES = ["--train-where", "slice <= 4 AND node % 4 <> 0", "--test-where", "slice <= 4 AND node % 4 = 0"]

# Name: table, how it is split, length, ratios (the paper's where it has the table).
SETS = {
    "PlanetLab": (file("planetlab_rtt_490"), SLICES, 490, [49.2, 60.4, 68.2, 81.5]),
    "METR-LA": (file("metr_la_week1_207"), ["--train-rows", "1512"], 207, [20, 30, 40, 50]),
    "Guangzhou": (file("guangzhou_speed_500"), ["--train-rows", "375"], 214, [30.5, 40.3, 50.1, 57.3]),
    "Electricity": (ELECTRICITY, ["--train-rows", "630"], 321, [20, 40, 60, 80]),
    "Syn360": (syn(360, 1500), ["--train-rows", "1000"], 360, [54.1, 81.2, 105.4, 140.4]),
}
BY_NODE = (file("planetlab_rtt_490"), NODES, 490, [49.2, 60.4, 68.2, 81.5])

# Paper 1, Table 2: NMAE at its four ratios.
PAPER_NMAE = {
    "PlanetLab": {"fksc": [.1469, .1575, .1472, .1560], "cd": [.1597, .2411, .1881, .2543], "kfmc": [.1666, .1557, .1670, .1633],
                  "ksr_l21": [.1633, .1600, .1869, .1643], "lpm": [.2949, .2402, .2499, .2318]},
    "Guangzhou": {"fksc": [.1242, .1250, .1251, .1259], "cd": [.1569, .1708, .1781, .1857], "kfmc": [.1611, .1596, .1525, .1619],
                  "ksr_l21": [.1290, .1339, .1444, .1761], "lpm": [.2323, .2342, .2253, .2320]},
    "Syn360": {"fksc": [.0824, .0834, .0839, .0843], "cd": [.0880, .0927, .0975, .1031], "kfmc": [.1130, .1232, .1244, .1134],
               "ksr_l21": [.0905, .0941, .0856, .0874], "lpm": [.2030, .2098, .2127, .2161]},
}
PAPER_OBJECTIVE = {"PlanetLab": .8328, "Guangzhou": .1378, "Syn360": 1.8439, "Syn600": 1.6057, "Syn800": 2.1432,
                   "Syn1000": 2.6820, "Syn1200": 3.2092, "Syn1400": 3.7574}


def table(header, lines):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for line in lines:
        print("| " + " | ".join(map(str, line)) + " |")
    print()


def claim(holds, text):
    """A conclusion is printed only with what the figures say about it."""
    print(text if holds else f"**Not so here:** {text}")
    print()


def table_1():
    """Objectives, and with them Figure 9."""
    sizes = [360, 600] if QUICK else [360, 600, 800, 1000, 1200, 1400]
    real = {name: SETS[name] for name in (["METR-LA"] if QUICK else ["PlanetLab", "Guangzhou", "METR-LA"])}
    objectives, scaling = [], []
    for name, (path, split, dim, _) in real.items():
        found = evaluate(path, *split, "--scale", "--atoms", dim, "--lambda", 0.1, "--tolerance", 1e-7, "--coders", "fksc,ksc,kfss,foso")
        objectives.append((name, found))
    for dim in sizes:
        train, test = (1000, 500) if dim == 360 else (2 * dim, dim)
        found = evaluate(syn(dim, train + test), "--train-rows", train, "--atoms", dim, "--sigma", 20, "--train-lambda", 0.01,
                         "--lambda", 0.01, "--tolerance", 1e-7, "--coders", "fksc,ksc,kfss" + (",foso" if dim <= 600 else ""))
        objectives.append((f"Syn{dim}", found))
        scaling.append((dim, found))
    print("## Table 1: the objective of KSC and of FKSC\n")
    print("`sparrow evaluate TABLE --lambda L --coders fksc,ksc,kfss,foso`: the sum of "
          "`1/2 ||phi(y) - phi(X) w||^2 + lambda ||w||_1` over the test rows. Real tables: lambda 0.1, sigma the median "
          "distance; SynN: lambda 0.01, sigma 20, as in the paper. The dictionary is square.\n")
    lines, apart_at_most = [], 0
    for name, found in objectives:
        of = {row["coder"]: row["objective"] for row in found}
        apart = max(abs(of[c] - of["fksc"]) / of["fksc"] for c in ("ksc", "kfss"))
        apart_at_most = max(apart, apart_at_most)
        first_order = f"{of['foso']:.4f}" if "foso" in of else "–"
        lines.append([name, f"{of['ksc']:.4f}", f"{of['fksc']:.4f}", f"{of['kfss']:.4f}", f"{apart:.0e}", first_order,
                      PAPER_OBJECTIVE.get(name, "–")])
    table(["data", "KSC", "FKSC", "KFSS", "largest relative difference of the three", "FOSO", "paper (KSC = FKSC)"], lines)
    claim(apart_at_most < 1e-6, "KSC, FKSC and KFSS have one objective, as in the paper. The paper does not say which lambda or scale its "
          "objectives of real tables belong to, nor whether they are sums, so only equality can be compared. FOSO is a first-order "
          "method and stops close to the minimum.")
    print("## Figure 9: time and updates per signal as the size grows\n")
    print("From the same runs (two threads, optimality gap 1e-7): the time of coding over the number of signals, and updates of eq. 8.\n")
    lines = []
    for dim, found in scaling:
        of = {row["coder"]: row for row in found}
        def per_signal(coder, field):
            return of[coder][field] / of[coder]["rows"]
        lines.append([dim, f"{1e6 * per_signal('ksc', 'seconds'):.0f}", f"{1e6 * per_signal('fksc', 'seconds'):.0f}",
                      f"{per_signal('ksc', 'seconds') / per_signal('fksc', 'seconds'):.0f}x",
                      f"{per_signal('ksc', 'updates'):.0f}", f"{per_signal('fksc', 'updates'):.0f}",
                      f"{100 * per_signal('fksc', 'updates') / per_signal('ksc', 'updates'):.2f} %"])
    table(["size", "KSC µs", "FKSC µs", "faster", "KSC updates", "FKSC updates", "share"], lines)
    faster = [next(r["seconds"] for r in found if r["coder"] == "ksc") / next(r["seconds"] for r in found if r["coder"] == "fksc")
              for _, found in scaling]
    claim(faster[-1] > faster[0], "The paper: up to 90 % less time, that is 10x, with most updates skipped, and more so as the size grows.")


def figure(found, coder, setting, field):
    """Of seed 0, which all coders have."""
    return next(row[field] for row in found if row["coder"] == coder and row["setting"] == setting and row["seed"] == 0)


def compare(name, entry, counted):
    """One table: a line per coder, three metrics per ratio; adds (name, ratio, FKSC over the best) to `counted`."""
    path, split, dim, ratios = entry
    if QUICK:
        ratios = ratios[:1]
    same = [*split, "--scale", "--atoms", dim, "--cr", ",".join(map(str, ratios))]
    found = evaluate(path, *same, "--seeds", SEEDS, "--coders", ",".join(FAST))
    found += evaluate(path, *same, "--seeds", 1, "--tolerance", 1e-3, "--coders", ",".join(SLOW))
    settings = [f"CR {ratio}" for ratio in ratios]
    # The same penalties without a limit for every signal, as the paper does it.
    penalties = [figure(found, "fksc", setting, "lambda") for setting in settings]
    alone = evaluate(path, *split, "--scale", "--atoms", dim, "--lambda", ",".join(map(repr, penalties)), "--coders", "fksc")
    for row, setting in zip(alone, settings):
        found.append({**row, "coder": "alone", "setting": setting})
    best = {s: min(figure(found, c, s, "nmae") for c in CODERS) for s in settings}
    lines = []
    for coder in [CODERS[0], "alone", *CODERS[1:]]:
        line = [NAMES[coder]]
        for i, setting in enumerate(settings):
            nmae = figure(found, coder, setting, "nmae")
            shown = f"{nmae:.4f}"
            if nmae == best[setting]:
                shown = f"**{shown}**"
            paper = PAPER_NMAE.get(name, {}).get("fksc" if coder == "alone" else coder if coder != "fksc" else "")
            beside = f" ({paper[i]:.3f})" if paper else ""
            line.append(f"{shown}{beside} / {figure(found, coder, setting, 'nrmse'):.4f} / {figure(found, coder, setting, 'necr')}")
        lines.append(line)
    print(f"### {name}\n")
    some = [row for row in found if row["coder"] == "fksc"]
    spread = max(max(r["nmae"] for r in some if r["setting"] == s) - min(r["nmae"] for r in some if r["setting"] == s) for s in settings)
    print(f"{some[0]['rows']} test rows of length {dim}, {some[0]['atoms']} atoms. FKSC's NMAE differs by at most {spread:.4f} "
          f"between seeds. Real bytes at the first ratio: codes {some[0]['code_bytes']}, dictionary {some[0]['dictionary_bytes']}.\n")
    table(["coder", *settings], lines)
    for setting in settings:
        counted.append((name, setting, figure(found, "fksc", setting, "nmae") / best[setting],
                        min(CODERS, key=lambda c: figure(found, c, setting, "nmae")),
                        figure(found, "alone", setting, "nmae") / best[setting]))


def table_2():
    print("## Table 2: errors at equal compression ratios\n")
    print("`sparrow evaluate TABLE --scale --atoms N --cr ... --seeds 3 --coders " + ",".join(FAST) + "` and, for the slow ones, "
          "`--seeds 1 --tolerance 1e-3 --coders " + ",".join(SLOW) + "`; N is the length of the vectors, everything else as it is by default (sigma the median distance between rows, learning lambda 0.1). "
          "In every cell: NMAE (the paper's beside it where it has a table of that name) / NRMSE / NECR at 0.001, of the first seed, which all "
          "coders have. The paper learned from other rows: its Traffic set is a longer part of the Guangzhou table (1440 rows to learn from "
          "and 288 to judge by, where there are 375 and 125 here), its Syn360 another draw. Values are "
          "divided by the largest of the training rows. CR counts two numbers for every nonzero and no dictionary, as the paper does.\n")
    print("How it is made fair: kernel coders share one dictionary, learned by KSCDL from the training rows only, and code the same "
          "test rows with the same number of nonzeros; whoever has a penalty to choose (FKSC, KFSS, KSC, FOSO, KFMC, KSR-L2,1, CD) may choose the "
          "one whose codes decode best (what is best for FKSC is used for all that share its objective). FKSC and the like, and CD, may reach the ratio by their penalty alone, as in the paper, or by a smaller penalty "
          "and a limit for every row, keeping the largest weights and fitting them again (`{lambda: ..., max_nonzeros: ...}`), whichever "
          "decodes better: that is how one would use them, and it matters, so a line of its own shows FKSC with its penalty alone. KFMC and "
          "KSR-L2,1 keep their largest weights as they are, which is how paper 1 describes them. CD works in the input space and has a linear dictionary of its own, learned by SCDL, which is "
          "problem 1 of the paper. The other papers learn or take their dictionaries differently (KFMC by gradient with ridge "
          "weights, KSR-L2,1 and KOMP take training samples, LPM learns an equiangular one); with those a table would compare "
          "dictionaries and coders at once, so here all kernel coders get the same atoms. That the atoms were learned with the l1 "
          "form may favour FKSC. KSC, KFSS and FOSO minimise the same objective as FKSC (Table 1); their lines differ from "
          "FKSC's by the tolerance they stop at.\n")
    counted = []
    for name, entry in SETS.items():
        compare(name, entry, counted)
    within = [c for c in counted if c[2] <= 1.02]
    same_optimum = ("fksc", "kfss", "ksc", "foso")
    first = [c for c in counted if c[3] in same_optimum]
    print(f"**FKSC, or another coder of its objective, is first in {len(first)} and FKSC is first or within 2 % of the first in {len(within)} of {len(counted)} settings.** "
          "Where it is not first:\n")
    table(["data", "ratio", "first", "FKSC is above it by"],
          [[n, s, NAMES[b], f"{100 * (r - 1):.1f} %"] for n, s, r, b, _ in counted if b not in same_optimum])
    alone = [c for c in counted if c[4] <= 1.02]
    print(f"With its penalty alone FKSC is within 2 % of the first in {len(alone)} of {len(counted)}: where few nonzeros are left a large "
          "penalty gives rows that are like no atom no nonzeros at all, while a limit for every row gives each its share.\n")
    linear = [c for c in counted if c[0] == "Syn360" and c[3] == "cd"]
    claim(linear, "Why: at low ratios orthogonal matching pursuit is a strong rival, since least squares on the atoms it picks has no shrinkage. "
          "SynN is made by linear maps of 20 monomials, so every group of signals fills a subspace of the input space, and a linear "
          "dictionary, whose atoms combine freely, fits it better than the RBF kernel: CD is first there.")
    print("In the paper's split every test row has near copies among the training rows (the same node in an earlier slice). Split by "
          "node, as below, it has none.\n")
    compare("PlanetLab by node", BY_NODE, [])


def median_distance(source):
    found = rows(f"SELECT sparse_dictionary_info(sparse_train(v, {{atoms: 2, max_iter: 1}}))['sigma'] AS sigma FROM ({source})")
    return found[0]["sigma"]


SCALED = {
    "PlanetLab": f"SELECT array_scale(v, 1.0 / (SELECT max(array_max(v)) FROM '{file('planetlab_rtt_490')}')) AS v FROM '{file('planetlab_rtt_490')}' WHERE slice <= 3",
    "METR-LA": f"SELECT v FROM '{file('metr_la_week1_207')}' WHERE t < 1512",
    "Guangzhou": f"SELECT v FROM '{file('guangzhou_speed_500')}' WHERE t < 375",
    "Electricity": f"SELECT v FROM ({ELECTRICITY}) WHERE t < 630",
    "Syn360": f"SELECT v FROM '{FOLDER / 'syn360.parquet'}' WHERE i < 1000",
}


def figure_10():
    print("## Figure 10: convergence for different numbers of atoms\n")
    print("`sparse_train(v, {atoms: P, lambda: 0.01, max_iter: 16, tolerance: 1e-9})`: the objective over the training rows, per "
          "row, after rounds 1, 2, 4, 8 and 16; P as a share of the length N of the vectors.\n")
    shown = [1, 2, 4, 8, 16]
    lines = []
    for name, source in SCALED.items():
        if QUICK and name != "METR-LA":
            continue
        dim = SETS[name][2]
        for share in (0.25, 0.5, 1.0, 1.5):
            sql = (f"SELECT sparse_dictionary_info(sparse_train(v, {{atoms: {int(share * dim)}, lambda: 0.01, max_iter: 16, tolerance: 1e-9}})) "
                   f"AS info FROM ({source})")
            info = rows(sql)[0]["info"]
            by_round = {step["round"]: step["objective"] / info["rows_seen"] for step in info["history"]}
            last = by_round[max(by_round)]
            lines.append([name, f"{share:g} N = {info['atoms']}", *(f"{by_round.get(r, last):.5f}" for r in shown)])
    table(["data", "atoms", *(f"round {r}" for r in shown)], lines)
    falls = all(float(line[2]) > float(line[-1]) for line in lines)
    more = all(float(a[-1]) > float(b[-1]) for a, b in zip(lines, lines[1:]) if a[0] == b[0])
    claim(falls and more, "As in the paper, the objective falls whatever the number of atoms. Unlike there, more atoms than N still lower it: "
          "rows that are atoms cost only their penalty.")


def figure_11():
    print("## Figure 11: the influence of lambda and sigma\n")
    print("The objective per training row after learning with N atoms, for sigma as a multiple of the median distance between rows.\n")
    factors, penalties = [0.25, 0.5, 1, 2, 4, 8], [0.001, 0.01, 0.1]
    lines = []
    for name in ["METR-LA"] if QUICK else ["PlanetLab", "METR-LA", "Guangzhou", "Syn360"]:
        source, dim = SCALED[name], SETS[name][2]
        middle = median_distance(source)
        for penalty in penalties:
            line = [name, penalty]
            for factor in factors:
                info = rows(f"SELECT sparse_dictionary_info(sparse_train(v, {{atoms: {dim}, lambda: {penalty}, sigma: {factor * middle}}})) "
                            f"AS info FROM ({source})")[0]["info"]
                line.append(f"{info['objective'] / info['rows_seen']:.5f}")
            lines.append(line)
    table(["data", "lambda", *(f"{f:g} x median" for f in factors)], lines)
    flat = all(float(line[-1]) > 0.5 * float(line[-2]) for line in lines)
    grows = all(float(b[i]) > float(a[i]) for a, b in zip(lines, lines[1:]) if a[0] == b[0] for i in range(2, len(a)))
    claim(flat and grows, "As in the paper: for a given lambda the objective depends little on sigma once that is large, and it grows with lambda.")


def example_1():
    """Points on the unit sphere: nonzeros that keep 1/2 ||Y - Y'||^2 below 0.1 with six atoms for ten points."""
    draws = 3 if QUICK else 20
    chance = random.Random(1)
    points = []
    for draw in range(draws):
        for _ in range(10):
            v = [chance.gauss(0, 1) for _ in range(3)]
            norm = math.sqrt(sum(x * x for x in v))
            points.append(f"({draw}, [{', '.join(repr(x / norm) for x in v)}])")
    source = f"(VALUES {', '.join(points)}) t(draw, v)"
    kernels = {
        "original space (linear, SCDL)": ["learner: 'scdl'"],
        "products of two coordinates (polynomial of degree 2)": ["kernel: 'polynomial', degree: 2"],
        "RBF": [f"sigma: {s}" for s in (0.5, 1, 2, 4)],
    }
    print("## Example 1: points on the unit sphere\n")
    print(f"Ten points in three dimensions, six atoms, `1/2 ||Y - Y'||^2 < 0.1` after decoding: the fewest nonzeros of all "
          f"penalties and limits tried, mean over those of {draws} draws where the error was reached. The points themselves are 30 numbers.\n")
    lines = []
    for name, options in kernels.items():
        fewest = [math.inf] * draws
        for option in options:
            for penalty in [0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001]:
                for most in (1, 2, 3, 6):
                    sql = f"""WITH d AS (SELECT draw, sparse_train(v, {{atoms: 6, max_iter: 200, tolerance: 1e-6, lambda: {penalty}, {option}}}) AS d FROM {source} GROUP BY draw),
                c AS (SELECT t.draw, v, d, sparse_encode(v, d, {{max_nonzeros: {most}}}) AS c FROM {source} JOIN d ON t.draw = d.draw)
                SELECT draw, sum(coalesce(array_length(c), 0)) AS nonzeros,
                sum(0.5 * power(array_distance(v, sparse_decode(c, d)), 2)) AS error FROM c GROUP BY draw"""
                    for row in rows(sql):
                        if row["error"] < 0.1:
                            fewest[row["draw"]] = min(fewest[row["draw"]], row["nonzeros"])
        reached = [n for n in fewest if n < math.inf]
        lines.append([name, f"{statistics.mean(reached):.1f}" if reached else "–", f"{len(reached)} of {draws}"])
    table(["space", "nonzeros", "draws where the error was reached"], lines)
    fewest = [float(line[1]) for line in lines]
    claim(fewest[0] <= min(fewest), "The paper's one draw: 40 nonzeros in the original space, 19 with all products of two coordinates beside them. Three "
          "nonzeros a point are always enough in the original space, so 40 is not what it needs: asked for the fewest, it needs no more than the "
          "kernels do, and the example does not show what a kernel is good for.")


print("# Results: the tables and figures of paper 1\n")
print("Made by one command; a second run gives the same figures, times aside:\n")
print("```\npython3 benches/results.py target/release/sparrow FOLDER > docs/results.md\n```\n")
table_1()
table_2()
figure_10()
figure_11()
example_1()
print(f"{time.time() - STARTED:.0f} s in all", file=sys.stderr)
