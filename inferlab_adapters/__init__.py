"""The runtime, wire protocol and shared rules of the LLM engine adapters."""

__version__ = "0.1.0"
