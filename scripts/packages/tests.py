#!/usr/bin/env python3
"""Tests of the packages' formats, with a shell script as the binary. They compile nothing and need no network."""

import configparser
import email
import hashlib
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

if sys.version_info < (3, 11):
    print("skipped: building packages needs Python 3.11")
    sys.exit(0)

import tomllib

import build
import check
import debian
import image
import project
import sbom
import wheel
from archive import Entry, gzipped, parents, tar

SCRIPT = b"#!/bin/sh\necho hoptax of a test\n"
PAGES, COMPLETIONS = {"hoptax.1": b".TH hoptax 1\n"}, {shell: b"# completions\n" for shell in project.SHELLS}
DATE = 1_700_000_000
TARGET = project.TARGETS["x86_64-unknown-linux-musl"]
PACKAGE = project.package()
# Crates of the workspace that only tests depend on.
ONLY_FOR_TESTS = {"hoptax-pages", "hoptax-testing"}
VERSION = PACKAGE["version"]


class Project(unittest.TestCase):
    def test_every_crate_can_be_published(self):
        needed = {"description", "license", "repository", "keywords", "categories", "version"}
        descriptions = set()
        published = [path for path in sorted((project.ROOT / "crates").iterdir()) if path.name not in ONLY_FOR_TESTS]
        for path in published:
            manifest = tomllib.loads((path / "Cargo.toml").read_text())["package"]
            self.assertLessEqual(needed, manifest.keys(), path.name)
            self.assertNotIn("publish", manifest, path.name)
            # crates.io must not show the page of the program for a library.
            is_program = path.name == "hoptax"
            self.assertEqual("readme" in manifest, is_program, path.name)
            self.assertEqual(manifest["categories"] == {"workspace": True}, is_program, path.name)
            self.assertFalse((path / "README.md").exists(), path.name)
            descriptions.add(str(manifest["description"]))
            for name in ("LICENSE-APACHE", "LICENSE-MIT"):
                self.assertEqual((path / name).read_bytes(), (project.ROOT / name).read_bytes(), path.name)
        self.assertEqual(len(descriptions), len(published))

    def test_crates_that_are_only_for_tests_are_not_published(self):
        for path in sorted((project.ROOT / "crates").iterdir()):
            manifest = tomllib.loads((path / "Cargo.toml").read_text())
            if path.name in ONLY_FOR_TESTS:
                self.assertIs(manifest["package"]["publish"], False, path.name)
            tables = [manifest, *manifest.get("target", {}).values()]
            used = {name for table in tables for kind in ("dependencies", "build-dependencies") for name in table.get(kind, {})}
            self.assertFalse(used & ONLY_FOR_TESTS, path.name)

    def test_dependencies_on_own_crates_have_the_version_of_the_workspace(self):
        workspace = tomllib.loads((project.ROOT / "Cargo.toml").read_text())["workspace"]
        for name, dependency in workspace["dependencies"].items():
            if name.startswith("hoptax-") and name not in ONLY_FOR_TESTS:
                self.assertEqual(dependency["version"], f"={VERSION}", name)

    def test_every_file_states_the_version_of_the_workspace(self):
        self.assertEqual(project.python()["version"], VERSION)
        for lock in ("Cargo.lock", "fuzz/Cargo.lock"):
            own = [one for one in tomllib.loads((project.ROOT / lock).read_text())["package"] if "source" not in one]
            stated = {one["version"] for one in own if one["name"] != "hoptax-fuzz"}
            self.assertEqual(stated, {VERSION}, lock)
        seen = 0
        for page in [project.ROOT / "README.md", *(project.ROOT / "docs/guides").glob("*.md")]:
            for stated in re.findall(r"\bhoptax[-_:](\d+\.\d+\.\d+)", page.read_text()):
                self.assertEqual(stated, VERSION, page.name)
                seen += 1
        self.assertGreater(seen, 3)

    def test_a_release_build_optimises_everything_and_the_demo_only_hot_code(self):
        profiles = tomllib.loads((project.ROOT / "Cargo.toml").read_text())["profile"]
        release, demo = profiles["release"], profiles["demo"]
        self.assertEqual((release["opt-level"], release["lto"], release["strip"]), ("s", "fat", "symbols"))
        self.assertEqual((demo["inherits"], demo["opt-level"]), ("release", 0))
        # Requests cost the same in both, so figures of both can be compared.
        self.assertNotIn("package", demo)
        for crate in ("hoptax-wire", "hoptax-format", "hoptax-load", "hoptax-servers"):
            self.assertEqual(release["package"][crate], {"opt-level": 3, "codegen-units": 1}, crate)
        self.assertEqual(profiles.keys(), {"release", "demo", "dev"})

    def test_pages_say_that_nothing_is_published(self):
        """Delete these words, and this test, when the first release is published."""
        installs = re.compile(r"(?:uv tool|pip) install hoptax|install --locked hoptax|binstall hoptax|ghcr\.io/hoptax")
        pages = [project.ROOT / "README.md", *(project.ROOT / "docs").rglob("*.md")]
        naming = [page for page in pages if installs.search(page.read_text())]
        for page in (*naming, project.ROOT / "README.md"):
            self.assertRegex(page.read_text(), "not yet published|Nothing is published yet", page.name)
        self.assertIn("install.md", [page.name for page in naming])

    def test_release_notes_are_one_section(self):
        changelog = "# Changelog\n\n## Unreleased\n\n- c\n\n## 0.2.0 (2026-01-02)\n\n### New\n\n- b\n\n## [0.1.0]\n\n- a\n"
        self.assertEqual(project.release_notes("0.2.0", changelog), "### New\n\n- b\n")
        self.assertEqual(project.release_notes("0.1.0", changelog), "- a\n")
        with self.assertRaises(SystemExit):
            project.release_notes("0.3.0", changelog)

    def test_links_of_the_front_page_work_elsewhere(self):
        page = '[a](docs/a.md#b) [c](https://d) [e](#f) <img src="docs/g.png" srcset="https://h">'
        self.assertEqual(project.absolute_links(page, "https://x/y", "1.0.0"),
                         '[a](https://x/y/blob/v1.0.0/docs/a.md#b) [c](https://d) [e](#f) '
                         '<img src="https://x/y/raw/v1.0.0/docs/g.png" srcset="https://h">')

    def test_the_digest_depends_on_files_and_texts(self):
        self.assertEqual(project.digest("a"), project.digest("a"))
        self.assertNotEqual(project.digest("a"), project.digest("b"))

    def test_all_inputs_exist(self):
        for name in project.INPUTS:
            self.assertTrue((project.ROOT / name).exists(), name)


