"""An HTTP proxy on 127.0.0.1 in front of a server of tests that loses requests and answers, with a seed that repeats a run's dice.

    with FaultyProxy(("127.0.0.1", s3.port), seed=7) as proxy:
        proxy.refuse = 0.2                  # a fifth of the requests

Headers pass unchanged, Host too: signatures cover it. At most one fault a request, by these probabilities (attributes, changeable at any time):

    refuse        503 without passing the request on
    lose_answer   the request is passed on whole, then the connection is cut before a byte of the answer
    stall_before  nothing happens for stall_seconds, then the connection is cut; the request is not passed on
    stall_after   the request is passed on whole, the answer is kept for stall_seconds, then the connection is cut
    cut_request   the connection to the server is cut in the middle of the request
    cut_answer    the connection is cut in the middle of the answer

`only` limits the faults to requests for which only(method, path) is true. `counts` says what was done: requests, passed, and each fault by name."""
import collections
import random
import socket
import ssl
import sys
import threading

FAULTS = ("refuse", "lose_answer", "stall_before", "stall_after", "cut_request", "cut_answer")
PIECE = 64 << 10
HEAD_MAX = 256 << 10


class Gone(Exception):
    """one of the two sides has closed its connection"""


class Stream:
    """reads of a socket, buffered"""

    def __init__(self, sock):
        self.sock, self.buf = sock, b""

    def more(self):
        got = self.sock.recv(PIECE)
        if not got:
            raise Gone
        self.buf += got

    def head(self):
        """up to and with the empty line"""
        while b"\r\n\r\n" not in self.buf:
            if len(self.buf) > HEAD_MAX:
                raise Gone
            self.more()
        head, _, self.buf = self.buf.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    def take(self, n):
        """at most n bytes"""
        if not self.buf:
            self.more()
        got, self.buf = self.buf[:n], self.buf[n:]
        return got

    def line(self):
        while b"\r\n" not in self.buf:
            self.more()
        line, _, self.buf = self.buf.partition(b"\r\n")
        return line + b"\r\n"


def header(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().lower()
    return None


def body(stream, head, to_the_end=False):
    """the pieces of the body that belongs to head; to_the_end: one without a length ends with the connection (Gone)"""
    if header(head, b"transfer-encoding") == b"chunked":
        while True:
            line = stream.line()
            yield line
            left = int(line.split(b";")[0], 16) + 2         # and the line's end
            last = left == 2
            while left:
                piece = stream.take(left)
                left -= len(piece)
                yield piece
            if last:
                return
    length = header(head, b"content-length")
    while length is None and to_the_end:
        yield stream.take(PIECE)
    left = int(length or 0)
    while left:
        piece = stream.take(min(left, PIECE))
        left -= len(piece)
        yield piece


class FaultyProxy:
    """tls: (certificate file, key file) for what it listens on; the server behind is always plain HTTP"""

    def __init__(self, target, seed=None, port=0, tls=None):
        self.target = target
        self.seed = random.SystemRandom().randrange(10**6) if seed is None else seed
        self.dice, self.lock = random.Random(self.seed), threading.Lock()
        self.counts = collections.Counter()
        self.stall_seconds, self.only = 5.0, lambda method, path: True
        for name in FAULTS:
            setattr(self, name, 0.0)
        self.tls = None
        if tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*tls)
        self.listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.ending, self.open = threading.Event(), set()
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()
        print(f"faulty proxy: seed {self.seed}", file=sys.stderr)

    def quiet(self):
        """no more faults"""
        for name in FAULTS:
            setattr(self, name, 0.0)

    def close(self):
        self.ending.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.listener.close()
        with self.lock:
            left = list(self.open)
        for s in left:
            self._cut(s)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # ---- connections
    def _accept(self):
        while not self.ending.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    @staticmethod
    def _cut(sock):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _connected(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)      # head and body go out in two writes: the second would wait 40 ms for an acknowledgement
        with self.lock:
            self.open.add(sock)
        return sock

    def _serve(self, client):
        server = None
        try:
            if self.tls:
                client = self.tls.wrap_socket(client, server_side=True)
            self._connected(client)
            server = self._connected(socket.create_connection(self.target))
            a, b = Stream(client), Stream(server)
            while not self.ending.is_set() and self._exchange(a, b):
                pass
        except (OSError, Gone):
            pass
        finally:
            for s in (client, server):
                if s:
                    with self.lock:
                        self.open.discard(s)
                    self._cut(s)
                    s.close()

    def _fault(self, method, path):
        """which one, or None; always one throw, so that a change of one probability leaves the others' dice alone"""
        with self.lock:
            throw = self.dice.random()
            self.counts["requests"] += 1
            name = None
            if self.only(method, path):
                for f in FAULTS:
                    throw -= getattr(self, f)
                    if throw < 0:
                        name = f
                        break
            self.counts[name or "passed"] += 1
            return name

    # ---- one request and its answer; -> whether the connection lives on
    def _exchange(self, a, b):
        head = a.head()
        method, path = head.split(b" ", 2)[:2]
        method = method.decode()
        fault = self._fault(method, path.decode())
        if fault == "stall_before":
            self.ending.wait(self.stall_seconds)
            return False
        if fault == "refuse":
            for _ in body(a, head):
                pass
            a.sock.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            return True
        if not self._pass_request(a, b, head, fault):
            return False
        return self._pass_answer(a, b, method, fault)

    def _pass_request(self, a, b, head, fault):
        if fault == "cut_request":
            left = int(header(head, b"content-length") or 0) // 2
            b.sock.sendall(head if left else head[:len(head) // 2])
            while left:
                piece = a.take(min(left, PIECE))
                left -= len(piece)
                b.sock.sendall(piece)
            return False
        b.sock.sendall(head)
        for piece in body(a, head):
            b.sock.sendall(piece)
        return True

    def _pass_answer(self, a, b, method, fault):
        head = b.head()
        while head.split(b" ", 2)[1].startswith(b"1"):
            head = b.head()
        status = int(head.split(b" ", 2)[1])
        if fault in ("lose_answer", "stall_after"):
            if fault == "stall_after":
                self.ending.wait(self.stall_seconds)
            return False
        if fault == "cut_answer":
            half = int(header(head, b"content-length") or 0) // 2
            a.sock.sendall(head if half else head[:len(head) // 2])
            while half:
                piece = b.take(min(half, PIECE))
                half -= len(piece)
                a.sock.sendall(piece)
            return False
        a.sock.sendall(head)
        if method != "HEAD" and status not in (204, 304):
            for piece in body(b, head, to_the_end=True):
                a.sock.sendall(piece)
        return header(head, b"connection") != b"close"
