"""Embed, Classify and Score of the model server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tests.openengine.conformance.model_control import Controlling
from tests.openengine.conformance.model_requests import bad, check_model
from tests.openengine.conformance.model_server import Data, Refusal

Metadata = Mapping[str, list[str]]

DIMENSION = 4
MAX_BATCH = 6
_SEQUENCE = "TASK_OUTPUT_GRANULARITY_SEQUENCE"


class Model(Controlling):
    """The whole server. ``with_tasks``: whether the model has the three tasks."""

    with_tasks = True

    def tasks(self) -> Data | None:
        if not self.with_tasks:
            return None
        shared: Data = {
            "supported": True,
            "input_types": ["TASK_INPUT_TYPE_TEXT"],
            "granularities": [_SEQUENCE],
            "supports_priority": False,
            "supports_lora": False,
        }
        return {
            "embed": {
                **shared,
                "dimension": DIMENSION,
                "encodings": ["EMBEDDING_ENCODING_DENSE", "EMBEDDING_ENCODING_SPARSE"],
                "max_batch_size": MAX_BATCH,
                "supports_normalization": True,
            },
            "classify": {**shared, "max_batch_size": MAX_BATCH},
            "score": {
                **shared,
                "supports_label_token_scoring": True,
                "supports_instruction": False,
                "max_candidates_per_group": MAX_BATCH,
                "higher_is_better": True,
            },
        }

    async def Embed(self, request: Any, metadata: Metadata) -> Data:
        self._check(request, request.inputs)
        options = request.options
        if options.HasField("dimensions") and not 0 < options.dimensions <= DIMENSION:
            raise bad("options.dimensions: is out of range")
        dimension = options.dimensions or DIMENSION
        outputs = []
        for index, one in enumerate(request.inputs):
            values = [1 / math.sqrt(dimension)] * dimension
            tensor: Data = {"shape": [dimension], "values": values}
            output: Data = {"item_id": one.item_id, "input_index": index, "granularity": _SEQUENCE}
            if options.encoding == 2:
                output["sparse"] = {**tensor, "indices": list(range(dimension))}
            else:
                output["dense"] = tensor
            outputs.append(output)
        return self._answer(request, {"outputs": outputs})

    async def Classify(self, request: Any, metadata: Metadata) -> Data:
        self._check(request, request.inputs)
        outputs = [
            {
                "item_id": one.item_id,
                "input_index": index,
                "granularity": _SEQUENCE,
                "semantics": "TASK_VALUE_SEMANTICS_PROBABILITIES",
                "scores": {"shape": [2], "values": [0.25, 0.75]},
                "labels": ["no", "yes"],
            }
            for index, one in enumerate(request.inputs)
        ]
        return self._answer(request, {"outputs": outputs})

    async def Score(self, request: Any, metadata: Metadata) -> Data:
        self._check_context(request)
        groups = list(request.groups)
        if not groups or len({group.group_id for group in groups}) < len(groups):
            raise bad("groups: must be some, with ids of their own")
        for group in groups:
            if not group.HasField("query"):
                raise bad("groups.query: must be set")
            self._check_items([group.query, *group.candidates], ids=False)
            self._check_items(group.candidates)
        labels = list(request.options.label_token_ids)
        if len(set(labels)) < len(labels) or request.options.instruction:
            raise bad("options: cannot be served")
        width = len(labels) or 1
        values = [1 / width] * width
        answered = [
            {
                "group_id": group.group_id,
                "group_index": number,
                "candidates": [
                    {
                        "candidate_id": one.item_id,
                        "candidate_index": index,
                        "scores": {"shape": [width], "values": values},
                    }
                    for index, one in enumerate(group.candidates)
                ],
            }
            for number, group in enumerate(groups)
        ]
        soft = "SOFTMAX" if labels else "NONE"
        data = {
            "groups": answered,
            "granularity": _SEQUENCE,
            "semantics": "TASK_VALUE_SEMANTICS_RELEVANCE",
            "normalization": f"SCORE_NORMALIZATION_{soft}",
            "higher_is_better": True,
            "label_token_ids": labels,
        }
        return self._answer(request, data)

    def _answer(self, request: Any, data: Data) -> Data:
        usage = {"input_tokens": 9, "cached_input_tokens": 3}
        return {"request_id": request.context.request_id, **data, "usage": usage}

    def _check(self, request: Any, items: Any) -> None:
        self._check_context(request)
        self._check_items(items)

    def _check_context(self, request: Any) -> None:
        context = request.context
        if not context.request_id:
            raise bad("context.request_id: must not be empty")
        check_model(context.model)
        if not self.with_tasks:
            raise Refusal("FAILED_PRECONDITION", "the model has no such task")
        if context.request_id in self.running:
            raise Refusal("ALREADY_EXISTS", "context.request_id: is in flight")
        if context.HasField("priority") or context.lora_name:
            raise bad("context: priority and adapters are not supported")
        if request.options.granularity > 1:
            raise bad("options.granularity: is not supported")

    def _check_items(self, items: Any, *, ids: bool = True) -> None:
        names = [one.item_id for one in items]
        if not 0 < len(names) <= MAX_BATCH + (not ids) or not all(names):
            raise bad("items: too few, too many, or one without an id")
        if ids and len(set(names)) < len(names):
            raise bad("item_id: comes twice")
        for one in items:
            kind = one.WhichOneof("input")
            if kind is None or (kind == "multimodal" and not one.multimodal.media):
                raise bad("input: must be set")
