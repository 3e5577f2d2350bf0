#!/usr/bin/env python3
"""Generates docs/results.md, the page with the results of every kept run, from the records.

    scripts/results.py [--check] [--records DIR] [--page FILE]

It reads run directories through `hoptax report`, reports of runs whose directory was not kept (`records/**/*.md`), and the
tables of several runs that benches/variance.py writes (`records/**/*.txt`). `records/runs` is left out, because its
figures mean nothing. `--check` writes nothing, and fails if the page is not up to date. $HOPTAX names the program, by
default target/debug/hoptax.
"""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TITLE = re.compile(r"^#{1,2} (\S+): what does each hop cost\?$", re.M)
MEASURED = re.compile(r"^(?P<machine>[^;\n]+); hoptax (?P<hoptax>[\d.]+); started (?P<date>\d{4}-\d\d-\d\d)T", re.M)
# The heading above the table of a load. The tables of all loads except the first are folded.
LOAD = re.compile(r"^(?:#{2,3} |<details><summary>)((?:open|closed) loop[^<\n]*?)(?:</summary>)?$", re.M | re.I)
# Of streams, the answer, or else the sentence about a gateway, names what the gateways are compared in.
MEASURE = re.compile(r"^(?:\*\*|- ).*?(?:the (first content)|(?:per|to each|noise to) (?:message|event|token)s?)\b", re.M)
# The heading above the times of messages of a load. Its rows have these names; the values are for headings here.
TIMES = re.compile(r"^\*\*Times of \w+: (.*)\*\*$", re.M)
NAMES = {"first content": " to first content", "response time": " of messages", "age": " of ages"}
# A figure with its unit and its interval.
FIGURE = re.compile(r"^[+−]?[\d.,]+ ?(?:[kM]|µs|ms|s|%)? \([−\d.,]+(?:–| to )[−\d.,]+\)")
SEVERAL = "# Where variance comes from, and what intervals cover"
SEVERAL_LOAD = "open loop, 1,000/s, constant, 32 connections"
INTRODUCTION = """# Results

What gateways cost in the runs that [the records](../records/README.md) keep.

**Figures hold for the machine and the day that a section names.** Yours gives others: [measure yours](quick-start.md).
Compare gateways of one run, never figures of different runs. In parentheses: 95 % intervals. `~`: not distinguishable from
that machine's [noise](concepts/noise-floor.md). Settings are [equalised](../BIAS.md).
"""


@dataclass
class Run:
    """A kept run: `tables` has the rows of each load, by the names of the report's columns; that of the answer is first.
    `measure` follows the names of added times; empty if they are those of whole responses."""

    plan: str
    date: str
    machine: str
    hoptax: str
    source: Path
    verdict: str = ""
    measure: str = ""
    versions: dict = field(default_factory=dict)
    tables: dict = field(default_factory=dict)


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split(" | " if " | " in line else "|")]


def rows_below(text):
    """The rows of the first table of a text, without the rows of quiet windows and of single targets."""
    lines = [line for line in text.split("\n\n", 2)[1].splitlines() if line.startswith("|")]
    heads = cells(lines[0])
    rows = [dict(zip(heads, cells(line))) for line in lines[2:]]
    return [row for row in rows if not row["gateway"].startswith("·")]


def read_report(text, source):
    """The run of a Markdown report; None if the text is not a report, or its figures must not be used."""
    title, measured = TITLE.search(text), MEASURED.search(text)
    if not title or not measured:
        return None
    run = Run(title[1], measured["date"], measured["machine"], measured["hoptax"], source)
    headings = list(LOAD.finditer(text))
    for heading in headings:
        load = heading[1].replace("&#x2f;", "/").replace("\\", "")
        if "gateway |" in text[heading.end():heading.end() + 80] and load.lower() not in map(str.lower, run.tables):
            run.tables[load] = rows_below(text[heading.end():])
    compare_as_answered(run, text, text[:headings[0].start()] if headings else "")
    about = text[measured.end():]
    run.versions = dict(re.findall(r"^- ([a-z][\w.-]*) (\d[\w.]*)(?::.*)?$", about, re.M))
    verdict = re.search(r"^\*\*((?:Believable|To be read|Void)[^*]*)\*\*", text, re.M)
    run.verdict = verdict[1].split(":")[0].rstrip(".") if verdict else ""
    return run if run.tables and run.verdict != "Void" else None


