#!/usr/bin/env bash
# Set up and pass the tests: lint, types, stale generated files, then pytest.
#
#   scripts/test.sh [PYTEST OPTION…]     for example: scripts/test.sh -m "not smoke"
#
# Tests that need an engine run where scripts/engine_env.sh has made one, and are skipped elsewhere.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh dev
bin=${VENV:-.venv}/bin

"$bin/ruff" check --quiet .
"$bin/ruff" format --quiet --check .
"$bin/mypy" --no-error-summary inferlab_adapters integrations/*/oe_adapter_* tests benchmarks
"$bin/python" scripts/generate_protocol.py --check
"$bin/python" scripts/generate_docs.py --check
"$bin/python" scripts/generate_openengine.py --check
exec "$bin/python" -m pytest "$@"
