"""Tests of the pytest plugin, by running pytest inside of pytest with a fake hoptax."""

import fnmatch
import xml.etree.ElementTree as ElementTree

import pytest

# The interval is 66 to 78 µs.
FIGURES = {"nginx": {"added_p50": [72, 66, 78]}}
SUITE = """
    import pytest

    @pytest.fixture(scope="module")
    def result(lab, nginx):
        return lab.measure(nginx, time="10s")

    def test_passes(result):
        assert result["nginx"].added_p50 < "100us"

    def test_fails(result):
        assert result["nginx"].added_p50 < "50us"

    def test_cannot_tell(result):
        assert result["nginx"].added_p50 < "70us"
"""


@pytest.fixture
def suite(pytester, fake):
    """Runs a test file and returns the result."""
    fake(figures=FIGURES)

    def run(text, *options):
        pytester.makepyfile(text)
        return pytester.runpytest("-p", "hoptax.pytest_plugin", "-p", "no:cacheprovider", *options)

    return run


def test_each_outcome_is_counted(suite):
    result = suite(SUITE)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "* .FI *",
        "*assert added_p50 of nginx (open loop, 1000/s, 32 connections): 72 µs (66–78) < 50 µs",
        "*no value in the interval fulfils it",
        "*= inconclusive =*",
        "*::test_cannot_tell: inconclusive: added_p50 of nginx (*): 72 µs (66–78) < 70 µs: the bound lies inside *",
        "*= hoptax reports =*",
        "results/*-test_passes/report.html",
        "*1 failed, 1 passed, 1 inconclusive in *",
    ])
    assert result.ret == 1
    assert "__bool__" not in result.stdout.str()


@pytest.mark.parametrize(
    ("outcome", "status", "words"),
    [
        ("skip", 0, "*1 passed, 1 inconclusive in *"),
        ("pass", 0, "*1 passed, 1 inconclusive in *"),
        ("fail", 1, "*1 failed, 1 passed in *"),
    ],
)
@pytest.mark.parametrize("by", ["option", "ini", "mark"])
def test_an_inconclusive_test_counts_as_the_user_wishes(suite, pytester, outcome, status, words, by):
    text = SUITE.replace("50us", "100us").split("def test_fails")
    text = text[0] + "def test_cannot_tell" + text[1].split("def test_cannot_tell")[1]
    if by == "mark":
        text = text.replace("    def test_cannot", f"    @pytest.mark.hoptax_inconclusive({outcome!r})\n    def test_cannot")
        # The mark takes precedence over the option.
        options = ("--hoptax-inconclusive", "skip" if outcome == "fail" else "fail", "--strict-markers")
    elif by == "ini":
        options = ("-o", f"hoptax_inconclusive={outcome}")
    else:
        options = (f"--hoptax-inconclusive={outcome}",)
    result = suite(text, *options)
    assert result.ret == status
    result.stdout.fnmatch_lines([words])
    if outcome == "fail":
        result.stdout.fnmatch_lines([
            "E *hoptax.estimate.Inconclusive: inconclusive: added_p50 of nginx*",
            "INCONCLUSIVE *::test_cannot_tell*",
        ])


def test_verbose_output_names_the_outcome(suite):
    suite(SUITE, "-v").stdout.fnmatch_lines(["*::test_cannot_tell INCONCLUSIVE*"])
    suite(SUITE, "-v", "--hoptax-inconclusive=fail").stdout.fnmatch_lines(["*::test_cannot_tell INCONCLUSIVE*"])


