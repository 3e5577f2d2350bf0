"""Archives that are the same whenever they are built from the same files."""

import dataclasses
import gzip
import io
import tarfile

# Level of compression, 1 to 9.
SMALLEST, FASTEST = 9, 1


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file of an archive. `content` is None for a directory."""

    name: str
    content: bytes | None
    mode: int = 0o644


def parents(entries, mode=0o755):
    """The entries, with the directories that contain them."""
    known = {entry.name for entry in entries}
    found = []
    for entry in entries:
        parts = entry.name.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            folder = "/".join(parts[:end])
            if folder not in known:
                known.add(folder)
                found.append(Entry(folder, None, mode))
    return sorted([*found, *entries], key=lambda entry: entry.name)


def tar(entries, date):
    """A tar file. All files belong to root."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.mtime, info.mode, info.uname, info.gname = date, entry.mode, "root", "root"
            if entry.content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(entry.content)
                archive.addfile(info, io.BytesIO(entry.content))
    return made.getvalue()


def gzipped(content, level=SMALLEST):
    """The content, compressed, without a date."""
    return gzip.compress(content, level, mtime=0)
