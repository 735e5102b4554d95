"""The command line of ``serve``, the backend it loads, and what stands before the service."""

from __future__ import annotations

import asyncio
import logging
import urllib.request
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc import aio

from inferlab_adapters.openengine import __main__, backend
from inferlab_adapters.openengine.client import Client
from inferlab_adapters.openengine.command_line import ServeOptions, parse
from inferlab_adapters.openengine.engine import Role
from inferlab_adapters.openengine.launch import KEY_VARIABLE
from inferlab_adapters.openengine.revisions import SEED, V0_1_0
from inferlab_adapters.openengine.serve import _secrets, main, warn_if_open
from tests.openengine import fake_backend
from tests.openengine.certificates import Authority
from tests.openengine.served import CHILD, PATIENCE, serve
from tests.openengine.test_metrics import samples

BASE = ["serve", "--framework", "vllm", "--role", "prefill", "--listen", "127.0.0.1:50051",
        "--engine", "http://127.0.0.1:8000/"]  # fmt: skip


def test_a_command_line_is_read_whole() -> None:
    found = parse([*BASE, "--", "vllm", "serve", "--", "--listen", "a b"])
    assert found.argv == ("vllm", "serve", "--", "--listen", "a b")
    assert (found.framework, found.role) == ("vllm", Role.PREFILL)
    assert (found.listen.host, found.listen.port) == ("127.0.0.1", 50051)
    assert found.engine == "http://127.0.0.1:8000"
    assert (found.grace, found.linger, found.max_message_mib) == (30.0, 0.0, 16)
    assert (found.tls, found.token_file, found.metrics) == (None, None, None)
    assert parse(BASE).argv == ()


def test_an_ipv6_host_stands_in_brackets() -> None:
    found = parse([*BASE, "--metrics", "[::1]:9"]).metrics
    assert found is not None
    assert (found.host, found.port, str(found), found.loopback) == ("::1", 9, "[::1]:9", True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--role", "both"], "--role: invalid choice: 'both'"),
        (["--listen", "50051"], "--listen: '50051' is not HOST:PORT"),
        (["--listen", "::1:50051"], "--listen: '::1:50051' has an IPv6 host"),
        (["--listen", "h:65536"], "--listen: 'h:65536' has no port from 0 to 65535"),
        (["--engine", "127.0.0.1:8000"], "--engine: '127.0.0.1:8000' is not a URL"),
        (["--engine", "http://u:p@h"], "--engine: 'http://u:p@h' is not a URL"),
        (["--engine", "http://h:x"], "--engine: 'http://h:x' is not a URL"),
        (["--max-message-mib", "0"], "--max-message-mib: '0' is not a whole number"),
        (["--grace", "soon"], "--grace: 'soon' is not a number of seconds"),
        (["--grace", "nan"], "--grace: 'nan' is not a number of seconds"),
        (["--linger", "1"], "--linger: only for an engine command behind --"),
        (["--"], "--: no engine command behind it"),
        (["--tls-cert", "x"], "--tls-cert, --tls-key: one without the other"),
        (["--tls-client-ca", "x"], "--tls-client-ca: only together with --tls-cert"),
        (["--framework", ""], "--framework: required"),
        (["--instance", "x"], "unrecognized arguments: --instance x"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([*BASE, *more])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"openengine: {said}")


def test_help_names_every_option_but_the_hidden_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["serve", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for field in ServeOptions.__dataclass_fields__:
        option = f"--{field.replace('_', '-')} "
        assert (option in text) == (field not in ("backend", "argv", "tls"))
    assert all(option in text for option in ("--tls-cert ", "--tls-key ", "--tls-client-ca "))


def _point(name: str, module: str, **adapter: Any) -> Any:
    loaded = SimpleNamespace(name=f"oe-adapter-{name}", **adapter)
    return SimpleNamespace(name=name, module=module, value=module, load=lambda: loaded)


@pytest.fixture
def _adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        _point("a", "oe_a", framework="alpha", engine_backend="oe_a.engine"),
        _point("beta", "oe_b", framework="beta", engine_backend="tests.openengine.fake_backend"),
        _point("c", "oe_c", framework="gamma", engine_backend=""),
    ]
    monkeypatch.setattr(backend, "entry_points", lambda group: points)


@pytest.mark.usefixtures("_adapters")
def test_the_adapter_of_the_framework_names_the_backend() -> None:
    assert backend.backend_module("alpha") == "oe_a.engine"
    assert backend.load(backend.backend_module("beta")) is fake_backend.create


@pytest.mark.usefixtures("_adapters")
@pytest.mark.parametrize(
    ("framework", "said"),
    [
        ("gamma", "--framework: oe-adapter-c has no OpenEngine backend"),
        ("bela", "--framework: no installed adapter is for 'bela'; "),
        ("alpha", "the backend oe_a.engine cannot be imported: No module named 'oe_a'; "),
    ],
)
def test_without_a_backend_nothing_starts(
    framework: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*BASE, "--framework", framework]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"openengine: {said}")


