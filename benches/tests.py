#!/usr/bin/env python3
"""Tests of the benchmarks' calculations with made-up data. The tests start no server and no client."""

import importlib
import unittest
from types import SimpleNamespace

import goals
import peers
from common import spread, summary, table

client_cpu = importlib.import_module("client-cpu")
rate_accuracy = importlib.import_module("rate-accuracy")


class Steady(unittest.TestCase):
    """Samples are (seconds, CPU seconds, requests, open connections)."""

    def test_only_the_time_with_all_connections_and_requests_counts(self):
        starting = [(0.0, 0.0, 0, 0), (0.1, 0.5, 0, 4)]
        flowing = [(0.2 + index / 10, 0.6 + index / 20, 1_000 * index, 10) for index in range(6)]
        counting = [(0.8, 3.0, 5_000, 10), (0.9, 4.0, 5_000, 10)]
        cpu, requests, seconds = client_cpu.steady(starting + flowing + counting, 10)
        self.assertAlmostEqual(cpu, 0.25)
        self.assertEqual(requests, 5_000)
        self.assertAlmostEqual(seconds, 0.5)

    def test_a_tool_with_fewer_connections_is_measured_with_those(self):
        samples = [(index / 10, index / 20, 100 * index, 500) for index in range(6)]
        self.assertIsNotNone(client_cpu.steady(samples, 1_000))

    def test_no_steady_part_without_traffic_or_in_too_short_a_time(self):
        self.assertIsNone(client_cpu.steady([], 10))
        self.assertIsNone(client_cpu.steady([(index / 10, 0.1, 0, 10) for index in range(9)], 10))
        self.assertIsNone(client_cpu.steady([(index / 10, index, 10 * index, 10) for index in range(3)], 10))


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


class Text(unittest.TestCase):
    def test_spread_and_table(self):
        self.assertEqual(spread([3, 1, 2], 1), "2.0 (1.0–3.0)")
        self.assertEqual(spread([]), "-")
        self.assertEqual(table([["a", "b"], ["long", "c"]]), "  a     b\n  long  c")


if __name__ == "__main__":
    unittest.main()
