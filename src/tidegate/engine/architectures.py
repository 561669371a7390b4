"""What a model computes and keeps for each token, from its own configuration file.

Every number is an integer of the model's ``config.json`` on its model hub (2024-2026) or follows from such
integers. Parameters are counted without norms and biases; the sums agree with the published sizes to
within 1 %. ``kernels`` is how many a layer launches in today's engines: norms, projections, rotary
embedding, attention, router, grouped experts and so on, counted from the layer's own list of operations.
"""

from __future__ import annotations

from dataclasses import dataclass

GATED = 3
"""Matrices of a gated feed-forward part: gate, up and down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A decoder. Parameters are numbers of weights, of one layer unless it says otherwise."""

    layers: int
    hidden: int
    vocabulary: int
    attention_parameters: int
    kv_values: int
    """Numbers that a layer caches for each token."""
    kv_shards: int
    """Over how many GPUs these can be spread; 1 for a latent that every GPU keeps whole."""
    pair_flops: int
    """Operations for each pair of a new token and one it attends to, in a prompt."""
    decode_pair_flops: int
    """The same for a single new token; more where a latent is attended to as it is."""
    dense_parameters: int
    """Feed-forward parts without experts, of all layers together."""
    kernels: int
    full_layers: int
    """Layers that attend to all tokens; the others see ``window`` tokens or keep a constant state."""
    window: int = 0
    selected: int = 0
    """With sparse attention: how many tokens each token attends to at most; 0: all."""
    expert_layers: int = 0
    experts: int = 1
    experts_per_token: int = 1
    expert_parameters: int = 0
    shared_parameters: int = 0
    """The expert that every token passes."""

    @property
    def active_parameters(self) -> int:
        """Weights that one token passes, without embedding and head."""
        routed = self.expert_layers * (
            self.experts_per_token * self.expert_parameters + self.shared_parameters
        )
        return self.layers * self.attention_parameters + self.dense_parameters + routed

    @property
    def parameters(self) -> int:
        """All weights, with embedding and head."""
        routed = self.expert_layers * (self.experts * self.expert_parameters + self.shared_parameters)
        ends = 2 * self.vocabulary * self.hidden
        return self.layers * self.attention_parameters + self.dense_parameters + routed + ends

    def touched(self, tokens: float) -> float:
        """The share of the experts that at least one of so many tokens is sent to, all being equally liked."""
        missed = 1 - self.experts_per_token / self.experts
        return 1 - float(missed ** max(tokens, 1.0))

    def seen(self, context: float) -> float:
        """Tokens that a new token attends to, summed over the layers, with so many before it."""
        full = min(context, self.selected) if self.selected else context
        return self.full_layers * full + (self.layers - self.full_layers) * min(context, self.window)


def _grouped(hidden: int, heads: int, kv_heads: int, size: int, *, is_gated: bool = False) -> dict[str, int]:
    """Grouped-query attention; gated: the queries come with a gate of their own size."""
    queries = heads * size
    return {
        "attention_parameters": hidden * (queries * (2 if is_gated else 1) + 2 * kv_heads * size)
        + queries * hidden,
        "kv_values": 2 * kv_heads * size,
        "kv_shards": kv_heads,
        "pair_flops": 4 * queries,
        "decode_pair_flops": 4 * queries,
    }


def _latent(hidden: int, heads: int, queries: int, plain: int = 128, values: int = 128) -> dict[str, int]:
    """Multi-head latent attention (DeepSeek-V2, 2024) with a latent of 512 and 64 rotary values."""
    latent, rotary = 512, 64
    down = hidden * queries + hidden * (latent + rotary)
    up = queries * heads * (plain + rotary) + latent * heads * (plain + values)
    return {
        "attention_parameters": down + up + heads * values * hidden,
        "kv_values": latent + rotary,
        "kv_shards": 1,
        "pair_flops": 2 * heads * (plain + rotary + values),
        "decode_pair_flops": 2 * heads * (2 * latent + rotary),
    }