class Archive(unittest.TestCase):
    def test_equal_files_give_equal_archives(self):
        entries = parents([Entry("b/c", b"1", 0o755), Entry("a", b"2")])
        made = tar(entries, DATE)
        self.assertEqual([entry.name for entry in entries], ["a", "b", "b/c"])
        self.assertEqual(gzipped(made), gzipped(tar(entries, DATE)))
        with tarfile.open(fileobj=io.BytesIO(made)) as opened:
            members = {one.name: one for one in opened}
        self.assertEqual((members["b/c"].mode, members["b/c"].mtime, members["b/c"].uid), (0o755, DATE, 0))
        self.assertTrue(members["b"].isdir())

    def test_the_archive_has_the_layout_of_binstall(self):
        name, content = build.tar_gz(PACKAGE, TARGET, SCRIPT, PAGES, COMPLETIONS, b"licenses", DATE)
        metadata = tomllib.loads((project.ROOT / "crates/hoptax/Cargo.toml").read_text())["package"]["metadata"]["binstall"]
        self.assertTrue(metadata["pkg-url"].endswith("/hoptax-{ version }-{ target }.tar.gz"))
        self.assertEqual(name, f"hoptax-{VERSION}-{TARGET.triple}.tar.gz")
        with tarfile.open(fileobj=io.BytesIO(content)) as opened:
            names = opened.getnames()
        top = name.removesuffix(".tar.gz")
        for file in ("hoptax", "README.md", "LICENSE-MIT", "man/hoptax.1", "completions/hoptax.zsh"):
            self.assertIn(f"{top}/{file}", names)


