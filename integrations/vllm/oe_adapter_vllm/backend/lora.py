"""LoRA adapters that come and go while vLLM runs.

Source (vLLM 0.32.0): entrypoints/serve/lora/api_router.py, entrypoints/openai/models/serving.py.
Seen on a running server: 400 for a name that is there already, 404 for a folder without an
adapter and for an unknown name; without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 neither path exists.
"""

from __future__ import annotations

from inferlab_adapters.openengine.engine import EngineFacts, EngineFault, Lora
from oe_adapter_vllm.backend.facts import LOAD_LORA
from oe_adapter_vllm.backend.http import Http

UNLOAD_LORA = "/v1/unload_lora_adapter"

_LOAD_SECONDS = 600.0
_NO_ROUTE = "Not Found"


def _check(facts: EngineFacts) -> None:
    if not any(model.abilities.lora for model in facts.models):
        what = "vLLM was started without --enable-lora, or with no adapters and no way to load them"
        raise EngineFault("failed_precondition", what)


async def load(http: Http, facts: EngineFacts, lora: Lora) -> None:
    """Make an adapter usable by its name."""
    _check(facts)
    asked = {"lora_name": lora.name, "lora_path": lora.path}
    try:
        await http.post(LOAD_LORA, asked, _LOAD_SECONDS)
    except EngineFault as fault:
        _check_route(fault)
        if fault.code == "not_found":
            # Not the adapter's name is unknown, its folder is.
            raise EngineFault("invalid_argument", fault.message) from fault
        if "already been loaded" in fault.message or "conflicts with" in fault.message:
            raise EngineFault("already_exists", fault.message) from fault
        raise


async def unload(http: Http, facts: EngineFacts, lora: Lora) -> None:
    """Make it unusable; ``not_found`` where vLLM does not have it."""
    _check(facts)
    try:
        await http.post(UNLOAD_LORA, {"lora_name": lora.name})
    except EngineFault as fault:
        _check_route(fault)
        raise


def _check_route(fault: EngineFault) -> None:
    if fault.code == "not_found" and fault.message == _NO_ROUTE:
        what = "vLLM was started without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1: its adapters stay"
        raise EngineFault("failed_precondition", what) from fault