@pytest.mark.parametrize(
    ("options", "element"),
    [((), "skipped"), (("--hoptax-inconclusive=fail",), "failure"), (("--hoptax-inconclusive=pass",), None)],
)
def test_junit_has_outcomes_comparisons_and_reports(suite, pytester, options, element):
    suite(SUITE, "--junitxml=tests.xml", *options)
    cases = {case.get("name"): case for case in ElementTree.parse(pytester.path / "tests.xml").iter("testcase")}

    def properties(name):
        found = {}
        for each in cases[name].iter("property"):
            found.setdefault(each.get("name"), []).append(each.get("value"))
        return found

    case = cases["test_cannot_tell"]
    assert [child.tag for child in case if child.tag != "properties"] == ([element] if element else [])
    if element:
        assert "the bound lies inside the interval" in case.find(element).get("message")
    found = properties("test_cannot_tell")
    assert found["hoptax.outcome"] == ["inconclusive"]
    assert found["hoptax.comparison"][0].startswith("inconclusive: added_p50 of nginx")
    [report] = found["hoptax.report"]
    assert report.endswith("report.html") and (pytester.path / report).is_file()
    assert len(properties("test_passes")["hoptax.comparison"]) == 1 and "hoptax.outcome" not in properties("test_passes")
    assert len(properties("test_fails")["hoptax.comparison"]) == 1, "the explanation of a failure adds no comparison"
    assert cases["test_fails"].find("failure") is not None


