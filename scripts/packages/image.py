"""A container image that contains only the static binary, as a tar file for `docker load`, `podman load`, `ctr images import`.

The file is an OCI image layout, and has the `manifest.json` that older versions of Docker read. See
https://github.com/opencontainers/image-spec/blob/main/image-layout.md.
"""

import hashlib
import json
import time

from archive import SMALLEST, Entry, gzipped, parents, tar

INDEX, MANIFEST, CONFIG, LAYER = (f"application/vnd.oci.image.{kind}" for kind in
                                  ("index.v1+json", "manifest.v1+json", "config.v1+json", "layer.v1.tar+gzip"))


def file_name(version, target):
    return f"hoptax-{version}-image-{target.debian}.tar"


def files(binary, authorities, third_party):
    """The files of the image. hoptax writes to /tmp and, by default, to /work. Every user may write there."""
    return parents([
        Entry("etc/ssl/certs/ca-certificates.crt", authorities),
        Entry("tmp", None, 0o1777),
        Entry("usr/bin/hoptax", binary, 0o755),
        Entry("usr/share/doc/hoptax/THIRD-PARTY-LICENSES.txt", third_party),
        Entry("work", None, 0o1777),
    ])


def image(package, target, entries, date, level=SMALLEST):
    """The tar file, as bytes."""
    version, layer = package["version"], tar(entries, date)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date))
    labels = {"title": "hoptax", "description": package["description"], "version": version,
              "licenses": package["license"], "source": package["repository"]}
    config = encoded({
        "architecture": target.debian,
        "os": "linux",
        "created": created,
        "config": {
            "Entrypoint": ["/usr/bin/hoptax"],
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": "/work",
            "Labels": {f"org.opencontainers.image.{name}": text for name, text in labels.items()},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created, "created_by": "scripts/packages"}],
    })
    packed = gzipped(layer, level)
    manifest = encoded({"schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, config),
                        "layers": [descriptor(LAYER, packed)]})
    names = [f"hoptax:{version}", "hoptax:latest"]
    index = encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        {**descriptor(MANIFEST, manifest), "platform": {"architecture": target.debian, "os": "linux"},
         "annotations": {"org.opencontainers.image.ref.name": name.split(":")[1],
                         "io.containerd.image.name": f"docker.io/library/{name}"}} for name in names]})
    for_docker = [{"Config": blob(config), "RepoTags": names, "Layers": [blob(packed)]}]
    return tar(parents([
        *(Entry(blob(content), content) for content in (config, manifest, packed)),
        Entry("index.json", index),
        Entry("manifest.json", encoded(for_docker)),
        Entry("oci-layout", encoded({"imageLayoutVersion": "1.0.0"})),
    ]), date)


def encoded(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def blob(content):
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def descriptor(kind, content):
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
