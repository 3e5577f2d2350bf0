#!/usr/bin/env python3
"""Builds all packages into dist/: static binaries, wheels, Debian packages, container images, bills of materials.

    scripts/packages/build.py                      build what has changed
    scripts/packages/build.py --targets x86_64-unknown-linux-musl
    scripts/packages/build.py --binary x86_64-unknown-linux-musl=PATH
                                                   pack this binary instead of building one
    scripts/packages/build.py --notes 1.2.3        print the release notes of a version
    scripts/packages/build.py --version            print the version

zig compiles and links C code for other machines. zig and cargo-zigbuild come from PyPI, into a virtual environment of
hoptax's tools directory; the compiler's libraries come from rustup. If every binary is given, nothing is downloaded. The packages are the same whenever they are built
from the same commit with the same tools.
"""

import argparse
import hashlib
import os
import platform
import shutil
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

import debian
import image
import project
import sbom
import wheel
from archive import FASTEST, SMALLEST, Entry, gzipped, parents, tar

AUTHORITIES = "certifi==2026.10.18"
TOOLS = ("cargo-zigbuild==0.24.0", "ziglang==0.15.2", AUTHORITIES)
# Where Debian, Alpine and Fedora keep the list of certificate authorities.
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
SUMS, STAMP = "SHA256SUMS", ".inputs"


def say(text):
    print(f"packages: {text}", flush=True)