def test_a_definite_failure_wins_over_an_inconclusive_part(suite):
    result = suite("""
        def test_both(lab, nginx):
            added = lab.measure(nginx)["nginx"].added_p50
            assert (added < "70us") & (added < "50us")
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "*assert (added_p50 of nginx *< 70 µs",
        "*inside the interval; * & added_p50 of nginx *< 50 µs",
    ])


def test_both_sides_can_be_figures_or_bounds(suite, fake):
    fake(figures={**FIGURES, "haproxy": {"added_p50": [90, 84, 96]}})
    result = suite("""
        def test_order(lab, nginx, haproxy):
            result = lab.measure(nginx, haproxy)
            assert "50us" < result["nginx"].added_p50 < "80us"
            assert result["nginx"].added_p50 < result["haproxy"].added_p50
            assert "95us" < result["nginx"].added_p50
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert added_p50 of nginx (*): 72 µs (66–78) > 95 µs", "*no value in the interval*"])


def test_an_inconclusive_fixture_skips_its_tests(suite):
    text = """
        import pytest

        @pytest.fixture
        def fast(lab, nginx):
            assert lab.measure(nginx)["nginx"].added_p50 < "70us"

        def test_needs_it(fast):
            raise AssertionError("must not run")
    """
    for outcome in ("skip", "pass"):
        result = suite(text, f"--hoptax-inconclusive={outcome}")
        result.stdout.fnmatch_lines(["*1 inconclusive in *"])
        assert result.ret == 0
    suite(text, "--hoptax-inconclusive=fail").assert_outcomes(errors=1)


def test_noise_is_not_an_expected_failure(suite):
    text = SUITE.replace("    def test_cannot", "    @pytest.mark.xfail(strict=True)\n    def test_cannot")
    result = suite(text)
    result.stdout.fnmatch_lines(["*1 failed, 1 passed, 1 inconclusive in *"])


def test_other_exceptions_are_left_alone(suite):
    result = suite("""
        import hoptax, pytest

        def test_error(lab):
            lab.measure("nginx")["ngnix"]

        def test_expected(lab):
            with pytest.raises(hoptax.Inconclusive):
                assert lab.measure("nginx")["nginx"].added_p50 < "70us"
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *the run has no gateway 'ngnix'; it has direct, nginx"])


def test_tests_are_parametrised_over_gateways_loads_and_builds(suite, fake, pytester):
    fake(figures=FIGURES, not_installed=["kong"])
    result = suite("""
        import sys
        import hoptax, pytest

        LOADS = [hoptax.closed_loop(8), hoptax.open_loop("1000/s", 32)]

        @pytest.mark.parametrize("gateway", ["nginx", "kong"], indirect=True)
        @pytest.mark.parametrize("load", LOADS, ids=str)
        def test_gateways(lab, upstream, gateway, load):
            result = lab.measure(gateway, upstream=upstream(body="64KiB"), load=LOADS)
            assert result[gateway.label].at(load).added_p50 < "100us"

        @pytest.fixture(scope="module")
        def builds(lab):
            return lab.measure(*(lab.build("nginx", label, sys.executable) for label in ("old", "new")))

        @pytest.mark.parametrize("label", ["old", "new"])
        def test_builds(builds, label):
            assert builds[label].p99 > "1ns"
    """, "-v")
    result.assert_outcomes(passed=4, skipped=2)
    result.stdout.fnmatch_lines(["*test_gateways*open 1000/s x32*nginx* PASSED*", "*test_builds?new? PASSED*"])
    assert [call[0] for call in fake.calls()].count("run") == 2, "one run for both loads, one for both builds"


def test_a_missing_gateway_is_skipped_with_the_reason(suite, fake):
    fake(not_installed=["nginx"])
    result = suite(SUITE, "-rs")
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines(["SKIPPED*nginx is not installed (debian: apt-get install nginx)"])


def test_options_reach_the_run(suite, fake, pytester):
    pytester.makeini("[pytest]\nhoptax_set =\n    pause=0s\n    time=1m\n")
    result = suite(SUITE, "--hoptax-set", "time=5s", "--hoptax-results=out")
    [run] = [call for call in fake.calls() if call[0] == "run"]
    assert run[run.index("--out") + 1] == str(pytester.path / "out")
    assert [run[index + 1] for index, word in enumerate(run) if word == "--set"] == ["pause=0s", "time=5s"]
    result.stdout.fnmatch_lines(["out/*-test_passes/report.html"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--hoptax-set", "time"), "*--hoptax-set time: write KEY=VALUE, such as time=20s"),
        (("--hoptax-binary", "/nowhere/hoptax"), "*names '/nowhere/hoptax', which is not a program"),
        (("-o", "hoptax_inconclusive=maybe"), "*the ini option hoptax_inconclusive is 'maybe'; it can be fail, pass, skip"),
        (("--hoptax-inconclusive=maybe",), "*invalid choice: 'maybe'*"),
    ],
)
def test_wrong_options_are_errors(suite, options, words):
    result = suite(SUITE, *options)
    assert result.ret != 0
    lines = result.stdout.lines + result.stderr.lines
    assert any(fnmatch.fnmatch(line, words) for line in lines), lines


def test_a_wrong_mark_is_an_error(suite):
    result = suite(SUITE.replace("    def test_cannot", "    @pytest.mark.hoptax_inconclusive\n    def test_cannot"))
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*the mark hoptax_inconclusive of *::test_cannot_tell is None; it can be fail, pass, skip"])


def test_measuring_beside_other_workers_is_refused(suite, pytester):
    pytester.makeconftest("def pytest_configure(config):\n    config.workerinput = {'workercount': 2}\n")
    result = suite(SUITE)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*run pytest without -n"])


def test_the_plugin_starts_nothing_unless_a_test_measures(suite, fake):
    suite("def test_plain():\n    assert 1 < 2\n").assert_outcomes(passed=1)
    assert fake.calls() == []


def test_the_directory_of_packs_is_an_option_and_a_key(suite, pytester, fake):
    pack = pytester.mkdir("own") / "mine"
    pack.mkdir()
    (pack / "gateway.yaml").write_text("name: mine\n")
    text = """
        def test_pack(lab):
            assert lab.measure("mine", time="10s").gateways == ["mine"]
    """
    suite(text, "--hoptax-packs", "own").assert_outcomes(passed=1)
    suite(text, "-o", "hoptax_packs=own").assert_outcomes(passed=1)
    assert [("--packs" in call) for call in fake.calls() if call[0] == "run"] == [True, True]
    suite(text, "--hoptax-packs", "nowhere").stdout.fnmatch_lines(["*nowhere is not a directory of packs*"])
