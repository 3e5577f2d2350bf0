"""What a binary contains: a bill of materials (CycloneDX 1.6), and the licenses of all parts.

Both come from Cargo's own resolution of dependencies. Crates that only run during the build are left out: build
dependencies, procedural macros, and dependencies of tests.
"""

import hashlib
import json
import re
import subprocess
import time
import uuid
from pathlib import Path

import project

# Parts of the binary that are not crates. The C library comes with zig.
REPORT = project.ROOT / "crates/hoptax-report/assets/vendor"
LICENSE_FILE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE)", re.IGNORECASE)
MUSL = "Copyright © 2005-2020 Rich Felker, et al."


def crates(metadata):
    """Packages of the binary `hoptax` with the packages that each uses, by id, from `cargo metadata`."""
    packages = {one["id"]: one for one in metadata["packages"]}
    nodes = {one["id"]: one for one in metadata["resolve"]["nodes"]}
    is_macro = lambda id_: any("proc-macro" in target["kind"] for target in packages[id_]["targets"])
    start = next(id_ for id_, one in packages.items() if one["name"] == "hoptax")
    found, left = {}, [start]
    while left:
        id_ = left.pop()
        if id_ in found:
            continue
        used = [one["pkg"] for one in nodes[id_]["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"])]
        found[id_] = sorted(one for one in used if not is_macro(one))
        left += found[id_]
    return {id_: (packages[id_], used) for id_, used in found.items()}


def resolved(target):
    """`cargo metadata` for a target."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target.triple]
    return json.loads(subprocess.run(command, cwd=project.ROOT, check=True, stdout=subprocess.PIPE).stdout)


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def others(found):
    """Parts that are not crates: (name, version, license expression)."""
    lock = json.loads((project.ROOT / "scripts/chart-library/package-lock.json").read_text())["packages"]
    library = [(path.rpartition("node_modules/")[2], one["version"], one["license"])
               for path, one in lock.items() if path and not one.get("dev")]
    parts = [("musl", None, "MIT"), *library, ("dejavu-sans", None, "Bitstream-Vera")]
    for package, _ in found.values():
        header = Path(package["manifest_path"]).parent / "sqlite3/sqlite3.h"
        if package["name"] == "libsqlite3-sys" and header.exists():
            version = re.search(r'^#define SQLITE_VERSION\s+"([^"]+)"', header.read_text(), re.M)
            parts.append(("sqlite", version and version[1], "blessing"))
    return parts


def document(package, found, binary, target, date):
    """The bill of materials, as JSON."""
    checksums = {key: one.get("checksum") for key, one in project.lock().items()}
    components, dependencies, main = [], [], None
    for crate, used in sorted(found.values(), key=lambda one: purl(one[0])):
        dependencies.append({"ref": purl(crate), "dependsOn": [purl(found[one][0]) for one in used]})
        component = {"type": "library", "bom-ref": purl(crate), "name": crate["name"], "version": crate["version"],
                     "purl": purl(crate)}
        if crate["license"]:
            # Some crates still use the separator of older versions of Cargo.
            component["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", crate["license"])}]
        if checksum := checksums.get((crate["name"], crate["version"])):
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        if crate["name"] == "hoptax":
            main = {**component, "type": "application",
                    "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(binary).hexdigest()}]}
        else:
            components.append(component)
    for name, version, license_ in others(found):
        components.append({"type": "library", "bom-ref": f"other:{name}", "name": name,
                           **({"version": version} if version else {}), "licenses": [{"expression": license_}]})
    number = uuid.uuid5(uuid.NAMESPACE_URL, f"{package['repository']}/{target.triple}/{hashlib.sha256(binary).hexdigest()}")
    made = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date)),
            "component": main,
            "properties": [{"name": "hoptax:target", "value": target.triple}],
        },
        "components": components,
        "dependencies": dependencies,
    }
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()


def third_party(found):
    """The licenses of all parts, each text once, with the names of its parts."""
    texts = {}
    add = lambda text, name: texts.setdefault(text.strip().replace("\r\n", "\n"), []).append(name)
    for crate, _ in sorted(found.values(), key=lambda one: purl(one[0])):
        folder, name = Path(crate["manifest_path"]).parent, f"{crate['name']} {crate['version']}"
        if folder.is_relative_to(project.ROOT / "crates"):
            continue
        files = sorted(file for file in folder.iterdir() if file.is_file() and LICENSE_FILE.match(file.name))
        for file in files:
            add(file.read_text(errors="replace"), name)
        if not files:
            add(f"License: {crate['license']}\nSource: {crate['repository'] or 'https://crates.io'}", name)
    for file in sorted([*REPORT.glob("*.LICENSE"), *REPORT.glob("*.NOTICE")]):
        add(file.read_text(), file.stem)
    add(re.sub("Copyright .*", MUSL, (project.ROOT / "LICENSE-MIT").read_text(), count=1), "musl")
    line = "=" * 80
    parts = [f"{line}\n{', '.join(dict.fromkeys(names))}\n{line}\n\n{text}\n" for text, names in texts.items()]
    return ("hoptax contains these projects. SQLite is in the public domain.\n\n" + "\n".join(parts)).encode()
