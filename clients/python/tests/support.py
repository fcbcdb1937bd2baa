"""Shared by tests: the sources on the path, and the root of the repository."""

from __future__ import annotations

import pathlib
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]
VECTORS = ROOT / "test" / "vectors"
sys.path.insert(0, str(PACKAGE / "src"))
