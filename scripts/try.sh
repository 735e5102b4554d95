#!/usr/bin/env bash
# Set up, then plan and render the example deployment, each from JSON on standard input.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh
adapter=.venv/bin/oe-adapter-vllm

echo "== plan: $adapter < examples/plan-single.json"
"$adapter" <examples/plan-single.json | .venv/bin/python -m json.tool
echo
echo "== render: $adapter < examples/render-single.json"
"$adapter" <examples/render-single.json | .venv/bin/python -m json.tool
