"""What decides the things that settings may not: the words that refusals use for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ENDPOINT: Final = "the endpoint of the allocation"
HOST: Final = "the host of the allocation"
DEVICES: Final = "the devices of the allocation"
PORTS: Final = "the ports of the allocation"
CACHE: Final = "the cache root of the allocation"
MODEL_LOCATOR: Final = "model_locator of the allocation"
SERVED_NAME: Final = "served_name of the model"
RANKS: Final = "the ranks of the allocations"
HTTP_ONLY: Final = "the protocol: the endpoint is plain HTTP without credentials"
REQUEST_ITSELF: Final = "the request: put the options themselves into the settings"
TENSOR: Final = "outer.tensor_parallel_size of the parallelism"
PIPELINE: Final = "outer.pipeline_parallel_size of the parallelism"
ATTENTION_DATA: Final = "attention.data_parallel_size of the parallelism"
ATTENTION_CONTEXT: Final = "attention.context_parallel_size of the parallelism"
EXPERT: Final = "experts.expert_parallel_size of the parallelism"

TORCHRUN_VARIABLES: Mapping[str, str] = dict.fromkeys(
    ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"), RANKS
)
"""Variables of torch's own launcher, which some engines read."""
