#!/usr/bin/env python3
"""Compares our accountants with those of other libraries, in one session on one thread.

    python3 benches/peers/accounting.py --python /path/to/venv/bin/python

--peers is the folder with the other libraries' script, accountants_bench.py, which prints one JSON
line per accountant and task. It runs under --python, which needs dp-accounting; prv-accountant and
opacus are used if installed. Ours are the Criterion medians of benches/accounting.rs. The table
replaces the text between two comments in book/src/understanding/accounting.md. Measure on an idle
machine.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "book/src/understanding/accounting.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
# Name of the package -> prefix of its accountants in the other libraries' script.
PEERS = {"dp-accounting": "dp_accounting", "prv-accountant": "prv_accountant", "opacus": "opacus"}
# Task of that script -> our benchmarks that answer the same question.
RIVALS = {
    "epsilon": {
        "PLD": "pld/epsilon",
        "PRV": "pld/epsilon",
        "prv": "pld/epsilon",
        "RDP": "rdp/epsilon",
    },
    "sigma": {
        "PLD": "headline/sigma",
        "PRV": "headline/sigma",
        "prv": "headline/sigma",
        "RDP": "rdp/sigma",
    },
}
OURS = {
    "pld/epsilon": "epsilon, 14,062 steps, PLD",
    "rdp/epsilon": "epsilon, 14,062 steps, RDP",
    "gdp/epsilon": "epsilon, one unsampled Gaussian, exact",
    "headline/sigma": "noise multiplier for epsilon 3, headline",
    "rdp/sigma": "noise multiplier for epsilon 3, RDP",
    "pld/100_epochs": "epsilon, 100 epochs of falling noise, PLD",
    "rdp/100_epochs": "epsilon, 100 epochs of falling noise, RDP",
    "pld/20000_multipliers": "epsilon, 20,000 different multipliers, PLD",
    "rdp/20000_multipliers": "epsilon, 20,000 different multipliers, RDP",
    "headline/1000_stages": "epsilon, 1,000 stages of falling noise, headline",
    "headline/10000_stages": "epsilon, 10,000 stages of falling noise, headline",
    "headline/sigma_of_1000_stages": "first noise multiplier of 1,000 stages, headline",
    "headline/sigma_of_10000_stages": "first noise multiplier of 10,000 stages, headline",
    "headline/60_epsilons_along_a_run": "60 epsilons along 14,062 steps, headline",
    "headline/60_epsilons_along_1000_stages": "60 epsilons along 1,000 stages, headline",
    "pld/curve_of_33": "33 points of epsilon over delta, PLD",
}


def arguments():
    shared = os.environ.get("EPSILAB_SHARED", ROOT.parent / "shared")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=pathlib.Path, default=pathlib.Path(shared) / "bench/peers")
    parser.add_argument(
        "--python", default=sys.executable, help="a Python with the other libraries"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of the other libraries, alternating with ours"
    )
    parser.add_argument("--no-cargo", action="store_true", help="use existing Criterion results")
    return parser.parse_args()


def installed(python):
    """Versions of the other libraries that are installed under `python`."""
    code = (
        "import importlib.metadata as m, json, sys\nfound = {}\nfor name in sys.argv[1:]:\n"
        "    try: found[name] = m.version(name)\n    except m.PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    answer = subprocess.run(
        [python, "-c", code, *PEERS], check=True, capture_output=True, text=True
    )
    return json.loads(answer.stdout)


def run_peers(args, found):
    """One JSON line per accountant and task of the installed libraries."""
    script = args.peers / "accountants_bench.py"
    if not script.exists():
        sys.exit(f"{script} is not there: name its folder with --peers or EPSILAB_SHARED")
    only = ",".join(PEERS[name] for name in found)
    command = [args.python, script.name, "--threads", "1", "--only", only]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        if "opacus" not in found:
            # The script always imports Opacus: give it an empty module, which is never timed.
            stand_in = pathlib.Path(folder) / "opacus/accountants"
            stand_in.mkdir(parents=True)
            (stand_in / "__init__.py").write_text("create_accountant = None\n")
            (stand_in / "utils.py").write_text("get_noise_multiplier = None\n")
            environment["PYTHONPATH"] = os.pathsep.join(
                filter(None, [folder, os.environ.get("PYTHONPATH")])
            )
        answer = subprocess.run(
            command, cwd=args.peers, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]


def run_ours():
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
    subprocess.run(["cargo", "bench-accounting"], cwd=ROOT, env=environment, check=True)


def median_of_ours(name):
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = target / "criterion" / name / "new/estimates.json"
    return json.loads(path.read_text())["median"]["point_estimate"] / 1e9 if path.exists() else None


def seconds(value):
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.1e} s"


def against(line):
    """Our benchmark that answers the same question as a line of the others."""
    pairs = RIVALS.get(line["task"], {})
    return next((ours for mark, ours in pairs.items() if mark in line["accountant"]), None)


def table(lines, ours):
    rows = [
        "| question | accountant | its answer | median | ours | ours is faster by |",
        "|---|---|---|---|---|---|",
    ]
    questions = {"epsilon": "epsilon of 60 epochs", "sigma": "noise multiplier for epsilon 3"}
    for (accountant, task), group in sorted(lines.items(), key=lambda item: item[0][1]):
        question, first = questions.get(task, task), group[0]
        if first["error"]:
            rows.append(f"| {question} | {accountant} | {first['error']} | – | – | – |")
            continue
        theirs = statistics.median(line["median_s"] for line in group)
        name = against(first)
        mine = ours.get(name)
        ratio = "– | –" if mine is None else f"{seconds(mine)} (`{name}`) | {theirs / mine:.3g}"
        rows.append(
            f"| {question} | {accountant} | {first['value']:.5g} | {seconds(theirs)} | {ratio} |"
        )
    rows += ["", "| ours | median | benchmark |", "|---|---|---|"]
    rows += [f"| {OURS[name]} | {seconds(value)} | `{name}` |" for name, value in ours.items()]
    return rows


def cpu():
    try:
        return re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        return platform.processor() or "unknown processor"


def main():
    args = arguments()
    page = PAGE.read_text()
    if BEGIN not in page or END not in page:
        sys.exit(f"{PAGE} has no place for the table: it needs the comments {BEGIN} and {END}")
    found = installed(args.python)
    missing = [name for name in PEERS if name not in found]
    if "dp-accounting" not in found:
        sys.exit(f"{args.python} has no dp-accounting: pip install dp-accounting prv-accountant")
    # Alternate, so that both see the same state of the machine.
    lines = {}
    for turn in range(args.rounds):
        for line in run_peers(args, found):
            lines.setdefault((line["accountant"], line["task"]), []).append(line)
        if turn == 0 and not args.no_cargo:
            run_ours()
    ours = {name: value for name in OURS if (value := median_of_ours(name)) is not None}
    if not ours:
        sys.exit("no Criterion results: run without --no-cargo")
    rust = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[1]
    versions = ", ".join(f"{name} {version}" for name, version in found.items())
    python = next(iter(lines.values()))[0]["versions"]["python"]
    text = [
        BEGIN,
        "",
        f"{cpu()}, one thread, {datetime.date.today():%d %B %Y}; "
        f"rustc {rust}, Python {python}, {versions}.",
        f"Medians of the other libraries' warm calls (runs: {args.rounds}) and of Criterion.",
        "",
    ]
    if missing:
        text += [f"Not installed, so not measured: {', '.join(missing)}.", ""]
    load = os.getloadavg()[0]
    if load > 1.5:
        text += [f"The machine was busy (load {load:.1f}), so single figures may be too large.", ""]
    text += table(lines, ours) + ["", END]
    head, _, rest = page.partition(BEGIN)
    PAGE.write_text(head + "\n".join(text) + rest.partition(END)[2])
    print("\n".join(text))
    absent = [name for name in OURS if name not in ours]
    if absent:
        print(f"no result of ours for: {', '.join(absent)}", file=sys.stderr)


if __name__ == "__main__":
    main()
