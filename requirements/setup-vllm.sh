#!/bin/sh
# vLLM for the CPU in an environment of its own, .venv-vllm.
set -eu
python=.venv-vllm/bin/python
pip="$python -m pip -qq --disable-pip-version-check --no-input"

echo '  vLLM for the CPU, in .venv-vllm (3.4 GB, a few minutes)'
"${PYTHON:-python3}" -m venv .venv-vllm
# Not in the lock: point pip at a CPU build of this version where you have one; the default one is for CUDA and large.
$python -c 'import torch' 2> /dev/null || $pip install 'torch==2.13.0'
$pip install --require-hashes --no-deps -r requirements/vllm.txt

# The wheel forgets its own name: without this, `vllm` stops with PackageNotFoundError.
$python - <<'PYTHON'
import pathlib, sysconfig
folder = pathlib.Path(sysconfig.get_paths()["purelib"]) / "vllm-0.32.0+cpu.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
(folder / "RECORD").touch()
PYTHON
