"""Record the option list of an engine's own command-line parser as a catalogue.

Run it with the Python of that engine's environment (see scripts/engine_env.sh):

    .engines/vllm/bin/python scripts/record_catalogue.py vllm --output FILE
    .engines/sglang/bin/python scripts/record_catalogue.py sglang --output FILE

Everything is asked of the real parser: a spelling is recorded because the parser takes it, a type
because of what its converter does with sample tokens. The bytes depend on the engine's release
alone, not on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import io
import json
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from inferlab_adapters.engine_side import (
    parser_built_by,
    parser_of_console_script,
    stdout_kept_clean,
)

Json = dict[str, object]
REFUSED = object()  # what a probe answers for a token that the parser will not have


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """Real parses of one subcommand: the whole command line in, one value out.

    `hints` holds what the engine declares beside its parser: the types of the fields that options
    set, and `json_text` the options whose text it reads as JSON only after parsing.
    """

    top: argparse.ArgumentParser
    prefix: list[str]
    hints: dict[str, str]
    json_text: tuple[str, ...] = ()

    def value(self, dest: str, *tokens: str) -> object:
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                return getattr(self.top.parse_args([*self.prefix, *tokens]), dest)
        except (Exception, SystemExit):
            return REFUSED


def subparser(top: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            return typing.cast(argparse.ArgumentParser, action.choices[name])
    raise SystemExit(f"error: the parser has no subcommand {name}")


def spellings(parser: argparse.ArgumentParser, action: argparse.Action) -> list[str]:
    """Every spelling that reaches `action`, those shown in help first, long before short."""
    hidden = [name for name, owner in parser._option_string_actions.items() if owner is action]
    names = list(dict.fromkeys([*action.option_strings, *hidden]))
    return sorted(names, key=lambda name: not name.startswith("--"))


def convert(action: argparse.Action, token: str) -> object:
    """What the option's own converter makes of `token`."""
    if action.type is None:
        return token
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return typing.cast(Callable[[str], object], action.type)(token)
    except (Exception, SystemExit):
        return REFUSED


def scalar_type(action: argparse.Action) -> str | None:
    """The type of a plain value, or None when the converter reads JSON and nothing else."""
    if action.choices and all(convert(action, str(c)) == str(c) for c in action.choices):
        return "str"
    whole, fraction, word = (convert(action, token) for token in ("7", "1.5", "zzz"))
    if isinstance(word, str) or (word is REFUSED and isinstance(whole, str)):
        return "str"
    if isinstance(whole, float):
        return "float"
    if isinstance(whole, int) and fraction is REFUSED:
        if convert(action, "4k") != 4000:
            return "int"
        return "human_int" if convert(action, "auto") is REFUSED else "human_int_or_auto"
    # A converter of its own making: a comma-separated list of device ids, say.
    return "str" if word is not REFUSED else None


def declared_hints(package: str) -> dict[str, str]:
    """Field name to annotation text, of every argument dataclass that `package` has loaded."""
    modules = [vars(m) for name, m in sorted(sys.modules.items()) if name.startswith(f"{package}.")]
    classes = [v for module in modules for v in module.values() if isinstance(v, type)]
    return {
        field.name: str(field.type)
        for cls in classes
        if cls.__name__.endswith("Args") and dataclasses.is_dataclass(cls)
        for field in dataclasses.fields(cls)
    }


def json_shape(probe: Probe, action: argparse.Action) -> str:
    """`object` or `array` where the converter, or else the declared field, wants just that."""
    takes = {
        shape: convert(action, token) is not REFUSED
        for shape, token in (("object", "{}"), ("array", "[]"), ("any", "7"))
    }
    if takes["object"] == takes["array"]:
        hint = re.sub(r"\b(?:typing|collections\.abc)\.", "", probe.hints.get(action.dest, ""))
        hint = hint.removeprefix("Optional[").lower()
        return "array" if re.match(r"list\b", hint) else "object" if "dict" in hint else "any"
    return "object" if takes["object"] else "array"


