"""The eval client ``openai_smoke`` of the wire protocol: does a deployment answer as it should?

It asks completions and chat, each whole and as a stream, and checks what comes back.
``python -m inferlab_adapters.control.eval_client [FILE]`` reads an ``EvalClientRequest`` from FILE
or standard input and writes an ``EvalClientResult``, one line of JSON, to standard output. The exit
code is 0 whenever there is a result, be it a failed one, and 2 for what is no request.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from inferlab_adapters.control import openai_answer, openai_http
from inferlab_adapters.control.openai_answer import Api, Completion, Malformed
from inferlab_adapters.control.openai_http import NoReply, Reply
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import AdapterError, Fault, refuse, shown, typed
from inferlab_adapters.protocol._v6_clients import (
    EvalClientRequest,
    EvalClientResult,
    EvalFailureKind,
    OpenAiSmokeDefinition,
    RawArtifact,
)
from inferlab_adapters.strict_json import MAX_BYTES, decode
from inferlab_adapters.validation import faults_of
from inferlab_adapters.wire import PROTOCOL_VERSION

SCHEMA_VERSION = 1
PROBES: dict[str, tuple[Api, bool]] = {
    "completions": ("completions", False),
    "completions_stream": ("completions", True),
    "chat": ("chat", False),
    "chat_stream": ("chat", True),
}
"""The four requests: which API, and whether as a stream. Metrics begin with their names."""

_REQUEST_FILE = "eval-request.json"
_MODULE = "inferlab_adapters.control.eval_client"


def run(request: EvalClientRequest) -> EvalClientResult:
    """Send the four requests and judge the answers; never raises for what a server does.

    Every request and answer is kept below ``artifact_dir``, which is made if it is missing.

    Metrics, for each of the four requests: ``<request>_seconds`` until the last byte,
    ``<request>_completion_tokens``, ``<request>_tokens_per_second``, and for streams
    ``<request>_first_text_seconds``. ``stream_matches`` is 1 when both streams held the same text
    as the whole answers. It decides nothing: a server that batches differently may answer
    differently.
    """
    command = [sys.executable, "-m", _MODULE, str(Path(request.artifact_dir, _REQUEST_FILE))]
    fault = _unfit(request)
    if fault is None:
        try:
            return _Run(request, command).result()
        except OSError as error:
            what = f"cannot write {error.filename}: {error.strerror}"
            fault = Fault("/artifact_dir", what, "name a folder that can be written")
    return EvalClientResult(
        schema_version=SCHEMA_VERSION,
        status="failed",
        metrics={},
        native_command=command,
        raw_artifacts=[],
        error=str(fault),
    )


def _unfit(request: EvalClientRequest) -> Fault | None:
    """Why this client cannot do what is asked."""
    definition = request.definition
    if not isinstance(definition, OpenAiSmokeDefinition):
        what = f'must be "openai_smoke", got {shown(definition.kind)}'
        return Fault("/definition/kind", what, "another client runs that kind")
    for name in ("max_tokens", "timeout_seconds"):
        if getattr(definition, name) < 1:
            return Fault(f"/definition/{name}", "must be at least 1, got 0")
    return None


class _ProbeFailed(Exception):
    """One request was not answered as it should be."""

    def __init__(self, kind: EvalFailureKind, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class _Run:
    """One run: what was found so far."""

    def __init__(self, request: EvalClientRequest, command: list[str]) -> None:
        assert isinstance(request.definition, OpenAiSmokeDefinition)
        self._request = request
        self._definition = request.definition
        self._command = command
        self._end = time.monotonic() + request.case_budget_seconds
        self._folder = Path(request.artifact_dir)
        self._artifacts: list[RawArtifact] = []
        self._metrics: dict[str, float] = {}
        self._failures: list[_ProbeFailed] = []
        self._timed_out = False

    def result(self) -> EvalClientResult:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._keep("eval request", "request", _REQUEST_FILE, self._request.model_dump_json())
        texts = {}
        for name, (api, stream) in PROBES.items():
            try:
                texts[name] = self._probe(name, api, stream)
            except _ProbeFailed as failed:
                self._failures.append(failed)
                if failed.kind == "probe_transport":
                    break  # whoever cannot be reached would only use up the time of the others
        if len(texts) == len(PROBES):
            same = all(texts[api] == texts[f"{api}_stream"] for api in ("completions", "chat"))
            self._metrics["stream_matches"] = float(same)
        first = self._failures[0] if self._failures else None
        return EvalClientResult(
            schema_version=SCHEMA_VERSION,
            status="failed" if self._failures else "succeeded",
            metrics=self._metrics,
            native_command=self._command,
            native_timed_out=self._timed_out,
            raw_artifacts=self._artifacts,
            failure_kind=first.kind if first else None,
            error=str(first) if first else None,
        )

    def _probe(self, name: str, api: Api, stream: bool) -> str:
        """Send one request; the text that came back. Raises :class:`_ProbeFailed`."""
        body = json.dumps(self._body(api, stream), ensure_ascii=False)
        self._keep(f"{name} request", "request", f"{name}.request.json", body)
        endpoint = self._request.endpoint
        chat = api == "chat"
        path = endpoint.chat_completions_path if chat else endpoint.completions_path
        seconds = min(float(self._definition.timeout_seconds), self._end - time.monotonic())
        suffix = "sse" if stream else "json"
        try:
            reply = openai_http.post(
                endpoint.host, endpoint.port, path, body.encode(), seconds=seconds
            )
        except NoReply as error:
            self._keep(f"{name} response", "response", f"{name}.response.{suffix}", error.body)
            self._timed_out = self._timed_out or error.timed_out
            came = openai_http.beginning(error.body, "; until then came: ")
            raise _ProbeFailed("probe_transport", f"{name}: {error.why}{came}") from None
        self._keep(f"{name} response", "response", f"{name}.response.{suffix}", reply.body)
        if reply.status != 200:
            raise _ProbeFailed("probe_http", f"{name}: POST {path} answered {reply}")
        try:
            completion = self._read(api, stream, reply)
        except Malformed as error:
            what = f"{name}: {error}; POST {path} answered {reply}"
            raise _ProbeFailed("probe_malformed_response", what) from None
        self._measure(name, stream, reply, completion)
        return completion.text

    def _read(self, api: Api, stream: bool, reply: Reply) -> Completion:
        read = openai_answer.streamed if stream else openai_answer.whole
        model, max_tokens = self._request.model.served_name, self._definition.max_tokens
        return read(reply, api, model=model, max_tokens=max_tokens)

    def _body(self, api: Api, stream: bool) -> Json:
        prompt = self._definition.prompt
        asked: Json = {"prompt": prompt}
        if api == "chat":
            asked = {"messages": [{"role": "user", "content": prompt}]}
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return {
            "model": self._request.model.served_name,
            **asked,
            "max_tokens": self._definition.max_tokens,
            "temperature": 0,
            **options,
        }

    def _measure(self, name: str, stream: bool, reply: Reply, completion: Completion) -> None:
        self._metrics[f"{name}_seconds"] = reply.seconds
        self._metrics[f"{name}_completion_tokens"] = float(completion.completion_tokens)
        rate = completion.completion_tokens / max(reply.seconds, 1e-9)
        self._metrics[f"{name}_tokens_per_second"] = rate
        if stream:
            first = reply.seconds_until(completion.first_text)
            self._metrics[f"{name}_first_text_seconds"] = first

    def _keep(self, name: str, kind: str, file: str, content: str | bytes) -> None:
        path = self._folder / file
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self._artifacts.append(RawArtifact(name=name, kind=kind, path=str(path)))


def parse(raw: bytes, source: str) -> EvalClientRequest:
    """Read a request. Raises :class:`AdapterError` with every fault."""
    document = decode(raw, source)
    version = document.get("protocol_version") if isinstance(document, dict) else None
    if version not in (None, PROTOCOL_VERSION):
        what = f'must be the string "{PROTOCOL_VERSION}", got {typed(version)}'
        refuse("unsupported_protocol_version", "/protocol_version", what)
    try:
        return EvalClientRequest.model_validate(document)
    except ValidationError as error:
        faults = faults_of(error, EvalClientRequest, document)
        raise AdapterError("invalid_request", *faults) from None


def main(arguments: Sequence[str], stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Run the program; returns the exit code."""
    if len(arguments) > 1 or any(word.startswith("-") and word != "-" for word in arguments):
        return _say(f"usage: python -m {_MODULE} [FILE]")
    file = arguments[0] if arguments else "-"
    try:
        raw = stdin.read(MAX_BYTES + 1) if file == "-" else Path(file).read_bytes()
    except OSError as error:
        return _say(f"eval_client: cannot read {file}: {error.strerror}")
    try:
        request = parse(raw, "stdin" if file == "-" else file)
    except AdapterError as error:
        return _say(f"eval_client: {error.message}")
    stdout.write(run(request).model_dump_json().encode() + b"\n")
    stdout.flush()
    return 0


def _say(text: str) -> int:
    print(text, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer))
