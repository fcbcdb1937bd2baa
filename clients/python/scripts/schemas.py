"""Copies the schemas of the protocol into the package; to be run after a change of them."""

from __future__ import annotations

import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
SOURCE = PACKAGE.parents[1] / "packages" / "protocol" / "schemas"
TARGET = PACKAGE / "src" / "clinical_events" / "schemas"
#: Of answers and records, which a client does not check.
OTHERS = {"accepted.json", "error.json", "record.json"}


def wanted() -> dict[str, bytes]:
    """What the package must hold, by the names of the files."""
    return {path.name: path.read_bytes() for path in SOURCE.glob("*.json") if path.name not in OTHERS}


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for old in TARGET.glob("*.json"):
        old.unlink()
    for name, text in wanted().items():
        (TARGET / name).write_bytes(text)
