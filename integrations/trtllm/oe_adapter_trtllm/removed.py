"""Options that ``trtllm-serve serve`` dropped or renamed and that templates still pass.

Source: the option lists of the release documentation of 1.2.1, 1.3.0rc14 and 1.3.0rc27, and
tensorrt_llm/commands/serve.py of 1.4.0rc. ``since`` is the first version known to lack the
option; what a version has in its catalogue comes first.
"""

from __future__ import annotations

from collections.abc import Mapping

from inferlab_adapters.catalogue import release
from inferlab_adapters.options import Removed

_GONE: dict[str, tuple[str, str]] = {
    "extra-visual-gen-options": ("1.3.0rc27", "drop it: text is served, and nothing else"),
    "input-processor-workers": ("1.3.0rc27", "say num_input_processor_workers"),
    "media-load-workers": ("1.3.0rc27", "say num_media_load_workers"),
    "fail-fast-on-attention-window-too-large": (
        "1.4",
        "drop it: the PyTorch backend never used it",
    ),
}


def removed(version: str) -> Mapping[str, Removed]:
    """What became of each option that ``version`` no longer has, by long spelling."""
    return {
        f"--{name}": Removed(since=f"TensorRT-LLM {since}", fix=fix)
        for name, (since, fix) in _GONE.items()
        if release(since) <= release(version)
    }
