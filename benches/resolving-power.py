#!/usr/bin/env python3
"""Resolving power: the smallest differences that three designs of a measurement find in the same time, in one session.

- new: hoptax with `time`: many short rounds. Shortened copies of a run show what it knew after fewer minutes.
- old: hoptax with five rounds of long trials, and with idle CPUs that sleep.
- blocked: the usual way without hoptax. It measures one contender after the other, three times each, with another load
  generator, and computes the difference of the means with Welch's interval.

The subjects are gateways and hops with planted delays. For gateways, the designs are compared by the half-widths of taxes. For
hops, they are compared by the differences that they distinguish; two identical hops show false alarms. hoptax corrects for the
number of pairs of hops, and the blocked design does not. The order of measurements in a run is random.
"""

import json
import tempfile
import time
from itertools import combinations
from pathlib import Path
from statistics import stdev

import estimates
from common import Disturbance, Failed, client, cpu_clock, spread, table
from gateways import kept_up
from peers import OPEN, present, understood
from runs import (DIRECT, first_rounds, measure, numbers, options, progress, record, reported, rounds_within, trials)

DESIGNS, SUBJECTS = ("new", "old", "blocked"), ("gateways", "planted")
METRICS = {"added_p50": "added p50", "cpu_us_per_request": "CPU per request"}
BARE, TWIN = "bare", "bare-again"
OLD_ROUNDS = 5
# Share of an old trial that is warm-up. The old default was one second before four.
OLD_WARMUP = 0.2
# A run may take this many times its planned time, plus this many seconds for start and end.
PATIENCE, START_S = 1.5, 240


def label_of(planted):
    return f"plus-{planted:g}us" if planted else TWIN


def contenders(subject, arguments):
    """Entries of a plan's `gateways`, by label."""
    if subject == "gateways":
        return {name: name for name in arguments.gateways.split(",")}
    delays = {label_of(us): f", delay: {{ in: {us:g}us, how: spin }}" for us in arguments.planted}
    return {label: f"{{ name: hop-l7, label: {label}{delay} }}" for label, delay in
            {BARE: "", TWIN: "", **delays}.items()}


def plan(subject, arguments, seed, load, rest):
    gateways = "".join(f"  - {entry}\n" for entry in contenders(subject, arguments).values())
    return (f"name: {subject}\ngateways:\n{gateways}load:\n  - {{ loop: open, rate: {arguments.rate}/s, connections: "
            f"{arguments.connections}{load} }}\nseed: {seed}\n{rest}")


def new(subject, arguments, seed, below):
    """Runs the new design once, and yields its report after each of the requested times: (minutes, result)."""
    longest = max(arguments.minutes)
    # Never stop early, so that each run has all minutes.
    text = plan(subject, arguments, seed, "", f"time: {longest * 60:g}s\nprecision: 0.01%\n")
    directory = measure(text, below / "run", PATIENCE * longest * 60 + START_S)
    measured = trials(directory)
    for minutes in arguments.minutes:
        rounds = rounds_within(measured, minutes)
        if rounds < 2:
            progress(f"  only {rounds} rounds in {minutes:g} minutes: left out")
            continue
        yield minutes, {"rounds": rounds, "report": reported(first_rounds(directory, rounds, below / f"{minutes:g}"))}


def old(subject, arguments, seed, below):
    """Runs the old design for each of its times, and yields its reports."""
    in_round = len(contenders(subject, arguments)) + 2
    for minutes in arguments.old_minutes:
        each = minutes * 60 / (OLD_ROUNDS * in_round)
        text = plan(subject, arguments, seed, f", duration: {1000 * each * (1 - OLD_WARMUP):.0f}ms",
                    f"idle: sleep\ntrials: {OLD_ROUNDS}\nwarmup: {1000 * each * OLD_WARMUP:.0f}ms\n")
        directory = measure(text, below / f"{minutes:g}", PATIENCE * minutes * 60 + START_S)
        yield minutes, {"rounds": OLD_ROUNDS, "report": reported(directory)}


def repeat(tool, gateway, arguments):
    """One repeat with another load generator: its p50, and the gateway's CPU time per request, µs."""
    before = sum(map(cpu_clock, gateway.pids))
    command, environment = tool.open(gateway.url, arguments.rate, arguments.connections, f"{arguments.repeat:g}")
    ran = client(command, environment, arguments.repeat + 30, every=1, cpu=None)
    times = understood(tool.times, ran)
    used = sum(map(cpu_clock, gateway.pids)) - before
    return {"p50": times["p50"], "rate": times["rate"], "cpu_us": 1e6 * used / times["count"] if gateway.pids else None}


