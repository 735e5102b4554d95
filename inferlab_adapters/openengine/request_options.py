"""The option groups of a GenerateRequest, checked one by one. Both revisions have the same."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, cast

from inferlab_adapters.errors import shown
from inferlab_adapters.openengine.engine import (
    Abilities,
    Guide,
    GuideMode,
    LogprobAbility,
    Media,
    MediaSource,
    Modality,
    ModelFacts,
    Returned,
    Sampling,
    Selection,
    SelectionMode,
    Stopping,
)
from inferlab_adapters.openengine.errors import invalid

_MODALITIES: dict[int, Modality] = {1: "image", 2: "video", 3: "audio"}


def optional(message: Any, name: str) -> Any:
    """The value of an optional field, ``None`` where it is absent."""
    return getattr(message, name) if message.HasField(name) else None


def token_ids(ids: Sequence[int], facts: ModelFacts, where: str) -> list[int]:
    """Ids that the model's vocabulary has, at least one."""
    found = list(ids)
    if not found:
        raise invalid(f"{where}: is empty; give at least one token id")
    if facts.vocabulary is not None and max(found) >= facts.vocabulary:
        what = f"{max(found)} is outside the vocabulary"
        raise invalid(f"{where}: {what}; ids are below {facts.vocabulary}")
    return found


def sampling(message: Any, abilities: Abilities) -> Sampling:
    """``sampling``: every number finite and in its range."""
    given = optional(message, "num_sequences")
    count = 1 if given is None else given
    most = abilities.max_num_sequences
    if count < 1:
        raise invalid("sampling.num_sequences: must be at least 1 (0); leave it out for one output")
    if most is not None and count > most:
        raise invalid(f"sampling.num_sequences: must be at most {most} ({count})")
    top_k = optional(message, "top_k")
    if top_k is not None and top_k < -1:
        raise invalid(f"sampling.top_k: must be at least 1, or 0 or -1 for no limit ({top_k})")
    return Sampling(
        temperature=_number(message, "temperature", 0.0, math.inf),
        top_p=_number(message, "top_p", 0.0, 1.0, above=True),
        top_k=top_k,
        min_p=_number(message, "min_p", 0.0, 1.0),
        frequency_penalty=_number(message, "frequency_penalty", -2.0, 2.0),
        presence_penalty=_number(message, "presence_penalty", -2.0, 2.0),
        repetition_penalty=_number(message, "repetition_penalty", 0.0, math.inf, above=True),
        seed=optional(message, "seed"),
        num_sequences=count,
    )


def _number(
    message: Any, name: str, low: float, high: float, *, above: bool = False
) -> float | None:
    value: float | None = optional(message, name)
    if value is None:
        return None
    if not math.isfinite(value):
        raise invalid(f"sampling.{name}: must be finite ({value})")
    if value < low or value > high or (above and value == low):
        words = f"above {low:g}" if above else f"at least {low:g}"
        if high != math.inf:
            words += f" and at most {high:g}"
        raise invalid(f"sampling.{name}: must be {words} ({value:g})")
    return value


def stopping(message: Any, facts: ModelFacts) -> Stopping:
    """``stopping``: counts that can be kept, conditions that can be met."""
    most, least = optional(message, "max_tokens"), optional(message, "min_tokens")
    if most == 0:
        raise invalid("stopping.max_tokens: must be at least 1 (0); leave it out for the default")
    limit = facts.max_output_tokens
    if most is not None and limit is not None and most > limit:
        raise invalid(f"stopping.max_tokens: must be at most {limit} ({most})")
    if least is not None and most is not None and least > most:
        raise invalid(f"stopping.min_tokens: must be at most max_tokens ({least} > {most})")
    if least is not None and limit is not None and least > limit:
        raise invalid(f"stopping.min_tokens: must be at most {limit} ({least})")
    texts, ids = [], []
    for index, condition in enumerate(message.conditions):
        where = f"stopping.conditions[{index}]"
        match condition.WhichOneof("condition"):
            case "stop_text":
                if not condition.stop_text:
                    raise invalid(f"{where}.stop_text: is empty; give the text to stop at")
                texts.append(condition.stop_text)
            case "stop_token_id":
                ids += token_ids((condition.stop_token_id,), facts, f"{where}.stop_token_id")
            case _:
                raise invalid(f"{where}: has no condition; set stop_text or stop_token_id")
    if message.include_stop_in_output and not facts.abilities.stop_in_output:
        raise invalid("stopping.include_stop_in_output: this model's server cannot do that")
    return Stopping(
        max_tokens=most,
        min_tokens=least,
        stop_texts=tuple(texts),
        stop_token_ids=tuple(ids),
        ignore_eos=message.ignore_eos,
        include_stop_in_output=message.include_stop_in_output,
    )