class Wheel(unittest.TestCase):
    def test_versions_of_python(self):
        for given, expected in (("1.2.3", "1.2.3"), ("1.2.3-rc.1", "1.2.3rc1"), ("1.2.3-alpha.4", "1.2.3a4")):
            self.assertEqual(wheel.python_version(given), expected)
        with self.assertRaises(SystemExit):
            wheel.python_version("1.2.3-dev")

    def test_the_record_has_the_digest_of_every_file(self):
        content = wheel.wheel(PACKAGE, TARGET, SCRIPT, PAGES, b"licenses", DATE)
        self.assertEqual(content, wheel.wheel(PACKAGE, TARGET, SCRIPT, PAGES, b"licenses", DATE))
        with zipfile.ZipFile(io.BytesIO(content)) as opened:
            top = f"hoptax-{wheel.python_version(VERSION)}"
            record = opened.read(f"{top}.dist-info/RECORD").decode().splitlines()
            listed = dict(line.rsplit(",", 2)[:2] for line in record)
            self.assertEqual(set(listed), set(opened.namelist()))
            binary = opened.getinfo(f"{top}.data/scripts/hoptax")
            self.assertEqual(binary.external_attr >> 16, 0o100755)
            self.assertEqual(listed[binary.filename], f"sha256={wheel.digest(SCRIPT)}")
            described = opened.read(f"{top}.dist-info/METADATA").decode()
        self.assertIn("\nLicense-Expression: Apache-2.0 OR MIT\n", described)
        self.assertNotIn("](docs/", described)

    def test_the_python_package_is_in_the_wheel(self):
        with zipfile.ZipFile(io.BytesIO(wheel.wheel(PACKAGE, TARGET, SCRIPT, PAGES, b"licenses", DATE))) as opened:
            names = set(opened.namelist())
            info = f"hoptax-{wheel.python_version(VERSION)}.dist-info"
            described = email.message_from_bytes(opened.read(f"{info}/METADATA"))
            points = configparser.ConfigParser(delimiters="=")
            points.read_string(opened.read(f"{info}/entry_points.txt").decode())
        folder = project.ROOT / "python/hoptax"
        self.assertLessEqual({f"hoptax/{file.name}" for file in folder.glob("*.py")} | {"hoptax/py.typed"}, names)
        self.assertFalse([name for name in names if "__pycache__" in name])
        self.assertEqual(dict(points["pytest11"]), {"hoptax.pytest_plugin": "hoptax.pytest_plugin"})
        self.assertEqual(described["Requires-Python"], ">=3.9")
        self.assertEqual(described.get_all("Provides-Extra"), ["pytest", "pandas"])
        self.assertEqual(described.get_all("Requires-Dist"), ['pytest>=7.0; extra == "pytest"', 'pandas; extra == "pandas"'])
        self.assertIn("Framework :: Pytest", described.get_all("Classifier"))


class Debian(unittest.TestCase):
    def test_a_pre_release_sorts_before_its_release(self):
        self.assertEqual(debian.debian_version("1.2.0-rc.1"), "1.2.0~rc.1-1")

    def test_the_control_file_has_no_empty_line(self):
        text = debian.control(PACKAGE, TARGET, 3000)
        self.assertIn("\nInstalled-Size: 3\n", text)
        self.assertNotIn("\n\n", text)

    @unittest.skipUnless(shutil.which("dpkg-deb"), "dpkg-deb is not installed")
    def test_dpkg_reads_the_package(self):
        with tempfile.TemporaryDirectory() as scratch:
            made = [Path(scratch) / name for name in ("a.deb", "b.deb")]
            entries = debian.files(PACKAGE, SCRIPT, PAGES, COMPLETIONS, b"licenses", DATE)
            for path in made:
                debian.build(PACKAGE, TARGET, entries, DATE, path)
            self.assertEqual(made[0].read_bytes(), made[1].read_bytes())
            shown = subprocess.run(["dpkg-deb", "--contents", made[0]], capture_output=True, text=True, check=True).stdout
            self.assertRegex(shown, r"-rwxr-xr-x root/root .* \./usr/bin/hoptax\n")
            self.assertIn("./usr/share/man/man1/hoptax.1.gz", shown)
            fields = subprocess.run(["dpkg-deb", "--field", made[0]], capture_output=True, text=True, check=True).stdout
            self.assertIn("\nArchitecture: amd64\n", fields)