def compare_as_answered(run, text, answer):
    """Replaces the times of whole streams with those that the answer compares. The report has them in other tables."""
    named = MEASURE.search(answer)
    if not named:
        return
    kinds = [named[1]] if named[1] else ["response time", "age"]
    kind = next((kind for kind in kinds if f"| direct · {kind} |" in text), None)
    if not kind:
        sys.exit(f"{run.source} has no table of the times that its answer compares")
    run.measure = NAMES[kind]
    times = {(heading[1].replace("\\", "").lower(), row["gateway"]): row for heading in TIMES.finditer(text)
             for row in rows_below(text[heading.end():])}
    for load, rows in run.tables.items():
        for row in rows:
            found = times.get((load.lower(), f"{row['gateway']} · {kind}"), {})
            row.update({column: found.get(column) for column in ("p50", "added p50", "added p99")})


def report_of(directory):
    """The Markdown report of a run directory."""
    hoptax = os.environ.get("HOPTAX", ROOT / "target/debug/hoptax")
    return subprocess.run([hoptax, "report", directory, "--format", "markdown"], check=True, capture_output=True,
                          text=True).stdout


def runs(records):
    """All kept runs, the newest first."""
    found = []
    for path in sorted(records.rglob("*")):
        if records / "runs" in path.parents:
            continue
        if path.name == "run.json":
            found.append(read_report(report_of(path.parent), path.parent))
        elif path.suffix == ".md" and not (path.parent / "run.json").exists():
            found.append(read_report(path.read_text(), path))
    return sorted(filter(None, found), key=lambda run: (run.date, run.source.as_posix()), reverse=True)


def several(path):
    """{gateway: [mean, half-width]} of the added p50 and of CPU per request, in a file of benches/variance.py."""
    found, section = {"added p50": {}, "CPU per request": {}}, ""
    for line in path.read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            section = line
        columns = re.split(r"\s{2,}", line.strip())
        metric = section.split(",")[0]
        if metric in found and len(columns) > 4 and columns[1] == SEVERAL_LOAD:
            figure = columns[3] if "variance of" in section else columns[2].split(" ")[0]
            found[metric].setdefault(columns[0], []).append(float(figure.replace(",", "")))
    return found


def several_runs(records):
    """The file with the most gateways among those of benches/variance.py; None if there is none."""
    files = [path for path in sorted(records.rglob("*.txt")) if path.read_text().startswith(SEVERAL)]
    return max(files, key=lambda path: len(several(path)["added p50"]), default=None)


def link(path, page):
    return os.path.relpath(path, page.parent).replace(os.sep, "/")


def microseconds(mean, half):
    digits = 1 if half < 10 else 0
    return f"{mean:.3g} µs ({mean - half:.{digits}f}–{mean + half:.{digits}f})"


def place(source, machine):
    """The machine of a record. The name of its directory contains the date and the machine."""
    kernel = re.sub(r"(Linux [\d.]+)\S*", r"\1", machine)
    return f"Rented virtual machine: {kernel}" if re.search(r"\d{4}-\d\d-\d\d-vm\b", source.as_posix()) else kernel


def section_of_several(path, page):
    head = path.read_text().splitlines()
    date, kernel, machine = re.match(r"# (\d{4}-\d\d-\d\d)T\S+ · (Linux \S+) · ([^·]+?) ·", head[1]).groups()
    versions = re.search(r"^# (hoptax [\d.]+) ·", path.read_text(), re.M)[1]
    found = several(path)
    count = next(line.split()[0] for line in head if re.match(r"\d+ runs$", line))
    lines = [f"## {len(found['added p50'])} gateways, {count} runs, {date}", "",
             f"{SEVERAL_LOAD[0].upper()}{SEVERAL_LOAD[1:]}: mean of {count} runs, with the interval of one run.", "",
             "| gateway | added p50 | CPU per request |", "|---|---:|---:|"]
    for gateway, figures in sorted(found["added p50"].items(), key=lambda item: item[1][0]):
        lines.append(f"| {gateway} | {microseconds(*figures)} | {microseconds(*found['CPU per request'][gateway])} |")
    command = next(line for line in head if line.startswith("# command: ")).split(" · ")[0].removeprefix("# command: ")
    command = re.sub(r"--gateways \S+", "--gateways …", command)
    lines += ["", f"{place(path, f'{machine}, {kernel}')}; {versions}. [All loads, raw]({link(path, page)}), [about these "
              f"runs]({link(path.parent / 'README.md', page)}). Plan: `benches/{command}`."]
    return lines


