"""The API behind the gateway: notes, a login that nobody passes, and a report."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = 401 if self.path == "/login" else 200
        body = f"{self.command} {self.path} for {self.headers['X-Tollgate-Client']}\n".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


host, port = sys.argv[1].split(":")
ThreadingHTTPServer((host, int(port)), Api).serve_forever()
