"""A real model of half a megabyte, written on the spot: a Llama with random weights for llama.cpp.

One token is one byte, so token counts are exact and predictable: a completion's prompt tokens are the
bytes of its prompt. Only printable ASCII can win the output, so every streamed chunk is a whole
character. Use ``temperature: 0`` and ``ignore_eos: true`` for answers of a fixed length.
"""

from pathlib import Path

import gguf
import numpy as np

from tidegate.adapters.base import EngineSpec

LAYERS = 2
WIDTH = 64
HEADS = 2
HIDDEN = 128
CONTEXT = 4096
LORA_RANK = 8

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_gguf(path: Path, seed: int = 0) -> Path:
    """Write the model to ``path`` and return it."""
    writer = gguf.GGUFWriter(str(path), "llama")
    _describe(writer)
    _add_tokenizer(writer)
    _add_weights(writer, np.random.default_rng(seed))
    return _written(writer, path)


def tiny_lora(path: Path, seed: int) -> Path:
    """Write an adapter for the model to ``path`` and return it. Another seed gives other answers."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 16.0)
    dice = np.random.default_rng(seed)
    for layer in range(LAYERS):
        for part in ("attn_q", "attn_v"):
            name = f"blk.{layer}.{part}.weight"
            writer.add_tensor(f"{name}.lora_a", _random(dice, LORA_RANK, WIDTH, scale=0.3))
            writer.add_tensor(f"{name}.lora_b", _random(dice, WIDTH, LORA_RANK, scale=0.3))
    return _written(writer, path)


def tiny_spec(
    model: Path, *, name: str = "tiny", slots: int = 4, lora: dict[str, str] | None = None
) -> EngineSpec:
    """How to run it: 512 tokens of context for each of its slots, on one thread."""
    return EngineSpec(
        model_name=name, weights=str(model), slots=slots, context_tokens=512, threads=1, lora=lora
    )


def _describe(writer: gguf.GGUFWriter) -> None:
    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    tokens = SPECIAL + [_letter_of(byte) for byte in range(256)]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * len(SPECIAL) + [gguf.TokenType.NORMAL] * 256)
    # The loader insists on a merge. "th" is no token of ours, so this one never happens.
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _letter_of(byte: int) -> str:
    """GPT-2's alphabet, in which each byte is one printable letter."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in printable:
        return chr(byte)
    return chr(256 + sum(other not in printable for other in range(byte)))


def _add_weights(writer: gguf.GGUFWriter, dice: np.random.Generator) -> None:
    tokens = len(SPECIAL) + 256
    head = _random(dice, tokens, WIDTH)
    silent = [token for token in range(tokens) if not 32 <= token - len(SPECIAL) < 127]
    head[silent] = 0.0
    writer.add_tensor("token_embd.weight", _random(dice, tokens, WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output.weight", head)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}.{norm}.weight", np.ones(WIDTH, np.float32))
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{block}.{part}.weight", _random(dice, WIDTH, WIDTH))
        writer.add_tensor(f"{block}.ffn_gate.weight", _random(dice, HIDDEN, WIDTH))
        writer.add_tensor(f"{block}.ffn_up.weight", _random(dice, HIDDEN, WIDTH))
        writer.add_tensor(f"{block}.ffn_down.weight", _random(dice, WIDTH, HIDDEN))


def _random(dice: np.random.Generator, *shape: int, scale: float = 0.05) -> np.ndarray:
    return (dice.standard_normal(shape) * scale).astype(np.float32)


def _written(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