class Image(unittest.TestCase):
    def setUp(self):
        self.content = image.image(PACKAGE, TARGET, image.files(SCRIPT, b"certificates", b"licenses"), DATE)

    def test_all_digests_are_right(self):
        config, (layer,) = check.blobs(self.content)
        self.assertEqual((config["architecture"], config["config"]["Entrypoint"]), ("amd64", ["/usr/bin/hoptax"]))
        with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
            members = {one.name: one for one in opened}
            self.assertEqual(opened.extractfile("usr/bin/hoptax").read(), SCRIPT)
        self.assertEqual((members["tmp"].mode, members["usr/bin/hoptax"].mode), (0o1777, 0o755))

    def test_a_changed_layer_is_noticed(self):
        with tarfile.open(fileobj=io.BytesIO(self.content)) as opened:
            entries = [Entry(one.name, opened.extractfile(one).read() if one.isfile() else None) for one in opened]
        is_layer = lambda entry: entry.content is not None and entry.content.startswith(b"\x1f\x8b")
        changed = [Entry(entry.name, gzipped(b"other")) if is_layer(entry) else entry for entry in entries]
        self.assertNotEqual(changed, entries)
        with self.assertRaises(AssertionError):
            check.blobs(tar(changed, DATE))


class Bill(unittest.TestCase):
    """A binary that uses a library, a procedural macro, and a library only in tests."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

        def package(name, kind="lib"):
            folder = self.folder / name
            folder.mkdir()
            (folder / "LICENSE-MIT").write_text(f"MIT of {name if name == 'used' else 'others'}\n")
            return {"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "repository": None,
                    "manifest_path": str(folder / "Cargo.toml"), "targets": [{"kind": [kind]}]}

        edge = lambda name, kind=None: {"pkg": name, "dep_kinds": [{"kind": kind}]}
        self.metadata = {
            "packages": [package("hoptax"), package("used"), package("deep"), package("macro", "proc-macro"),
                         package("below-macro"), package("tests"), package("builds")],
            "resolve": {"nodes": [
                {"id": "hoptax", "deps": [edge("used"), edge("macro"), edge("tests", "dev"), edge("builds", "build")]},
                {"id": "used", "deps": [edge("deep")]},
                {"id": "macro", "deps": [edge("below-macro")]},
                *({"id": name, "deps": []} for name in ("deep", "below-macro", "tests", "builds")),
            ]},
        }

    def test_only_parts_of_the_binary_are_listed(self):
        found = sbom.crates(self.metadata)
        self.assertEqual(set(found), {"hoptax", "used", "deep"})
        made = json.loads(sbom.document(PACKAGE, found, SCRIPT, TARGET, DATE))
        self.assertEqual(made["metadata"]["component"]["hashes"][0]["content"], hashlib.sha256(SCRIPT).hexdigest())
        self.assertEqual([one["name"] for one in made["components"]],
                         ["deep", "used", "musl", "echarts", "tslib", "zrender", "dejavu-sans"])
        self.assertEqual(made["components"][0]["licenses"], [{"expression": "MIT OR Apache-2.0"}])
        self.assertIn({"ref": "pkg:cargo/used@1.0.0", "dependsOn": ["pkg:cargo/deep@1.0.0"]}, made["dependencies"])

    def test_equal_licenses_are_printed_once(self):
        text = sbom.third_party(sbom.crates(self.metadata)).decode()
        self.assertEqual((text.count("MIT of others"), text.count("MIT of used")), (1, 1))
        self.assertIn("\ndeep 1.0.0, hoptax 1.0.0\n", text)
        self.assertIn("Rich Felker", text)


class ChartLibrary(unittest.TestCase):
    """Reports are passed on alone, so the library in them has to carry its notices."""

    def setUp(self):
        folder = project.ROOT / "scripts/chart-library"
        spec = importlib.util.spec_from_file_location("licenses", folder / "licenses.py")
        self.licenses = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.licenses)
        self.manifest, self.lock = (json.loads((folder / name).read_text()) for name in ("package.json", "package-lock.json"))
        self.bundle = (sbom.REPORT / "echarts.min.js").read_text()

    def problems(self):
        return self.licenses.problems(self.manifest, self.lock, self.bundle)

    def test_the_library_of_this_tree_is_right(self):
        self.assertEqual(self.problems(), [])
        for holder in ("The Apache Software Foundation", "Baidu Inc.", "Mike Bostock"):
            self.assertIn(holder, self.bundle.partition("*/")[0])

    def test_another_license_is_found(self):
        self.lock["packages"]["node_modules/zrender"]["license"] = "GPL-3.0"
        self.assertEqual(self.problems(), ["zrender has GPL-3.0. Read it, then add it to ALLOWED"])

    def test_a_new_package_needs_its_notices(self):
        self.lock["packages"]["node_modules/a/node_modules/b"] = {"license": "0BSD", "integrity": "sha512-", "version": "1"}
        self.assertEqual(len(self.problems()), 1)
        self.assertIn("b is new", self.problems()[0])

    def test_a_library_of_another_version_or_without_notices_is_found(self):
        self.bundle = self.bundle.partition("*/")[2]
        self.assertIn("does not begin with the notices", self.problems()[0])
        self.manifest["dependencies"]["echarts"] = "6.2.0"
        self.assertIn("does not have echarts 6.2.0", self.problems()[0])


class Build(unittest.TestCase):
    def test_packages_are_built_again_if_they_were_changed(self):
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch)
            (out / "a").write_text("1")
            self.assertFalse(build.is_up_to_date(out, "inputs\n"))
            (out / build.STAMP).write_text("inputs\n")
            (out / build.SUMS).write_text(build.sums(out))
            self.assertTrue(build.is_up_to_date(out, "inputs\n"))
            self.assertFalse(build.is_up_to_date(out, "other inputs\n"))
            (out / "a").write_text("2")
            self.assertFalse(build.is_up_to_date(out, "inputs\n"))

    def test_the_stamp_depends_on_the_machine_and_on_given_files(self):
        make = lambda *contents, dpkg=True, flags="": self.stamp_with(dpkg, flags, *contents)
        stamps = [make(), make(dpkg=False), make(flags="-C opt-level=1"), make(b"1"), make(b"2")]
        self.assertEqual(len(set(stamps)), len(stamps))
        self.assertEqual(make(b"1"), make(b"1"))

    def stamp_with(self, dpkg, flags, *contents):
        with mock.patch("shutil.which", return_value="/usr/bin/dpkg-deb" if dpkg else None), \
                mock.patch.dict("os.environ", {"RUSTFLAGS": flags}), mock.patch("project.digest", lambda *texts: repr(texts)):
            return build.stamp(DATE, "rustc", ["target"], *contents)

    def test_with_given_binaries_no_tool_is_installed(self):
        with tempfile.TemporaryDirectory() as scratch, \
                mock.patch("build.environment", side_effect=AssertionError("it installs tools")), \
                mock.patch("build.authorities_of_this_machine", return_value=b"certificates"), \
                mock.patch("build.printed", return_value=(PAGES, COMPLETIONS)), \
                mock.patch("build.runnable"), mock.patch("build.pack") as packed, mock.patch("build.say"):
            binary, out = Path(scratch) / "hoptax", Path(scratch) / "dist"
            binary.write_bytes(SCRIPT)
            with mock.patch("sys.argv", ["build.py", "--binary", f"{TARGET.triple}={binary}", "--out", str(out)]):
                build.main()
                build.main()
            self.assertEqual(packed.call_count, 1)

    def test_pages_come_from_a_binary_that_runs_here(self):
        with mock.patch("platform.machine", return_value="aarch64"):
            self.assertEqual(build.runnable({"x86_64-unknown-linux-musl": 1, "aarch64-unknown-linux-musl": 2}), 2)
            with self.assertRaises(SystemExit):
                build.runnable({"x86_64-unknown-linux-musl": 1})


class Outcomes(unittest.TestCase):
    def test_the_table_has_a_row_for_each_way(self):
        def skip():
            raise check.Skipped("no engine")

        def fail():
            raise AssertionError("exited with 1: a|b\nmore")

        with tempfile.NamedTemporaryFile() as file, mock.patch("builtins.print"):
            file.write(bytes(1_500_000))
            file.flush()
            outcomes = check.Outcomes()
            outcomes.check("pip", lambda: "60 requests", Path(file.name))
            outcomes.check("docker", skip)
            self.assertEqual(outcomes.status(), 0)
            outcomes.check("deb", fail)
            self.assertEqual(outcomes.status(), 1)
        self.assertEqual(outcomes.table().splitlines()[2:], [
            "| pip | passed | 0 | 1.5 | 60 requests |",
            "| docker | skipped | 0 |  | no engine |",
            "| deb | failed | 0 |  | exited with 1: a\\|b |"])


class Elf(unittest.TestCase):
    def test_a_shell_is_a_stripped_elf_file(self):
        shell = Path("/bin/sh").resolve().read_bytes()
        elf = check.Elf(shell)
        self.assertIn(elf.machine, {target.elf for target in project.TARGETS.values()})
        self.assertTrue(elf.is_stripped)
        with self.assertRaises(AssertionError):
            check.Elf(SCRIPT)


if __name__ == "__main__":
    unittest.main()
