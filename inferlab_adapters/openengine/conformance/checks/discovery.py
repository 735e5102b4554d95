"""What the server says of itself."""

from __future__ import annotations

import re

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import answer, must_answer
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Proto, arm

_MOVING = re.compile(
    r"(refs/heads/.*|(origin/)?(main|master|trunk|dev|develop|head|latest|nightly|stable|next))",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}")
# Sizes and ceilings of which zero makes no sense, so that a zero stands for "not known".
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_CEILINGS = ("kv_block_size", "total_kv_blocks", "max_running_requests", "max_batched_tokens")
_MODEL = ("max_context_length", "max_output_tokens")


@check("I1")
async def schema_revision(s: Subject) -> None:
    if s.info.schema_revision != s.wire.revision.schema_revision:
        raise Broken(
            f"schema_revision is {s.info.schema_revision}, "
            f"this contract is {s.wire.revision.schema_revision}"
        )


@check("I2")
async def minimum_client_revision(s: Subject) -> None:
    lowest = s.info.minimum_client_revision
    # An absent schema revision is another rule's.
    highest = s.info.schema_revision or s.wire.revision.schema_revision
    if not 1 <= lowest <= highest:
        raise Broken(f"minimum_client_revision is {lowest}, schema_revision {highest}")


@check("I3")
async def schema_release(s: Subject) -> None:
    release = s.info.schema_release
    if not release.strip() or _MOVING.fullmatch(release.strip()):
        raise Broken(f"schema_release {release!r} is no immutable name")
    if not s.seed and not _COMMIT.fullmatch(release):
        raise Broken(f"schema_release {release!r} is no commit of 32 or 40 hexadecimal digits")


@check("I4")
async def names(s: Subject) -> None:
    if not s.info.engine_name:
        raise Broken("engine_name is empty")
    if not s.info.supported_models or not all(s.info.supported_models):
        raise Broken(f"supported_models is {list(s.info.supported_models)}")


@check("I5")
async def role(s: Subject) -> None:
    if s.role not in ("aggregated", "prefill", "decode"):
        raise Broken(f"the role is {s.role}")
    call = await s.wire.stream("Generate", s.plain())
    if call.error is not None:
        raise Skip(f"the request that it needs failed: {call.told()}")
    arms = {arm(message) for message in call.messages}
    did = "decode"
    if arms & {"token", "finished"}:
        did = "aggregated"
    elif "prefill_ready" in arms:
        did = "prefill"
    if did != s.role and (call.ok or s.role == "decode"):
        raise Broken(f"the role is {s.role}, and a plain request was answered as {did}")


@check("I6")
async def models_are_known(s: Subject) -> None:
    for model in s.info.supported_models:
        must_answer(await s.wire.unary("GetModelInfo", {"model": model}))


@check("I7")
async def decode_context_parallel_size(s: Subject) -> None:
    parallelism = s.info.parallelism
    if not parallelism.HasField("decode_context_parallel_size"):
        raise Skip("not reported")
    if parallelism.decode_context_parallel_size < 1:
        raise Broken("decode_context_parallel_size is 0")


@check("I8")
async def capacity(s: Subject) -> None:
    if not s.info.HasField("capacity"):
        raise Skip("the server reports no capacity")
    load = answer(await s.wire.unary("GetLoad"))
    if load.HasField("total_kv_blocks") and s.capacity.HasField("total_kv_blocks"):
        blocks = (load.total_kv_blocks, s.capacity.total_kv_blocks)
        if blocks[0] != blocks[1]:
            raise Broken(f"load counts {blocks[0]} KV blocks in all, capacity {blocks[1]}")


@check("I9")
async def connector(s: Subject) -> None:
    if s.role not in ("prefill", "decode"):
        raise Skip("needs a prefill or decode server")
    if not s.info.HasField("kv_connector") or not s.info.kv_connector.transfer_backend:
        raise Broken(f"a {s.role} server reports no kv_connector with a transfer_backend")


@check("G10")
async def unknown_is_absent(s: Subject) -> None:
    _no_zero(s.info.parallelism, _SIZES)
    _no_zero(s.capacity, _CEILINGS)
    _no_zero(s.model_info, _MODEL)
    _no_zero(s.generation, ("max_num_sequences",))


def _no_zero(message: Proto, names: tuple[str, ...]) -> None:
    for name in names:
        if message.HasField(name) and not getattr(message, name):
            raise Broken(f"{name} is reported as 0; unknown is absent")
