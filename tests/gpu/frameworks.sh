#!/usr/bin/env bash
# Adds other frameworks, at the releases named here, to a PACK for measure.sh: source trees, the Python packages that a
# node with torch, transformers, jax and pack.sh's wheels still lacks, and stubs for packages that training never enters.
#
#   frameworks.sh PACK NAME...    NAME: megatron-lm nemo1 nemo2 megatron-bridge maxtext vllm trl,
#                                 or megatron-bridge-0.2.2 or megatron-bridge-0.6.2
#
# MEGATRON_LM, NEMO, MEGATRON_BRIDGE and MAXTEXT name git clones of github.com/NVIDIA/Megatron-LM, NVIDIA/NeMo,
# NVIDIA-NeMo/Megatron-Bridge and AI-Hypercomputer/maxtext that have the revisions. PYTHON312 names a Python 3.12 with
# headers, for megatron-core's C++ helper.
set -euo pipefail

pack=$(mkdir -p "${1:?usage: frameworks.sh PACK NAME...}/frameworks" && cd "$1" && pwd)
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON312:-python3.12}

tree() { # CLONE REVISION FOLDER PATH...: these paths of a revision
  mkdir -p "$3"
  git -C "$1" archive "$2" "${@:4}" | tar -C "$3" -x
}

core() { # REVISION FOLDER: Megatron-LM with its helper compiled
  local module suffix to=$2/megatron/core/datasets
  tree "${MEGATRON_LM:?}" "$1" "$2" megatron pretrain_gpt.py gpt_builders.py model_provider.py 2>/dev/null ||
    tree "$MEGATRON_LM" "$1" "$2" megatron pretrain_gpt.py
  module=$(sed -n 's/^PYBIND11_MODULE(\([a-z_]*\),.*/\1/p' "$to/helpers.cpp") # helpers_cpp, before core 0.10 helpers
  suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  [ -d "$work/pybind11" ] || python3 -m pip install --quiet --disable-pip-version-check --target "$work/pybind11" pybind11
  g++ -O3 -shared -std=c++17 -fPIC "-I$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
    "-I$work/pybind11/pybind11/include" "$to/helpers.cpp" -o "$to/$module$suffix"
}

packages() { # FOLDER REQUIREMENT...: without what they require; pip asks its own Python whether it is new enough
  local platforms=() glibc
  for glibc in 28 27 24 17; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --ignore-requires-python \
    --python-version 3.12 --implementation cp "${platforms[@]}" --platform manylinux2014_x86_64 --platform any \
    --only-binary=:all: --target "$@"
}

built() { # FOLDER REQUIREMENT...: packages in plain Python that are published as source only
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target "$@"
}

