"""From a GenerateRequest message to a checked request; whatever cannot be done is refused here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from google.protobuf.message import DecodeError

from inferlab_adapters.errors import did_you_mean, shown
from inferlab_adapters.openengine import request_options as options
from inferlab_adapters.openengine import structs
from inferlab_adapters.openengine.engine import (
    Endpoint,
    EngineFacts,
    EngineFault,
    GenerateRequest,
    KvSession,
    ModelFacts,
    Role,
)
from inferlab_adapters.openengine.errors import invalid
from inferlab_adapters.openengine.metadata import Routing
from inferlab_adapters.openengine.wire_arms import arms, inner

MAX_ID = 512
"""Characters of a request id: ids are remembered, logged and sent on."""

_INPUTS = frozenset({3, 4})
_GUIDED = 9
_GUIDES = frozenset(range(1, 7))


def parse(kind: Any, raw: bytes) -> Any:
    """A message from the wire. Raises ``invalid_argument`` for bytes that are none."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise invalid(f"the request is no {kind.DESCRIPTOR.full_name}") from None


def one_arm_each(raw: bytes) -> None:
    """Refuse several inputs or guides, of which a parser would keep the last."""
    if len(arms(raw, _INPUTS)) > 1:
        raise invalid("input: prompt and token_ids are both given; give just one")
    guides = {arm for guided in inner(raw, _GUIDED) for arm in arms(guided, _GUIDES)}
    if len(guides) > 1:
        raise invalid("guided: has several guides; give just one")


def check_id(request_id: str, where: str = "request_id") -> None:
    """A request id that can be remembered, logged and sent on."""
    if not request_id:
        raise invalid(f"{where}: is empty; give every request an id of its own")
    if len(request_id) > MAX_ID:
        raise invalid(f"{where}: has {len(request_id)} characters; {MAX_ID} are the most")
    if not request_id.isprintable():
        raise invalid(f"{where}: {shown(request_id)} has characters that cannot be printed")


def find_model(name: str, facts: EngineFacts, where: str = "model") -> ModelFacts:
    """The model of a name or alias. Raises ``invalid_argument`` or ``model_not_found``."""
    if not name:
        raise invalid(f"{where}: is empty; name one of the models that discovery lists")
    for model in facts.models:
        if name in model.names:
            return model
    known = [known for model in facts.models for known in model.names]
    hint = did_you_mean(name, known) or f"this server has {', '.join(known)}"
    raise EngineFault("model_not_found", f"{where}: there is no model {shown(name)}; {hint}")


def read_session(message: Any) -> KvSession:
    """A KvSessionRef of either revision."""
    try:
        attributes = structs.plain(message.attributes_struct)
    except ValueError as error:
        raise invalid(f"kv.session.attributes_struct: {error}") from None
    return KvSession(
        session_id=message.session_id,
        transfer_backend=message.transfer_backend,
        endpoints=tuple(
            Endpoint(host=e.host, port=e.port, protocol=e.protocol) for e in message.endpoints
        ),
        dp_rank=message.dp_rank,
        attributes=attributes,
    )


def read_generate(
    message: Any,
    facts: EngineFacts,
    role: Role,
    routing: Routing,
    *,
    loras: Collection[str],
    trace: Mapping[str, str],
) -> GenerateRequest:
    """Check all that can be known of a request before the engine sees it.

    The session, if there is one, is as the client sent it: sealed, and not looked into yet.
    """
    check_id(message.request_id)
    model = find_model(message.model, facts)
    session = read_session(message.kv.session) if message.kv.HasField("session") else None
    _check_role(role, session)
    prompt, ids = _input(message, model)
    abilities = model.abilities
    _check_lora(message.lora_name, model, loras)
    if routing.priority is not None and not abilities.priority:
        raise invalid(f"{routing.priority_field}: this server does not order by priority")
    _check_rank(routing, model, facts)
    return GenerateRequest(
        request_id=message.request_id,
        model=model.served_name,
        prompt=prompt,
        token_ids=ids,
        sampling=options.sampling(message.sampling, abilities),
        stopping=options.stopping(message.stopping, model),
        returned=options.returned(message.response, model, len(ids) if ids else None),
        guide=options.guide(message.guided, abilities) if message.HasField("guided") else None,
        media=options.media(message.media, abilities),
        lora_name=message.lora_name,
        priority=routing.priority,
        session=session,
        dp_rank=routing.dp_rank,
        bypass_prefix_cache=_bypass(message.kv, model),
        cache_salt=_salt(message.kv, model),
        prefill_only=role is Role.PREFILL,
        trace=trace,
    )


def _check_role(role: Role, session: KvSession | None) -> None:
    if role is Role.DECODE and session is None:
        what = "kv.session: this server decodes only; send the session of a prefill server"
        raise EngineFault("role_mismatch", what)
    if role is not Role.DECODE and session is not None:
        what = f"kv.session: this server is {role.value}; sessions go to a decode server"
        raise EngineFault("role_mismatch", what)


def _input(message: Any, model: ModelFacts) -> tuple[str | None, list[int] | None]:
    arm = message.WhichOneof("input")
    if arm is None:
        raise invalid("input: is missing; set prompt or token_ids")
    if arm == "prompt":
        if not model.abilities.text_input:
            raise invalid("prompt: this model takes token ids only; set token_ids")
        if not message.prompt:
            raise invalid("prompt: is empty; give at least one character")
        return message.prompt, None
    if not model.abilities.token_ids_input:
        raise invalid("token_ids: this model takes text only; set prompt")
    ids = options.token_ids(message.token_ids.ids, model, "token_ids.ids")
    limit = model.max_context_length
    if limit is not None and len(ids) > limit:
        raise invalid(f"token_ids.ids: has {len(ids)} tokens; the model takes {limit} at most")
    return None, ids


def _check_lora(name: str, model: ModelFacts, loras: Collection[str]) -> None:
    if not name:
        return
    if not model.abilities.lora:
        raise invalid("lora_name: this model's server runs without LoRA; leave it out")
    if name not in loras:
        hint = did_you_mean(name, list(loras)) or "load it first (LoadLora)"
        raise EngineFault("not_found", f"lora_name: {shown(name)} is not loaded; {hint}")


def _check_rank(routing: Routing, model: ModelFacts, facts: EngineFacts) -> None:
    rank, size = routing.dp_rank, facts.parallelism.data
    if rank is None:
        return
    first = facts.parallelism.data_start_rank or 0
    if not model.abilities.dp_rank_choice and (size != 1 or rank != first):
        what = "this server does not let clients choose a data parallel rank"
        raise invalid(f"{routing.rank_field}: {what}; leave it out")
    if size is not None and not first <= rank < first + size:
        what = f"must be from {first} to {first + size - 1} ({rank})"
        raise invalid(f"{routing.rank_field}: {what}")


def _bypass(kv: Any, model: ModelFacts) -> bool:
    if kv.bypass_prefix_cache and not model.abilities.prefix_cache_bypass:
        raise invalid("kv.bypass_prefix_cache: this model's server cannot do that; leave it out")
    return bool(kv.bypass_prefix_cache)


def _salt(kv: Any, model: ModelFacts) -> str | None:
    salt: str | None = options.optional(kv, "cache_salt")
    if salt is None:
        return None
    if not model.abilities.cache_salt:
        raise invalid("kv.cache_salt: this model's server has no salts; leave it out")
    if not salt:
        raise invalid("kv.cache_salt: is empty; give a salt, or leave it out")
    return salt
