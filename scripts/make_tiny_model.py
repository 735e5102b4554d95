"""Make a tiny Llama with random weights, for servers that are launched in tests.

Run it with an engine environment's Python: `python scripts/make_tiny_model.py DIRECTORY`. It has
two layers, 0.4 M parameters, a byte-level BPE tokenizer of 512 tokens and a chat template. The
weights come from a fixed seed, so what it says at temperature 0 is nonsense, but always the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

SEED = 20_240_229
VOCABULARY = 512
BEGIN, END, PAD = "<|begin|>", "<|end|>", "<|pad|>"

# Enough different words for the tokenizer to find its merges in.
WORDS = """
about above accept across adapter address after again allocation almost always answer argument
because before begin below between block bootstrap branch build cache called cannot carry change
channel check choose cluster command compute connect context control copy count create current
decode default deliver device different direct document during earlier either endpoint engine
enough every example expert expect failure first follow found framework front gateway general
generate graph handle header health hidden host import inference inside instance integer interface
journey kernel known language large later layer leader length level listen little local machine
manager master measure memory message minute model module moment multiple name network never node
nothing number object offload often open operator option other output parallel parameter partial
people pipeline place plain planner point policy port prefill present process profile program
prompt property protocol provide public question queue quick rank reader ready reason record remote
render replica report request result return router sampling schedule second sequence server service
session setting shape shared should single socket source speak special stream string system template
tensor thousand thread through token topology transfer under until update upon usage value version
vocabulary wait warm weight where which while whole window without word worker world write yellow
"""

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, END, PAD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator([" ".join(WORDS.split())], trainer)
    assert bpe.get_vocab_size() == VOCABULARY
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        chat_template=CHAT_TEMPLATE,
        model_max_length=2048,
    )


def model(tokens: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        initializer_range=0.2,  # wide enough for one token to stand out from the rest
        bos_token_id=tokens.bos_token_id,
        eos_token_id=tokens.eos_token_id,
        pad_token_id=tokens.pad_token_id,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Make a tiny Llama with random weights.")
    arguments.add_argument("directory", type=Path)
    directory = arguments.parse_args().directory
    disable_progress_bar()
    tokens = tokenizer()
    model(tokens).save_pretrained(directory)
    tokens.save_pretrained(directory)


if __name__ == "__main__":
    main()