stubs() { # FOLDER NAME...: names of packages that training imports and never calls
  mkdir -p "$1"
  cp "$here"/stubs/*.py "$1"
  printf '%s\n' "${@:2}" >"$1/names.txt"
}

bridge() { # FOLDER TAG CORE
  tree "${MEGATRON_BRIDGE:?}" "$2" "$1/bridge" src
  core "$3" "$1/core"
  packages "$1/site" omegaconf==2.3.0 datasets multiprocess dill platformdirs toml defusedxml sniffio
  built "$1/site" antlr4-python3-runtime==4.9.3
  stubs "$1/stubs" wandb modelopt nvidia_resiliency_ext opentelemetry mlflow comet_ml diffusers
  echo stubs:site:bridge/src:core >"$1/pythonpath"
}

served() { # FOLDER WHEEL: of vLLM, without FlashAttention in FP16 and FP8, DeepGEMM, the server in Rust, code for Blackwell
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
    --implementation cp --abi abi3 --platform manylinux_2_28_x86_64 --dest "$work/wheel" "$2"
  python3 "$here/keep_sm.py" 90 "$work"/wheel/vllm-*.whl "$work/vllm.whl" '*_fa3_C*=half_t!FwdCombine' '*_fa3_C*=float_e4m3_t' \
    'vllm/_qutlass_C*' 'vllm/vllm-rs' 'vllm/vllm_flash_attn/_vllm_fa2_C*' 'vllm/third_party/fmha_sm100/*' \
    'vllm/third_party/deep_gemm/*' 'vllm/entrypoints/serve/instrumentator/static/*'
  python3 -m zipfile -e "$work/vllm.whl" "$1"
  find "$1/vllm" -name '*.so' -exec strip --strip-unneeded {} +
}

add() {
  local framework=${1%-0.*}
  local to=$work/$framework
  case $1 in
    megatron-lm)
      core core_v0.13.0 "$to/core"
      stubs "$to/stubs" wandb
      echo core:stubs >"$to/pythonpath"
      ;;
    nemo1) # of the image nemo:24.09; the node's are einops, tensorstore, torchmetrics and what transformers needs
      tree "${NEMO:?}" v2.0.0 "$to/nemo" nemo examples/nlp/language_modeling/megatron_gpt_pretraining.py
      core core_v0.9.0 "$to/core"
      cp -r "$here/nemo1" "$to/te2025"
      packages "$to/site" pytorch-lightning==2.4.0 lightning==2.4.0 huggingface-hub==0.36.0 transformers==4.52.1 \
        tokenizers==0.21.4 webdataset graphviz omegaconf==2.3.0 hydra-core==1.3.2 braceexpand fiddle==0.3.1 libcst
      built "$to/site" antlr4-python3-runtime==4.9.3 wget
      stubs "$to/stubs" jieba opencc pangu leptonai nemo_run modelopt nvidia_resiliency_ext zarr numcodecs nltk rouge_score \
        ijson torchx wandb faiss flash_attn datasets
      echo nemo:stubs:site:core:te2025 >"$to/pythonpath"
      ;;
    nemo2)
      tree "${NEMO:?}" v2.4.0 "$to/nemo" nemo
      core core_v0.13.0 "$to/core"
      packages "$to/site" pytorch-lightning==2.4.0 lightning==2.4.0 huggingface-hub==0.36.0 transformers==4.52.1 \
        tokenizers==0.21.4 datasets==3.6.0 webdataset graphviz omegaconf==2.3.0 hydra-core==1.3.2 braceexpand \
        fiddle==0.3.1 dill libcst multiprocess
      built "$to/site" antlr4-python3-runtime==4.9.3 wget
      stubs "$to/stubs" jieba opencc pangu leptonai nemo_run modelopt nvidia_resiliency_ext zarr numcodecs nltk rouge_score \
        ijson torchx wandb
      echo stubs:site:nemo:core >"$to/pythonpath"
      ;;
    megatron-bridge) bridge "$to" v0.4.1 d7288711ba278d160d2a5a22c099915c9fe1395c ;;
    megatron-bridge-0.2.2) bridge "$to" v0.2.2 cba6b0ed0f1ee2694ae9f7059f6d4b8a7cc995fb ;;
    megatron-bridge-0.6.2) # megatron-core's wheel of that release has no Makefile, which Bridge starts
      core core_v0.19.0 "$to/core"
      packages "$to/site" megatron-bridge==0.6.2 transformers==5.12.1 tokenizers==0.22.2 omegaconf==2.3.0 datasets \
        multiprocess dill platformdirs toml defusedxml sniffio
      built "$to/site" antlr4-python3-runtime==4.9.3
      stubs "$to/stubs" wandb modelopt megatron.energon nvidia_resiliency_ext.inprocess opentelemetry mlflow comet_ml diffusers
      echo stubs:site:core >"$to/pythonpath"
      ;;
    maxtext) # of the image jax:25.01-maxtext-py3; JAX, flax and optax are the node's
      tree "${MAXTEXT:?}" 8dd66612 "$to/source" MaxText ':!MaxText/test_assets'
      cp -r "$here/maxtext" "$to/jax2026"
      packages "$to/site" aqtp==0.9.0
      stubs "$to/stubs" orbax grain tensorflow tensorboardX google requests urllib3 cloud_accelerator_diagnostics \
        cloud_tpu_diagnostics ml_goodput_measurement jetstream tensorflow_datasets tensorflow_text transformers datasets \
        sentencepiece tiktoken ml_collections
      echo source:stubs:site:jax2026 >"$to/pythonpath"
      ;;
    trl) # accelerate and pyarrow are the node's too
      packages "$to/site" trl==1.16.0 datasets==5.2.0 multiprocess==0.70.19 dill==0.4.1 xxhash==4.1.0
      echo site:../vllm/stubs:../vllm/site >"$to/pythonpath" # vLLM generates where the pack has it
      ;;
    vllm) # the last release built for torch 2.11; grammars, DeepGEMM and FlashInfer are not used by a benchmark
      packages "$to/site" \
        annotated_types==0.8.0 anthropic==2.12.0 astor==0.8.1 blake3==1.0.11 cachetools==8.0.1 cbor2==6.3.0 \
        compressed_tensors==0.17.0 depyf==0.20.0 dill==0.4.1 distro==1.9.0 docstring_parser==0.18.0 fastapi==0.136.3 \
        httpx_sse==0.4.3 ijson==3.6.0 interegular==0.3.3 jiter==0.19.0 jmespath==1.1.0 jsonschema==4.26.0 \
        jsonschema_specifications==2025.9.1 lark==1.2.2 lm_format_enforcer==0.11.3 loguru==0.7.3 mcp==1.27.2 \
        mistral_common==1.13.1 model_hosting_container_standards==0.1.16 msgspec==0.22.0 openai==2.30.0 \
        openai_harmony==0.0.8 partial_json_parser==0.2.1.1.post7 prometheus_fastapi_instrumentator==8.1.0 \
        pybase64==1.5.1 pycountry==26.2.16 pydantic==2.14.3 pydantic_core==2.50.4 pydantic_extra_types==2.11.1 \
        pydantic_settings==2.16.3 pyjwt==2.15.1 python_dotenv==1.2.4 python_json_logger==4.2.0 \
        python_multipart==0.0.34 pyzmq==27.3.0 referencing==0.37.0 rpds_py==2026.9.1 setproctitle==1.3.8 \
        sniffio==1.3.1 sse_starlette==3.7.0 starlette==1.10.0 typing_inspection==0.4.5 uvicorn==0.54.0 \
        watchfiles==1.3.0
      rm -rf "$to"/site/mistral_common/data/* "$to/site/pycountry/locales" "$to/site/bin"
      served "$to/site" vllm==0.26.0
      stubs "$to/stubs" xgrammar llguidance outlines_core tvm_ffi
      echo stubs:site >"$to/pythonpath"
      ;;
    *) echo "frameworks.sh: no framework $1" >&2 && exit 2 ;;
  esac
  find "$to" -name '*.pyc' -delete
  tar -C "$work" --owner=0 --group=0 -cJf "$pack/frameworks/$framework.tar.xz" "$framework"
}

for name in "$@"; do add "$name"; done
du -sh "$pack"/frameworks/*
