"""Who is told of alarms: an HTTP server and an SMTP server that keep what they get, each in a thread of the test."""
import base64
import json
import socketserver
import threading
import time
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def until(true, seconds=30, why=""):
    """waits until true() gives something that is true; -> that"""
    began = time.monotonic()
    while not (found := true()):
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {why() if callable(why) else why}"
        time.sleep(0.05)
    return found


class Webhook:
    """answers = [(status, body), …] are given first, one a request; then 200 and what Feishu says. `refused` are the requests that got one of them"""

    def __init__(self, port=0, answers=()):
        self.got, self.refused, self.answers, outer = [], [], list(answers), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = {"path": self.path, "headers": dict(self.headers), "raw": body, "json": json.loads(body)}
                status, text = outer.answers.pop(0) if outer.answers else (200, '{"code":0,"msg":"success"}')
                (outer.got if (status, text) == (200, '{"code":0,"msg":"success"}') else outer.refused).append(request)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args):
                pass
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path="/hook"):
        return f"http://127.0.0.1:{self.port}{path}"

    def told(self, event, kind):
        """generic notices of this event and kind"""
        return [r["json"] for r in list(self.got) if r["json"]["event"] == event and r["json"]["alarm"]["kind"] == kind]

    def wait(self, event, kind, seconds=30):
        return until(lambda: self.told(event, kind), seconds, lambda: f"{event} {kind}: {[(r['json']['event'], r['json']['alarm']['kind']) for r in self.got]}")[0]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Smtp:
    """takes every mail; with `user` only after AUTH PLAIN with it. `mails`: (from, [to, …], message), `refused`: commands that were"""

    def __init__(self, user=None):
        self.mails, self.refused, outer = [], [], self

        class Handler(socketserver.StreamRequestHandler):
            def say(self, text):
                self.wfile.write(text.encode() + b"\r\n")

            def handle(self):
                self.say("220 here")
                sender, to, known = None, [], user is None
                for line in self.rfile:
                    line = line.decode().rstrip("\r\n")
                    word = line.upper().split(" ")[0].split(":")[0]
                    if word == "EHLO":
                        self.say("250-here")
                        self.say("250 AUTH PLAIN" if user else "250 8BITMIME")
                    elif word == "AUTH":
                        answer = line.split()[2:]
                        if not answer:
                            self.say("334 ")
                            answer = [self.rfile.readline().decode()]
                        known = base64.b64decode(answer[0]).decode().split("\0")[1:] == list(user)
                        self.say("235 welcome" if known else "535 who?")
                    elif word == "MAIL" and not known:
                        outer.refused.append(line)
                        self.say("530 log in first")
                    elif word == "MAIL":
                        sender, to = line[10:].split(">")[0].lstrip("<"), []
                        self.say("250 ok")
                    elif word == "RCPT":
                        to.append(line[8:].split(">")[0].lstrip("<"))
                        self.say("250 ok")
                    elif word == "DATA":
                        self.say("354 go on")
                        data = b""
                        while (text := self.rfile.readline()) not in (b".\r\n", b""):
                            data += text[1:] if text.startswith(b".") else text
                        outer.mails.append((sender, to, message_from_bytes(data, policy=policy.default)))
                        self.say("250 taken")
                    elif word == "QUIT":
                        return self.say("221 bye")
                    else:
                        self.say("502 no")
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self):
        return f"smtp://127.0.0.1:{self.port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
