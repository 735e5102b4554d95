"""Embed, Classify and Score: checked as the contract says, for models that do none of them.

No engine here advertises a task, so what is well formed is refused by its model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from inferlab_adapters.errors import shown
from inferlab_adapters.openengine.engine import EngineFacts, EngineFault
from inferlab_adapters.openengine.errors import invalid
from inferlab_adapters.openengine.requests import check_id, find_model


def embed(message: Any, facts: EngineFacts) -> NoReturn:
    """Refuse an EmbedRequest for what is wrong with it, else for its model."""
    _check_context(message.context)
    _check_items(message.inputs, "inputs", set())
    if message.options.HasField("dimensions") and not message.options.dimensions:
        raise invalid("options.dimensions: must be at least 1 (0); leave it out for the model's")
    _unsupported(message.context, facts, "embeddings")


def classify(message: Any, facts: EngineFacts) -> NoReturn:
    """Refuse a ClassifyRequest for what is wrong with it, else for its model."""
    _check_context(message.context)
    _check_items(message.inputs, "inputs", set())
    _unsupported(message.context, facts, "classification")


def score(message: Any, facts: EngineFacts) -> NoReturn:
    """Refuse a ScoreRequest for what is wrong with it, else for its model."""
    _check_context(message.context)
    if not message.groups:
        raise invalid("groups: is empty; give at least one group")
    ids: set[str] = set()
    for index, group in enumerate(message.groups):
        where = f"groups[{index}]"
        _check_name(group.group_id, f"{where}.group_id", ids)
        if not group.HasField("query"):
            raise invalid(f"{where}.query: is missing; give one query")
        seen: set[str] = set()
        _check_items([group.query], f"{where}.query", seen, single=True)
        _check_items(group.candidates, f"{where}.candidates", seen)
    labels = message.options.label_token_ids
    if len(set(labels)) != len(labels):
        raise invalid("options.label_token_ids: names a token twice; name each once")
    _unsupported(message.context, facts, "scoring")


def _check_context(context: Any) -> None:
    check_id(context.request_id, "context.request_id")
    if not context.model:
        raise invalid("context.model: is empty; name one of the models that discovery lists")


def _check_items(items: Iterable[Any], where: str, seen: set[str], *, single: bool = False) -> None:
    count = 0
    for count, item in enumerate(items, 1):
        here = where if single else f"{where}[{count - 1}]"
        _check_name(item.item_id, f"{here}.item_id", seen)
        _check_input(item, here)
    if not count:
        raise invalid(f"{where}: is empty; give at least one")


def _check_name(name: str, where: str, seen: set[str]) -> None:
    if not name:
        raise invalid(f"{where}: is empty; give every one an id of its own")
    if name in seen:
        raise invalid(f"{where}: {shown(name)} is given twice; give every one an id of its own")
    seen.add(name)


def _check_input(item: Any, where: str) -> None:
    match item.WhichOneof("input"):
        case "text":
            if not item.text:
                raise invalid(f"{where}.text: is empty; give a text")
        case "token_ids":
            if not item.token_ids.ids:
                raise invalid(f"{where}.token_ids: is empty; give at least one token id")
        case "multimodal":
            media = item.multimodal.media
            if not media:
                raise invalid(f"{where}.multimodal.media: is empty; give at least one item")
            for index, each in enumerate(media):
                if each.WhichOneof("source") is None:
                    what = "has no source; set url, data_uri or raw_bytes"
                    raise invalid(f"{where}.multimodal.media[{index}]: {what}")
        case _:
            raise invalid(f"{where}: has no input; set text, token_ids or multimodal")


def _unsupported(context: Any, facts: EngineFacts, task: str) -> NoReturn:
    model = find_model(context.model, facts, "context.model")
    what = f"the model {shown(model.served_name)} does no {task} here"
    raise EngineFault("failed_precondition", f"context.model: {what}")
