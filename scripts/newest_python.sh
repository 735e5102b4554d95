#!/usr/bin/env bash
# Print the newest CPython on this machine: on PATH, or among the versions that pyenv keeps.
set -euo pipefail

candidates=(python3)
mapfile -t -O 1 candidates < <(compgen -c python3. | grep -E '^python3\.[0-9]+$' | sort -u)
if command -v pyenv >/dev/null; then
  candidates+=("$(pyenv root)"/versions/3.*/bin/python3)
fi
for python in "${candidates[@]}"; do
  # A name on PATH may be a shim for a version that is not there.
  "$python" -c 'import sys; print(*sys.version_info[:3], sys.executable)' 2>/dev/null || true
done | sort -k1,1n -k2,2n -k3,3n | tail -n 1 | cut -d ' ' -f 4-
