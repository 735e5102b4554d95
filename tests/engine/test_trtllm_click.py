"""Every golden TensorRT-LLM command through click, and every golden YAML as data.

TensorRT-LLM cannot be installed here, so the ``serve`` command is rebuilt from the recorded
options of each version, and ``disaggregated`` from the options that every version has. click is
the engine's own parser: what it does with a token is what the engine does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click
import pytest
import yaml
from oe_adapter_trtllm import ADAPTER
from oe_adapter_trtllm.real_parser import read_by_click

from inferlab_adapters.catalogue import Option, load, select
from tests.support.control_plane import Json
from tests.support.golden import folders, read

VERSIONS = ADAPTER.recorded_versions()
TYPES: Mapping[str, click.ParamType[Any]] = {"int": click.INT, "float": click.FLOAT}


def parameter(option: Option) -> click.Option:
    """An option as trtllm-serve declares it."""
    if option.kind == "switch":
        return click.Option([*option.names, option.dest], is_flag=True, default=None)
    if option.kind == "negatable":
        pairs = [f"{on}/{off}" for on, off in zip(option.names, option.negative, strict=True)]
        return click.Option([*pairs, option.dest], default=None)
    kind: Any = click.Choice(option.choices) if option.choices else TYPES.get(option.type)
    return click.Option([*option.names, option.dest], type=kind, multiple=option.kind == "list")


def serve_command(version: str) -> click.Command:
    options = load(ADAPTER.catalogues / f"{version}.json").options.values()
    return click.Command("serve", params=[click.Argument(["model"]), *map(parameter, options)])


def disaggregated_command() -> click.Command:
    return click.Command(
        "disaggregated",
        params=[
            click.Option(["-c", "--config_file"], required=True),
            click.Option(["-m", "--metadata_server_config_file"]),
            click.Option(["-t", "--server_start_timeout"], type=click.INT),
            click.Option(["-r", "--request_timeout"], type=click.INT),
            click.Option(["-l", "--log_level"]),
        ],
    )


def parse(command: click.Command, tokens: list[str]) -> Json:
    """What click makes of the tokens behind the subcommand; unset options are left out."""
    group = click.Group("trtllm-serve", commands=[command])
    values = vars(read_by_click(group, [str(command.name), *tokens]))
    return {name: value for name, value in values.items() if value not in (None, ())}


def golden() -> Iterator[tuple[str, Json, Json, Json]]:
    """Every rendered process: (test id, render request, allocation, process)."""
    for name, folder in sorted(folders("tensorrt-llm").items()):
        request, response = read(folder / "request.json"), read(folder / "response.json")
        if name.endswith("-render") and response["status"] == "ok":
            result = response["result"]["output"]
            request["version"] = result["integration"]["framework_version"]
            processes = result["processes"]
            pairs = zip(request["input"]["allocations"], processes, strict=True)
            for allocation, process in pairs:
                yield f"{name}:{process['process']}", request, allocation, process


GOLDEN = {name: (request, allocation, process) for name, request, allocation, process in golden()}
SERVERS = [name for name, (_, _, process) in GOLDEN.items() if process["role"] != "router"]
ROUTERS = [name for name in GOLDEN if name not in SERVERS]


def role_of(request: Json, process: Json) -> Json:
    roles: list[Json] = request["input"]["roles"]
    return next(role for role in roles if role["id"] == process["role"])


def expected(request: Json, process: Json, version: str) -> Json:
    """What click must read, by the request alone: no word about how it is spelt."""
    table, role = ADAPTER.option_table(version), role_of(request, process)
    allocations = request["input"]["allocations"]
    mine = [
        item
        for item in allocations
        if (item["role"], item["replica"]) == (process["role"], process["replica"])
    ]
    shape = role["effective_parallelism"]
    values: Json = {
        "model": mine[0]["model_locator"],
        "host": mine[0]["endpoint"]["host"],
        "port": mine[0]["endpoint"]["port"],
        "tensor_parallel_size": shape["outer"]["tensor_parallel_size"],
        "pipeline_parallel_size": shape["outer"]["pipeline_parallel_size"],
        "moe_expert_parallel_size": shape["experts"]["expert_parallel_size"],
    }
    values = {name: value for name, value in values.items() if value != 1}
    if "served_model_name" in table:
        values["served_model_name"] = request["input"]["model"]["served_name"]
    if shape["attention"]["data_parallel_size"] > 1 and "enable_attention_dp" in table:
        values["enable_attention_dp"] = True
    if len(mine) > 1:
        values["gpus_per_node"] = 1
    for name, value in role["effective_settings"].items():
        if name in table and name != "extra_llm_api_options" and value is not False:
            option = table[name]
            values[option.dest] = tuple(value) if option.kind == "list" else value
    if role["effective_settings"].get("telemetry") is False:
        values["telemetry"] = False
    return values


def in_section(data: Json, values: Json) -> Json:
    """The values without those that stand in a section of the YAML instead."""
    names = ("free_gpu_memory_fraction", "kv_cache_dtype") if "kv_cache_config" in data else ()
    return {name: value for name, value in values.items() if name not in names}


@pytest.mark.parametrize("name", SERVERS)
def test_click_reads_what_was_asked_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    request, allocation, process = GOLDEN[name]
    argv = process["command"]["argv"]
    version = select(ADAPTER.catalogues, request["version"]).catalogue.version
    argv = argv[argv[0] == "trtllm-llmapi-launch" :]
    assert argv[:4] == ["python3", "-m", "tensorrt_llm.commands.serve", "serve"]
    if "unavailable" in name:
        with pytest.raises(SystemExit):
            parse(serve_command(version), argv[4:])
        assert "--brand_new_option" in capsys.readouterr().err
        return
    values = parse(serve_command(version), argv[4:])
    data = {}
    if process["launch_files"]:
        (file,) = process["launch_files"]
        data = yaml.safe_load(file["text"])
        path = values.pop("extra_llm_api_options")
        assert path == f"{allocation['cache']}/{file['relative_path']}"
    if "media_io_kwargs" in values:
        values["media_io_kwargs"] = json.loads(values["media_io_kwargs"])
    if "extra-args" in name:
        assert values.pop("max_batch_size") == 32
        assert values.pop("tokenizer") == "-odd name"
        assert values.pop("telemetry") is False
    assert values == in_section(data, expected(request, process, version))


@pytest.mark.parametrize("name", ROUTERS)
def test_click_reads_the_router(name: str) -> None:
    request, allocation, process = GOLDEN[name]
    argv, (file,) = process["command"]["argv"], process["launch_files"]
    assert argv[:4] == ["python3", "-m", "tensorrt_llm.commands.serve", "disaggregated"]
    settings = role_of(request, process)["effective_settings"]
    assert parse(disaggregated_command(), argv[4:]) == {
        "config_file": f"{allocation['cache']}/{file['relative_path']}",
        "server_start_timeout": settings["server_start_timeout"],
        "request_timeout": settings["request_timeout"],
    }
    servers: Json = {}
    for kind, section in (("prefill", "context_servers"), ("decode", "generation_servers")):
        ids = [role["id"] for role in request["input"]["roles"] if role["kind"] == kind]
        found = [a["endpoint"] for a in request["input"]["allocations"] if a["role"] in ids]
        servers[section] = {
            "num_instances": len(found),
            "urls": [f"{endpoint['host']}:{endpoint['port']}" for endpoint in found],
            "router": {"type": "round_robin"},
        }
    endpoint = allocation["endpoint"]
    assert yaml.safe_load(file["text"]) == {
        "hostname": endpoint["host"],
        "port": endpoint["port"],
        **servers,
    }


def merge(base: Json, over: Json) -> Json:
    """``over`` laid over ``base``, mapping into mapping."""
    return base | {
        key: merge(base[key], value)
        if isinstance(value, dict) and isinstance(base.get(key), dict)
        else value
        for key, value in over.items()
    }


@pytest.mark.parametrize("name", SERVERS)
def test_the_yaml_holds_what_was_asked_for(name: str) -> None:
    request, _, process = GOLDEN[name]
    role = role_of(request, process)
    settings = role["effective_settings"]
    texts = {
        supplied["source_path"]: supplied["text"]
        for supplied in request["input"].get("render_inputs", [])
    }
    wanted: Json = {}
    if "extra_llm_api_options" in settings:
        paths = {"llm.yaml": ".inferlab/llm.yaml", "../configs/./llm.yaml": "configs/llm.yaml"}
        given = settings["extra_llm_api_options"]
        wanted = yaml.safe_load(texts[paths.get(given, f".inferlab/{given}")]) or {}
    wanted = merge(wanted, settings.get("extra_llm_api_options_patch", {}))
    if role["kind"] != "serve":
        wanted = merge(
            wanted,
            {
                "cache_transceiver_config": {"backend": "NIXL"},
                "kv_cache_config": {"enable_block_reuse": False},
            },
        )
    if role["kind"] == "prefill":
        wanted["disable_overlap_scheduler"] = True
    if "attention-dp-1.2" in name:
        wanted["enable_attention_dp"] = True
    if "kv_cache_config" in wanted:
        fraction = settings.get("free_gpu_memory_fraction")
        if "--free_gpu_memory_fraction=0.9" in settings["extra_args"]:
            fraction = 0.9
        for key, value in (
            ("free_gpu_memory_fraction", fraction),
            ("dtype", settings.get("kv_cache_dtype")),
        ):
            if value is not None:
                wanted["kv_cache_config"][key] = value
    texts_written = [file["text"] for file in process["launch_files"]]
    assert [yaml.safe_load(text) for text in texts_written] == ([wanted] if wanted else [])


FORMS: dict[str, tuple[list[str], str | None, Any]] = {
    "underscores": (["--max_batch_size", "4"], "max_batch_size", 4),
    "equals": (["--max_batch_size=4"], "max_batch_size", 4),
    "alias": (["--tp_size", "4"], "tensor_parallel_size", 4),
    "long alias": (["--kv_cache_free_gpu_memory_fraction", "0.5"], "free_gpu_memory_fraction", 0.5),
    "second name": (["--config", "a.yaml"], "extra_llm_api_options", "a.yaml"),
    "hyphens": (["--max-batch-size", "4"], None, None),
    "prefix": (["--max_batch", "4"], None, None),
    "other case": (["--MAX_BATCH_SIZE", "4"], None, None),
    "short": (["-tp", "4"], None, None),
    "one dash": (["-max_batch_size", "4"], None, None),
    "switch": (["--trust_remote_code"], "trust_remote_code", True),
    "switch with value": (["--trust_remote_code=true"], None, None),
    "no negative": (["--no-trust_remote_code"], None, None),
    "greedy": (["--tokenizer", "--host"], "tokenizer", "--host"),
    "negative number": (["--max_batch_size", "-1"], "max_batch_size", -1),
    "dash glued": (["--tokenizer=-x"], "tokenizer", "-x"),
    "empty": (["--tokenizer="], "tokenizer", ""),
    "repeated": (["--custom_module_dirs", "a"], "custom_module_dirs", ("a",)),
    "choice": (["--reasoning_parser", "qwen3"], "reasoning_parser", "qwen3"),
    "unknown": (["--no_such_option", "1"], None, None),
    "ended": (["--", "x"], None, None),
    "stray": (["stray"], None, None),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FORMS)
def test_the_option_table_reads_as_click_does(name: str, version: str) -> None:
    tokens, dest, value = FORMS[name]
    command, table = serve_command(version), ADAPTER.option_table(version)
    (use, *more) = table.scan(tokens)
    if dest is None:
        with pytest.raises(SystemExit):
            parse(command, ["m", *tokens])
        assert name == "switch with value" or use.reading is None
        return
    assert parse(command, ["m", *tokens]) == {"model": "m", dest: value}
    assert use.reading is not None
    assert use.reading.option.dest == dest
    assert not more


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_of_two_names_wins_in_click(version: str) -> None:
    """Which is why the same option twice is refused."""
    tokens = ["m", "--tp_size", "2", "--tensor_parallel_size", "4"]
    assert parse(serve_command(version), tokens)["tensor_parallel_size"] == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_every_option_is_written_as_click_reads_it(version: str) -> None:
    """Each recorded option, by its setting name, in the tokens that would be rendered."""
    from inferlab_adapters.values import tokens

    command = serve_command(version)
    samples: Mapping[str, Any] = {"int": -3, "float": -0.5, "str": "-odd 'text'"}
    for option in load(ADAPTER.catalogues / f"{version}.json").options.values():
        value: Any = option.choices[0] if option.choices else samples[option.type]
        if option.kind in ("switch", "negatable"):
            value = True
        elif option.kind == "list":
            value = ["one", "-two"]
        elif option.kind == "json":
            value = {"a b": [1, "-x"]}
        got = parse(command, ["m", *tokens(option, value)])[option.dest]
        assert (json.loads(got) if option.kind == "json" else got) == (
            tuple(value) if option.kind == "list" else value
        )
        if option.kind == "negatable":
            assert parse(command, ["m", *tokens(option, False)])[option.dest] is False