def test_an_adapter_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("x", "no_such_module:ADAPTER", backend.GROUP)
    monkeypatch.setattr(backend, "entry_points", lambda group: [point])
    with pytest.raises(backend.NoBackend, match="no_such_module:ADAPTER cannot be imported"):
        backend.backend_module("x")


def test_a_module_that_is_no_backend_is_refused() -> None:
    with pytest.raises(backend.NoBackend, match=r"has no create\(\)"):
        backend.load("tests.openengine.bare")


def test_what_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__main__._NEEDED, "no_such_package.part", "some-distribution")
    assert __main__.main() == 2
    said = "openengine: some-distribution not found; pip install 'inferlab-adapters[openengine]'\n"
    assert capsys.readouterr().err == said


def test_the_session_key_comes_from_a_file_or_else_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert "session_key" not in _secrets(parse(BASE))
    monkeypatch.setenv(KEY_VARIABLE, " of the environment\n")
    assert _secrets(parse(BASE))["session_key"] == b"of the environment"
    file = tmp_path / "key"
    file.write_text("of the file\n")
    options = parse([*BASE, "--session-key-file", str(file)])
    assert _secrets(options)["session_key"] == b"of the file"


def test_unusable_files_are_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*BASE, "--backend", "tests.openengine.fake_backend"]
    empty = tmp_path / "empty"
    empty.touch()
    assert main([*arguments, "--session-key-file", str(empty)]) == 2
    assert main([*arguments, "--token-file", str(tmp_path / "none")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"openengine: {empty} is empty; write the secret into it"
    assert second == f"openengine: {tmp_path}/none cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("listen", "more", "warned"),
    [
        ("127.0.0.1:1", [], False),
        ("[::1]:1", [], False),
        ("localhost:1", [], False),
        ("0.0.0.0:1", [], True),
        ("[::]:1", [], True),
        ("host.example:1", [], True),
        ("0.0.0.0:1", ["--token-file", "t"], False),
        ("0.0.0.0:1", ["--tls-cert", "c", "--tls-key", "k"], False),
    ],
)
def test_an_open_port_is_warned_about_once(
    listen: str, more: list[str], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        warn_if_open(parse([*BASE, "--listen", listen, *more]))
    assert len(caplog.records) == warned


def test_tls_token_and_metrics_of_a_whole_server(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    server, shown = authority.sign("server"), authority.sign("client")
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    options = [
        *("--tls-cert", str(server.certificate), "--tls-key", str(server.key)),
        *("--tls-client-ca", str(authority.certificate), "--token-file", str(token)),
        *("--metrics", "127.0.0.1:0", "--instance-id", "one"),
    ]
    roots = authority.certificate.read_bytes()
    good = grpc.ssl_channel_credentials(
        roots, shown.key.read_bytes(), shown.certificate.read_bytes()
    )
    request = {"request_id": "r", "model": "scripted", "prompt": "hello"}
    bearer = [("authorization", "Bearer s3cret")]

    async def ask(port: int) -> dict[str, Any]:
        address = f"127.0.0.1:{port}"
        found: dict[str, Any] = {}
        async with aio.secure_channel(address, good) as channel:
            client = Client(channel, SEED)
            info = await client.call("GetEngineInfo", {}, metadata=bearer, timeout=PATIENCE)
            found["id"] = info.instance_id
            found["argv"] = info.engine_name.split()[-2:]
            for name, metadata in (("with", bearer), ("without", [])):
                outcome = await client.outcome(
                    "Generate", request, metadata=metadata, timeout=PATIENCE
                )
                found[name] = outcome.code.name
            other = await Client(channel, V0_1_0).outcome("GetLoad", {}, timeout=PATIENCE)
            found["other"] = other.code.name
            standard: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
            found["standard"] = (await standard(b"").code()).name
        async with aio.secure_channel(address, grpc.ssl_channel_credentials(roots)) as channel:
            outcome = await Client(channel, SEED).outcome("Health", metadata=bearer, timeout=20)
            found["no certificate"] = outcome.code.name
        return found

    with serve(tmp_path, *options) as served:
        served.record("engine state", state="ready")
        assert asyncio.run(ask(served.port())) == {
            "id": "one",
            "argv": [str(CHILD), str(tmp_path)],
            "with": "OK",
            "without": "UNAUTHENTICATED",
            "other": "UNAUTHENTICATED",
            "standard": "UNAUTHENTICATED",
            "no certificate": "UNAVAILABLE",
        }
        url = f"http://127.0.0.1:{served.port('--metrics')}/metrics"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=PATIENCE) as answer:
            found = samples(answer.read().decode())
        request_count = 'openengine_requests_total{rpc="Generate",revision="seed",code='
        assert found[f'{request_count}"OK"}}'] == 1
        assert found[f'{request_count}"UNAUTHENTICATED"}}'] == 1
        assert found['openengine_engine_state{state="ready"}'] == 1
        assert found["openengine_output_tokens_total"] == 3
        assert found["openengine_time_to_first_token_seconds_count"] == 1
