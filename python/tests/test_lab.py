import json
from pathlib import Path

import pytest

import hoptax
from hoptax import Gateway, Lab, NotInstalled
from hoptax.plan import Upstream, name_of, plain, text


@pytest.fixture
def lab(tmp_path, fake):
    return Lab(scratch=tmp_path / "scratch", out=tmp_path / "out")


@pytest.fixture
def runs(fake):
    return lambda: [call for call in fake.calls() if call[0] == "run"]


def test_parts_of_plans_are_changed_by_calling_them():
    nginx = Gateway.of("nginx")
    tuned = nginx(workers=2, label="tuned", features=[{"routes": 100}])
    assert (nginx.label, tuned.label, tuned.name) == ("nginx", "tuned", "nginx")
    assert plain(tuned) == {"name": "nginx", "workers": 2, "label": "tuned", "features": [{"routes": 100}]}
    assert plain(tuned(workers=None, features=None)) == {"name": "nginx", "label": "tuned"}
    assert str(hoptax.open_loop("1000/s", 32)) == "open 1000/s x32" and str(hoptax.closed_loop(8)) == "closed x8"


def test_a_plan_is_written_with_a_line_for_each_key():
    plan = {"name": "a", "load": (hoptax.closed_loop(8, duration="1s"),), "target": {"path": "/µ"}}
    written = text(plan)
    assert json.loads(written)["load"] == [{"loop": "closed", "connections": 8, "duration": "1s"}]
    assert '"duration": "1s"\n' in written and "/µ" in written
    with pytest.raises(TypeError, match='write quantities as text, such as "10s"'):
        text({"time": 1j})


@pytest.mark.parametrize(
    ("words", "name"),
    [("test_tax[nginx-1 000/s]", "test_tax-nginx-1-000-s"), ("···", "python"), ("a" * 70, "a" * 64)],
)
def test_names_of_plans(words, name):
    assert name_of(words) == name


def test_a_lab_measures_gateways_in_one_run(lab, fake):
    fake(figures={"nginx": {"added_p50": [72, 66, 78]}, "haproxy": {"added_p50": [90, 84, 96]}})
    result = lab.measure(lab.gateway("nginx"), "haproxy", upstream=Upstream({"body": "64KiB"}), time="10s")
    assert result.gateways == ["nginx", "haproxy"]
    assert result["nginx"].added_p50 < "80us" and result["haproxy"].added_p50 > "80us"
    plan = lab.plan("nginx", upstream=Upstream({"body": "64KiB"}), load=hoptax.closed_loop(2), time="10s")
    assert plan == {
        "name": "lab", "gateways": ["nginx"], "load": [{"loop": "closed", "connections": 2}],
        "upstream": {"body": "64KiB"}, "time": "10s",
    }


def test_equal_plans_are_measured_once(lab, runs):
    first = lab.measure("nginx", time="10s")
    lab.name = "another-test"
    assert lab.measure("nginx", time="10s") is first and len(runs()) == 1
    assert lab.measure("nginx", time="20s") is not first
    assert lab.measure("nginx", time="10s", accept_void=True) is not first
    assert len(runs()) == 3 == len(lab.results)


def test_settings_of_the_lab_win(tmp_path, runs):
    lab = Lab(scratch=tmp_path, out=tmp_path / "out", set={"time": "5s"})
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps(lab.plan("nginx")))
    result = lab.run(plan, set={"time": "1m", "pause": "0s"})
    assert runs()[0][-4:] == ["--set", "time=5s", "--set", "pause=0s"]
    assert lab.run(str(plan), set={"time": "1m", "pause": "0s"}) is result


def test_missing_gateways_are_reported(lab, fake):
    fake(not_installed=["kong"])
    assert lab.installed("nginx") and lab.installed("hop-l7") and not lab.installed("kong")
    with pytest.raises(NotInstalled, match=r"kong is not installed \(debian: apt-get install kong\)"):
        lab.gateway("kong")
    for keys in (
        {"driver": "docker"}, {"binary": "/srv/kong"}, {"version": ["1", "2"]}, {"git": {"repository": "/src", "refs": ["main"]}},
    ):
        assert lab.gateway("kong", **keys).keys == {"name": "kong", **keys}, "the installed program is not needed"
    assert lab.supports("nginx", "routes", "consumers") and not lab.supports("nginx", "gzip")
    lab.pack("nginx")
    assert [call[1] for call in fake.calls()] == ["nginx", "kong"], "each pack is asked for once"


def test_builds_of_a_gateway_are_packs_with_another_program(lab, runs, tmp_path):
    program = tmp_path / 'an "nginx"'
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    builds = [lab.build("nginx", label, program, workers=2) for label in ("1.26", "1.27")]
    assert [plain(build) for build in builds] == [{"name": "1.26", "workers": 2}, {"name": "1.27", "workers": 2}]
    assert lab.measure(*builds).gateways == ["1.26", "1.27"]
    packs = Path(runs()[0][runs()[0].index("--packs") + 1])
    assert sorted(path.name for path in packs.iterdir()) == ["1.26", "1.27"]
    manifest = (packs / "1.27/gateway.yaml").read_text()
    assert manifest == (
        f'name: "1.27"\nsummary: a gateway\nbinary: {json.dumps(str(program))}\nversion:\n  name: no key\n'
    )
    lab.build("nginx", "1.27", program)


def test_packs_of_the_user_are_used_beside_builds(tmp_path, fake, runs):
    own = tmp_path / "own"
    (own / "mine").mkdir(parents=True)
    (own / "mine/gateway.yaml").write_text("name: mine\n")
    lab = Lab(scratch=tmp_path / "scratch", out=tmp_path / "out", packs=own)
    lab.pack("mine")
    program = tmp_path / "nginx"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    lab.measure("mine", lab.build("nginx", "pr", program))
    lab.run({"name": "a", "gateways": ["mine"], "load": [{"loop": "closed", "connections": 1}]})
    calls = [call for call in fake.calls() if call[0] in ("gateways", "run")]
    assert len(calls) == 4
    for call in calls:
        packs = Path(call[call.index("--packs") + 1])
        assert (packs / "mine/gateway.yaml").read_text() == "name: mine\n", call
    assert sorted(path.name for path in packs.iterdir()) == ["mine", "pr"]
    with pytest.raises(ValueError, match="'mine' cannot be a label: it is a pack"):
        lab.build("nginx", "mine", program)
    with pytest.raises(hoptax.HoptaxError, match="is not a directory of packs"):
        Lab(scratch=tmp_path / "other", packs=own / "mine")


def test_wrong_builds_are_refused(lab):
    with pytest.raises(NotInstalled, match=r"1\.27: /nowhere/nginx is not a program"):
        lab.build("nginx", "1.27", "/nowhere/nginx")
    for label in ("nginx", "a b"):
        with pytest.raises(ValueError, match="cannot be a label"):
            lab.build("nginx", label, "sh")
