#!/usr/bin/env python3
"""Tests of the benchmarks' calculations with made-up data. The tests start no server and no client."""

import gzip
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace
from unittest.mock import patch

import builds
import common
import estimates
import goals
import peers
import runs
import variance
from common import ROOT, family_clock, spread, steady, summary, table

client_cpu = importlib.import_module("client-cpu")
rate_accuracy = importlib.import_module("rate-accuracy")
resolving_power = importlib.import_module("resolving-power")
# A kept run of two hops, with the report that hoptax makes of it.
KEPT = ROOT / "records/runs/delays"


class Steady(unittest.TestCase):
    """Samples are (seconds, CPU seconds, requests, open connections)."""

    def test_only_the_time_with_all_connections_and_requests_counts(self):
        starting = [(0.0, 0.0, 0, 0), (0.1, 0.5, 0, 4)]
        flowing = [(0.2 + index / 10, 0.6 + index / 20, 1_000 * index, 10) for index in range(6)]
        counting = [(0.8, 3.0, 5_000, 10), (0.9, 4.0, 5_000, 10)]
        cpu, requests, seconds = steady(starting + flowing + counting, 10, 0.3)
        self.assertAlmostEqual(cpu, 0.25)
        self.assertEqual(requests, 5_000)
        self.assertAlmostEqual(seconds, 0.5)

    def test_the_time_with_fewer_connections_does_not_count(self):
        samples = [(index / 10, index / 20, 100 * index, 500) for index in range(6)]
        self.assertIsNotNone(steady(samples, 450, 0.3))
        self.assertIsNone(steady(samples, 501, 0.3))

    def test_no_steady_part_without_traffic_or_in_too_short_a_time(self):
        self.assertIsNone(steady([], 10, 0.3))
        self.assertIsNone(steady([(index / 10, 0.1, 0, 10) for index in range(9)], 10, 0.3))
        self.assertIsNone(steady([(index / 10, index, 10 * index, 10) for index in range(3)], 10, 0.3))


class Clock(unittest.TestCase):
    def test_the_cpu_time_of_children_counts(self):
        work = "import time; begun = time.process_time()\nwhile time.process_time() < begun + 0.2: pass\nprint(flush=True); input()"
        with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            self.assertGreater(family_clock(os.getpid()), time.process_time() + 0.2)
            child.communicate(b"\n")


class Points(unittest.TestCase):
    def test_a_point_has_connections_and_streams(self):
        self.assertEqual(client_cpu.pairs("1x10,100x1"), [(1, 10), (100, 1)])

    def test_the_peers_count_also_what_they_gave_up_if_the_server_does_not_count(self):
        said = "requests: 100 total\ntime for request: 1us 2us 3us\n"
        ran = SimpleNamespace(text=said, errors="", cpu=0.5, wall=1.0, samples=[])
        server = SimpleNamespace(count=None, url=lambda scheme, http2: "")
        with patch.object(client_cpu, "client", lambda *_, **__: ran):
            turn = client_cpu.turn(peers.H2load(), server, "http", 2, 10, 1)
        self.assertEqual((turn["requests"], turn["claimed"], turn["per_cpu_second"]), (120, 100, 240))


class Rate(unittest.TestCase):
    def test_the_rate_is_that_of_the_middle_of_a_turn(self):
        samples = [(0.0, 100)] + [(1 + index / 10, 100 + 100 * index) for index in range(11)] + [(9.0, 1_100)]
        self.assertAlmostEqual(rate_accuracy.middle_rate(samples, 100, 1_000), 1_000)

    def test_no_rate_without_samples_in_the_middle(self):
        self.assertIsNone(rate_accuracy.middle_rate([(0.0, 0), (1.0, 1_000)], 0, 1_000))

    def test_an_error_is_the_result_minus_the_delay_and_the_bare_round_trip(self):
        turns = {"bare": {"p50": 60, "p90": 80, "p99": 200}, "tool": {"p50": 2_070, "p99.9": 50_180}}
        self.assertEqual(rate_accuracy.errors(turns, "tool", (("p50", 2_000, "p50"), ("p99.9", 50_000, "p90"))),
                         {"p50": 10, "p99.9": 100})


