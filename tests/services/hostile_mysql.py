"""A MySQL server that means ill, for tests: a proxy on 127.0.0.1 in front of a real one, which does the logging in and everything up to the point where it is to
turn bad. So each part of Weir is met after all that would come before it.

    with HostileServer(server.port) as bad:
        bad.at_query("SHOW CREATE TABLE", bad.columns(2**60))
        bad.at_stream(lambda event: [event, event[:13]])

TLS is taken out of the greeting, so nothing here needs a certificate. Endless answers end when the client closes, or after `self.most` bytes: `self.sent` says how
far they came. What the client sent while an attack was waiting for it is in `self.heard`."""
import contextlib
import os
import random
import re
import socket
import struct
import threading
import zlib

COM_QUERY, COM_BINLOG_DUMP, COM_STMT_PREPARE, COM_STMT_EXECUTE, COM_BINLOG_DUMP_GTID = 3, 18, 22, 23, 30
CLIENT_SSL, CLIENT_COMPRESS = 0x800, 0x20
BIG = 0xFFFFFF
EOF = b"\xfe\0\0\2\0"
OK = b"\0\0\0\2\0\0\0"


class Gone(Exception):
    """one of the two sides has closed its connection"""


def lenenc(n):
    return bytes([n]) if n < 251 else b"\xfc" + struct.pack("<H", n) if n < 1 << 16 else b"\xfd" + struct.pack("<I", n)[:3] if n < 1 << 24 else b"\xfe" + struct.pack("<Q", n)


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return lenenc(len(s)) + s


def column(name="c", type=253, extra=b""):
    return b"".join(map(text, ("def", "", "t", "t", name, name))) + extra + b"\x0c" + struct.pack("<HIBHBH", 45, 400, type, 0, 0, 0)


def err(message, number=1105):
    return b"\xff" + struct.pack("<H", number) + b"#HY000" + (message if isinstance(message, bytes) else message.encode())


def event(type, body, flags=0, checksum=True, size=None, pos=0x7000_0000, when=1):
    """a binlog event as the stream has it, with the checksum of its bytes"""
    n = 19 + len(body) + (4 if checksum else 0)
    head = struct.pack("<IBIIIH", when, type, 1, n if size is None else size, pos, flags)
    e = head + body
    return e + struct.pack("<I", zlib.crc32(e)) if checksum else e


def resealed(e):
    """the event with a checksum and a size that fit"""
    e = e[:9] + struct.pack("<I", len(e)) + e[13:-4]
    return e + struct.pack("<I", zlib.crc32(e))


class Side:
    """packets of one of the two connections"""

    def __init__(self, sock):
        self.sock, self.seq = sock, 0

    def exactly(self, n):
        got = bytearray()
        while len(got) < n:
            try:
                piece = self.sock.recv(min(n - len(got), 1 << 20))
            except OSError as e:
                raise Gone from e
            if not piece:
                raise Gone
            got += piece
        return bytes(got)

    def read(self):
        out = b""
        while True:
            head = self.exactly(4)
            n = int.from_bytes(head[:3], "little")
            self.seq = (head[3] + 1) & 255
            out += self.exactly(n)
            if n < BIG:
                return out

    def raw(self, data):
        try:
            self.sock.sendall(data)
        except OSError as e:
            raise Gone from e

    def send(self, payload):
        while True:
            piece, payload = payload[:BIG], payload[BIG:]
            self.raw(len(piece).to_bytes(3, "little") + bytes([self.seq]) + piece)
            self.seq = (self.seq + 1) & 255
            if len(piece) < BIG:
                return