def environment(name="packages", tools=TOOLS):
    """Path of a virtual environment with the tools."""
    folder = project.home() / "tools" / name
    pinned = "\n".join(tools) + "\n"
    known = folder / "installed.txt"
    if not known.exists() or known.read_text() != pinned:
        say(f"installing {', '.join(tools)} into {folder}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *tools], check=True)
        known.write_text(pinned)
    return folder


def add_library(triple):
    """Installs the standard library for a target."""
    shown = subprocess.run(["rustc", "--print", "target-libdir", "--target", triple], cwd=project.ROOT, check=True,
                           capture_output=True, text=True)
    if not Path(shown.stdout.strip()).is_dir():
        if not shutil.which("rustup"):
            raise SystemExit(f"packages: Rust has no standard library for {triple}, and there is no rustup to install it")
        say(f"installing the standard library for {triple}")
        subprocess.run(["rustup", "target", "add", triple], cwd=project.ROOT, check=True)


def compiler(tools, date):
    """The environment variables of the compiler. Paths of this machine are left out of the binary."""
    cargo_home = os.environ.get("CARGO_HOME") or Path.home() / ".cargo"
    remapped = f"--remap-path-prefix={cargo_home}=/cargo --remap-path-prefix={project.ROOT}=/hoptax"
    return {
        **os.environ,
        "PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "CARGO_ZIGBUILD_PYTHON_PATH": str(tools / "bin/python3"),
        "RUSTFLAGS": f"{os.environ.get('RUSTFLAGS', '')} {remapped}".strip(),
        "SOURCE_DATE_EPOCH": str(date),
    }


def compiled(tools, target, date):
    """Compiles hoptax for a target. Returns the path of the binary."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR") or project.ROOT / "target").absolute()
    variables = compiler(tools, date)
    # A panic aborts, and the binary has no symbols, so nothing reads the tables for unwinding (1 MB).
    variables["RUSTFLAGS"] += " -C force-unwind-tables=no"
    say(f"compiling for {target.triple}")
    subprocess.run(["cargo-zigbuild", "zigbuild", "--locked", "--release", "--package", "hoptax", "--target",
                    target.triple, "--target-dir", folder], cwd=project.ROOT, check=True, env=variables)
    return folder / target.triple / "release/hoptax"


def printed(binary):
    """(Manual pages by file name, completion scripts by shell), as the binary prints them."""
    with tempfile.TemporaryDirectory(prefix="hoptax-man-") as scratch:
        subprocess.run([binary, "generate", "man", "--output", scratch], check=True)
        pages = {file.name: file.read_bytes() for file in sorted(Path(scratch).iterdir())}
    completions = {shell: subprocess.run([binary, "generate", "completions", shell], check=True, stdout=subprocess.PIPE).stdout
                   for shell in project.SHELLS}
    return pages, completions


def authorities(tools):
    """Mozilla's list of certificate authorities, from certifi."""
    command = [tools / "bin/python3", "-c", "import certifi; print(certifi.contents(), end='')"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def authorities_of_this_machine():
    """The certificate authorities that this machine trusts, or certifi's if it has none."""
    found = [Path(path) for path in (ssl.get_default_verify_paths().cafile, *CERTIFICATES) if path and Path(path).is_file()]
    return found[0].read_bytes() if found else authorities(environment("certificates", (AUTHORITIES,)))


def tar_gz(package, target, binary, pages, completions, third_party, date, level=SMALLEST):
    """Name and content of the archive that `cargo binstall` and people download."""
    top = f"hoptax-{package['version']}-{target.triple}"
    entries = parents([
        Entry(f"{top}/hoptax", binary, 0o755),
        *(Entry(f"{top}/{file}", (project.ROOT / file).read_bytes()) for file in project.DOCUMENTS),
        Entry(f"{top}/THIRD-PARTY-LICENSES.txt", third_party),
        *(Entry(f"{top}/man/{page}", text) for page, text in pages.items()),
        *(Entry(f"{top}/completions/hoptax.{shell}", script) for shell, script in completions.items()),
    ])
    return f"{top}.tar.gz", gzipped(tar(entries, date), level)


def pack(package, target, binary, parts, certificates, date, out, level=SMALLEST):
    """Writes all packages of a target. `parts` are the manual pages and the completion scripts."""
    say(f"packing for {target.triple}")
    version, found = package["version"], sbom.crates(sbom.resolved(target))
    third_party = sbom.third_party(found)
    name, content = tar_gz(package, target, binary, *parts, third_party, date, level)
    (out / name).write_bytes(content)
    (out / f"hoptax-{version}-{target.triple}.cdx.json").write_bytes(
        sbom.document(package, found, binary, target, date))
    (out / wheel.file_name(version, target)).write_bytes(
        wheel.wheel(package, target, binary, parts[0], third_party, date, level))
    (out / image.file_name(version, target)).write_bytes(
        image.image(package, target, image.files(binary, certificates, third_party), date, level))
    if shutil.which("dpkg-deb"):
        entries = debian.files(package, binary, *parts, third_party, date)
        debian.build(package, target, entries, date, out / debian.file_name(version, target), level)
    else:
        say("no Debian package, because dpkg-deb is not installed")


def sums(folder):
    """The checksums of all files of a folder, in the format of sha256sum."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name not in (SUMS, STAMP))
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def stamp(date, rust, targets, *contents):
    """Text that changes with everything that the packages depend on. `contents` are given files."""
    has_dpkg, flags = str(shutil.which("dpkg-deb") is not None), os.environ.get("RUSTFLAGS", "")
    own = [hashlib.sha256(content).hexdigest() for content in contents]
    return project.digest(str(date), rust, *TOOLS, has_dpkg, flags, *targets, *own) + "\n"


def is_up_to_date(out, inputs):
    """True if the packages in `out` were built from the same inputs, and nobody has changed them since."""
    kept = [out / STAMP, out / SUMS]
    return all(file.is_file() for file in kept) and kept[0].read_text() == inputs and kept[1].read_text() == sums(out)


def runnable(binaries):
    """One of the binaries that this machine can run."""
    for triple, path in binaries.items():
        if project.TARGETS[triple].machine == platform.machine():
            return path
    raise SystemExit(f"packages: none of the targets is for this machine, {platform.machine()}. The manual pages and "
                     "completions need a binary that runs here: add its target to --targets")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=",".join(project.TARGETS), help="targets, separated by commas (default %(default)s)")
    parser.add_argument("--binary", action="append", default=[], metavar="TARGET=PATH", help="pack this binary; can be repeated")
    parser.add_argument("--fast", action="store_true", help="compress little, for a trial")
    parser.add_argument("--out", type=Path, default=project.ROOT / "dist", help="directory of the packages (default dist)")
    parser.add_argument("--notes", metavar="VERSION", help="only print the release notes of this version")
    parser.add_argument("--version", action="version", version=project.package()["version"], help="print the version")
    asked = parser.parse_args()
    asked.targets = [one.partition("=")[0] for one in asked.binary] or asked.targets.split(",")
    if unknown := [one for one in asked.targets if one not in project.TARGETS]:
        parser.error(f"{unknown[0]} is not a target; the targets are {', '.join(project.TARGETS)}")
    return asked


def main():
    asked = arguments()
    if asked.notes:
        print(project.release_notes(asked.notes, (project.ROOT / "CHANGELOG.md").read_text()), end="")
        return
    package, date, given = project.package(), project.date(), dict(one.split("=", 1) for one in asked.binary)
    rust = subprocess.run(["rustc", "-vV"], cwd=project.ROOT, check=True, capture_output=True, text=True).stdout
    compiles, level = set(asked.targets) != set(given), FASTEST if asked.fast else SMALLEST
    certificates = b"" if compiles else authorities_of_this_machine()
    inputs = stamp(date, rust, [*asked.targets, str(level)], certificates, *(Path(path).read_bytes() for path in given.values()))
    if is_up_to_date(asked.out, inputs):
        say(f"{asked.out} is up to date")
        return
    if compiles:
        tools = environment()
        certificates = authorities(tools)
    binaries = {}
    for triple in asked.targets:
        target = project.TARGETS[triple]
        if triple not in given:
            add_library(triple)
        binaries[triple] = Path(given[triple]) if triple in given else compiled(tools, target, date)
    parts = printed(runnable(binaries))
    # Packages of earlier versions must not remain next to the new ones.
    if asked.out.exists() and not (asked.out / STAMP).exists() and any(asked.out.iterdir()):
        raise SystemExit(f"packages: {asked.out} contains other files; choose another directory with --out")
    shutil.rmtree(asked.out, ignore_errors=True)
    asked.out.mkdir(parents=True)
    (asked.out / STAMP).write_text("incomplete\n")
    for triple, path in binaries.items():
        pack(package, project.TARGETS[triple], path.read_bytes(), parts, certificates, date, asked.out, level)
    (asked.out / SUMS).write_text(sums(asked.out))
    (asked.out / STAMP).write_text(inputs)
    for file in sorted(asked.out.iterdir()):
        if file.name != STAMP:
            say(f"{file.stat().st_size / 1e6:6.2f} MB  {file}")


if __name__ == "__main__":
    main()