class Answers(unittest.TestCase):
    def test_units_of_wrk_and_h2load(self):
        self.assertEqual([peers.microseconds(text) for text in ("71us", "1.5ms", "2.00s")], [71, 1_500, 2_000_000])
        with self.assertRaises(AttributeError):
            peers.microseconds("3m")

    def test_unexpected_output_is_a_failure_with_its_text(self):
        with self.assertRaisesRegex(peers.Failed, "out of files"):
            peers.understood(peers.Fortio().claimed, SimpleNamespace(text="", errors="out of files"))

    def test_hey_counts_all_statuses(self):
        ran = SimpleNamespace(text="  [200]\t120 responses\n  [503]\t3 responses\n")
        self.assertEqual(peers.Hey().claimed(ran), 123)


class Builds(unittest.TestCase):
    def test_ratios_are_of_rounds_in_which_both_builds_succeeded(self):
        rounds = [{"glibc": 10, "musl": 11}, {"glibc": 10}, {"glibc": 20, "musl": 21}]
        self.assertEqual(builds.ratios(rounds, "musl", "glibc"), [1.1, 1.05])

    def test_a_server_without_requests_is_a_failure(self):
        self.assertEqual(builds.per_request(0.002, 100), 20)
        with self.assertRaisesRegex(builds.Failed, "no request"):
            builds.per_request(0.002, 0)

    def test_versions_are_those_of_the_builds(self):
        self.assertEqual(common.versions_of({"a": "/bin/echo"}), {"a": common.first_line(["/bin/echo", "--version"])})

    def test_there_is_a_run_to_report_on(self):
        self.assertTrue((builds.largest_run() / "run.json").is_file())


class Goals(unittest.TestCase):
    def test_large_bodies_have_a_lower_goal(self):
        point = lambda body: {"scheme": "http", "body": body, "connections": 100,
                              "ratios": {"hoptax": {"wrk": summary([1.1])}}}
        rows = [cells[3] for cells in goals.cpu([point("64B"), point("64KiB")])]
        self.assertEqual(rows[:3], ["**no**", "not measured", "yes"])

    def test_missing_results_are_neither_reached_nor_missed(self):
        rows = [row for part in (goals.cpu, goals.rate, goals.memory, goals.allocations) for row in part([])]
        self.assertTrue(rows)
        self.assertEqual({row[3] for row in rows}, {"not measured"})

    def test_an_error_must_be_small_and_smaller_than_every_peers(self):
        point = lambda ours, theirs: {"rate": 1_000, "delay": "2ms", "found": {
            name: {"error_us": {"p50": summary([value])}} for name, value in (("hoptax", ours), ("oha", theirs))}}
        reached = [goals.known_delay(point(*errors), "p50")[3] for errors in ((20, -30), (-40, 30), (60, 900))]
        self.assertEqual(reached, ["yes", "**no**", "**no**"])


class Intervals(unittest.TestCase):
    def test_quantiles_agree_with_published_tables(self):
        for freedom, expected in ((1, 12.706), (2, 4.303), (4, 2.776), (30, 2.042), (1e6, 1.960)):
            self.assertAlmostEqual(estimates.t_quantile(freedom), expected, 3)
        self.assertAlmostEqual(estimates.f_beyond(4.96, 1, 10), 0.05, 3)
        self.assertAlmostEqual(estimates.f_beyond(3.10, 3, 20), 0.05, 3)

    def test_share_intervals_agree_with_published_tables(self):
        for count, of, low, high in ((0, 10, 0, 0.308), (9, 10, 0.555, 0.997), (40, 40, 0.912, 1)):
            for end, expected in zip(estimates.share_interval(count, of), (low, high)):
                self.assertAlmostEqual(end, expected, 3)

    def test_a_difference_of_samples_with_equal_scatter_has_students_interval(self):
        found = estimates.difference([10, 11, 12], [20, 21, 22])
        self.assertAlmostEqual(found["estimate"], 10)
        self.assertAlmostEqual(estimates.half_width(found), 2.776 * (2 / 3)**0.5, 3)

    def test_a_sample_without_scatter_adds_no_freedom(self):
        found = estimates.difference([10, 10, 10], [20, 21, 22])
        self.assertAlmostEqual(estimates.half_width(found), 4.303 / 3**0.5, 3)


