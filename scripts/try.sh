#!/usr/bin/env bash
# Set up, then plan and render the example deployment, each from JSON on standard input, and show a
# deployment file as people see it.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh cli
bin=.venv/bin

echo "== plan: $bin/oe-adapter-vllm < examples/plan-single.json"
"$bin/oe-adapter-vllm" <examples/plan-single.json | "$bin/python" -m json.tool
echo
echo "== render: $bin/oe-adapter-vllm < examples/render-single.json"
"$bin/oe-adapter-vllm" <examples/render-single.json | "$bin/python" -m json.tool
echo
echo "== the same for people: $bin/oe plan examples/deployments/vllm-prefill-decode.yaml"
"$bin/oe" plan --engine-version 0.33.0 examples/deployments/vllm-prefill-decode.yaml
