"""A LoRA adapter for the tiny model of the engine environments, written without any library."""

from __future__ import annotations

import json
import struct
from pathlib import Path

_HIDDEN, _LAYERS = 128, 2


def write_adapter(folder: Path, rank: int = 8) -> Path:
    """A folder with an adapter that changes what the model says; PEFT's layout, safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": 16,
        "target_modules": ["q_proj"],
        "task_type": "CAUSAL_LM",
        "bias": "none",
        "base_model_name_or_path": "tiny",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors, data = {}, b""
    for layer in range(_LAYERS):
        for name, shape in (("lora_A", [rank, _HIDDEN]), ("lora_B", [_HIDDEN, rank])):
            count = shape[0] * shape[1]
            values = [((i * 7919) % 13 - 6) / 20 for i in range(count)]
            raw = struct.pack(f"<{count}f", *values)
            key = f"base_model.model.model.layers.{layer}.self_attn.q_proj.{name}.weight"
            span = [len(data), len(data) + len(raw)]
            tensors[key] = {"dtype": "F32", "shape": shape, "data_offsets": span}
            data += raw
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    content = struct.pack("<Q", len(header)) + header + data
    (folder / "adapter_model.safetensors").write_bytes(content)
    return folder
