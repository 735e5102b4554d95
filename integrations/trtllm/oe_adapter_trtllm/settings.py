"""The settings of this adapter that are not options of TensorRT-LLM."""

from __future__ import annotations

from inferlab_adapters.settings import EXTRA_ARGS, EXTRA_ENV, OwnSetting

YAML_FILE = OwnSetting(
    name="extra_llm_api_options",
    kind="string",
    meaning=(
        "A YAML file of LLM API options in the workspace, as a path from its .inferlab folder; "
        "the plan asks for its text, and what the server gets is a checked copy."
    ),
)
YAML_PATCH = OwnSetting(
    name="extra_llm_api_options_patch",
    kind="object",
    meaning=(
        "LLM API options merged over those of the file, object into object; anything else in "
        "the file that it names is replaced."
    ),
)

OWN_SETTINGS = (EXTRA_ARGS, EXTRA_ENV, YAML_FILE, YAML_PATCH)
