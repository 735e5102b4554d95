"""An OpenAI server that answers as scripted: well, or with one fault.

In a test: ``with serving(fault="no_done") as port``. As an engine of its own, for whole
deployments, see ``fake_vllm``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ("one", " two", " three")
PROMPT_TOKENS = 2


class FakeOpenAi(ThreadingHTTPServer):
    """Listens on loopback. ``asked`` collects (path, body) of every request.

    ``fault`` names what goes wrong with completions and chat, see :class:`_Answer`; ``paths``
    gives statuses for further paths, ``/start_profile`` say.
    """

    daemon_threads = True
    request_queue_size = 16

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        model: str = "tiny",
        fault: str = "",
        paths: dict[str, int] | None = None,
    ) -> None:
        super().__init__((host, port), _Handler)
        self.model = model
        self.fault = fault
        self.paths = paths or {}
        self.asked: list[tuple[str, Any]] = []
        self.over = threading.Event()


@contextmanager
def serving(**how: Any) -> Iterator[FakeOpenAi]:
    """A server that answers while the test goes on."""
    with FakeOpenAi(**how) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeOpenAi

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: faults are wanted here."""

    def do_GET(self) -> None:
        found = self.path in ("/v1/models", "/health")
        self._whole(200 if found else 404, json.dumps({"data": [{"id": self.server.model}]}))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.loads(raw) if raw else None
        self.server.asked.append((self.path, body))
        if self.path in self.server.paths:
            status = self.server.paths[self.path]
            self._whole(status, json.dumps({"success": status == 200}))
        elif self.path in ("/v1/completions", "/v1/chat/completions"):
            _Answer(self, self.server, body).send()
        else:
            self._whole(404, '{"detail":"Not Found"}')

    def _whole(self, status: int, text: str, kind: str = "application/json") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Answer:
    """One answer, with the server's fault where it has one."""

    def __init__(self, handler: _Handler, server: FakeOpenAi, body: Any) -> None:
        self._handler = handler
        self._server = server
        self._fault = server.fault
        self._chat = handler.path.endswith("/chat/completions")
        self._stream = bool(body.get("stream"))
        self._words = WORDS[: body["max_tokens"]]
        if self._fault == "empty_text":
            self._words = ("",)
        if self._fault == "other_stream" and self._stream:
            self._words = (*WORDS[:-1], " four")

    def send(self) -> None:
        if self._fault == "hang":
            self._server.over.wait()
            self._handler.close_connection = True
        elif self._fault == "http_500":
            self._handler._whole(500, '{"error":{"message":"no KV blocks left\\nat all"}}')
        elif self._fault == "hang_up":
            self._handler.close_connection = True
        elif self._fault == "no_http":
            self._handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")
            self._handler.close_connection = True
        elif self._stream:
            self._send_stream()
        else:
            self._handler._whole(200, self._text())

    def _text(self) -> str:
        if self._fault == "bad_json":
            return '{"choices": ['
        if self._fault == "array":
            return "[]"
        node = self._node("".join(self._words), "stop", delta=False)
        node["usage"] = self._usage()
        self._spoil(node)
        return json.dumps(node)

    def _spoil(self, node: dict[str, Any]) -> None:
        if self._fault == "other_model":
            node["model"] = "/models/tiny"
        elif self._fault == "no_model":
            del node["model"]
        elif self._fault == "no_choice":
            node["choices"] = []
        elif self._fault == "no_finish_reason":
            node["choices"][0]["finish_reason"] = None
        elif self._fault == "text_is_null" and not self._chat:
            node["choices"][0]["text"] = None

    def _usage(self) -> dict[str, Any] | None:
        tokens = len(self._words)
        usage: dict[str, Any] = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": tokens,
            "total_tokens": PROMPT_TOKENS + tokens,
        }
        if self._fault == "no_usage":
            return None
        if self._fault == "too_many_tokens":
            usage["completion_tokens"] = 1000
        elif self._fault == "no_tokens":
            usage["completion_tokens"] = 0
        elif self._fault == "no_prompt_tokens":
            usage["prompt_tokens"] = 0
        elif self._fault == "wrong_sum":
            usage["total_tokens"] += 1
        elif self._fault == "tokens_are_text":
            usage["completion_tokens"] = "3"
        return usage

    def _node(self, text: str, finish_reason: str | None, *, delta: bool) -> dict[str, Any]:
        said: dict[str, Any] = {"text": text}
        if self._chat:
            # A model that thinks first may have said nothing else when its tokens are used up.
            key = "reasoning_content" if self._fault == "thinks" else "content"
            said = {"delta" if delta else "message": {"role": "assistant", key: text}}
        choice = {"index": 0, **said, "finish_reason": finish_reason}
        return {"id": "x-1", "model": self._server.model, "choices": [choice]}

    def _send_stream(self) -> None:
        handler = self._handler
        handler.send_response(200)
        kind = "application/json" if self._fault == "not_a_stream" else "text/event-stream"
        handler.send_header("Content-Type", f"{kind}; charset=utf-8")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        if self._fault == "drip":
            return self._drip()
        for piece in self._events():
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            if self._fault == "truncated":
                handler.close_connection = True
                return None
        handler.wfile.write(b"0\r\n\r\n")
        return None

    def _drip(self) -> None:
        """Something always comes in time, and the end never."""
        self._handler.close_connection = True
        try:
            while not self._server.over.wait(0.02):
                self._handler.wfile.write(b"3\r\n:\n\n\r\n")
        except OSError:
            return

    def _events(self) -> Iterator[bytes]:
        yield b": a comment, as servers send to keep connections alive\n\n"
        if self._fault == "not_utf8":
            yield b"data: \xff\n\n"
        if self._fault == "error_in_stream":
            yield b'data: {"error": {"message": "engine died"}}\n\n'
        for index, word in enumerate(self._words):
            last = index == len(self._words) - 1
            node = self._node(word, "stop" if last else None, delta=True)
            self._spoil(node)
            yield _event(node)
        usage = self._usage()
        if usage is not None:
            yield _event({"id": "x-1", "model": self._server.model, "choices": [], "usage": usage})
        if self._fault != "no_done":
            yield b"data: [DONE]\r\n\r\n"
        if self._fault == "done_twice":
            yield b"data: [DONE]\n\n"


def _event(node: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(node)}\n\n".encode()


def wait_forever(server: FakeOpenAi) -> None:
    """Serve until the process is told to end."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        time.sleep(60)