def measured_blocked(subject, arguments):
    """Contenders of the blocked design: entries of a plan's `gateways`, by label; None for direct."""
    entries = contenders(subject, arguments)
    if subject == "gateways":
        # Hops are not products, so nobody would measure them in this way.
        entries = {DIRECT: None} | {label: entry for label, entry in entries.items() if not label.startswith("hop-")}
    return entries


def blocked(subject, arguments, _, below, order):
    """Measures one contender after the other, and yields the repeats of all."""
    entries, repeats = measured_blocked(subject, arguments), {}
    for label in order(entries):
        progress(f"  {arguments.tool}: {label}")
        with kept_up(entries[label], below / label) as gateway:
            repeats[label] = [repeat(arguments.generator, gateway, arguments) for _ in range(arguments.repeats)]
    yield len(entries) * arguments.repeats * arguments.repeat / 60, {
        "repeats": repeats, "order": list(entries), "tool": arguments.tool}


def expected_minutes(arguments):
    """Time that one run of all designs takes, with about a quarter of a minute for each start."""
    of = {"new": lambda _: max(arguments.minutes) + 0.25, "old": lambda _: sum(arguments.old_minutes) + 0.25,
          "blocked": lambda subject: len(measured_blocked(subject, arguments))
          * (arguments.repeats * arguments.repeat / 60 + 0.1)}
    return sum(of[design](subject) for design in arguments.designs for subject in arguments.subjects)


def measured_runs(arguments, results, keep):
    """Measures all runs, and keeps each result in its own file. Reports failed measurements and continues."""
    number = 1 + max((int(path.name.split("-")[0]) for path in keep.glob("[0-9]*.json")), default=0)
    designs = {"new": new, "old": old, "blocked": lambda *parts: blocked(*parts, results.shuffled)}
    for run in range(number, number + arguments.runs):
        for design, subject in results.shuffled([(a, b) for a in arguments.designs for b in arguments.subjects]):
            progress(f"run {run}: {design}, {subject}")
            disturbance, begun = Disturbance(), time.monotonic()
            try:
                with tempfile.TemporaryDirectory(prefix="hoptax-resolving-") as below:
                    seed = results.order.randrange(2**32)
                    for minutes, result in designs[design](subject, arguments, seed, Path(below)):
                        kept = {"run": run, "design": design, "subject": subject, "minutes": round(minutes, 3),
                                "took_s": round(time.monotonic() - begun, 1), "steal": disturbance.shares(0)["steal"],
                                **result}
                        path = keep / f"{run:03}-{design}-{subject}-{minutes:g}.json"
                        path.write_text(json.dumps(kept) + "\n")
            except (Failed, OSError) as failure:
                results.say(f"run {run}: {design}, {subject} failed: {failure}")


def in_run(tax):
    """A tax with the interval that the rounds of its run give. The blocked design has only this interval, so all designs
    use it."""
    half = tax.get("half_width_in_run")
    return tax if half is None else estimates.around(tax["estimate"], half)


def taxes(kept):
    """Taxes of a result, {(gateway, metric): interval}."""
    if "report" in kept:
        return {(case["gateway"], metric): in_run(case["tax"][metric]) for case in kept["report"]["cases"] if case["tax"]
                for metric in METRICS if case["tax"].get(metric) and case["tax"][metric]["high"] is not None}
    repeats, found = kept["repeats"], {}
    for label, own in repeats.items():
        if DIRECT in repeats and label != DIRECT:
            found[label, "added_p50"] = estimates.difference(*([one["p50"] for one in of] for of in (repeats[DIRECT], own)))
        if own[0]["cpu_us"] is not None:
            found[label, "cpu_us_per_request"] = estimates.of_mean([one["cpu_us"] for one in own])
    return found


def differences(kept):
    """Differences of every two contenders, second − first: {(first, second, metric): interval with `distinguished`}."""
    if "report" in kept:
        if "pairs" not in kept["report"]:
            raise SystemExit("resolving-power: this hoptax does not compare gateways with each other. Build a newer one")
        return {(pair["first"], pair["second"], pair["metric"]):
                {**pair["difference"], "distinguished": pair["verdict"] == "distinguishable"}
                for pair in kept["report"]["pairs"] if pair["metric"] in METRICS}
    found = {}
    # Use the order of the plan, as reports do, and not the order of measurement.
    labels = [label for label in kept["order"] if label != DIRECT]
    for first, second in combinations(labels, 2):
        for metric, figure in (("added_p50", "p50"), ("cpu_us_per_request", "cpu_us")):
            one = estimates.difference(*([turn[figure] for turn in kept["repeats"][label]] for label in (first, second)))
            found[first, second, metric] = {**one, "distinguished": one["low"] > 0 or one["high"] < 0}
    return found


