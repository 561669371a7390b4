"""An engine that misbehaves on order: ``python fake_engine.py --port 8080 --ignore-sigterm --children 2``.

It imports nothing beyond the standard library and starts in a tenth of a second. For anything a real engine can
be told to do, take ``engines.tiny``.
"""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

METRICS = """\
vllm:num_requests_running{engine="0",model_name="fake"} 3
vllm:num_requests_waiting{engine="0",model_name="fake"} 2
vllm:kv_cache_usage_perc{engine="0",model_name="fake"} 0.25
"""


def main():
    options = parse()
    print("fake engine starts", flush=True)
    if options.weights:
        print(f"weights {hashlib.sha256(options.weights.read_bytes()).hexdigest()}", flush=True)
    if options.compiles_into:
        folder = Path(os.environ[options.compiles_into])
        folder.mkdir(parents=True, exist_ok=True)
        print("compiled before" if (folder / "kernel").exists() else "compiles", flush=True)
        (folder / "kernel").touch()
    if options.first_port_is_taken and not options.first_port_is_taken.exists():
        options.first_port_is_taken.touch()
        sys.exit("error: [Errno 98] Address already in use")
    if options.exit_code is not None:
        print(options.say, flush=True)
        sys.exit(options.exit_code)
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for number in range(options.children):
        fork_child(number < options.deserters, options.children_note)
    serve(options)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ready-after", type=float, default=0.0, help="503 before; 'inf' for never")
    parser.add_argument("--exit-code", type=int, help="exit at once")
    parser.add_argument("--say", default="", help="last words before that")
    parser.add_argument("--probe-error", help="answer every POST with 500 and this message")
    parser.add_argument("--ignore-sigterm", action="store_true")
    parser.add_argument("--children", type=int, default=0)
    parser.add_argument(
        "--children-note", type=Path, metavar="FILE", help="made by a child that gets SIGTERM"
    )
    parser.add_argument("--deserters", type=int, default=0, help="so many of the children leave the session")
    parser.add_argument(
        "--first-port-is-taken", type=Path, metavar="FILE", help="fail to bind unless FILE exists; make it"
    )
    parser.add_argument("--weights", type=Path, help="a file to read first")
    parser.add_argument("--compiles-into", metavar="VARIABLE", help="where to keep what it compiles")
    parser.add_argument("--chatter-bytes", type=int, default=0, help="print so much")
    return parser.parse_args()


def fork_child(leaves_session, note):
    """A child that shrugs off SIGTERM, at most makes a note of it, and would outlive its parent by an hour."""
    if os.fork() == 0:
        if leaves_session:
            os.setsid()
        signal.signal(signal.SIGTERM, (lambda *_: note.touch()) if note else signal.SIG_IGN)
        time.sleep(3600)
        os._exit(0)


def serve(options):
    ready_at = time.monotonic() + options.ready_after

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(200, METRICS.encode() if self.path == "/metrics" else b"{}")

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            if options.probe_error:
                self.answer(500, json.dumps({"error": {"message": options.probe_error}}).encode())
            elif time.monotonic() < ready_at:
                self.answer(503, json.dumps({"error": {"message": "Loading model"}}).encode())
            else:
                self.answer(200, json.dumps({"choices": [{"text": "a"}]}).encode())

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with contextlib.suppress(KeyboardInterrupt):
        server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
        print("x" * options.chatter_bytes, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
