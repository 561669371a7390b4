"""The adapters by the name that a policy file calls them."""

from __future__ import annotations

from tidegate.adapters.base import Adapter
from tidegate.adapters.emulated import Emulated
from tidegate.adapters.llamacpp import LlamaCpp
from tidegate.adapters.openai import OpenAI
from tidegate.adapters.sglang import SGLang
from tidegate.adapters.trtllm import TrtLlm
from tidegate.adapters.vllm import Vllm

ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter for adapter in (LlamaCpp(), Vllm(), SGLang(), TrtLlm(), OpenAI(), Emulated())
}
