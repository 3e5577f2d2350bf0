#!/usr/bin/env python3
"""Checks the packages in dist/: installs each of them, and measures a hop with it for ten seconds.

    scripts/packages/check.py                 check everything that can be checked on this machine
    scripts/packages/check.py --seconds 3     measure for three seconds
    scripts/packages/check.py --only crates   only check that every crate compiles from its package (minutes)
    scripts/packages/check.py --only cargo-install   only check `cargo install` (minutes)

The table at the end has a row for each way of installing. Nothing is installed outside a scratch directory, except uv, which comes from PyPI into hoptax's tools directory. What
cannot be tried here is printed as skipped, with the reason. The script exits with 1 if a check fails.
"""

import argparse
import functools
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

import build
import debian
import image
import project
import wheel

# Largest size of a binary, bytes; longest time of a command, s.
MOST_BYTES = 15_000_000
# crates.io refuses larger crates.
MOST_CRATE_BYTES = 10 * 1024 * 1024
LONGEST = {"--version": 0.005, "gateways": 0.050}
# How often a command is started. The shortest time is used, because other work on the machine only makes a start longer.
STARTS = 20
UV = "uv==0.13.9"
PLAN = """name: packages
gateways: [hop-l7]
load: [{{ loop: open, rate: 200/s, connections: 4 }}]
time: {seconds}s
warmup: 200ms
"""
# Prints the program that the Python package finds, and the plugins that pytest would load.
IMPORTED = """
import hoptax, importlib.metadata
print(hoptax.find_binary(), *(point.value for point in importlib.metadata.entry_points(group="pytest11")))
"""
# Gives a directory what a container engine gives a container, and runs a command in it.
CONTAINER = """
for folder in dev proc sys; do mkdir -p "$0/$folder"; done
mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && exec chroot "$0" "$@"
"""


class Skipped(Exception):
    """A check cannot be made on this machine. The text is the reason."""


def run(command, **more):
    """Output of a command. Fails with the end of its output if it fails."""
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    assert ran.returncode == 0, f"{shlex.join(map(str, command))} exited with {ran.returncode}: {(ran.stdout + ran.stderr)[-2000:]}"
    return ran.stdout


def is_here(target):
    return target.machine == platform.machine()


def measure(command, folder, seconds, inside=None, **more):
    """Measures a hop with a hoptax in `folder`, which the command sees as `inside`, and looks at the report."""
    (folder / "plan.yaml").write_text(PLAN.format(seconds=seconds))
    inside = inside or folder
    run([*command, "run", f"{inside}/plan.yaml", "--accept-void", "--no-live", "--out", f"{inside}/results"], **more)
    results = [path for path in (folder / "results").iterdir() if path.is_dir()]
    assert len(results) == 1, f"not one run: {results}"
    shown = json.loads(run([*command, "report", f"{inside}/results/{results[0].name}", "--format", "json"], **more))
    cases = {case["gateway"]: case["counts"]["ok"] for case in shown["cases"]}
    assert cases.get("hop-l7", 0) > 0 and cases.get("direct", 0) > 0, f"no requests succeeded: {cases}"
    return f"{cases['hop-l7']:,} requests through the hop"