def shown(cell):
    """A cell of a report; a dash instead of a figure without an interval."""
    figure = FIGURE.match(cell or "")
    if not figure:
        return "–"
    return f"~ {figure[0]}" if "not distinguishable" in cell else figure[0]


def table(run, load):
    """The lines of a load's table. Variants with features are in the whole report."""
    open_loop, is_answered = load.lower().startswith("open"), load == next(iter(run.tables))
    rows = [row for row in run.tables[load] if row["gateway"] != "direct" and "." not in row["gateway"]]
    columns = {f"{added}{run.measure}": added for added in ("added p50", "added p99")
               if (open_loop or is_answered) and any(shown(row.get(added)) != "–" for row in rows)}
    if not open_loop:
        columns |= {"requests/s": "requests/s", "of direct": "throughput against direct"}
    columns["CPU per request"] = "CPU/req"
    direct = next(row for row in run.tables[load] if row["gateway"] == "direct")
    direct = f"{shown(direct['p50'])} at the median{run.measure}" if open_loop else f"{shown(direct['requests/s'])} requests/s"
    lines = [f"{load[0].upper()}{load[1:]}. Direct: {direct}.", "", f"| gateway | {' | '.join(columns)} |",
             f"|---|{'---:|' * len(columns)}"]
    for row in rows:
        figures = [shown(row.get(name)) for name in columns.values()]
        lines.append(f"| {row['gateway']} {run.versions.get(row['gateway'], '')}".rstrip() + f" | {' | '.join(figures)} |")
    return lines + [""]


def section(run, earlier, page):
    lines = [f"## {run.plan}, {run.date}", ""]
    for load in run.tables:
        lines += table(run, load)
    plans = [run.source.parent / "plan.yaml", ROOT / "plans" / f"{run.plan}.yaml"]
    plan = next((f" Plan [{run.plan}]({link(path, page)})." for path in plans if path.is_file()), "")
    raw = f"[raw data]({link(run.source / 'trials.jsonl', page)})" if run.source.is_dir() else f"[whole report]({link(run.source, page)})"
    more = sum("." in row["gateway"] for row in next(iter(run.tables.values())))
    raw += f", also of {more} gateways with features" if more else ""
    lines.append(f"{place(run.source, run.machine)}; hoptax {run.hoptax}. {run.verdict}: {raw}.{plan}")
    if earlier:
        links = ", ".join(f"[{one.date}]({link(one.source, page)})" for one in earlier)
        lines.append(f"Earlier runs of this plan: {links}.")
    return lines


def page_of(records, page):
    """The text of the page. Of each plan, the newest run is shown, and earlier ones are linked."""
    lines = [INTRODUCTION.rstrip()]
    if path := several_runs(records):
        lines += ["", *section_of_several(path, page)]
    kept = runs(records)
    for run in kept:
        same = [one for one in kept if one.plan == run.plan]
        if run is same[0]:
            lines += ["", *section(run, same[1:], page)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    parser.add_argument("--records", type=Path, default=ROOT / "records", help="directory of the records (default records)")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/results.md", help="the page (default docs/results.md)")
    asked = parser.parse_args()
    text = page_of(asked.records.resolve(), asked.page.resolve())
    if not asked.check:
        asked.page.write_text(text)
    elif not asked.page.exists() or asked.page.read_text() != text:
        sys.exit(f"{asked.page} is not up to date. Run: make docs")


if __name__ == "__main__":
    main()
