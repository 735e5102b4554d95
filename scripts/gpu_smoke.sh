#!/usr/bin/env bash
# Smoke-test the deployments of examples/gpu/ on this machine's GPUs: as many as fit.
#
#   scripts/gpu_smoke.sh [OPTION...] [DEPLOYMENT...]     for example: scripts/gpu_smoke.sh vllm-tp1
#
#   --list               say what would run, and why the rest would not; needs no GPU
#   --engine-env DIR     the virtual environment with the engine; left out, what is on PATH
#   --model PATH         the model; left out, a tiny one is made with the engine's own packages
#   --inventory FILE     machines other than this one, for two-node deployments; model id: smoke
#   --out DIR            where reports, answers and logs go (default: gpu-smoke-<time>)
#   --timeout SECONDS    how long a deployment may take to be ready (default: 1800)
#
# A DEPLOYMENT is a file's name without .yaml; left out, all. Nothing is installed or downloaded: oe
# runs from this checkout, by the engine's Python or $PYTHON, which must have click, rich, PyYAML,
# pydantic and nvidia-ml-py. The exit code is 0 when something ran and all that ran passed, 1 when
# nothing ran, 2 for a wrong command line and 3 when something failed.
set -euo pipefail
shopt -s inherit_errexit

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
list='' engine_env='' model='' inventory='' out='' timeout=1800 names=()

usage() {
  echo "gpu_smoke.sh: $1; see the head of scripts/gpu_smoke.sh" >&2
  exit 2
}

