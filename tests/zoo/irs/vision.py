"""Models of torchvision."""

from __future__ import annotations

from functools import partial
from typing import Any

from zoo.ir_sources import BuiltIr, floats, from_torch, together
from zoo.registry import IRS, model

#: Classifiers, with the size of the images.
_CLASSIFIERS = {
    "convnext_tiny": 64,
    "efficientnet_b0": 64,
    "googlenet": 64,
    "maxvit_t": 224,
    "mobilenet_v2": 64,
    "mobilenet_v3_small": 64,
    "regnet_x_400mf": 64,
    "resnet18": 64,
    "shufflenet_v2_x0_5": 64,
    "squeezenet1_1": 64,
    "swin_v2_t": 64,
}
_SEGMENTERS = ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
_VIDEO = ("r3d_18", "s3d")
_DETECTORS = ("ssdlite320_mobilenet_v3_large",)


def _classifier(name: str, size: int) -> BuiltIr:
    import torchvision

    options = {"init_weights": True} if name == "googlenet" else {}
    made = torchvision.models.get_model(name, weights=None, **options)
    return from_torch(made, floats(3, size, size), input=[[-1, 3, size, size]])


def _segmenter(name: str) -> BuiltIr:
    import torch
    import torchvision

    made = torchvision.models.get_model(name, weights=None, weights_backbone=None)

    class Only(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
        def __init__(self) -> None:
            super().__init__()
            self.made = made

        def forward(self, x: Any) -> Any:
            return self.made(x)["out"]

    return from_torch(Only(), floats(3, 64, 64))


def _video(name: str) -> BuiltIr:
    import torchvision

    size = (3, 16, 224, 224) if name == "s3d" else (3, 4, 64, 64)
    return from_torch(torchvision.models.get_model(name, weights=None), floats(*size), input=[[-1, *size]])


def _detector(name: str) -> BuiltIr:
    import torch
    import torchvision

    made = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
    made.eval()

    class Only(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
        def __init__(self) -> None:
            super().__init__()
            self.made = made

        def forward(self, x: Any) -> Any:
            found = self.made([x[0]])[0]
            return found["boxes"], found["scores"], found["labels"]

    return from_torch(Only(), floats(3, 96, 96))


def _raft() -> BuiltIr:
    import torch
    import torchvision

    made = torchvision.models.optical_flow.raft_small(weights=None)

    class Only(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
        def __init__(self) -> None:
            super().__init__()
            self.made = made

        def forward(self, before: Any, after: Any) -> Any:
            return self.made(before, after, num_flow_updates=2)[-1]

    return from_torch(Only(), together(*(floats(3, 128, 128, name=name) for name in ("image1", "image2"))))


for _name, _size in _CLASSIFIERS.items():
    model(f"torchvision/{_name}", "torch", among=IRS)(partial(_classifier, _name, _size))
for _names, _build in ((_SEGMENTERS, _segmenter), (_VIDEO, _video), (_DETECTORS, _detector)):
    for _name in _names:
        model(f"torchvision/{_name}", "torch", among=IRS)(partial(_build, _name))
model("torchvision/raft_small", "torch", among=IRS)(_raft)
