#!/bin/sh
# Renews the locks. Every file holds hashes alone: no index, no host. Versions stay unless --upgrade is given.
set -eu
cd "$(dirname "$0")/.."

compile() {
    uv pip compile --quiet --no-config --python-version 3.11 --generate-hashes --no-header --no-annotate "$@"
}

# The largest first: the smaller ones take their versions from it, so that every set-up runs the same code.
compile --universal "$@" pyproject.toml --extra local-engine --extra report --extra tune --group build --group dev -o requirements/dev.txt
compile --universal -c requirements/dev.txt pyproject.toml --extra local-engine --group build -o requirements/engine.txt
compile --universal -c requirements/dev.txt pyproject.toml -o requirements/runtime.txt
compile --universal "$@" --no-deps requirements/engine-nodeps.in -o requirements/engine-nodeps.txt
compile --universal "$@" requirements/aiperf.in -o requirements/aiperf.txt

# torch and all that follows from the choice of its build stay out: see setup-vllm.sh.
overrides=$(mktemp)
trap 'rm -f "$overrides"' EXIT
echo 'torch==2.13.0' > "$overrides"
without=
for name in torch torchaudio torchvision torchcodec triton cuda-bindings cuda-pathfinder cuda-toolkit \
    nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft \
    nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13 \
    nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx; do
    without="$without --no-emit-package $name"
done
# shellcheck disable=SC2086  # each word is one option
compile --python-platform x86_64-manylinux_2_28 --overrides "$overrides" $without "$@" requirements/vllm.in \
    -o requirements/vllm.txt

! grep -nE '://|^--(index|extra-index|find-links|trusted-host)' requirements/*.txt || {
    echo 'a lock names an address' >&2
    exit 1
}