class Elf:
    """The parts of a 64-bit ELF file that say how it was linked."""

    def __init__(self, content):
        assert content[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file"
        self.machine = struct.unpack_from("<H", content, 18)[0]
        programs, sections = struct.unpack_from("<QQ", content, 32)
        size, count, section_size, section_count = struct.unpack_from("<HHHH", content, 54)
        self.segments = {struct.unpack_from("<I", content, programs + index * size)[0] for index in range(count)}
        self.sections = {struct.unpack_from("<I", content, sections + index * section_size + 4)[0]
                         for index in range(section_count)}

    @property
    def is_static(self):
        return 3 not in self.segments  # PT_INTERP

    @property
    def is_stripped(self):
        return 2 not in self.sections  # SHT_SYMTAB


def sums(tries):
    kept = (tries.dist / build.SUMS).read_text()
    assert kept == build.sums(tries.dist), f"{build.SUMS} does not agree with the files"
    return f"{len(kept.splitlines())} files"


def archive(tries, target):
    """The archive has the layout that Cargo.toml gives `cargo binstall`, and a static binary."""
    manifest = tomllib.loads((project.ROOT / "crates/hoptax/Cargo.toml").read_text())
    template = manifest["package"]["metadata"]["binstall"]
    values = {"version": tries.version, "target": target.triple, "repo": tries.package["repository"], "bin": "hoptax"}
    filled = {key: text.replace("{ ", "{").replace(" }", "}").format(**values) for key, text in template.items()}
    with tarfile.open(tries.dist / filled["pkg-url"].rsplit("/", 1)[1]) as file:
        file.extractall(tries.scratch, filter="data")
    binary = tries.scratch / filled["bin-dir"]
    content = binary.read_bytes()
    elf = Elf(content)
    assert elf.machine == target.elf, f"it is for machine {elf.machine}"
    assert elf.is_stripped, "the binary has symbols"
    if not tries.is_trial:
        assert elf.is_static, "the binary is not static"
        assert len(content) <= MOST_BYTES, f"the binary has {len(content):,} bytes"
        for text in (str(project.ROOT), str(Path.home() / ".cargo")):
            assert text.encode() not in content, f"the binary contains the path {text}"
    for needed in ("man/hoptax.1", "man/hoptax-run.1", "completions/hoptax.bash", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"):
        assert (binary.parent / needed).stat().st_size > 0, needed
    said = ""
    if is_here(target):
        said = ", " + measure([binary], tries.folder(), tries.seconds)
    elif emulator := shutil.which(f"qemu-{target.machine}-static") or shutil.which(f"qemu-{target.machine}"):
        assert run([emulator, binary, "--version"]).strip() == f"hoptax {tries.version}"
        said = ", runs in an emulator"
    return f"{len(content) / 1e6:.1f} MB{said}"


def starts(tries, target):
    """How long commands take at their first call, without a cache, and later."""
    if tries.is_trial:
        raise Skipped("the binary is not optimised")
    needs_machine(target)
    binary = tries.scratch / f"hoptax-{tries.version}-{target.triple}/hoptax"
    environment, said, too_long = {**os.environ, "XDG_CACHE_HOME": str(tries.folder())}, [], []
    for verb, longest in LONGEST.items():
        took = []
        for _ in range(1 + STARTS):
            begun = time.perf_counter()
            subprocess.run([binary, verb], check=True, stdout=subprocess.DEVNULL, env=environment)
            took.append(1000 * (time.perf_counter() - begun))
        first, later = took[0], min(took[1:])
        said.append(f"{verb} {first:.1f} ms, later {later:.1f} ms")
        if later > 1000 * longest:
            too_long.append(f"hoptax {verb} may take {1000 * longest:.0f} ms")
    assert not too_long, "; ".join([*said, *too_long])
    return "; ".join(said)


def needs_machine(target):
    if not is_here(target):
        raise Skipped(f"this machine is {platform.machine()}")


def bill(tries, target):
    """The bill of materials is complete: each part that another part uses is listed."""
    found = json.loads((tries.dist / f"hoptax-{tries.version}-{target.triple}.cdx.json").read_text())
    listed = {one["bom-ref"] for one in [found["metadata"]["component"], *found["components"]]}
    used = {ref for one in found["dependencies"] for ref in [one["ref"], *one["dependsOn"]]}
    assert used <= listed, f"not listed: {used - listed}"
    names = {one["name"] for one in found["components"]}
    assert {"ring", "rustls", "sqlite", "musl", "hoptax-wire"} <= names and "insta" not in names, sorted(names)
    binary = tries.scratch / f"hoptax-{tries.version}-{target.triple}/hoptax"
    assert found["metadata"]["component"]["hashes"][0]["content"] == hashlib.sha256(binary.read_bytes()).hexdigest()
    return f"{len(listed)} parts"


def pip(tries, target):
    """`pip install hoptax`, from the directory of the packages alone."""
    file = tries.dist / wheel.file_name(tries.version, target)
    with zipfile.ZipFile(file) as opened:
        assert opened.testzip() is None
        name = next(name for name in opened.namelist() if name.endswith("/RECORD"))
        for line in opened.read(name).decode().splitlines():
            path, digest, _ = line.rsplit(",", 2)
            assert path == name or digest == f"sha256={wheel.digest(opened.read(path))}", path
    needs_machine(target)
    venv = tries.folder()
    run([sys.executable, "-m", "venv", venv])
    run([venv / "bin/pip", "install", "--disable-pip-version-check", "--no-index", "--find-links", tries.dist,
         f"hoptax=={wheel.python_version(tries.version)}"])
    assert run([venv / "bin/hoptax", "--version"]).strip() == f"hoptax {tries.version}"
    # The environment is not activated, so its programs are not on PATH.
    found = run([venv / "bin/python", "-c", IMPORTED], cwd=venv, env={"PATH": os.defpath}).split()
    assert found == [str(venv / "bin/hoptax"), "hoptax.pytest_plugin"], found
    said = measure([venv / "bin/hoptax"], venv, tries.seconds)
    run([venv / "bin/pip", "uninstall", "--yes", "hoptax"])
    assert not (venv / "bin/hoptax").exists(), "it is still there after `pip uninstall`"
    return said


def uvx(tries, target):
    """`uvx hoptax`."""
    needs_machine(target)
    home = project.home() / "tools/uv"
    if not (home / "bin/uv").exists():
        run([sys.executable, "-m", "venv", "--clear", home])
        run([home / "bin/pip", "install", "--quiet", "--disable-pip-version-check", UV])
    command = [home / "bin/uv", "tool", "run", "--cache-dir", tries.folder(), "--no-index", "--find-links", tries.dist,
               "--python", sys.executable, "hoptax"]
    assert run([*command, "--version"]).strip() == f"hoptax {tries.version}"
    return measure(command, tries.folder(), tries.seconds)


def deb(tries, target):
    """`dpkg --install` into a root of its own, and `dpkg --remove`."""
    if not shutil.which("dpkg-deb"):
        raise Skipped("dpkg-deb is not installed")
    file, root = tries.dist / debian.file_name(tries.version, target), tries.folder()
    assert run(["dpkg-deb", "--field", file, "Architecture"]).strip() == target.debian
    linted = ""
    if shutil.which("lintian") and not tries.is_trial:
        run(["lintian", "--fail-on", "error", "--suppress-tags", "embedded-library,statically-linked-binary", file])
        linted = ", lintian finds no error"
    is_installed = os.getuid() == 0
    if is_installed:
        for folder in ("info", "updates", "triggers"):
            (root / "var/lib/dpkg" / folder).mkdir(parents=True)
        for name in ("status", "available"):
            (root / "var/lib/dpkg" / name).touch()
        dpkg = ["dpkg", f"--root={root}", "--force-architecture", "--log=/dev/null"]
        run([*dpkg, "--install", file])
    else:
        run(["dpkg-deb", "--extract", file, root])
    binary = root / "usr/bin/hoptax"
    assert gzip.decompress((root / "usr/share/man/man1/hoptax-run.1.gz").read_bytes()).startswith(b".")
    for path in debian.COMPLETIONS.values():
        assert (root / path).stat().st_size > 0, path
    said = measure([binary], root, tries.seconds) if is_here(target) else "not run"
    if is_installed:
        run([*dpkg, "--remove", "hoptax"])
        assert not binary.exists(), "it is still there after `dpkg --remove`"
    return f"{'installed and removed' if is_installed else 'extracted'}, {said}{linted}"


def blobs(content):
    """The parts of an image: the config and the layers, checked against all digests."""
    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        files = {one.name: opened.extractfile(one).read() for one in opened if one.isfile()}

    def of(described):
        found = files[f"blobs/{described['digest'].replace(':', '/')}"]
        assert f"sha256:{hashlib.sha256(found).hexdigest()}" == described["digest"] and len(found) == described["size"]
        return found

    assert json.loads(files["oci-layout"])["imageLayoutVersion"] == "1.0.0"
    manifests = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(of(manifests[0]))
    config, layers = json.loads(of(manifest["config"])), [gzip.decompress(of(layer)) for layer in manifest["layers"]]
    assert [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers] == config["rootfs"]["diff_ids"]
    (for_docker,) = json.loads(files["manifest.json"])
    assert for_docker["Config"] in files and all(layer in files for layer in for_docker["Layers"])
    return config, layers


def add_libraries(root, program):
    """Copies the shared libraries of a program into its root."""
    for path in re.findall(r"(/\S+) \(0x", run(["ldd", f"{root}{program}"])):
        copy = Path(f"{root}{path}")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


def container(tries, target):
    """The image, in the way a container engine runs it: nothing of this machine can be seen but /dev, /proc and /sys."""
    config, layers = blobs((tries.dist / image.file_name(tries.version, target)).read_bytes())
    assert config["architecture"] == target.debian
    root = tries.folder()
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
            opened.extractall(root, filter="tar")
    assert (root / "etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") > 50
    needs_machine(target)
    if os.getuid() != 0:
        raise Skipped("chroot needs root")
    if tries.is_trial:
        add_libraries(root, config["config"]["Entrypoint"][0])
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", CONTAINER, root, *config["config"]["Entrypoint"]]
    # The commands outside the image need this machine's PATH. There is no other variable.
    environment = {"PATH": os.environ["PATH"]}
    tried = subprocess.run([*command, "--version"], capture_output=True, text=True, env=environment)
    if tried.stderr.startswith(("unshare:", "mount:")):
        raise Skipped(tried.stderr.strip())
    assert tried.stdout.strip() == f"hoptax {tries.version}", tried.stdout + tried.stderr
    return measure(command, root / "work", tries.seconds, "/work", env=environment)


def docker(tries, target):
    """`docker load` and `docker run`."""
    needs_machine(target)
    if subprocess.run(["sh", "-c", "docker version"], capture_output=True).returncode != 0:
        raise Skipped("no docker engine answers")
    name = f"hoptax:{tries.version}"
    run(["docker", "load", "--input", tries.dist / image.file_name(tries.version, target)])
    assert run(["docker", "run", "--rm", name, "--version"]).strip() == f"hoptax {tries.version}"
    folder = tries.folder()
    command = ["docker", "run", "--rm", "--user", f"{os.getuid()}:{os.getgid()}", "--volume", f"{folder}:/work", name]
    return measure(command, folder, tries.seconds, "/work")


def crates():
    """Every crate compiles from its package alone. All crates share the compiled dependencies."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR") or project.ROOT / "target").absolute() / "crates"
    run(["cargo", "package", "--workspace", "--allow-dirty"], cwd=project.ROOT,
        env={**os.environ, "CARGO_TARGET_DIR": str(folder), "CARGO_PROFILE_DEV_DEBUG": "0"})
    made = sorted((folder / "package").glob("*.crate"))
    largest = max(made, key=lambda file: file.stat().st_size)
    assert largest.stat().st_size < MOST_CRATE_BYTES, f"{largest.name} is too large for crates.io"
    return f"{len(made)} crates, at most {largest.stat().st_size / 1e6:.1f} MB"


def cargo_install(tries):
    """`cargo install hoptax`, from this directory instead of crates.io."""
    folder = tries.folder()
    target = Path(os.environ.get("CARGO_TARGET_DIR") or project.ROOT / "target").absolute() / "install"
    run(["cargo", "install", "--locked", "--path", project.ROOT / "crates/hoptax", "--root", folder, "--target-dir", target])
    binary = folder / "bin/hoptax"
    assert run([binary, "--version"]).strip() == f"hoptax {tries.version}"
    said = f"{binary.stat().st_size / 1e6:.1f} MB, {measure([binary], folder, tries.seconds)}"
    run(["cargo", "uninstall", "--root", folder, "hoptax"])
    assert not binary.exists(), "it is still there after `cargo uninstall`"
    return said


# Checks of the packages in dist/, in this order, with the name of the file that each installs.
PACKAGES = {
    archive: lambda version, target: f"hoptax-{version}-{target.triple}.tar.gz",
    starts: None,
    bill: lambda version, target: f"hoptax-{version}-{target.triple}.cdx.json",
    pip: wheel.file_name,
    uvx: wheel.file_name,
    deb: debian.file_name,
    container: image.file_name,
    docker: image.file_name,
}
# Checks of the source. They compile for minutes, so they must be named.
SOURCES = {"crates": lambda _tries: crates(), "cargo-install": cargo_install}


class Tries:
    """What all checks need. `is_trial` is true if the packages contain a debug binary that is not static."""

    def __init__(self, dist, seconds, scratch, is_trial=False):
        self.dist, self.seconds, self.scratch, self.is_trial = dist.resolve(), seconds, scratch, is_trial
        self.package = project.package()
        self.version = self.package["version"]

    def folder(self):
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        folder.chmod(0o755)
        return folder


class Outcomes:
    """The results of the checks, printed one by one and as a table."""

    def __init__(self):
        self.rows = []

    def check(self, name, function, file=None):
        begun = time.monotonic()
        try:
            outcome, said = "passed", function()
        except Skipped as reason:
            outcome, said = "skipped", str(reason)
        except AssertionError as error:
            outcome, said = "failed", str(error)
        except Exception as error:  # A broken package can fail in any way, and must not hide the other packages.
            outcome, said = "failed", repr(error)
        size = f"{file.stat().st_size / 1e6:.1f}" if file and file.exists() else ""
        self.rows.append((name, outcome, f"{time.monotonic() - begun:.0f}", size, said))
        print(f"{outcome:8}{name}: {said} ({', '.join([f'{self.rows[-1][2]} s', *([f'{size} MB'] if size else [])])})", flush=True)

    def count(self, outcome):
        return sum(row[1] == outcome for row in self.rows)

    def table(self):
        """A Markdown table. The text of a failure can have many lines, so only its first line is in the table."""
        lines = [" | ".join(cell.split("\n")[0].replace("|", "\\|") for cell in row) for row in self.rows]
        return "\n".join(["| way | outcome | s | MB | details |", "| --- | --- | ---: | ---: | --- |", *(f"| {line} |" for line in lines)])

    def status(self):
        """Prints the table, and returns the exit status."""
        print(f"\n{self.table()}\n\n" + ", ".join(f"{self.count(name)} {name}" for name in ("passed", "failed", "skipped")))
        return 1 if self.count("failed") or not self.count("passed") else 0


def check_packages(outcomes, tries, only):
    """Makes the checks whose names are in `only`."""
    outcomes.check("checksums", functools.partial(sums, tries))
    for target in project.TARGETS.values():
        if not (tries.dist / PACKAGES[archive](tries.version, target)).exists():
            print(f"skipped {target.machine}: not built")
            continue
        for function, file_name in PACKAGES.items():
            # The other checks use the binary of the archive.
            if function.__name__ in only or function is archive:
                file = tries.dist / file_name(tries.version, target) if file_name else None
                outcomes.check(f"{target.machine} {function.__name__}", functools.partial(function, tries, target), file)


def main():
    names = [*(function.__name__ for function in PACKAGES), *SOURCES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", nargs="?", type=Path, default=project.ROOT / "dist", help="directory of the packages (default dist)")
    parser.add_argument("--seconds", type=int, default=10, help="duration of each measurement, s (default %(default)s)")
    parser.add_argument("--only", choices=names, metavar="CHECK", help=f"only this check: {', '.join(names)}")
    asked = parser.parse_args()
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory(prefix="hoptax-packages-") as scratch:
        tries = Tries(asked.dist, asked.seconds, Path(scratch))
        Path(scratch).chmod(0o755)
        if asked.only in SOURCES:
            outcomes.check(asked.only, functools.partial(SOURCES[asked.only], tries))
        else:
            check_packages(outcomes, tries, [asked.only] if asked.only else names)
    return outcomes.status()


if __name__ == "__main__":
    sys.exit(main())
