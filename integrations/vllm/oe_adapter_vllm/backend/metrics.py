"""vLLM's ``GET /metrics``: the load, and what it tells of the KV cache.

Source (vLLM 0.32.0): v1/metrics/loggers.py. Gauges have one sample for each data parallel rank,
by the label ``engine``; ``vllm:cache_config_info`` has its facts in labels.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from inferlab_adapters.openengine.engine import Load, RankLoad

Labels: TypeAlias = Mapping[str, str]

_LINE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ATTRIBUTES = {
    "vllm:num_preemptions_total": "vllm.preemptions",
    "vllm:prompt_tokens_total": "vllm.prompt_tokens",
    "vllm:generation_tokens_total": "vllm.generation_tokens",
    "vllm:prefix_cache_queries_total": "vllm.prefix_cache_queries",
    "vllm:prefix_cache_hits_total": "vllm.prefix_cache_hits",
}


class Metrics:
    """The samples of one reading that begin with ``vllm:``, histograms left out."""

    def __init__(self, text: str) -> None:
        self._samples: defaultdict[str, list[tuple[Labels, float]]] = defaultdict(list)
        self._names = set(re.findall(r"^# TYPE (vllm:\S+)", text, re.MULTILINE))
        for line in text.splitlines():
            if not line.startswith("vllm:") or "_bucket{" in line:
                continue
            found = _LINE.match(line)
            if found is None:
                continue
            try:
                value = float(found["value"])
            except ValueError:
                continue
            labels = dict(_LABEL.findall(found["labels"] or ""))
            self._samples[found["name"]].append((labels, value))

    def measures(self, name: str) -> bool:
        """Whether the engine has this measure at all, with samples or without."""
        return name in self._names

    def by_rank(self, name: str) -> dict[int, float]:
        """A gauge of every data parallel rank."""
        ranks: dict[int, float] = {}
        for labels, value in self._samples[name]:
            engine = labels.get("engine", "0")
            if engine.isascii() and engine.isdigit():
                ranks[int(engine)] = ranks.get(int(engine), 0.0) + value
        return ranks

    def cache(self) -> dict[int, Labels]:
        """The facts of every rank's KV cache."""
        return {
            int(labels.get("engine", "0")): labels
            for labels, _ in self._samples["vllm:cache_config_info"]
            if labels.get("engine", "0").isdigit()
        }

    def blocks(self) -> dict[int, int]:
        """How many KV blocks every rank has."""
        return {
            rank: int(labels["num_gpu_blocks"])
            for rank, labels in self.cache().items()
            if labels.get("num_gpu_blocks", "").isdigit()
        }

    def load(self, per_rank: bool) -> Load:
        """The load; ranks only where asked for."""
        running = self.by_rank("vllm:num_requests_running")
        queued = self.by_rank("vllm:num_requests_waiting")
        total = self.blocks()
        usage = self.by_rank("vllm:kv_cache_usage_perc")
        # The share is of the blocks without the one that vLLM keeps as its null block.
        used = {
            rank: round(share * max(total[rank] - 1, 0))
            for rank, share in usage.items()
            if rank in total
        }
        ranks = sorted(running.keys() | queued.keys()) if per_rank else ()
        return Load(
            running=_sum(running),
            queued=_sum(queued),
            used_kv_blocks=_sum(used),
            total_kv_blocks=_sum(total),
            ranks=tuple(
                RankLoad(
                    rank=rank,
                    running=_whole(running.get(rank)),
                    queued=_whole(queued.get(rank)),
                    used_kv_blocks=used.get(rank),
                    total_kv_blocks=total.get(rank),
                )
                for rank in ranks
            ),
            attributes={
                key: sum(self.by_rank(name).values())
                for name, key in _ATTRIBUTES.items()
                if self.by_rank(name)
            },
        )


def _sum(values: Mapping[int, float]) -> int | None:
    return int(sum(values.values())) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