def returned(message: Any, facts: ModelFacts, prompt_length: int | None) -> Returned:
    """``response``: what is to be reported; a selection without its flag asks for it as well."""
    abilities = facts.abilities
    prompt, prompt_selection = _logprobs(message, "prompt", abilities.prompt_logprobs, facts)
    output, output_selection = _logprobs(message, "output", abilities.output_logprobs, facts)
    start = message.prompt_logprob_start
    if start and not prompt:
        what = "is given without return_prompt_logprobs; set that, or leave this out"
        raise invalid(f"response.prompt_logprob_start: {what}")
    if prompt_length is not None and start and start >= prompt_length:
        what = f"must be below the prompt's {prompt_length} tokens ({start})"
        raise invalid(f"response.prompt_logprob_start: {what}")
    return Returned(
        prompt_logprobs=prompt,
        prompt_candidates=prompt_selection,
        prompt_start=start,
        output_logprobs=output,
        output_candidates=output_selection,
    )


def _logprobs(
    message: Any, side: str, ability: LogprobAbility, facts: ModelFacts
) -> tuple[bool, Selection | None]:
    flag, field = f"return_{side}_logprobs", f"{side}_candidates"
    asked, chosen = optional(message, flag), message.HasField(field)
    if not ability.supported and (asked or chosen):
        where = flag if asked else field
        raise invalid(f"response.{where}: this model's server reports no {side} logprobs")
    if not chosen:
        return bool(asked), None
    if asked is False:
        raise invalid(f"response.{field}: is given although {flag} is false; change one")
    return True, _selection(getattr(message, field), f"response.{field}", ability, facts)


def _selection(message: Any, where: str, ability: LogprobAbility, facts: ModelFacts) -> Selection:
    mode = cast("SelectionMode | None", message.WhichOneof("selection"))
    if mode is None:
        raise invalid(f"{where}: has no selection; set top_n, token_ids or all")
    if mode not in ability.selections:
        known = ", ".join(ability.selections) or "none"
        raise invalid(f"{where}.{mode}: is not supported here; use one of: {known}")
    most = ability.max_top_n
    if mode == "top_n" and most is not None and message.top_n > most:
        raise invalid(f"{where}.top_n: must be at most {most} ({message.top_n})")
    ids: list[int] = []
    if mode == "token_ids":
        ids = token_ids(message.token_ids.ids, facts, f"{where}.token_ids")
        if len(set(ids)) != len(ids):
            raise invalid(f"{where}.token_ids: names a token twice; name each once")
    return Selection(mode=mode, top_n=message.top_n if mode == "top_n" else 0, token_ids=tuple(ids))


def guide(message: Any, abilities: Abilities) -> Guide:
    """``guided``: the one guide, of a mode that is there, with something in it."""
    mode = cast("GuideMode | None", message.WhichOneof("guide"))
    if mode is None:
        raise invalid("guided: has no guide; set one, or leave guided out")
    where = f"guided.{mode}"
    if mode not in abilities.guides:
        known = ", ".join(abilities.guides) or "none"
        raise invalid(f"{where}: is not supported here; use one of: {known}")
    if mode == "choice":
        choices = tuple(message.choice.choices)
        if not choices or not all(choices):
            raise invalid(f"{where}.choices: must be at least one text, none of them empty")
        return Guide(mode=mode, choices=choices, backend=message.backend)
    if mode == "json_object":
        return Guide(mode=mode, backend=message.backend)
    text = getattr(message, mode)
    if not text.strip():
        raise invalid(f"{where}: is empty; give the guide's text")
    if mode == "json_schema":
        _check_schema(text, where)
    return Guide(mode=mode, text=text, backend=message.backend)


def _check_schema(text: str, where: str) -> None:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise invalid(f"{where}: is no JSON ({shown(text)})") from None
    if not isinstance(schema, dict | bool):
        raise invalid(f"{where}: must be an object, true or false ({shown(schema)})")


def media(items: Sequence[Any], abilities: Abilities) -> tuple[Media, ...]:
    """``media``: each from one source, in order. An unknown modality is taken as an image."""
    if items and not abilities.multimodal:
        raise invalid("media: this model takes no media; leave it out")
    made = []
    for index, item in enumerate(items):
        source = cast("MediaSource | None", item.WhichOneof("source"))
        if source is None or not getattr(item, source):
            raise invalid(f"media[{index}]: has no source; set url, data_uri or raw_bytes")
        made.append(
            Media(
                modality=_MODALITIES.get(item.modality, "image"),
                source=source,
                data=getattr(item, source),
                mime_type=item.mime_type,
                uuid=item.uuid,
            )
        )
    return tuple(made)
