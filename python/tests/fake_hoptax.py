#!/usr/bin/env python3
"""A program with hoptax's command line, for tests. It starts nothing.

`run` writes a report with a case for each gateway and load point of the plan, a copy of a case of a kept run. The file
that FAKE_HOPTAX names (JSON) changes it: `figures` by label and metric, or by label, loop and metric, `findings`, `status`, `log`, `not_installed`.
Each call is a line of the file that FAKE_HOPTAX_CALLS names.
"""

import copy
import gzip
import json
import os
import signal
import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parents[2] / "records/runs"
TAXES = (
    "added_p50", "added_p90", "added_p95", "added_p99", "throughput_ratio", "cpu_us_per_request", "added_first_message_p50",
)


def kept(name):
    with gzip.open(KEPT / name / "report.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def wanted_behavior():
    path = os.environ.get("FAKE_HOPTAX")
    return json.loads(Path(path).read_text(encoding="utf-8")) if path else {}


def value_of(option, arguments):
    return arguments[arguments.index(option) + 1] if option in arguments else None


def case(template, label, index, load, figures):
    made = copy.deepcopy(template)
    rate = load.get("rate")
    words = f"{load['loop']} loop, {rate + ', ' if rate else ''}{load['connections']} connections"
    made["load"].update(
        index=index, label=words, loop=load["loop"], connections=load["connections"],
        rate=float(rate.partition("/")[0]) if rate else None,
    )
    made.update(gateway=label, case=f"{label}, {words}", findings=[])
    own = figures.get(label, {})
    for metric, (estimate, low, high) in own.get(load["loop"], {} if "open" in own or "closed" in own else own).items():
        holder = made["tax"] if metric in TAXES else made["response_time"]
        holder[metric] = {"estimate": estimate, "low": low, "high": high, "trials": 20, "distinguishable": True}
    return made


def prices(gateways, cases):
    """A price for each gateway with features whose plain gateway is in the plan, at each load point."""
    plain = {each["name"]: each.get("label", each["name"]) for each in gateways if not each.get("features")}
    featured = [each for each in gateways if each.get("features")]
    features = {each.get("label", each["name"]): (each["name"], each["features"]) for each in featured}
    figure = {"low": 3.0, "high": 7.0, "trials": 20, "distinguishable": True}
    return [
        {
            "gateway": row["gateway"], "bare": plain[features[row["gateway"]][0]], "load": row["load"], "beyond": None,
            "features": [str(feature) for feature in features[row["gateway"]][1]], "memory_rss_bytes": None,
            **{name: {"estimate": 5.0, **figure} for name in ("added_p50", "added_p99", "cpu_us_per_request")},
            "throughput_ratio": {"estimate": 0.9, **figure, "low": 0.8, "high": 1.0},
        }
        for row in cases
        if row["gateway"] in features and features[row["gateway"]][0] in plain
    ]


def compared(labels, behavior):
    """The kept comparison; with labels, one row for each metric that compares these."""
    with gzip.open(KEPT / "killed/compare.json.gz", "rt", encoding="utf-8") as file:
        document = json.load(file)
    if labels:
        first, second = labels.split(",")
        rows = {row["metric"]: {**row, "label_a": first, "label_b": second} for row in document["rows"]}
        rows["cpu_us_per_request"]["change"] = {"estimate": 0.01, "low": -0.01, "high": 0.03, "trials": 20}
        document["rows"] = list(rows.values())
    return {**document, "void": behavior.get("void", [])}


def run(arguments, behavior):
    if behavior.get("wait"):
        # Like hoptax: the first signal ends the run. A signal that comes before `pause` must end it too.
        signal.signal(signal.SIGINT, lambda *_: (Path(behavior["wait"]).write_text("stopped"), os._exit(1)))
    sys.stderr.write(behavior.get("log", ""))
    sys.stderr.flush()
    if behavior.get("wait"):
        signal.pause()
    if behavior.get("status", 0) in (1, 2):
        return behavior["status"]
    plan = json.loads(Path(arguments[1]).read_text(encoding="utf-8"))
    report = kept("loops")
    by_label = {label: next(row for row in report["cases"] if row["gateway"] == label) for label in ("direct", "nginx")}
    gateways = [each if isinstance(each, dict) else {"name": each} for each in plan["gateways"]]
    labels = ["direct", *(each.get("label", each["name"]) for each in gateways)]
    figures = behavior.get("figures", {})
    contender = report["contenders"][0]
    report.update(
        name=plan["name"], command=[sys.argv[0], *arguments], findings=behavior.get("findings", []), pairs=[], budget=[],
        contenders=[{**contender, "label": label} for label in labels],
        cases=[
            case(by_label["direct" if label == "direct" else "nginx"], label, index, load, figures)
            for index, load in enumerate(plan["load"])
            for label in labels
        ],
    )
    out = Path(value_of("--out", arguments))
    directory = out / f"20261124T{len(list(out.glob('*'))):06}Z-{plan['name']}"
    directory.mkdir(parents=True)
    report["prices"]["rows"] = prices(gateways, report["cases"])
    (directory / "run.json").write_text("{}")
    (directory / "report.html").write_text("<html>")
    (directory / "report.json").write_text(json.dumps(report))
    return behavior.get("status", 0)


def gateways(name, arguments, behavior):
    target = value_of("--write", arguments)
    if target:
        pack = Path(target) / name
        pack.mkdir(parents=True)
        (pack / "gateway.yaml").write_text(f"name: {name}\nsummary: a gateway\nbinary: {name}\nversion:\n  name: no key\n")
        return
    missing = name in behavior.get("not_installed", [])
    pack = {"name": name, "installed": not missing, "version": "1.0", "features": ["key-auth", "routes", "consumers"]}
    print(json.dumps([{**pack, "install": {"debian": f"apt-get install {name}"}}]))


def main():
    arguments, behavior = sys.argv[1:], wanted_behavior()
    if os.environ.get("FAKE_HOPTAX_CALLS"):
        with open(os.environ["FAKE_HOPTAX_CALLS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(arguments) + "\n")
    if arguments[0] == "run":
        return run(arguments, behavior)
    if arguments[0] == "report":
        path = Path(arguments[1]) / "report.json"
        print(path.read_text(encoding="utf-8") if path.exists() else json.dumps(kept(Path(arguments[1]).name)))
    elif arguments[0] == "gateways":
        gateways(arguments[1], arguments, behavior)
    elif arguments[0] == "check":
        if behavior.get("status") == 2:
            sys.stderr.write(behavior["log"])
            return 2
        print(json.dumps({"plan": json.loads(Path(arguments[1]).read_text(encoding="utf-8")), "expected_s": 30.0}))
    elif arguments[0] == "gate":
        report = json.loads((Path(arguments[1]) / "report.json").read_text(encoding="utf-8"))
        metric = json.loads(Path(value_of("--budget", arguments)).read_text(encoding="utf-8"))[0]["metric"]
        measured = {"estimate": 0.0, "low": 0.0, "high": 0.004, "trials": 20}
        rows = [
            {"case": row["case"], "gateway": row["gateway"], "metric": metric, "measured": measured}
            for row in report["cases"]
            if row["gateway"] != "direct"
        ]
        print(json.dumps({"schema": 1, "budget": rows}))
    elif arguments[0] == "compare":
        print(json.dumps(compared(value_of("--labels", arguments), behavior)))
        return behavior.get("status", 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