def columns(results):
    """The designs with their minutes, in order."""
    return sorted({(one["design"], one["minutes"]) for one in results}, key=lambda one: (DESIGNS.index(one[0]), one[1]))


def by_column(results, read):
    """{(design, minutes): {run: figures}}."""
    found = {}
    for one in results:
        found.setdefault((one["design"], one["minutes"]), {})[one["run"]] = read(one)
    return found


def named(column):
    return f"{column[0]} {column[1]:g} min"


def ratios(found, column, base, key):
    """Half-widths of a design ÷ half-widths of another design in the same run."""
    halves = [[estimates.half_width(found[one][run][key]) for one in (column, base)]
              for run in found[column].keys() & found[base].keys()
              if key in found[column][run] and key in found[base][run]]
    return [other / own for other, own in halves if own]


def half_width_tables(results, say, add):
    """Half-widths by design, ratios to the new design, and the scatter of estimates between runs."""
    found, order = by_column(results, taxes), columns(results)
    keys = sorted({key for runs in found.values() for figures in runs.values() for key in figures})
    pairs = []
    for column in order:
        # The new design may have had less time than the other one, but never more.
        bases = [base for base in order if base[0] == "new" and base[1] <= column[1] + 0.01]
        if column[0] != "new" and bases:
            pairs.append((column, bases[-1]))
    widths = [["gateway", "metric", *(named(column) for column in order)]]
    scatter = [list(widths[0])]
    against = [["gateway", "metric", *(f"{named(column)} ÷ {named(base)}" for column, base in pairs)]]
    for gateway, metric in keys:
        own = {column: [figures[gateway, metric] for figures in found[column].values() if (gateway, metric) in figures]
               for column in order}
        halves = {column: [estimates.half_width(one) for one in figures] for column, figures in own.items()}
        widths.append([gateway, METRICS[metric], *(spread(halves[column], 1) for column in order)])
        against.append([gateway, METRICS[metric],
                        *(spread(ratios(found, *pair, (gateway, metric)), 1) for pair in pairs)])
        scatter.append([gateway, METRICS[metric],
                        *(f"{stdev([one['estimate'] for one in own[column]]):.1f}" if len(own[column]) > 2 else "-"
                          for column in order)])
        add({"what": "half-width", "gateway": gateway, "metric": metric,
             "half_us": {named(column): halves[column] for column in order},
             "estimate_us": {named(column): [one["estimate"] for one in own[column]] for column in order}})
    say(f"\nHalf-width of the 95 % interval, µs\n{table(widths)}")
    if pairs:
        say(f"\nHow many times as wide as the new design's, in the same run\n{table(against)}")
    say(f"\nScatter of the estimates from run to run (standard deviation), µs\n{table(scatter)}")


def planted_of(label):
    """The planted difference of a hop from the bare hop, µs."""
    return 0.0 if label == TWIN else float(label.removeprefix("plus-").removesuffix("us"))


def distinguished(seen, planted):
    """How often two contenders were distinguished. If a difference is planted, its direction must be right."""
    return sum(one["distinguished"] and (not planted or one["estimate"] > 0) for one in seen)


def distinguished_cell(seen, planted):
    """One cell: how often two contenders were distinguished, and the 95 % interval of its probability."""
    if not seen:
        return "-"
    apart = distinguished(seen, planted)
    low, high = estimates.share_interval(apart, len(seen))
    return f"{apart} of {len(seen)} ({100 * low:.0f}–{100 * high:.0f} %)"


def pairs_table(results, say, add):
    """How often two gateways were distinguished."""
    found, order = by_column(results, differences), columns(results)
    rows = [["gateways", "metric", *map(named, order)]]
    for key in sorted({key for runs in found.values() for figures in runs.values() for key in figures}):
        cells = []
        for column in order:
            seen = [figures[key] for figures in found[column].values() if key in figures]
            cells.append(distinguished_cell(seen, None))
            add({"what": "pair", "of": key, "design": named(column), "differences": seen})
        rows.append([f"{key[0]}, {key[1]}", METRICS[key[2]], *cells])
    say(f"\nDistinguished\n{table(rows)}")