def _experts(
    hidden: int, inner: int, layers: int, count: int, per_token: int, shared: int = 0
) -> dict[str, int]:
    return {
        "expert_layers": layers,
        "experts": count,
        "experts_per_token": per_token,
        "expert_parameters": GATED * hidden * inner,
        "shared_parameters": shared * GATED * hidden * inner,
    }


def _dense(layers: int, hidden: int, inner: int) -> dict[str, int]:
    return {"dense_parameters": layers * GATED * hidden * inner}


ARCHITECTURES = {
    "llama-3.1-8b": Architecture(
        layers=32, hidden=4096, vocabulary=128_256, kernels=10, full_layers=32,
        **_grouped(4096, 32, 8, 128), **_dense(32, 4096, 14_336),
    ),
    "llama-3.1-70b": Architecture(
        layers=80, hidden=8192, vocabulary=128_256, kernels=10, full_layers=80,
        **_grouped(8192, 64, 8, 128), **_dense(80, 8192, 28_672),
    ),
    "qwen3-8b": Architecture(
        layers=36, hidden=4096, vocabulary=151_936, kernels=12, full_layers=36,
        **_grouped(4096, 32, 8, 128), **_dense(36, 4096, 12_288),
    ),
    "qwen3-32b": Architecture(
        layers=64, hidden=5120, vocabulary=151_936, kernels=12, full_layers=64,
        **_grouped(5120, 64, 8, 128), **_dense(64, 5120, 25_600),
    ),
    "qwen3-30b-a3b": Architecture(
        layers=48, hidden=2048, vocabulary=151_936, kernels=14, full_layers=48,
        **_grouped(2048, 32, 4, 128), **_dense(0, 2048, 6144), **_experts(2048, 768, 48, 128, 8),
    ),
    "qwen3-235b-a22b": Architecture(
        layers=94, hidden=4096, vocabulary=151_936, kernels=14, full_layers=94,
        **_grouped(4096, 64, 4, 128), **_dense(0, 4096, 12_288), **_experts(4096, 1536, 94, 128, 8),
    ),
    # Three of four layers are gated delta nets, which keep a state of constant size.
    "qwen3.5-397b-a17b": Architecture(
        layers=60, hidden=4096, vocabulary=248_320, kernels=20, full_layers=15,
        **_grouped(4096, 32, 2, 256, is_gated=True), **_dense(0, 4096, 0), **_experts(4096, 1024, 60, 512, 10, 1),
    ),
    # Every other layer sees the last 128 tokens only.
    "gpt-oss-120b": Architecture(
        layers=36, hidden=2880, vocabulary=201_088, kernels=12, full_layers=18, window=128,
        **_grouped(2880, 64, 8, 64), **_dense(0, 2880, 0), **_experts(2880, 2880, 36, 128, 4),
    ),
    "minimax-m2.5": Architecture(
        layers=62, hidden=3072, vocabulary=200_064, kernels=15, full_layers=62,
        **_grouped(3072, 48, 8, 128), **_dense(0, 3072, 0), **_experts(3072, 1536, 62, 256, 8),
    ),
    "deepseek-v3": Architecture(
        layers=61, hidden=7168, vocabulary=129_280, kernels=22, full_layers=61,
        **_latent(7168, 128, 1536), **_dense(3, 7168, 18_432), **_experts(7168, 2048, 58, 256, 8, 1),
    ),
    "kimi-k2.5": Architecture(
        layers=61, hidden=7168, vocabulary=163_840, kernels=22, full_layers=61,
        **_latent(7168, 64, 1536), **_dense(1, 7168, 18_432), **_experts(7168, 2048, 60, 384, 8, 1),
    ),
    # Its attention selects 2,048 tokens with an indexer of its own, hence the many kernels.
    "glm-5": Architecture(
        layers=78, hidden=6144, vocabulary=154_880, kernels=30, full_layers=78, selected=2048,
        **_latent(6144, 64, 2048, 192, 256), **_dense(3, 6144, 12_288), **_experts(6144, 2048, 75, 256, 8, 1),
    ),
}  # fmt: skip
"""By the name that a model is known by; DeepSeek-R1 is a deepseek-v3."""