def deprecated(parser: argparse.ArgumentParser, action: argparse.Action) -> bool:
    if action in getattr(parser, "_deprecated", ()) or getattr(action, "deprecated", False):
        return True
    if "deprecat" in type(action).__name__.lower():
        return True
    start = re.sub(r"\s+", " ", action.help or "").lstrip(" [*(")[:120]
    own = "|".join(map(re.escape, [*action.option_strings, action.dest]))
    return (
        re.match(rf"deprecated\b|(?:{own})(?: \([^)]*\))? is deprecated\b", start, re.I) is not None
    )


def describe(parser: argparse.ArgumentParser, probe: Probe, action: argparse.Action) -> Json:
    names = spellings(parser, action)
    option: Json = {"names": names}
    if action.nargs == 0:
        negative = [name for name in names if probe.value(action.dest, name) is False]
        if negative:
            option["names"] = [name for name in names if name not in negative]
            option["negative"] = negative
        option |= {"dest": action.dest, "kind": "negatable" if negative else "switch"}
    else:
        option["dest"] = action.dest
        option |= describe_value(probe, action)
    if deprecated(parser, action):
        option["deprecated"] = True
    return option


def describe_value(probe: Probe, action: argparse.Action) -> Json:
    kind = scalar_type(action)
    several = action.nargs in ("+", "*") or isinstance(action.nargs, int)
    repeated = isinstance(action, argparse._AppendAction)
    if kind is None:
        facts: Json = {"kind": "json", "shape": json_shape(probe, action)}
    else:
        facts = {"kind": "list" if several or repeated else "value", "type": kind}
        if isinstance(convert(action, '{"a": 1}'), dict) or action.dest in probe.json_text:
            facts["json"] = True
    if repeated:
        facts["style"] = "repeat"
    if isinstance(action.nargs, int):
        facts["count"] = action.nargs
    if action.nargs == "?":
        facts["optional_value"] = True
    if action.choices is not None:
        facts["choices"] = [str(c) for c in sorted(c for c in action.choices if c is not None)]
    if convert(action, "None") is None and (action.choices is None or None in action.choices):
        facts["none"] = True
    return facts


def accepts_prefixes(parser: argparse.ArgumentParser, probe: Probe) -> bool:
    if not parser.allow_abbrev:
        return False
    known = list(parser._option_string_actions)
    for action in parser._actions:
        name = max(action.option_strings, key=len, default="")[:-1]
        if action.type is int and len([other for other in known if other.startswith(name)]) == 1:
            return probe.value(action.dest, name, "7") == 7
    return False


def folds_underscores(parser: argparse.ArgumentParser, probe: Probe) -> bool:
    return all(
        probe.value(action.dest, name.replace("-", "_").replace("__", "--", 1), "7") == 7
        for action in parser._actions
        if action.type is int and action.choices is None and action.nargs is None
        for name in spellings(parser, action)[:1]
    )


def takes_dotted_json(parser: argparse.ArgumentParser, probe: Probe) -> bool:
    """Whether `--option.a.b 1` means `--option '{"a": {"b": 1}}'`, wherever any key would do."""
    free = [a for a in parser._actions if convert(a, '{"a": {"b": 1}}') == {"a": {"b": 1}}]
    return bool(free) and all(
        probe.value(a.dest, f"{a.option_strings[0]}.a.b", "1") == {"a": {"b": 1}} for a in free
    )


def grammar(parser: argparse.ArgumentParser, probe: Probe) -> Json:
    return {
        "positional": [a.dest for a in parser._actions if not a.option_strings],
        "prefix_matching": accepts_prefixes(parser, probe),
        "underscore_folding": folds_underscores(parser, probe),
        "dotted_json": takes_dotted_json(parser, probe),
    }


def described(parser: argparse.ArgumentParser, probe: Probe) -> list[Json]:
    """Every option but `--help`, by the name of what it sets."""
    options = [
        describe(parser, probe, action)
        for action in parser._actions
        if action.option_strings and not isinstance(action, argparse._HelpAction)
    ]
    return sorted(options, key=lambda option: str(option["dest"]))


def recorded_from(source: str) -> str:
    return f"{source} (recorded with scripts/{Path(__file__).name})"


