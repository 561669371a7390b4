"""Write a random Llama of half a million parameters in Hugging Face's format: ``python tiny_hf.py FOLDER``.

Runs in vLLM's environment, which has transformers and tokenizers. Adapters for it go to FOLDER/red and
FOLDER/blue.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WIDTH = 128
LAYERS = 2
HEADS = 2
RANK = 8
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write(folder):
    tokens = write_tokenizer(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokens,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        head_dim=WIDTH // HEADS,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=2,
        dtype="bfloat16",
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    for seed, name in enumerate(("red", "blue"), 1):
        write_adapter(folder / name, seed)


def write_tokenizer(folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1024, special_tokens=SPECIAL, initial_alphabet=alphabet)
    library = pathlib.Path(pathlib.__file__).parent
    files = sorted(library.glob("*.py"))[:40]
    tokenizer.train_from_iterator([file.read_text(errors="ignore") for file in files], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[2], pad_token=SPECIAL[0]
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    return len(fast)


def write_adapter(folder, seed):
    folder.mkdir()
    dice = torch.Generator().manual_seed(seed)
    weights = {}
    for layer in range(LAYERS):
        for part, out in (("q_proj", WIDTH), ("v_proj", WIDTH // HEADS)):
            name = f"base_model.model.model.layers.{layer}.self_attn.{part}"
            weights[f"{name}.lora_A.weight"] = torch.randn(RANK, WIDTH, generator=dice)
            weights[f"{name}.lora_B.weight"] = torch.randn(out, RANK, generator=dice)
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": 64,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
