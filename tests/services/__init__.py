"""Real servers for tests, demo and benchmarks: started here, on loopback, stopped by the pid we recorded."""
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".services"          # installed software and template data folders, shared by all instances


def instance(flavor, *args, **kw):
    """instance("mariadb" | "mysql", dir, …): see Instance in services/base.py"""
    if flavor == "mariadb":
        from .mariadb import MariaDB
        return MariaDB(*args, **kw)
    from .mysql import MySQL
    return MySQL(*args, **kw)
