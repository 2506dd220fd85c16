#!/usr/bin/env python3
"""Writes the pages of the tutorial from the saved notebooks 01 and 02.

    book/tutorial.py            writes the pages and their pictures into book/src/tutorial
    book/tutorial.py --check    fails if they are out of date

The pages have the text, the code and the saved outputs of a notebook, without its exercises.
Run it after `.ci/notebooks save`.
"""
import base64
import json
import re
import struct
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "book/src/tutorial"
NOTEBOOKS = ["01_first_private_model", "02_what_does_epsilon_mean"]
MATH = {
    r"\varepsilon": "ε",
    r"\delta": "δ",
    r"\sigma": "σ",
    r"\sqrt{k}": "√k",
    r"10^{-5}": "1e-5",
}
# Numbers in a picture are in the text below it too; tables of more rows than this are cut.
ROWS = 14


def joined(text):
    return text if isinstance(text, str) else "".join(text)


def plain_math(text):
    """Returns a text with the formulas of these notebooks in plain characters."""

    def formula(match):
        plain = match[1]
        for tex, character in MATH.items():
            plain = plain.replace(tex, character)
        if re.search(r"[\\{}^]", plain):
            sys.exit(f"book/tutorial.py: MATH has nothing for {match[0]}")
        return plain if len(plain) > 1 and not plain.isalnum() or plain in "εδσ" else f"*{plain}*"

    return re.sub(r"\$([^$\n]+)\$", formula, text)


def without_exercises(text):
    """Returns a Markdown cell without its exercises and what is said about them."""
    parts = re.split(r"(?m)^(?=## )", text)
    text = "".join(part for part in parts if not part.startswith("## Exercises"))
    kept = []
    for paragraph in re.split(r"\n{2,}", text):
        if not re.match(r"\*\*(Exercise )?\d+\.\*\*|\*\*Exercise \d", paragraph):
            if "f64::NAN" not in paragraph:
                kept.append(paragraph)
    return "\n\n".join(kept).strip()


def markdown(text):
    text = plain_math(without_exercises(joined(text)))
    return text.replace("](../book/src/", "](../")


def table(lines):
    """Returns a table of a plain text, or None: its rule shows where the columns are."""
    rule = next((i for i, line in enumerate(lines) if re.fullmatch(r"─+(  ─+)+", line)), None)
    if rule is None:
        return None
    starts = [column.start() for column in re.finditer("─+", lines[rule])]
    ends = starts[1:] + [None]

    def cells(line):
        found = (line[start:end].strip() for start, end in zip(starts, ends))
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in found) + " |"

    rows = [line for line in lines[rule + 1 :] if line.strip()]
    within = [row for row in rows if re.search(r"\S {2,}\S", row)]
    after = rows[len(within) :] if rows[: len(within)] == within else []
    within = within if after or within == rows else rows
    cut = ["| " + "| ".join(["… "] * len(starts)) + "|"] if len(within) > ROWS else []
    head = [cells(lines[rule - 1]), "|" + "---|" * len(starts)]
    return lines[: rule - 1], head + [cells(row) for row in within[:ROWS]] + cut, after


def quoted(lines):
    """Returns prose as a quotation."""
    paragraphs = []
    for line in lines:
        words = re.sub(r"([*_<>\[\]])", r"\\\1", line)
        paragraphs.append(textwrap.fill(words, 98, break_long_words=False, break_on_hyphens=False))
    text = "\n\n".join(paragraphs)
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def shown(text):
    """Returns a plain output as Markdown: a table, prose, or the text as it is."""
    lines = [line.rstrip() for line in text.rstrip("\n").split("\n")]
    found = table(lines)
    if found:
        above, rows, below = found
        blocks = [quoted(above) if above else "", "\n".join(rows), quoted(below) if below else ""]
        return "\n\n".join(block for block in blocks if block)
    if any(len(line) > 110 for line in lines):
        return quoted(lines)
    return "```text\n" + "\n".join(lines) + "\n```"


def output(data, metadata, name, pictures):
    """Returns an output as Markdown. A picture goes into `pictures`, by its name."""
    text = joined(data.get("text/plain", ""))
    if "image/png" not in data:
        return shown(text)
    png = base64.b64decode(joined(data["image/png"]))
    pictures[f"{name}.png"] = png
    size = metadata.get("image/png") or {}
    width = size.get("width") or struct.unpack(">I", png[16:20])[0]
    title = text.split("\n")[0].replace('"', "&quot;").replace("<", "&lt;")
    return f'<img src="{name}.png" width="{width}" alt="{title}">'


def page(name):
    """Returns the page of a notebook and its pictures by name."""
    notebook = json.loads((ROOT / f"notebooks/{name}.ipynb").read_text(encoding="utf-8"))
    blocks, pictures = [], {}
    for number, cell in enumerate(notebook["cells"]):
        source = joined(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            blocks.append(markdown(source))
            continue
        if "lab::exercise" in source:
            continue
        blocks.append(f"```rust\n{source}\n```")
        printed = ""
        for at, result in enumerate(cell["outputs"]):
            if result["output_type"] == "stream":
                printed += joined(result["text"])
            elif result["output_type"] in ("display_data", "execute_result"):
                picture = f"{name[:2]}-{number:02}" + (f"-{at}" if at else "")
                data, metadata = result["data"], result.get("metadata", {})
                blocks.append(output(data, metadata, picture, pictures))
        if printed:
            blocks.append(shown(printed))
    about = (
        f"<!-- Written by book/tutorial.py from notebooks/{name}.ipynb. -->\n\n"
        f"This page is notebook {name[:2]} of the course without its exercises. To run it:\n\n"
        f"```console\n$ cargo lab run notebooks/{name}.ipynb\n```"
    )
    title, rest = blocks[0].split("\n", 1)
    blocks[0] = f"{title}\n\n{about}\n{rest}"
    return "\n\n".join(block for block in blocks if block) + "\n", pictures


def main():
    files = {}
    for name in NOTEBOOKS:
        text, pictures = page(name)
        files[f"{name[3:]}.md"] = text.encode()
        files.update(pictures)
    old = {path.name for path in OUT.glob("*.png")} - files.keys()
    if "--check" in sys.argv[1:]:
        paths = [OUT / name for name in files]
        stale = [p.name for p in paths if not p.is_file() or p.read_bytes() != files[p.name]]
        if stale or old:
            sys.exit(f"out of date: {', '.join(sorted(old.union(stale)))}: run book/tutorial.py")
        return
    for name in old:
        (OUT / name).unlink()
    for name, content in files.items():
        (OUT / name).write_bytes(content)


if __name__ == "__main__":
    main()
