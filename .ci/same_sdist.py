"""Write an sdist again such that the same files give the same bytes: times, owners, order and modes are fixed."""

import gzip
import io
import os
import sys
import tarfile
from pathlib import Path


def rewritten(data, epoch):
    """The archive in ``data`` with all that depends on when and where it was made set to one value."""
    packed, unpacked = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=unpacked, mode="w") as new:
        for entry in sorted(old.getmembers(), key=lambda entry: entry.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers = epoch, 0, 0, "", "", {}
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=epoch) as file:
        file.write(unpacked.getvalue())
    return packed.getvalue()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_bytes(rewritten(path.read_bytes(), int(os.environ["SOURCE_DATE_EPOCH"])))
