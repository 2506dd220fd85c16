#!/usr/bin/env python3
"""Compares our training steps with those of other libraries, in one session on the same threads.

    python3 benches/peers/performance.py --python /path/to/venv/bin/python --peers DIR

--peers is the folder with the scripts of the other libraries: opacus_bench.py for PyTorch and
Opacus, jax_bench.py for JAX. Each prints one line of JSON and runs under --python, as resnets.py
beside this script does for PyTorch's ResNets. For each model,
ours (`cargo lab bench --json`) is measured before and after the others. The tables replace the text
between two comments in book/src/evidence/performance.md and name each configuration that failed or
took longer than --timeout. Measure on an idle machine.
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
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "book/src/evidence/performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
TORCH, JAX = "opacus_bench.py", "jax_bench.py"
RESNETS = str(pathlib.Path(__file__).resolve().with_name("resnets.py"))
# Our name of a model, the batch size, and the name in the other scripts.
CASES = [
    ("papernot_cnn", 256, "mnist_cnn"),
    ("papernot_cnn", 1024, "mnist_cnn"),
    ("simple_vgg", 256, "cifar_vgg"),
    ("wide_resnet_16_4", 64, "wrn16_4"),
    ("bilstm", 256, "bilstm"),
    ("resnet18", 64, "resnet18"),
    ("resnet50", 16, "resnet50"),
]
# The ratios of times and, for each model, their upper bounds (None: reported only).
RATIOS = (
    "private / best other private",
    "private / PyTorch's non-private",
    "private / non-private",
    "non-private / PyTorch's",
)
BOUNDS = {
    "papernot_cnn": (0.40, 0.60, 1.05, None),
    "simple_vgg": (0.40, 0.70, 1.05, None),
    "wide_resnet_16_4": (0.40, 0.90, 1.05, None),
    "bilstm": (0.40, 0.90, 1.10, None),
    "resnet18": (0.40, 0.90, 1.05, None),
    "resnet50": (0.40, 1.00, 1.05, None),
}
# Upper bound of the peak memory of our private step, as a multiple of our non-private one. It must
# also be below that of every private step of the others.
MEMORY_BOUND = 1.3


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
        "--only", default="", help="our names of models, or model:batch, separated by commas"
    )
    parser.add_argument(
        "--steps", type=int, default=10, help="measured steps of each configuration"
    )
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one configuration")
    parser.add_argument(
        "--keep", type=pathlib.Path, help="append each result to this file, one JSON line each"
    )
    parser.add_argument(
        "--print", action="store_true", help="print the tables and leave the page unchanged"
    )
    args = parser.parse_args()
    wanted = [word for word in args.only.split(",") if word]
    args.cases = [
        case
        for case in CASES
        if not wanted or case[0] in wanted or f"{case[0]}:{case[1]}" in wanted
    ]
    known = {name for name, batch, _ in CASES for name in (name, f"{name}:{batch}")}
    if unknown := [word for word in wanted if word not in known]:
        parser.error(f"--only {','.join(unknown)}: choose from {', '.join(sorted(known))}")
    if args.steps < 1 or args.warmup < 0 or args.threads < 1:
        parser.error("--steps and --threads are 1 or more, --warmup is 0 or more")
    return args


def configurations(theirs):
    """The configurations that suit a model, as (script, arguments)."""
    plain, image = ["--mode", "nonprivate"], theirs != "bilstm"
    if theirs.startswith("resnet"):
        yield RESNETS, plain
        yield RESNETS, plain + ["--channels-last"]
        yield RESNETS, ["--impl", "torchfunc", "--chunk", "16"]
        return
    yield TORCH, plain
    yield TORCH, plain + (["--channels-last"] if image else ["--native-lstm"])
    # Opacus would use a slow fallback for weight-standardised convolutions.
    sampler = ["--ws-sampler"] if theirs == "wrn16_4" else []
    yield TORCH, ["--impl", "hooks", *sampler]
    yield TORCH, ["--impl", "ghost", *sampler]
    yield TORCH, ["--impl", "torchfunc"]
    yield TORCH, ["--impl", "torchfunc", "--chunk", "16"]
    yield JAX, plain
    yield JAX, ["--impl", "vmap"]
    yield JAX, ["--impl", "jax_privacy"]
    yield JAX, ["--impl", "map", "--microbatch", "16"]
    if image:
        # Forms that XLA's CPU compiler handles well.
        yield JAX, plain + ["--pool", "reshape", "--conv", "im2col"]
        yield JAX, ["--impl", "map", "--microbatch", "16", "--pool", "reshape", "--conv", "im2col"]


def call(command, timeout, **where):
    """The JSON in the last line of a command's output, or {"error": reason}."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **where)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {timeout:.0f} s"}
    except OSError as error:
        return {"error": str(error)}
    if answer.returncode != 0:
        said = [line for line in answer.stderr.splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("error: ")] or said[-1:]
        return {"error": errors[0][:160] if errors else f"exit status {answer.returncode}"}
    try:
        return json.loads(answer.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": "printed no JSON"}


def run_rival(args, script, more, theirs, batch):
    if not (args.peers / script).exists():
        return {"error": f"{script} is not in {args.peers}"}
    command = [
        args.python,
        script,
        "--model",
        theirs,
        "--batch",
        str(batch),
        *more,
        "--threads",
        str(args.threads),
        "--steps",
        str(args.steps),
        "--warmup",
        str(args.warmup),
    ]
    line = call(
        command, args.timeout, cwd=args.peers, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    )
    # The name comes from the arguments, so that failures have one too.
    words = [
        word.removeprefix("--") for word in more if word not in ("--mode", "--impl", "nonprivate")
    ]
    library = (
        "PyTorch"
        if script == RESNETS or script == TORCH and (more[1] == "nonprivate" or "torchfunc" in more)
        else "Opacus" if script == TORCH else "jax_privacy" if "jax_privacy" in more else "JAX"
    )
    line.update(
        private=more[1] != "nonprivate",
        name=" ".join([library, *(w for w in words if w != "jax_privacy")]),
    )
    return line


def run_ours(args, name, batch):
    line = call(
        [
            "cargo",
            "lab",
            "bench",
            "--json",
            "--models",
            name,
            "--batch",
            str(batch),
            "--threads",
            str(args.threads),
            "--steps",
            str(args.steps),
            "--warmup",
            str(args.warmup),
        ],
        2 * args.timeout,
        cwd=ROOT,
    )
    return line[0] if isinstance(line, list) else line


def measure(args, name, batch, theirs):
    """Measures ours, the others, and ours again."""
    ours, rivals = [run_ours(args, name, batch)], []
    note(args, name, batch, "ours", ours[0])
    for script, more in configurations(theirs):
        rivals.append(run_rival(args, script, more, theirs, batch))
        note(args, name, batch, rivals[-1]["name"], rivals[-1])
    ours.append(run_ours(args, name, batch))
    note(args, name, batch, "ours again", ours[1])
    return {"model": name, "batch": batch, "ours": ours, "rivals": rivals}


def note(args, name, batch, who, line):
    said = line.get("error") or " ".join(
        f"{key} {1e3 * line[key]:.2f} ms"
        for key in ("nonprivate_s", "private_s", "median_s")
        if key in line
    )
    print(f"{name} {batch}: {who}: {said}", file=sys.stderr, flush=True)
    if args.keep:
        with args.keep.open("a") as file:
            file.write(json.dumps({"case": f"{name}:{batch}", "who": who, **line}) + "\n")


def joined(lines):
    """Joins our runs before and after: the mean of the two medians, the larger peak."""
    good = [line for line in lines if "error" not in line]
    if not good:
        return None
    both = {
        key: statistics.mean(line[key] for line in good) for key in ("nonprivate_s", "private_s")
    }
    for key in ("peak_mb", "nonprivate_peak_mb"):
        both[key] = max((line[key] for line in good if line[key] is not None), default=None)
    both["drift"] = (
        max(line["private_s"] for line in good) / min(line["private_s"] for line in good) - 1
    )
    return {**good[0], **both}


def fastest(rivals, private, only=""):
    good = [
        line
        for line in rivals
        if "error" not in line and line["private"] == private and line["name"].startswith(only)
    ]
    return min(good, key=lambda line: line["median_s"], default=None)


def memory_of(line, ours):
    """The peak minus the memory after the imports and minus data and parameters, like ours."""
    return max(
        line["peak_rss_mb"] - line["rss_before_model_mb"] - (ours["held_mb"] if ours else 0), 0
    )


def ratios(ours, torch, rival):
    """The ratios in the order of RATIOS; None where a measurement is missing."""
    if ours is None:
        return [None] * len(RATIOS)
    return [
        ours["private_s"] / rival["median_s"] if rival else None,
        ours["private_s"] / torch["median_s"] if torch else None,
        ours["private_s"] / ours["nonprivate_s"],
        ours["nonprivate_s"] / torch["median_s"] if torch else None,
    ]


def milliseconds(value):
    return "–" if value is None else f"{1e3 * value:.3g}" if value < 1 else f"{1e3 * value:.0f}"


def within(value, bound):
    if value is None:
        return "–"
    if bound is None:
        return f"{value:.2f}"
    # A third digit where an excess would not show.
    digits = 3 if value > bound and f"{value:.2f}" == f"{bound:.2f}" else 2
    said = f"{value:.{digits}f} (≤ {bound:.2f})"
    return said if value <= bound else f"**{said}**"


def memory_within(ours, small):
    """Our private peak: over our non-private one, and the smallest private one of the others."""
    if ours is None or ours["peak_mb"] is None:
        return ["–", "–"]
    plain = ours["nonprivate_peak_mb"]
    own = within(ours["peak_mb"] / plain, MEMORY_BOUND) if plain else "–"
    if small is None:
        return [own, "–"]
    said = f"{ours['peak_mb']:.0f}, {memory_of(small, ours):.0f} ({small['name']})"
    return [own, said if ours["peak_mb"] < memory_of(small, ours) else f"**{said}**"]


def row(cells):
    return f"| {' | '.join(cells)} |"


def heading(cells):
    return [row(cells), row(["---"] * len(cells))]


def tables(measured):
    times = heading(
        [
            "model, batch",
            "ours, non-private",
            "ours, private",
            "PyTorch, non-private",
            "best other, private",
        ]
    )
    share = heading(["model, batch", *RATIOS])
    memory = heading(
        [
            "model, batch",
            "ours, non-private",
            "ours, private",
            "PyTorch, non-private",
            "best other, private",
            "private / non-private",
            "private, smallest other private",
        ]
    )
    everyone = heading(
        ["model, batch", "configuration", "median", "min", "CPU", "MiB", "final loss"]
    )
    failed = []
    for case in measured:
        name, ours = f"{case['model']}, {case['batch']}", joined(case["ours"])
        torch = fastest(case["rivals"], False, "PyTorch")
        rival = fastest(case["rivals"], True)
        whose = lambda line: (
            "–" if line is None else f"{milliseconds(line['median_s'])} ({line['name']})"
        )  # noqa: E731
        mine = (
            ["–", "–"]
            if ours is None
            else [milliseconds(ours["nonprivate_s"]), milliseconds(ours["private_s"])]
        )
        times.append(row([name, *mine, whose(torch), whose(rival)]))
        share.append(row([name, *map(within, ratios(ours, torch, rival), BOUNDS[case["model"]])]))
        mib = lambda value: "–" if value is None else f"{value:.0f}"  # noqa: E731
        theirs = [line for line in case["rivals"] if "error" not in line]
        small = min(
            (line for line in theirs if line["private"]),
            key=lambda line: memory_of(line, ours),
            default=None,
        )
        memory.append(
            row(
                [
                    name,
                    mib(ours and ours["nonprivate_peak_mb"]),
                    mib(ours and ours["peak_mb"]),
                    mib(torch and memory_of(torch, ours)),
                    mib(rival and memory_of(rival, ours)),
                    *memory_within(ours, small),
                ]
            )
        )
        for line in sorted(theirs, key=lambda line: (line["private"], line["median_s"])):
            who = f"{line['name']}, {'private' if line['private'] else 'non-private'}"
            figures = [milliseconds(line[key]) for key in ("median_s", "min_s", "cpu_s")]
            everyone.append(
                row([name, who, *figures, mib(memory_of(line, ours)), f"{line['loss_end']:.4f}"])
            )
        failed += [
            f"{name}: {line['name']} ({line['error']})"
            for line in case["rivals"]
            if "error" in line
        ]
        failed += [f"{name}: ours ({line['error']})" for line in case["ours"] if "error" in line]
        if ours and ours["drift"] > 0.1:
            failed.append(
                f"{name}: ours differed by {100 * ours['drift']:.0f} % before and after the others"
            )
    text = [
        "Milliseconds per training step:",
        "",
        *times,
        "",
        "Ratios with their upper bounds (bold: above the bound):",
        "",
        *share,
        "",
        "Peak memory of the steps without data and parameters, MiB (bold: above the bound):",
        "",
        *memory,
        "",
        "All configurations of the others, milliseconds per step (CPU: sum over threads):",
        "",
        *everyone,
    ]
    if failed:
        text += ["", "Not measured, or not stable:", "", *(f"- {line}" for line in failed)]
    return text


def cpu():
    try:
        return re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        return platform.processor() or "unknown processor"


def about(args, measured, load):
    versions = {}
    for line in (line for case in measured for line in case["rivals"]):
        versions.update(line.get("versions", {}))
    rust = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[1]
    names = ", ".join(f"{name} {version}" for name, version in versions.items())
    machine = (
        f"{cpu()}, {args.threads} threads, {datetime.date.today():%d %B %Y}; "
        f"rustc {rust}{', ' + names if names else ''}."
    )
    text = [
        textwrap.fill(machine, 100),
        f"Medians of {args.steps} steps after {args.warmup} warm-up steps.",
        "",
    ]
    if load > 1.5:
        text += [
            f"The machine was busy at the start (load {load:.1f}): the times may be too large.",
            "",
        ]
    return text


def main():
    args = arguments()
    page = PAGE.read_text()
    if BEGIN not in page or END not in page:
        sys.exit(f"{PAGE} has no place for the tables: it needs the comments {BEGIN} and {END}")
    load = os.getloadavg()[0]
    # Compile first, outside any time limit.
    subprocess.run(
        ["cargo", "build", "--quiet", "-p", "epsilab-kernel", "--bin", "epsilab"],
        cwd=ROOT,
        check=True,
    )
    measured = []
    try:
        for case in args.cases:
            measured.append(measure(args, *case))
    except KeyboardInterrupt:
        print("interrupted: the page is unchanged", file=sys.stderr)
        args.print = True
    text = [BEGIN, "", *about(args, measured, load), *tables(measured), "", END]
    if not args.print:
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(head + "\n".join(text) + rest.partition(END)[2])
    print("\n".join(text))


if __name__ == "__main__":
    main()
