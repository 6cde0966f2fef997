"""Tiny random models of transformers, whose weights are large enough to notice a mask."""

from __future__ import annotations

from functools import cache

import torch
import transformers as hf

VOCABULARY = 97
PAD, BOS, EOS = 0, 1, 2
IMAGE, VISION_START = 5, 3

_TOKENS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
_LLAMA = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    **_TOKENS,
}


def _gpt2():
    shape = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**shape, **drop, initializer_range=0.3, **_TOKENS))


def _gemma2():
    scores = {"attn_logit_softcapping": 3.0, "query_pre_attn_scalar": 8, "head_dim": 8}
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(**_LLAMA, **scores, sliding_window=5))


def _gpt_oss():
    rope = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8}
    return hf.GptOssForCausalLM(hf.GptOssConfig(**_LLAMA, **rope, **experts, sliding_window=5))


def _bert():
    small = {n: x for n, x in _LLAMA.items() if n not in ("num_key_value_heads", *_TOKENS)}
    drop = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return hf.BertModel(hf.BertConfig(**small, **drop, pad_token_id=PAD))


def _whisper():
    config = hf.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_mel_bins=8,
        max_source_positions=12,
        max_target_positions=32,
        init_std=0.3,
        decoder_start_token_id=BOS,
        **_TOKENS,
    )
    return hf.WhisperForConditionalGeneration(config)


def _qwen2_vl():
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 4}
    rope = {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]}}
    marks = {"image_token_id": IMAGE, "video_token_id": 6, "vision_start_token_id": VISION_START}
    text = {**_LLAMA, **rope}
    config = hf.Qwen2VLConfig(
        text_config=text, vision_config=vision, **marks, vision_end_token_id=4
    )
    return hf.Qwen2VLForConditionalGeneration(config)


def _t5():
    config = hf.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        initializer_factor=2.0,
        decoder_start_token_id=PAD,
        **_TOKENS,
    )
    return hf.T5ForConditionalGeneration(config)


def _llama4():  # chunks
    experts = {"num_local_experts": 2, "intermediate_size_mlp": 48, "head_dim": 8}
    config = hf.Llama4TextConfig(**_LLAMA, **experts, attention_chunk_size=5)
    return hf.Llama4ForCausalLM(config)


def _deepseek_v3():  # values of another dimension than keys
    heads = {
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 4,
        "v_head_dim": 6,
        "num_key_value_heads": 4,
    }
    ranks = {"q_lora_rank": 8, "kv_lora_rank": 8, "moe_intermediate_size": 16}
    experts = {"n_routed_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2}
    config = hf.DeepseekV3Config(**{**_LLAMA, **heads}, **ranks, **experts)
    return hf.DeepseekV3ForCausalLM(config)


def _modernbert():  # windows on both sides
    small = {n: x for n, x in _LLAMA.items() if n != "num_key_value_heads"}
    marks = {"cls_token_id": BOS, "sep_token_id": EOS}
    return hf.ModernBertModel(hf.ModernBertConfig(**small, **marks, local_attention=6))


_MAKERS = {
    "gpt2": _gpt2,
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_LLAMA)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**_LLAMA, sliding_window=5)),
    "gemma2": _gemma2,
    "gpt_oss": _gpt_oss,
    "bert": _bert,
    "whisper": _whisper,
    "qwen2_vl": _qwen2_vl,
    "t5": _t5,
    "llama4": _llama4,
    "deepseek_v3": _deepseek_v3,
    "modernbert": _modernbert,
}
DECODERS = ("gpt2", "llama", "mistral", "gemma2", "gpt_oss")


@cache
def model(name):
    """The model, in evaluation; the same in each test."""
    torch.manual_seed(11)
    made = _MAKERS[name]().eval()
    if name == "gpt_oss":  # sinks begin as zeros or noise: make them matter
        for layer in made.model.layers:
            torch.nn.init.normal_(layer.self_attn.sinks)
    return made


def both(name, run):
    """run(model) with the attention of transformers, and with ours."""
    made, results = model(name), []
    for attention in ("eager", "tessera"):
        made.set_attn_implementation(attention)
        results.append(run(made))
    return results


def tokens(batch, length, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(7, VOCABULARY, (batch, length), generator=generator)


def padding(batch, length, left=0, right=0):
    """[batch, length]: the first row has that much padding, the others none."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, :left] = 0
    mask[0, length - right :] = 0
    return mask
