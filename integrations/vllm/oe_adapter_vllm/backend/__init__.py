"""The parts of :mod:`oe_adapter_vllm.engine`: vLLM's HTTP endpoints behind OpenEngine's rules."""
