"""Weir and other tools on the same server and data, one after the other: see ../README.md, "Beside the peers"."""
from pathlib import Path

from services import CACHE

HERE = Path(__file__).resolve().parent
SOFTWARE = CACHE / "sw" / "peers"           # tools/fetch_peers.sh puts it there
PYTHON = SOFTWARE / "python/bin/python"     # has dlt and pypaimon


class ToolFailed(Exception):
    """a tool did not do its work; the text says why and has the last lines of its log"""


def tail(file, lines=15):
    return "\n".join(file.read_text(errors="replace").splitlines()[-lines:]) if file.exists() else f"(no {file.name})"
