"""Models of timm."""

from __future__ import annotations

from functools import partial

from zoo.ir_sources import BuiltIr, floats, from_torch
from zoo.registry import IRS, model

#: With the size of the images.
_MODELS = {
    "botnet26t_256": 256,
    "crossvit_tiny_240": 240,
    "edgenext_xx_small": 64,
    "ghostnet_100": 64,
    "gmlp_ti16_224": 224,
    "halonet26t": 256,
    "lambda_resnet26t": 256,
    "levit_128s": 224,
    "mixer_s32_224": 224,
    "mobilevit_xxs": 256,
    "pit_ti_224": 224,
    "repvit_m0_9": 64,
    "volo_d1_224": 224,
    "xcit_nano_12_p16_224": 224,
}


def _build(name: str, size: int) -> BuiltIr:
    import timm

    return from_torch(timm.create_model(name, pretrained=False), floats(3, size, size), input=[[-1, 3, size, size]])


for _name, _size in _MODELS.items():
    model(f"timm/{_name}", "torch", among=IRS)(partial(_build, _name, _size))