class Components(unittest.TestCase):
    def test_a_case_computed_by_hand(self):
        # Means 2 and 6, variance 2 within each run: (16 − 2) ÷ 2 between runs.
        found = estimates.components([[1, 3], [5, 7]], within=0.5)
        self.assertEqual([found[name] for name in ("within", "trials", "runs")], [0.5, 1.5, 7])
        self.assertAlmostEqual(found["p"], estimates.f_beyond(8, 1, 2))

    def test_runs_of_unequal_lengths(self):
        chance = random.Random(7)
        drawn = []
        for number in range(600):
            run = chance.gauss(100, 3)
            drawn.append([run + chance.gauss(0, 5) for _ in range(10 + number % 20)])
        found = estimates.components(drawn, within=9)
        self.assertAlmostEqual(found["runs"]**0.5, 3, delta=0.3)
        self.assertAlmostEqual(found["trials"]**0.5, 4, delta=0.2)
        self.assertLess(found["p"], 1e-6)

    def test_runs_that_do_not_differ_have_no_component(self):
        found = estimates.components([[1, 3], [1, 3], [1, 3]])
        self.assertEqual([found[name] for name in ("within", "trials", "runs")], [0, 2, 0])
        self.assertGreater(found["p"], 0.9)

    def test_no_components_of_a_single_run(self):
        self.assertIsNone(estimates.components([[1, 2, 3]]))
        self.assertIsNone(estimates.components([[1, 2, 3], [4]]))

    def test_neighbors_that_alternate_and_neighbors_that_drift(self):
        self.assertAlmostEqual(estimates.neighbors([1, -1] * 50), -0.99)
        self.assertGreater(estimates.neighbors(list(range(100))), 0.9)
        self.assertIsNone(estimates.neighbors([5, 5, 5]))


class Coverage(unittest.TestCase):
    """Runs whose intervals have the right width, and runs whose intervals are half as wide."""

    @staticmethod
    def held(width):
        """Share of intervals that hold the mean of five runs, in 2,000 sets of five runs."""
        chance, held = random.Random(11), 0
        for _ in range(2_000):
            means = [chance.gauss(50, 2) for _ in range(5)]
            held += estimates.covered([estimates.around(mean, width * 1.96 * 2) for mean in means])
        return held / 10_000

    def test_right_intervals_cover_95_percent_even_of_few_runs(self):
        self.assertAlmostEqual(self.held(1), 0.95, delta=0.01)

    def test_narrow_intervals_are_found(self):
        self.assertAlmostEqual(self.held(0.5), 0.673, delta=0.015)


