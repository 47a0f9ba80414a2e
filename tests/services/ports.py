"""Free loopback ports that no other test process takes at the same time.

A port is ours while its lock file is locked. The lock's descriptor is handed down to the server, so that the port stays
ours for exactly as long as either the starter or the server lives, even after a crash of one of them."""
import fcntl
import os
import random
import socket
import tempfile

RANGE = range(20000, 30000)         # below the kernel's ephemeral ports


def _free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)     # a port in TIME_WAIT counts as free
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _try(port):
    folder = os.path.join(tempfile.gettempdir(), f"weir-ports-{os.getuid()}")
    os.makedirs(folder, exist_ok=True)
    fd = os.open(os.path.join(folder, str(port)), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    if _free(port):
        return fd
    os.close(fd)
    return None


def lock(port=None):
    """-> (port, descriptor that holds the lock). Without a port: any free one."""
    if port:
        fd = _try(port)
        if fd is None:
            raise RuntimeError(f"port {port} is taken by another process; name another one with --port")
        return port, fd
    for p in random.SystemRandom().sample(RANGE, 200):
        fd = _try(p)
        if fd is not None:
            return p, fd
    raise RuntimeError("no free port among 200 tried between 20000 and 29999")