while (($#)); do
  case $1 in
    --list) list=yes ;;
    --engine-env | --model | --inventory | --out | --timeout)
      (($# > 1)) || usage "$1 needs a value"
      key=${1#--}
      printf -v "${key//-/_}" %s "$2"
      shift
      ;;
    -*) usage "unknown option $1" ;;
    *)
      [[ -f $root/examples/gpu/$1.yaml ]] || usage "there is no examples/gpu/$1.yaml"
      names+=("$1")
      ;;
  esac
  shift
done
((${#names[@]})) || for file in "$root"/examples/gpu/*.yaml; do
  names+=("$(basename "$file" .yaml)")
done

scratch=$(mktemp -d)
child=''
cleanup() {
  # oe ends its deployment itself when it is asked to.
  if [[ -n $child ]] && kill -TERM "$child" 2>/dev/null; then wait "$child" || true; fi
  rm -rf "$scratch" "${XDG_CACHE_HOME:-$HOME/.cache}"/oe/gpu-smoke-*
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# -- oe, from this checkout --------------------------------------------------------------------

path=$PATH
[[ -z $engine_env ]] || path="$(cd "$engine_env" && pwd)/bin:$PATH"
needed='import sys; assert sys.version_info >= (3, 11); import click, rich, yaml, pydantic'
python=''
for candidate in ${PYTHON:+"$PYTHON"} "$root/.venv/bin/python" "$(PATH=$path command -v python3)" "$(command -v python3)"; do
  if "$candidate" -c "$needed" 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [[ -z $python ]]; then
  echo "gpu_smoke.sh: no Python 3.11 with click, rich, PyYAML and pydantic; name one as PYTHON" >&2
  exit 1
fi
# Adapters are found by the metadata of installed packages, and nothing is installed here.
points=$scratch/path/gpu_smoke-0.dist-info
mkdir -p "$points"
printf 'Metadata-Version: 2.1\nName: gpu-smoke\nVersion: 0\n' >"$points/METADATA"
echo '[inferlab_adapters.adapters]' >"$points/entry_points.txt"
places="$scratch/path:$root"
for project in "$root"/integrations/*/; do
  sed -n '/^\[project.entry-points."inferlab_adapters.adapters"\]/,/^$/s/ = "\(.*\)"/ = \1/p' \
    "$project/pyproject.toml" >>"$points/entry_points.txt"
  places+=":${project%/}"
done
# vLLM brings the driver's library along under a name of its own.
"$python" -c 'import pynvml' 2>/dev/null || "$python" -c '
import importlib.util, pathlib, shutil, sys
found = importlib.util.find_spec("vllm")
here = found and pathlib.Path(found.origin).parent / "third_party" / "pynvml.py"
here and here.exists() and shutil.copy(here, sys.argv[1])' "$scratch/path"

# A command, no function: a signal to it in the background then reaches oe itself.
oe=(
  env "OE_STATE_DIR=$scratch/state" "PYTHONPATH=$places" "PATH=$path" PYTHONDONTWRITEBYTECODE=1
  "$python" -P -m inferlab_adapters.cli
)

# -- what can run ------------------------------------------------------------------------------

gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | wc -l) || gpus=0

engine_missing() {
  case $1 in
    vllm-*) PATH=$path command -v vllm >/dev/null || echo "no program vllm" ;;
    sglang-*) has_module sglang || echo "python3 has no sglang" ;;
    trtllm-*) has_module tensorrt_llm || echo "python3 has no tensorrt_llm" ;;
  esac
}

has_module() {
  PATH=$path python3 -c "import importlib.util as u, sys; sys.exit(not u.find_spec('$1'))"
}

options_for() {
  options=(--model "${model:-$scratch/model}")
  [[ -z $engine_env ]] || options+=(--engine-env "$engine_env")
  [[ -z $inventory ]] || options+=(--inventory "$inventory")
}

# Why a deployment cannot run here; empty when it can.
why_not() {
  local why
  why=$(engine_missing "$1")
  if [[ -n $why ]]; then
    echo "$why; give --engine-env"
  elif [[ -z $inventory && $gpus == 0 ]]; then
    echo "no NVIDIA GPU here"
  elif [[ -z $model && -z $inventory && $1 == *-tp16 ]]; then
    echo "the tiny model has too few heads; give --model and --inventory"
  else
    fits "$1"
  fi
}

# Placing is all that can still be refused, unless there is a fault to be heard of.
fits() {
  local said options=()
  options_for
  # A model's path need not be there to be placed.
  said=$("${oe[@]}" render "$root/examples/gpu/$1.yaml" --format json \
    --inventory "${inventory:-$scratch/here.yaml}" "${options[@]:0:2}" 2>&1 >/dev/null) && return
  tail -n 1 <<<"$said" | sed 's/^oe: //'
}

printf 'machines:\n  - name: here\n    devices: %d\n' "$gpus" >"$scratch/here.yaml"

# -- run ---------------------------------------------------------------------------------------

rows=()
row() { rows+=("$(printf '%-24s %-8s %s' "$1" "$2" "$3")"); }

make_model() {
  [[ -z $model && ! -e $scratch/model ]] || return 0
  echo "making the tiny model"
  PATH=$path python3 "$root/scripts/make_tiny_model.py" "$scratch/model"
}

# A deployment file. What serves OpenEngine beside vLLM needs two packages that vLLM does not bring,
# and nothing is installed here.
deployment() {
  if [[ $1 != vllm-* ]] || { has_module grpc_health && has_module grpc_reflection; }; then
    cat "$root/examples/gpu/$1.yaml"
  else
    echo "$1: without OpenEngine; python3 has no grpcio-health-checking and grpcio-reflection" >&2
    sed 's/^settings:$/settings:\n  openengine: false/' "$root/examples/gpu/$1.yaml"
  fi
}

run() {
  local name=$1 code=0 options=() begin=$SECONDS folder=$out/$1
  options_for
  mkdir -p "$folder" "$scratch/$name"
  # Beside the deployment lies the working directory of its processes.
  deployment "$name" >"$scratch/$name/$name.yaml"
  echo "== $name"
  "${oe[@]}" smoke "$scratch/$name/$name.yaml" --json --timeout "$timeout" \
    --artifacts "$folder" "${options[@]}" >/dev/null 2> >(tee "$folder/oe.log" >&2) &
  child=$!
  wait "$child" || code=$?
  child=''
  cp -r "$scratch/state/gpu-smoke-$name/logs" "$folder" 2>/dev/null || true
  if ((code == 0)); then
    row "$name" passed "$((SECONDS - begin)) s"
  else
    row "$name" FAILED "exit code $code, see $folder/oe.log"
  fi
  return "$code"
}

ran=0 failed=0
for name in "${names[@]}"; do
  why=$(why_not "$name")
  if [[ -n $why ]]; then
    row "$name" skipped "$why"
  elif [[ -n $list ]]; then
    row "$name" 'can run' ''
  else
    if ((ran == 0)); then
      out=${out:-gpu-smoke-$(date +%Y%m%d-%H%M%S)}
      mkdir -p "$out"
      out=$(cd "$out" && pwd)
    fi
    ran=$((ran + 1))
    make_model
    run "$name" || failed=$((failed + 1))
  fi
done

echo
printf '%-24s %s\n' deployment result
printf '%s\n' "${rows[@]}" | sed 's/ *$//'
[[ -n $list ]] && exit 0
((ran)) || exit 1
echo "reports: $out"
((failed == 0)) || exit 3
