#!/usr/bin/env bash
# Make a virtual environment with the core and every integration, installed from this checkout.
#
#   scripts/setup.sh [EXTRA]      EXTRA: dev for the tools that the tests need
#
# PYTHON chooses the interpreter (default python3), VENV the folder (default .venv). What is there
# and fits pyproject.toml is kept.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}
extra=${1:-}

stamp=$(cat pyproject.toml integrations/*/pyproject.toml <(echo "$extra") | sha256sum)
[[ $(cat "$venv/.stamp" 2>/dev/null) == "$stamp" ]] && exit 0

"${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
"${PYTHON:-python3}" -m venv --clear "$venv"
projects=(-e ".${extra:+[$extra]}")
for project in integrations/*/pyproject.toml; do
  projects+=(-e "$(dirname "$project")")
done
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${projects[@]}"
echo "$stamp" >"$venv/.stamp"
