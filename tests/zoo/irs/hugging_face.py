"""Small models of Hugging Face's transformers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from zoo.ir_sources import BuiltIr, Generator, Inputs, floats, from_torch, ids, together
from zoo.registry import IRS, model

_LAYERS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_SMALL = {"vocab_size": 60, "max_position_embeddings": 32, **_LAYERS}
_DECODER = {**_SMALL, "num_key_value_heads": 1}
_GPT = {"vocab_size": 60, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
_VISION = {**_LAYERS, "image_size": 32, "patch_size": 8}
_T5 = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
_BART = {"vocab_size": 60, "d_model": 16, "max_position_embeddings": 32} | {
    f"{part}_{name}": size
    for part in ("encoder", "decoder")
    for name, size in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 32))
}
_WAVES = {**_LAYERS, "conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2}
_WAVES |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}

_MASKED = ids(60, "input_ids", "attention_mask")
_IDS = ids(60, "input_ids")
_TRANSLATED = ids(60, "input_ids", "attention_mask", "decoder_input_ids")
_PIXELS = floats(3, 32, 32, name="pixel_values")


def _boxes(rng: Generator, rows: int) -> Mapping[str, Any]:
    low, high = rng.integers(0, 500, (rows, 7, 2)), rng.integers(500, 1000, (rows, 7, 2))
    return {"bbox": np.concatenate([low, high], -1)}


#: The configuration and the inputs, by the name of the model's class.
_MODELS: dict[str, tuple[dict[str, Any], Inputs]] = {
    "AlbertModel": ({**_SMALL, "embedding_size": 8}, _MASKED),
    "BartModel": (_BART, _TRANSLATED),
    "BeitModel": (_VISION, _PIXELS),
    "BertModel": (_SMALL, _MASKED),
    "BertForTokenClassification": (_SMALL, _MASKED),
    "BloomModel": ({"vocab_size": 60, "hidden_size": 16, "n_layer": 2, "n_head": 2}, _MASKED),
    "CLIPTextModel": ({**_SMALL, "eos_token_id": 2}, _MASKED),
    "CLIPVisionModel": (_VISION, _PIXELS),
    "ConvNextModel": ({"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, _PIXELS),
    "DebertaV2Model": ({**_SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, _MASKED),
    "DistilBertModel": ({"vocab_size": 60, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}, _MASKED),
    "ElectraModel": ({**_SMALL, "embedding_size": 8}, _MASKED),
    "FNetModel": ({**_SMALL}, _IDS),
    "FalconModel": ({"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}, _MASKED),
    "GPT2Model": (_GPT, _MASKED),
    "GPTNeoXModel": (_SMALL, _MASKED),
    "GemmaModel": ({**_DECODER, "head_dim": 8}, _MASKED),
    "LayoutLMModel": ({**_SMALL, "max_2d_position_embeddings": 1024}, together(_MASKED, _boxes)),
    "LlamaForCausalLM": (_DECODER, _MASKED),
    "MPNetModel": (_SMALL, _MASKED),
    "MambaModel": ({"vocab_size": 60, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2}, _IDS),
    "MistralModel": (_DECODER, _MASKED),
    "MobileBertModel": ({**_SMALL, "embedding_size": 16, "intra_bottleneck_size": 16}, _MASKED),
    "OPTModel": (
        {
            "vocab_size": 60,
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "ffn_dim": 32,
            "max_position_embeddings": 32,
            "word_embed_proj_dim": 16,
        },
        _MASKED,
    ),
    "PhiModel": (_SMALL, _MASKED),
    "Qwen2Model": (_DECODER, _MASKED),
    "ResNetModel": ({"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}, _PIXELS),
    "RobertaModel": ({**_SMALL, "pad_token_id": 1}, _MASKED),
    "RoFormerModel": ({**_SMALL, "embedding_size": 16}, _MASKED),
    "SegformerModel": (
        {
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "num_attention_heads": [1, 2],
            "sr_ratios": [2, 1],
            "num_encoder_blocks": 2,
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "mlp_ratios": [2, 2],
        },
        _PIXELS,
    ),
    "SqueezeBertModel": ({**_SMALL, "embedding_size": 16}, _MASKED),
    "Swinv2Model": (
        {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
        _PIXELS,
    ),
    "T5EncoderModel": (_T5, _MASKED),
    "T5Model": (_T5, _TRANSLATED),
    "ViTModel": (_VISION, _PIXELS),
    "Wav2Vec2Model": (_WAVES, floats(400, name="input_values")),
    "WhisperEncoder": (
        {
            "d_model": 16,
            "num_mel_bins": 8,
            "encoder_layers": 2,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "decoder_layers": 1,
            "decoder_attention_heads": 2,
            "max_source_positions": 32,
        },
        floats(8, 64, name="input_features"),
    ),
    "XLNetModel": ({"vocab_size": 60, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}, _MASKED),
    "YolosModel": ({**_VISION, "image_size": [32, 32], "num_detection_tokens": 4}, _PIXELS),
}


def _build(name: str) -> BuiltIr:
    import torch
    import transformers

    config_options, inputs = _MODELS[name]
    if name == "WhisperEncoder":
        made = transformers.WhisperModel(
            transformers.WhisperConfig(vocab_size=60, pad_token_id=0, **config_options)
        ).encoder
    else:
        kind = getattr(transformers, name)
        config = kind.config_class(**config_options, attn_implementation="eager")
        config.use_cache = False
        made = kind(config)

    class First(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
        """The first output; the others are of use in training and in later steps only."""

        def __init__(self) -> None:
            super().__init__()
            self.made = made

        def forward(self, *given: Any) -> Any:
            return self.made(**dict(zip(names, given, strict=True)), return_dict=False)[0]

    names = list(inputs(np.random.default_rng(0), 2))
    options = {"input": [[-1, 3, 32, 32]]} if inputs is _PIXELS else {}
    if name == "WhisperEncoder":  # it is made for one length, which nothing in its IR says
        options = {"input": [[-1, 8, 64]]}
    return from_torch(First(), inputs, **options)


for _name in _MODELS:
    model(f"transformers/{_name}", "torch", among=IRS)(partial(_build, _name))