class Runs(unittest.TestCase):
    @staticmethod
    def trial(round_number, start_s, length_s=0.3):
        record = {"started_ns": int(start_s * 1e9), "measured_ns": int(length_s * 1e9)}
        return {"round": round_number, "failed": None, "load_record": record}

    def test_the_first_minutes_contain_the_rounds_that_would_have_begun(self):
        # Rounds of two trials. Counted from the first warm-up, round n ends after n × 20 s − 3 s.
        measured = [self.trial(number, 1_000 + 20 * number + place * 10, 5) for number in range(9) for place in range(2)]
        # After two rounds, 37 s have passed and a third one fits into the minute: 37 s + 18.5 s. After three, 57 s have.
        self.assertEqual([runs.rounds_within(measured, minutes) for minutes in (0.1, 0.9, 1, 2, 60)], [1, 2, 3, 6, 9])
        self.assertEqual(runs.rounds_within([], 1), 0)

    def test_a_shortened_run_has_the_same_record_and_the_first_rounds(self):
        with tempfile.TemporaryDirectory() as below:
            short = runs.first_rounds(KEPT, 2, Path(below, "short"))
            self.assertEqual((short / "run.json").read_bytes(), (KEPT / "run.json").read_bytes())
            every = runs.trials(KEPT)
            self.assertEqual(runs.trials(short), [trial for trial in every if trial["round"] in (0, 1)])
            self.assertEqual({trial["round"] for trial in every}, {0, 1, 2, 3})

    def test_an_incomplete_last_line_is_left_out(self):
        with tempfile.TemporaryDirectory() as below:
            Path(below, "trials.jsonl").write_text(json.dumps(self.trial(0, 1)) + '\n{"round":1,"fai')
            self.assertEqual([trial["round"] for trial in runs.trials(below)], [0])

    def test_histograms_have_the_percentiles_of_the_report(self):
        report = json.loads(gzip.decompress((KEPT / "report.json.gz").read_bytes()))
        for case in report["cases"]:
            merged = Counter()
            for trial in runs.trials(KEPT):
                if trial["contender"] == case["gateway"]:
                    for low, width, count in runs.buckets(trial["load_record"]["histograms"]["response_time"]):
                        merged[low, width] += count
            found = [(*bucket, count) for bucket, count in sorted(merged.items())]
            self.assertEqual(sum(count for *_, count in found), case["response_time"]["samples"])
            for name, share in (("p50", 0.5), ("p90", 0.9)):
                expected = case["response_time"][name]["estimate"]
                self.assertAlmostEqual(runs.quantile(found, share), expected, delta=0.002 * expected)


class Variance(unittest.TestCase):
    def test_values_of_a_round_are_taxes_of_the_round(self):
        measured = runs.trials(KEPT)
        found = variance.values(measured, "delayed", 0)
        of = {name: [trial for trial in measured if trial["round"] == 1 and trial["contender"] == name]
              for name in ("direct", "delayed")}
        p50s = {name: [variance.p50_us(trial) for trial in every] for name, every in of.items()}
        value, inside = found["added_p50"][1]
        self.assertAlmostEqual(value, p50s["delayed"][0] - fmean(p50s["direct"]))
        self.assertGreater(inside, 0)
        self.assertAlmostEqual(found["cpu_us_per_request"][1][0], 8_746.125 / 60)

    def test_variance_by_ranks_is_that_of_medians_of_independent_requests(self):
        # A hundred requests, evenly spread over 1,000 µs: the median has a standard error of 50 µs.
        times = [(10_000 * number, 10_000, 1) for number in range(100)]
        self.assertAlmostEqual(variance.within_by_ranks(times)**0.5, 50)

    def test_variance_by_windows_is_that_of_a_mean(self):
        windows = [[(1_000 * p50 - 500, 1_000, 30)] for p50 in (100, 104, 102)]
        self.assertAlmostEqual(variance.within_by_windows(windows), 4 / 3)
        self.assertIsNone(variance.within_by_windows(windows[:1]))

    def test_runs_that_scatter_more_than_they_claim_are_seen(self):
        chance, of_runs = random.Random(5), []
        for _ in range(100):
            own = chance.gauss(80, 4)
            rounds = [own + chance.gauss(0, 10) for _ in range(25)]
            half = estimates.t_quantile(24) * stdev(rounds) / 5
            of_runs.append({"values": rounds, "within": 20.0, "tax": estimates.around(fmean(rounds), half)})
        found = variance.summed_up(of_runs)
        self.assertAlmostEqual(found["variance"]["runs"]**0.5, 4, delta=1)
        self.assertAlmostEqual(found["variance"]["trials"], 80, delta=10)
        # Runs scatter by √(4² + 10² ÷ 25) µs, but their intervals imply a scatter of 10 ÷ √25 µs.
        self.assertAlmostEqual(found["implied_half_us"] / fmean(found["half_us"]), 5**0.5, delta=0.35)
        self.assertLess(found["held"], 75)


