"""The eval client against a server that answers as scripted."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferlab_adapters.control import eval_client, openai_answer, openai_http
from inferlab_adapters.control.eval_client import PROBES
from inferlab_adapters.control.openai_http import events
from inferlab_adapters.control.types import Json
from inferlab_adapters.protocol._v6_clients import EvalClientRequest
from tests.support.fake_openai import WORDS, serving
from tests.support.schema import validator

SMOKE = {"kind": "openai_smoke", "prompt": "hello", "max_tokens": 8, "timeout_seconds": 20}


def request(port: int, folder: Path, **changed: Any) -> EvalClientRequest:
    document: Json = {
        "protocol_version": "6",
        "workspace_root": str(folder),
        "workspace_source_exclusions": [],
        "endpoint": {
            "protocol": "http",
            "host": "127.0.0.1",
            "port": port,
            "completions_path": "/v1/completions",
            "chat_completions_path": "/v1/chat/completions",
        },
        "model": {"locator": "/models/tiny", "served_name": "tiny"},
        "definition": SMOKE,
        "case_budget_seconds": 60.0,
        "artifact_dir": str(folder / "artifacts"),
        **changed,
    }
    validator("EvalClientRequest").validate(document)
    return EvalClientRequest.model_validate(document)


def run(asked: EvalClientRequest) -> Json:
    """The result as it is on the wire; it always fits the schema."""
    result: Json = json.loads(eval_client.run(asked).model_dump_json())
    validator("EvalClientResult").validate(result)
    assert result["schema_version"] == 1
    assert (result["status"] == "failed") == (result["error"] is not None)
    return result


def run_with(fault: str, folder: Path) -> Json:
    with serving(fault=fault) as server:
        return run(request(server.server_port, folder))


def test_a_good_server_succeeds_on_all_four_requests(tmp_path: Path) -> None:
    with serving() as server:
        result = run(request(server.server_port, tmp_path))
    assert result["status"] == "succeeded"
    assert result["failure_kind"] is None
    assert [path for path, _ in server.asked] == 2 * ["/v1/completions"] + 2 * [
        "/v1/chat/completions"
    ]
    for _, body in server.asked:
        assert (body["model"], body["max_tokens"], body["temperature"]) == ("tiny", 8, 0)
    assert [body.get("stream_options") for _, body in server.asked] == 2 * [
        None,
        {"include_usage": True},
    ]
    assert server.asked[0][1]["prompt"] == "hello"
    assert server.asked[2][1]["messages"] == [{"role": "user", "content": "hello"}]


def test_every_request_is_measured(tmp_path: Path) -> None:
    metrics = run_with("", tmp_path)["metrics"]
    for name, (_, stream) in PROBES.items():
        assert metrics[f"{name}_completion_tokens"] == len(WORDS)
        rate = metrics[f"{name}_tokens_per_second"]
        assert rate == pytest.approx(len(WORDS) / metrics[f"{name}_seconds"])
        if stream:
            assert 0 < metrics[f"{name}_first_text_seconds"] <= metrics[f"{name}_seconds"]
        else:
            assert f"{name}_first_text_seconds" not in metrics
    assert metrics["stream_matches"] == 1.0


def test_a_stream_with_another_text_is_told_but_does_not_fail(tmp_path: Path) -> None:
    result = run_with("other_stream", tmp_path)
    assert result["status"] == "succeeded"
    assert result["metrics"]["stream_matches"] == 0.0


def test_what_a_model_thinks_counts_as_text(tmp_path: Path) -> None:
    assert run_with("thinks", tmp_path)["status"] == "succeeded"


def test_every_request_and_answer_is_kept(tmp_path: Path) -> None:
    result = run_with("", tmp_path)
    kept = {artifact["name"]: artifact for artifact in result["raw_artifacts"]}
    assert len(kept) == 1 + 2 * len(PROBES)
    for artifact in kept.values():
        assert Path(artifact["path"]).parent == tmp_path / "artifacts"
        assert Path(artifact["path"]).read_bytes()
        assert artifact["kind"] in ("request", "response")
    stream = Path(kept["chat_stream response"]["path"]).read_text(encoding="utf-8")
    assert json.loads(Path(kept["chat_stream request"]["path"]).read_text())["stream"] is True
    assert stream.count("[DONE]") == 1


def test_the_native_command_does_it_again(tmp_path: Path) -> None:
    with serving() as server:
        result = run(request(server.server_port, tmp_path))
        before = len(server.asked)
        done = subprocess.run(result["native_command"], capture_output=True, check=True)
        assert len(server.asked) == 2 * before
    again = json.loads(done.stdout)
    assert again["status"] == "succeeded"
    assert again["native_command"] == result["native_command"]
    assert done.stdout.count(b"\n") == 1


BAD_ANSWERS = {
    "bad_json": "the answer is not JSON",
    "array": "the answer must be an object, got array []",
    "empty_text": "the text is empty",
    "other_model": '/model: must be "tiny", got string "/models/tiny"',
    "no_model": '/model: must be "tiny", got null',
    "no_choice": "/choices: must hold one object, got []",
    "no_finish_reason": "/choices/0/finish_reason: must be a string, got null",
    "text_is_null": "/choices/0/text: must be a string, got null",
    "no_usage": "/usage: must be an object, got null",
    "too_many_tokens": "/usage/completion_tokens: must be 1 to 8 as asked for, got 1000",
    "no_tokens": "/usage/completion_tokens: must be 1 to 8 as asked for, got 0",
    "no_prompt_tokens": "/usage/prompt_tokens: must be at least 1, got 0",
    "wrong_sum": "/usage/total_tokens: must be the sum 5, got 6",
    "tokens_are_text": '/usage/completion_tokens: must be an integer, got string "3"',
}


@pytest.mark.parametrize(("fault", "said"), BAD_ANSWERS.items(), ids=BAD_ANSWERS)
def test_a_malformed_answer_fails(fault: str, said: str, tmp_path: Path) -> None:
    result = run_with(fault, tmp_path)
    assert result["failure_kind"] == "probe_malformed_response"
    assert result["error"].startswith("completions: ")
    assert said in result["error"]
    assert "POST /v1/completions answered HTTP 200, " in result["error"]
    assert "\n" not in result["error"]


BAD_STREAMS = {
    "no_done": "the stream ends without [DONE]",
    "done_twice": 'the stream goes on after [DONE]: "[DONE]"',
    "not_a_stream": 'content type: must be "text/event-stream", got "application/json"',
    "not_utf8": "the stream is not UTF-8",
    "error_in_stream": "/error: chunk 1 is an error: ",
}


@pytest.mark.parametrize(("fault", "said"), BAD_STREAMS.items(), ids=BAD_STREAMS)
def test_a_malformed_stream_fails(fault: str, said: str, tmp_path: Path) -> None:
    result = run_with(fault, tmp_path)
    assert result["failure_kind"] == "probe_malformed_response"
    assert result["error"].startswith("completions_stream: ")
    assert said in result["error"]
    assert "chat_completion_tokens" in result["metrics"], "the other requests are sent all the same"
    assert "stream_matches" not in result["metrics"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("no_usage", "no chunk of the stream has the usage"),
        ("no_finish_reason", "no chunk of the stream has a finish_reason"),
        ("empty_text", "the text is empty"),
    ],
)
def test_a_stream_needs_what_a_whole_answer_needs(fault: str, said: str) -> None:
    # Whole answers fail as well with these faults, so the stream is asked alone.
    body = json.dumps({"model": "tiny", "max_tokens": 8, "stream": True}).encode()
    with serving(fault=fault) as server:
        port = server.server_port
        reply = openai_http.post("127.0.0.1", port, "/v1/completions", body, seconds=20)
    with pytest.raises(openai_answer.Malformed, match=said):
        openai_answer.streamed(reply, "completions", model="tiny", max_tokens=8)


def test_an_error_status_fails_with_what_came(tmp_path: Path) -> None:
    result = run_with("http_500", tmp_path)
    assert result["failure_kind"] == "probe_http"
    assert result["error"] == (
        "completions: POST /v1/completions answered HTTP 500, "
        '{"error":{"message":"no KV blocks left\\nat all"}}'
    )


def test_a_refused_connection_is_a_fault_of_the_transport(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets it
        result = run(request(closed.getsockname()[1], tmp_path))
    assert result["failure_kind"] == "probe_transport"
    assert "cannot be reached: Connection refused" in result["error"]
    assert result["native_timed_out"] is False


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("truncated", "closed the connection in the middle of its answer; until then came: : a"),
        ("hang_up", "closed the connection without an answer"),
        ("no_http", "does not speak HTTP: SSH-2.0"),
    ],
)
def test_a_broken_connection_is_a_fault_of_the_transport(
    fault: str, said: str, tmp_path: Path
) -> None:
    result = run_with(fault, tmp_path)
    assert result["failure_kind"] == "probe_transport"
    assert said in result["error"]
    assert "chat_seconds" not in result["metrics"], "whoever is out of reach is not asked on"


def test_what_came_of_a_broken_answer_is_kept(tmp_path: Path) -> None:
    artifacts = run_with("truncated", tmp_path)["raw_artifacts"]
    last = artifacts[-1]
    assert last["name"] == "completions_stream response"
    assert Path(last["path"]).read_bytes().startswith(b": a comment")


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_time_runs_out_even_while_something_comes(fault: str, tmp_path: Path) -> None:
    with serving(fault=fault) as server:
        result = run(request(server.server_port, tmp_path, case_budget_seconds=0.3))
    assert result["failure_kind"] == "probe_transport"
    assert result["native_timed_out"] is True
    assert "did not answer within 0." in result["error"]


def test_no_budget_is_no_request(tmp_path: Path) -> None:
    with serving() as server:
        result = run(request(server.server_port, tmp_path, case_budget_seconds=0.0))
    assert server.asked == []
    assert result["native_timed_out"] is True
    assert "no time was left" in result["error"]


def test_proxies_are_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(fault="http_500") as proxy, serving() as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        assert run(request(server.server_port, tmp_path))["status"] == "succeeded"
        assert proxy.asked == []


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({**SMOKE, "max_tokens": 0}, "/definition/max_tokens: must be at least 1, got 0"),
        ({**SMOKE, "timeout_seconds": 0}, "/definition/timeout_seconds: must be at least 1"),
        (
            {
                "kind": "lm_eval",
                "task": {"kind": "built_in", "name": "gsm8k"},
                "trials": 1,
                "metric": "exact_match",
                "threshold": 0.5,
                "timeout_seconds": 60,
            },
            '/definition/kind: must be "openai_smoke", got "lm_eval"; another client',
        ),
    ],
)
def test_what_this_client_cannot_do_fails(definition: Json, said: str, tmp_path: Path) -> None:
    result = run(request(1, tmp_path, definition=definition))
    assert result["error"].startswith(said)
    assert result["failure_kind"] is None
    assert not (tmp_path / "artifacts").exists()


def test_a_folder_that_cannot_be_made_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run(request(1, tmp_path, artifact_dir=str(tmp_path / "file" / "inside")))
    assert result["error"].startswith("/artifact_dir: cannot write ")


def program(arguments: list[str], stdin: bytes = b"") -> tuple[int, bytes]:
    out = io.BytesIO()
    return eval_client.main(arguments, io.BytesIO(stdin), out), out.getvalue()


def test_the_program_reads_stdin_and_writes_one_line(tmp_path: Path) -> None:
    with serving(fault="http_500") as server:
        document = request(server.server_port, tmp_path).model_dump_json()
        code, out = program([], document.encode())
    assert code == 0
    assert out.count(b"\n") == 1
    validator("EvalClientResult").validate(json.loads(out))


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        ([], b"", "eval_client: stdin is empty"),
        ([], b"{", "eval_client: stdin is not JSON"),
        (
            [],
            b'{"protocol_version": "5"}',
            '/protocol_version: must be the string "6", got string "5"',
        ),
        (["-"], b"[]", "must be an object"),
        (["/nonexistent/request.json"], b"", "cannot read /nonexistent/request.json: No such"),
        (["--help"], b"", "usage: python -m"),
        (["a", "b"], b"", "usage: python -m"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], stdin: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = program(arguments, stdin)
    assert (code, out) == (2, b"")
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_it_is_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "inferlab_adapters.control.eval_client"]
    done = subprocess.run(command, input=b"{}", capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"eval_client: /")


def test_an_answer_without_end_is_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_http, "MAX_BODY", 30)
    result = run_with("", tmp_path)
    assert result["failure_kind"] == "probe_transport"
    assert "answered more than 30 bytes" in result["error"]


@pytest.mark.parametrize("path", ["/v1/comp letions", "/v1/\u00fc"])
def test_a_path_that_no_request_can_have_fails(path: str, tmp_path: Path) -> None:
    with serving() as server:
        asked = request(server.server_port, tmp_path)
        endpoint = asked.endpoint.model_copy(update={"completions_path": path})
        result = run(asked.model_copy(update={"endpoint": endpoint}))
    assert result["failure_kind"] == "probe_transport"
    assert "cannot be asked: " in result["error"]


def test_events_are_read_as_the_specification_says() -> None:
    body = b"event: x\ndata: a\ndata:b\r\n\r\n: comment\n\nid: 1\n\ndata:  c\r\rdata: lost\n"
    assert [data for _, data in events(body)] == ["a\nb", " c"]
    assert [body[:end][-2:] for end, _ in events(body)] == [b"\r\n", b"\r\r"]