# The choices name the devices of the machine that builds the parser.
VLLM_CHOICES_BY_DEVICE = ("mm_processor_device",)


def record_vllm() -> Json:
    os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")  # no GPU is needed to build a parser
    os.environ["VLLM_PLUGINS"] = ""  # a plug-in may add options that the release does not have
    # The help texts say what is deprecated, and vLLM reads them only if `--help` is on the command
    # line of its first import. The options proper come from a command line that serves a model:
    # with `--help`, vLLM leaves `--model` out.
    parser_of_console_script("vllm", ["serve", "--help"])
    top, dist = parser_of_console_script("vllm", ["serve", "a-model"])
    parser = subparser(top, "serve")
    probe = Probe(top=top, prefix=["serve", "a-model"], hints=declared_hints("vllm"))
    options = described(parser, probe)
    for option in options:
        if option["dest"] in VLLM_CHOICES_BY_DEVICE:
            del option["choices"]
    return {
        "framework": "vllm",
        "version": dist["version"],
        "source": recorded_from(f"vllm serve parser of {dist['name']} {dist['version']}"),
        **grammar(parser, probe),
        "options": options,
    }


# Texts to the parser, JSON to what reads them after it. Found by reading the releases; an option
# that a release does not have is no matter.
SGLANG_JSON_TEXT = (
    "deepep_config",
    "disaggregation_ib_device",
    "hicache_storage_backend_extra_config",
    "hierarchical_sparse_attention_extra_config",
    "hisparse_config",
    "json_model_override_args",
    "kv_events_config",
    "lora_paths",
    "model_loader_extra_config",
    "modelexpress_config",
    "watermark_config",
)
# It adds a choice to the sampling backends.
SGLANG_CHOICES_BY_ENVIRONMENT = "SGLANG_KV_CANARY_ENABLE_TOKEN_ORACLE"


def record_sglang() -> Json:
    os.environ.pop(SGLANG_CHOICES_BY_ENVIRONMENT, None)
    # Both of its commands, `sglang serve` and `sglang.launch_server`, end in this function. They
    # load plug-ins first, which may add options and choices that the release does not have.
    from sglang.srt.server_args import (  # type: ignore[import-not-found, unused-ignore]
        ServerArgs,
        prepare_server_args,
    )

    prefix = ["--model-path", "a-model"]
    parser = parser_built_by(lambda: prepare_server_args(prefix))
    hints = {name: str(hint) for name, hint in typing.get_type_hints(ServerArgs).items()}
    probe = Probe(top=parser, prefix=prefix, hints=hints, json_text=SGLANG_JSON_TEXT)
    version = importlib.metadata.version("sglang")
    return {
        "framework": "sglang",
        "version": version,
        "source": recorded_from(f"ServerArgs parser of sglang {version}"),
        **grammar(parser, probe),
        "options": described(parser, probe),
    }


RECORDERS: dict[str, Callable[[], Json]] = {"vllm": record_vllm, "sglang": record_sglang}


def catalogue_text(catalogue: Json) -> str:
    """One line a field and one line an option, so that a new release is a readable diff."""

    def lines() -> Iterator[str]:
        for key, value in catalogue.items():
            if key != "options":
                yield f"{json.dumps(key)}: {json.dumps(value)}"
        options = typing.cast(list[Json], catalogue["options"])
        yield '"options": [\n' + ",\n".join(map(json.dumps, options)) + "\n]"

    return "{\n" + ",\n".join(lines()) + "\n}\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description="Record an engine's options as a catalogue.")
    arguments.add_argument("framework", help=f"one of: {', '.join(RECORDERS)}")
    arguments.add_argument("--output", type=Path, help="file to write (default: stdout)")
    args = arguments.parse_args()
    recorder = RECORDERS.get(args.framework)
    if recorder is None:
        known = ", ".join(RECORDERS)
        arguments.error(f"no recorder for {args.framework!r} yet; there is one for: {known}")
    with stdout_kept_clean():
        text = catalogue_text(recorder())
    if args.output is None:
        sys.stdout.write(text)
    else:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
