#!/usr/bin/env python3
"""Writes a container image with one layer, for `ctr images import`.

    kubernetes-image.py NAME OUT [ENTRYPOINT] PATH=FILE … PATH->TARGET …

PATH=FILE is an executable file, PATH->TARGET a link. ENTRYPOINT starts with a slash and contains neither `=` nor `->`.
"""

import hashlib
import io
import json
import pathlib
import sys
import tarfile


def layer(entries):
    """The files and links, and the directories that they need."""
    content, made = io.BytesIO(), set()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for entry in entries:
            is_link = "->" in entry
            path, source = entry.split("->" if is_link else "=", 1)
            path = path.strip("/")
            for parent in reversed(pathlib.PurePosixPath(path).parents[:-1]):
                if parent not in made:
                    made.add(parent)
                    directory = tarfile.TarInfo(str(parent))
                    directory.type, directory.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(directory)
            one = tarfile.TarInfo(path)
            if is_link:
                one.type, one.linkname = tarfile.SYMTYPE, source
                tar.addfile(one)
            else:
                data = pathlib.Path(source).read_bytes()
                one.size, one.mode = len(data), 0o755
                tar.addfile(one, io.BytesIO(data))
    return content.getvalue()


def main(name, out, *arguments):
    entries = [one for one in arguments if "=" in one or "->" in one]
    entrypoint = [one for one in arguments if one not in entries]
    content = layer(entries)
    digest = hashlib.sha256(content).hexdigest()
    config = json.dumps({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin:/"], "Entrypoint": entrypoint},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }).encode()
    file_of_config = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": file_of_config, "RepoTags": [name], "Layers": [f"{digest}.tar"]}]
    with tarfile.open(out, "w") as tar:
        for path, data in [(file_of_config, config), (f"{digest}.tar", content),
                           ("manifest.json", json.dumps(manifest).encode())]:
            one = tarfile.TarInfo(path)
            one.size = len(data)
            tar.addfile(one, io.BytesIO(data))


if __name__ == "__main__":
    main(*sys.argv[1:])