def planted_table(results, say, add):
    """How often planted differences were distinguished, and how often the interval contains them."""
    found, order = by_column(results, differences), columns(results)
    labels = {second for runs in found.values() for figures in runs.values() for first, second, _ in figures if first == BARE}
    for metric, name in METRICS.items():
        apart = [["planted", *map(named, order)]]
        held = [list(apart[0])]
        for label in sorted(labels, key=planted_of):
            planted, name_of = planted_of(label), f"{planted_of(label):g} µs" if label != TWIN else "nothing: false alarms"
            apart.append([name_of])
            held.append([name_of])
            for column in order:
                seen = [figures[BARE, label, metric] for figures in found[column].values() if (BARE, label, metric) in figures]
                holds = sum(one["low"] is not None and one["low"] <= planted <= one["high"] for one in seen)
                apart[-1].append(distinguished_cell(seen, planted))
                held[-1].append(f"{holds} of {len(seen)}; {spread([one['estimate'] for one in seen], 1)}" if seen else "-")
                add({"what": "planted", "planted_us": planted, "metric": metric, "design": named(column),
                     "distinguished": distinguished(seen, planted), "holds": holds, "differences": seen})
        say(f"\n{name}: distinguished from the bare hop (95 % interval of the probability)\n{table(apart)}")
        say(f"\n{name}: intervals that hold the planted difference; estimates, µs\n{table(held)}")


def report(directory, results):
    """Prints the tables of the results in a directory."""
    kept = [json.loads(path.read_text()) for path in sorted(directory.glob("[0-9]*.json"))]
    if not kept:
        raise SystemExit(f"resolving-power: {directory} contains no results (NUMBER-DESIGN-SUBJECT-MINUTES.json)")
    results.say(f"\n{len({one['run'] for one in kept})} runs; steal {spread([one['steal'] for one in kept], 1)} %")
    for subject, show in (("gateways", half_width_tables), ("gateways", pairs_table), ("planted", planted_table)):
        if of := [one for one in kept if one["subject"] == subject]:
            show(of, results.say, results.add)


def chosen(text, known, option):
    """The words of a list separated by commas. Exits if a word is unknown."""
    words = text.split(",")
    if unknown := set(words) - set(known):
        raise SystemExit(f"{option}: unknown {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return words


def parsed():
    parser = options(__doc__, runs=10)
    parser.add_argument("--minutes", type=numbers, default="1,2,3,5",
                        help="minutes after which the new design is read; it runs for the longest (default %(default)s)")
    parser.add_argument("--old-minutes", type=numbers, default="3", help="minutes of the old design, each in a run of its "
                        "own (default %(default)s)")
    parser.add_argument("--repeat", type=float, default=30, help="duration of a repeat in the blocked design, s "
                        "(default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="repeats of each contender (default %(default)s)")
    parser.add_argument("--tool", default="fortio", help="load generator of the blocked design (default %(default)s)")
    parser.add_argument("--designs", default=",".join(DESIGNS), help="default %(default)s")
    parser.add_argument("--subjects", default=",".join(SUBJECTS), help="default %(default)s")
    parser.add_argument("--gateways", default="hop-l7,nginx,haproxy,envoy", help="default %(default)s")
    parser.add_argument("--planted", type=numbers, default="5,10,20,50", help="planted delays, µs (default %(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="default %(default)s")
    arguments = parser.parse_args()
    arguments.designs = chosen(arguments.designs, DESIGNS, "--designs")
    arguments.subjects = chosen(arguments.subjects, SUBJECTS, "--subjects")
    arguments.minutes, arguments.old_minutes = sorted(arguments.minutes), sorted(arguments.old_minutes)
    return arguments


def main():
    arguments = parsed()
    tools = [tool for tool in OPEN if tool.name == arguments.tool and tool.path]
    results = record("Resolving power: half-widths and planted differences", arguments, tools)
    if arguments.only_report:
        return report(arguments.only_report, results)
    found = present(OPEN, arguments.tool, results.say) if "blocked" in arguments.designs else []
    arguments.generator = next(iter(found), None)
    if not found:
        arguments.designs = [design for design in arguments.designs if design != "blocked"]
    if not arguments.designs:
        raise SystemExit("resolving-power: no design is left to measure")
    with tempfile.TemporaryDirectory(prefix="hoptax-resolving-") as scratch:
        keep = arguments.keep or Path(scratch)
        keep.mkdir(parents=True, exist_ok=True)
        progress(f"{arguments.runs} runs of about {expected_minutes(arguments):.0f} minutes")
        measured_runs(arguments, results, keep)
        report(keep, results)


if __name__ == "__main__":
    main()
