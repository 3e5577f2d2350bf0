"""A wheel that contains the static binary and the Python package with its pytest plugin: `pip install hoptax`, `uvx hoptax`.

A static binary runs with every C library, so one wheel has the tags of manylinux and of musllinux. The format is
described at https://packaging.python.org/en/latest/specifications/binary-distribution-format/.
"""

import base64
import hashlib
import io
import re
import time
import zipfile

import project
from archive import SMALLEST, Entry

CLASSIFIERS = (
    "Environment :: Console",
    "Intended Audience :: Developers",
    "Intended Audience :: System Administrators",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Rust",
    "Topic :: Internet :: WWW/HTTP",
    "Topic :: Software Development :: Testing :: Traffic Generation",
    "Topic :: System :: Benchmark",
)


def python_version(version):
    """A version of Cargo as a version of Python: 1.2.0-rc.1 is 1.2.0rc1."""
    parts = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.(\d+))?", version)
    if not parts:
        raise SystemExit(f"the version {version} cannot be a version of Python: use 1.2.3 or 1.2.3-rc.1")
    release, kind, number = parts.groups()
    return release + ({"alpha": "a", "beta": "b", "rc": "rc"}[kind] + number if kind else "")


def tags(machine):
    """Tags of the platforms on which a static binary runs."""
    return f"manylinux_2_17_{machine}", f"manylinux2014_{machine}", f"musllinux_1_1_{machine}"


def file_name(version, target):
    return f"hoptax-{python_version(version)}-py3-none-{'.'.join(tags(target.machine))}.whl"


def requirements(described):
    """The lines about the dependencies of a project that pyproject.toml describes."""
    extras = described.get("optional-dependencies", {})
    return [*(f"Requires-Dist: {one}" for one in described.get("dependencies", [])),
            *(line for extra, needed in extras.items() for line in (
                f"Provides-Extra: {extra}", *(f'Requires-Dist: {one}; extra == "{extra}"' for one in needed)))]


def entry_points(described):
    """The file entry_points.txt."""
    return "\n".join(f"[{group}]\n" + "".join(f"{name} = {module}\n" for name, module in points.items())
                     for group, points in described["entry-points"].items())


def modules():
    """The files of the Python package."""
    files = sorted((project.ROOT / "python/hoptax").iterdir())
    return [Entry(f"hoptax/{file.name}", file.read_bytes()) for file in files if file.suffix == ".py" or file.name == "py.typed"]


def metadata(package):
    described = project.python()
    page = (project.ROOT / package["readme"]).read_text()
    lines = [
        "Metadata-Version: 2.4",
        "Name: hoptax",
        f"Version: {python_version(package['version'])}",
        f"Summary: {package['description']}",
        f"Keywords: {','.join(package['keywords'])}",
        f"License-Expression: {package['license']}",
        "License-File: LICENSE-APACHE",
        "License-File: LICENSE-MIT",
        "License-File: THIRD-PARTY-LICENSES.txt",
        f"Project-URL: Repository, {package['repository']}",
        f"Project-URL: Changelog, {package['repository']}/blob/v{package['version']}/CHANGELOG.md",
        *(f"Classifier: {classifier}" for classifier in sorted({*CLASSIFIERS, *described["classifiers"]})),
        f"Requires-Python: {described['requires-python']}",
        *requirements(described),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + project.absolute_links(page, package["repository"], package["version"])


def wheel(package, target, binary, pages, third_party, date, level=SMALLEST):
    """The wheel, as bytes. `pages` are the manual pages, by file name."""
    name = f"hoptax-{python_version(package['version'])}"
    info, data = f"{name}.dist-info", f"{name}.data"
    described = ["Wheel-Version: 1.0", "Generator: hoptax", "Root-Is-Purelib: false",
                 *(f"Tag: py3-none-{tag}" for tag in tags(target.machine))]
    entries = [
        *modules(),
        Entry(f"{data}/scripts/hoptax", binary, 0o755),
        *(Entry(f"{data}/data/share/man/man1/{page}", text) for page, text in pages.items()),
        *(Entry(f"{info}/licenses/{file}", (project.ROOT / file).read_bytes())
          for file in ("LICENSE-APACHE", "LICENSE-MIT")),
        Entry(f"{info}/licenses/THIRD-PARTY-LICENSES.txt", third_party),
        Entry(f"{info}/METADATA", metadata(package).encode()),
        Entry(f"{info}/WHEEL", ("\n".join(described) + "\n").encode()),
        Entry(f"{info}/entry_points.txt", entry_points(project.python()).encode()),
    ]
    record = f"{info}/RECORD"
    lines = [f"{entry.name},sha256={digest(entry.content)},{len(entry.content)}" for entry in entries]
    entries.append(Entry(record, ("\n".join([*lines, f"{record},,"]) + "\n").encode()))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in entries:
            file = zipfile.ZipInfo(entry.name, time.gmtime(date)[:6])
            file.compress_type, file.create_system = zipfile.ZIP_DEFLATED, 3
            file.external_attr = (0o100000 | entry.mode) << 16
            archive.writestr(file, entry.content, compresslevel=level)
    return made.getvalue()


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