class HostileServer:
    def __init__(self, target, seed=0):
        self.target, self.dice = target, random.Random(seed)
        self.rules, self.on_stream, self.on_greeting, self.on_answer = [], None, None, None
        self.most, self.sent, self.heard, self.hits, self.queries = 2 << 30, 0, b"", 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open, self.lock = set(), threading.Lock()

    def url(self, user="weir"):
        return f"mysql://{user}@127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.listener.close()
        with self.lock:
            for s in self.open:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

    # ---- what is to happen
    def at_query(self, pattern, attack, nth=1):
        """attack(client side) instead of the answer to the nth statement that the pattern fits (prepared ones too)"""
        self.rules.append([re.compile(pattern, re.I | re.S), attack, nth])

    def at_greeting(self, attack):
        self.on_greeting = attack

    def at_stream(self, fn):
        """every event of the binlog becomes the events of fn(event)"""
        self.on_stream = fn

    def at_answers(self, fn):
        """every packet that the real server answers with becomes fn(packet)"""
        self.on_answer = fn

    # ---- attacks
    def packets(self, *payloads):
        def run(c):
            for p in payloads:
                c.send(p)
        return run

    def endless(self, payload, first=()):
        def run(c):
            for p in first:
                c.send(p)
            block = b""
            many = max(1, (1 << 20) // (len(payload) + 4))
            while self.sent < self.most:
                block = b"".join(len(payload).to_bytes(3, "little") + bytes([(c.seq + i) & 255]) + payload for i in range(many))
                c.raw(block)
                c.seq = (c.seq + many) & 255
                self.sent += len(block)
        return run

    def one_endless_packet(self, begin=b"", first=()):
        """a packet in pieces of 16 MB that never ends"""
        def run(c):
            for p in first:
                c.send(p)
            piece = begin + bytes(BIG - len(begin))
            while self.sent < self.most:
                c.raw(b"\xff\xff\xff" + bytes([c.seq]) + piece)
                c.seq = (c.seq + 1) & 255
                self.sent += BIG
        return run

    def local_file(self, name="/etc/passwd"):
        def run(c):
            c.send(b"\xfb" + name.encode())
            with contextlib.suppress(Gone):
                while True:
                    got = c.read()
                    self.heard += got
                    if not got:
                        c.send(OK)
                        break
        return run

    # ---- the proxy
    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        with self.lock:
            self.open |= {client, server}
        try:
            c, s = Side(client), Side(server)
            if self.on_greeting:
                self.hits += 1
                return self.on_greeting(c)
            self.log_in(c, s)
            self.talk(c, s)
        except Gone:
            pass
        finally:
            with self.lock:
                self.open -= {client, server}
            for sock in (client, server):       # close alone would wait for who is reading from it
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()

    def log_in(self, c, s):
        hello = s.read()
        at = hello.index(0, 1) + 1 + 4 + 8 + 1      # behind version, thread id, salt and its zero: the low capabilities
        flags = int.from_bytes(hello[at:at + 2], "little") & ~CLIENT_SSL & ~CLIENT_COMPRESS
        c.send(hello[:at] + flags.to_bytes(2, "little") + hello[at + 2:])
        s.seq = c.seq
        while True:
            s.send(c.read())
            got = s.read()
            c.seq = (s.seq - 1) & 255
            c.send(got)
            while got[:1] == b"\x01" and got[1:2] == b"\x03":     # caching_sha2_password: it was enough
                got = s.read()
                c.seq = (s.seq - 1) & 255
                c.send(got)
            if got[:1] == b"\0":
                return
            if got[:1] == b"\xff":
                raise Gone

    def talk(self, c, s):
        answers = threading.Thread(target=self.relay, args=(c, s), daemon=True)
        s.streaming = s.begins = False
        answers.start()
        while True:
            c.seq = 0
            packet = c.read()
            com, rest = packet[0], packet[1:]
            if com in (COM_QUERY, COM_STMT_PREPARE):
                attack = self.attack_for(rest.decode("utf-8", "replace"))
                if attack:
                    self.hits += 1
                    attack(c)
                    continue
            if com in (COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID):
                s.streaming = True
            s.seq = 0
            s.send(packet)

    def attack_for(self, sql):
        self.queries.append(sql)
        for rule in self.rules:
            if rule[0].search(sql):
                rule[2] -= 1
                if rule[2] == 0:
                    return rule[1]
        return None

    def relay(self, c, s):
        try:
            while True:
                packet = s.read()
                c.seq = (s.seq - 1) & 255
                if s.streaming and self.on_stream and packet[:1] == b"\0":
                    self.relay_events(c, packet[1:])
                else:
                    c.send(self.on_answer(packet) if self.on_answer else packet)
        except Gone:
            for side in (c, s):
                with contextlib.suppress(OSError):
                    side.sock.shutdown(socket.SHUT_RDWR)

    def relay_events(self, c, e):
        c.seq = getattr(c, "stream_seq", c.seq)
        for one in self.on_stream(e):
            c.send(b"\0" + one)
            self.sent += len(one)
        c.stream_seq = c.seq

    # ---- dice
    def scrambled(self, share=0.02):
        """for at_answers and at_stream: now and then a packet with a few changed bytes, cut, or longer"""
        def change(packet):
            if not packet or self.dice.random() > share:
                return packet
            self.hits += 1
            p = bytearray(packet)
            what = self.dice.random()
            if what < 0.6:
                for _ in range(self.dice.randint(1, 4)):
                    p[self.dice.randrange(len(p))] = self.dice.choice((0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, self.dice.randrange(256)))
            elif what < 0.8:
                del p[self.dice.randrange(len(p)):]
            else:
                at = self.dice.randrange(len(p) + 1)
                p[at:at] = os.urandom(self.dice.randint(1, 300))
            return bytes(p)
        return change
