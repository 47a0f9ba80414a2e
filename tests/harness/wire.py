"""A TCP proxy on 127.0.0.1 in front of a server: a line that can be cut, stalled and slowed.

    wire = Wire(server)             # Weir connects to wire.port, or wire.url()
    wire.stall(); wire.mend()
    wire.stall_after(15_000_000); wire.held.wait(60)"""
import contextlib
import socket
import threading
import time

PIECE = 64 << 10


class Wire:
    def __init__(self, server):
        self.server, self.flows, self.rate, self.refuses = server, threading.Event(), None, False
        self.open, self.lock = set(), threading.Lock()
        self.passed, self.limit, self.held = 0, None, threading.Event()
        self.flows.set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, user="weir"):
        return f"mysql://{user}@127.0.0.1:{self.port}"

    # ---- what may happen to it
    def stall(self):
        """nothing passes, as if packets were dropped; what is open stays open"""
        self.flows.clear()

    def stall_after(self, count):
        """once so many more bytes have come from the server; `held` is set then"""
        self.limit = self.passed + count

    def cut(self):
        """what is open is closed, and nothing new is let in"""
        self.refuses = True
        self._close_all()

    def slow(self, bytes_per_second):
        self.rate = bytes_per_second

    def mend(self, cut=False):
        """what was held passes; cut: the connections of before are gone"""
        if cut:
            self._close_all()
        self.refuses, self.rate, self.limit = False, None, None
        self.flows.set()

    def close(self):
        self.refuses = True
        self.listener.close()
        self.flows.set()
        self._close_all()

    # ---- how
    def _accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        there = None
        with contextlib.suppress(OSError):
            if not self.refuses:
                there = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
                there.settimeout(None)
        if not there:
            client.close()
            return
        with self.lock:
            self.open |= {client, there}
        back = threading.Thread(target=self._pump, args=(there, client, True), daemon=True)
        back.start()
        self._pump(client, there)
        back.join()
        with self.lock:
            self.open -= {client, there}
        client.close()
        there.close()

    def _pump(self, a, b, counts=False):
        with contextlib.suppress(OSError):
            while data := a.recv(PIECE if not self.rate else 4096):
                if counts:
                    self.passed += len(data)
                    if self.limit and self.passed > self.limit:
                        self.stall()
                        self.held.set()
                self.flows.wait()
                if self.rate:
                    time.sleep(len(data) / self.rate)
                b.sendall(data)
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def _close_all(self):
        with self.lock:
            for s in self.open:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)