class Resolving(unittest.TestCase):
    REPORT = {"cases": [{"gateway": "direct", "tax": None},
                        {"gateway": "nginx", "tax": {"added_p50": {"estimate": 70, "low": 0, "high": 75},
                                                     "cpu_us_per_request": None}}],
              "pairs": [{"first": "bare", "second": "plus-10us", "metric": "added_p50", "verdict": "distinguishable",
                         "difference": {"estimate": 11, "low": 9, "high": 13}},
                        {"first": "bare", "second": "plus-10us", "metric": "added_p99", "verdict": "distinguishable",
                         "difference": {"estimate": 1, "low": 1, "high": 1}}]}

    def test_a_report_gives_taxes_and_pairs(self):
        kept = {"report": self.REPORT}
        self.assertEqual(list(resolving_power.taxes(kept)), [("nginx", "added_p50")])
        found = resolving_power.differences(kept)
        self.assertEqual(list(found), [("bare", "plus-10us", "added_p50")])
        self.assertTrue(found["bare", "plus-10us", "added_p50"]["distinguished"])

    def test_repeats_of_another_tool_give_the_same_figures(self):
        turns = lambda *p50s: [{"p50": p50, "cpu_us": None if p50 < 100 else 5 + p50 / 100} for p50 in p50s]
        kept = {"repeats": {"b": turns(150, 151, 152), "direct": turns(50, 51, 52), "a": turns(130, 200, 90 + 11)},
                "order": ["direct", "a", "b"]}
        taxes = resolving_power.taxes(kept)
        self.assertAlmostEqual(taxes["b", "added_p50"]["estimate"], 100)
        self.assertAlmostEqual(taxes["b", "cpu_us_per_request"]["estimate"], 6.51)
        self.assertNotIn(("direct", "cpu_us_per_request"), taxes)
        found = resolving_power.differences(kept)
        self.assertEqual({key[:2] for key in found}, {("a", "b")})
        self.assertFalse(found["a", "b", "added_p50"]["distinguished"])

    def test_a_difference_in_the_wrong_direction_is_not_found(self):
        seen = [{"estimate": estimate, "distinguished": True} for estimate in (9, -9)]
        self.assertEqual([resolving_power.distinguished(seen, planted) for planted in (10, 0)], [1, 2])

    def test_designs_are_compared_with_the_new_one_after_at_most_the_same_time(self):
        tax = lambda half: {"cases": [{"gateway": "nginx", "tax": {"added_p50": {"estimate": 9, "low": 9 - half, "high": 9 + half}}}],
                            "pairs": []}
        results = [{"run": run, "design": design, "minutes": minutes, "report": tax(half)} for run in (1, 2)
                   for design, minutes, half in (("new", 1, 4), ("new", 3, 2), ("new", 5, 1), ("old", 3, 10))]
        said = []
        resolving_power.half_width_tables(results, said.append, lambda _: None)
        self.assertIn("old 3 min ÷ new 3 min", said[1])
        self.assertIn("5.0 (5.0–5.0)", said[1])


class Text(unittest.TestCase):
    def test_spread_and_table(self):
        self.assertEqual(spread([3, 1, 2], 1), "2.0 (1.0–3.0)")
        self.assertEqual(spread([]), "-")
        self.assertEqual(table([["a", "b"], ["long", "c"]]), "  a     b\n  long  c")


if __name__ == "__main__":
    unittest.main()
