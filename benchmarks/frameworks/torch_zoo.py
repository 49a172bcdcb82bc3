"""Architectures with random weights from public packages, small enough for a software NPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["ZOO"]

Made = tuple[Any, tuple[Any, ...], dict[str, Any]]


def _picture(size: int = 64) -> torch.Tensor:
    return torch.randn(1, 3, size, size)


def _timm(name: str, size: int = 64, **options: Any) -> Callable[[], Made]:
    def make() -> Made:
        _vision()
        import timm

        return timm.create_model(name, pretrained=False, **options), (_picture(size),), {}

    return make


def _vision() -> Any:
    """torchvision; where its C library cannot be loaded, its operators are declared so that it can be imported."""
    try:
        from torchvision import models
    except RuntimeError:
        for name in [one for one in sys.modules if one.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        from torchvision import models
    return models


def _torchvision(name: str, size: int = 64, **options: Any) -> Callable[[], Made]:
    def make() -> Made:
        models = _vision()
        model = models.get_model(name, weights=None, **options)
        return model, (_picture(size),), {}

    return make


def _ultralytics(config: str, size: int = 64) -> Callable[[], Made]:
    def make() -> Made:
        _vision()
        from ultralytics.nn.tasks import DetectionModel, RTDETRDetectionModel

        kind = RTDETRDetectionModel if "rtdetr" in config else DetectionModel
        return kind(config, verbose=False), (_picture(size),), {}

    return make


def _bert() -> Made:
    _vision()
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
                        vocab_size=1000, max_position_embeddings=64)  # fmt: skip
    ids = torch.randint(0, 1000, (1, 32))
    return BertModel(config), (), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _distilbert() -> Made:
    _vision()
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(dim=128, n_layers=2, n_heads=4, hidden_dim=256, vocab_size=1000,
                              max_position_embeddings=64)  # fmt: skip
    return DistilBertForSequenceClassification(config), (), {"input_ids": torch.randint(0, 1000, (1, 32))}


def _gpt2() -> Made:
    _vision()
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=128, n_layer=2, n_head=4, vocab_size=1000, n_positions=64)
    return GPT2LMHeadModel(config), (), {"input_ids": torch.randint(0, 1000, (1, 32)), "use_cache": False}


def _clip() -> Made:
    _vision()
    from transformers import CLIPConfig, CLIPModel

    text = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
            "vocab_size": 1000, "max_position_embeddings": 32, "eos_token_id": 999}  # fmt: skip
    sight = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
             "image_size": 64, "patch_size": 16}  # fmt: skip
    ids = torch.randint(0, 998, (1, 16))
    ids[0, -1] = 999
    config = CLIPConfig(text_config=text, vision_config=sight, projection_dim=64)
    return CLIPModel(config), (), {"input_ids": ids, "pixel_values": _picture(64)}


def _whisper() -> Made:
    _vision()
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=256, decoder_ffn_dim=256, vocab_size=1000, max_source_positions=100, max_target_positions=32,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    feed = {"input_features": torch.randn(1, 80, 200), "decoder_input_ids": torch.randint(3, 1000, (1, 8)),
            "use_cache": False}  # fmt: skip
    return WhisperModel(config), (), feed


ZOO: dict[str, tuple[str, Callable[[], Made]]] = {
    "resnet18": ("vision", _torchvision("resnet18")),
    "mobilenet_v3_small": ("vision", _torchvision("mobilenet_v3_small")),
    "efficientnet_b0": ("vision", _timm("efficientnet_b0")),
    "convnext_atto": ("vision", _timm("convnext_atto")),
    "regnety_002": ("vision", _timm("regnety_002")),
    "densenet121": ("vision", _torchvision("densenet121")),
    "shufflenet_v2_x0_5": ("vision", _torchvision("shufflenet_v2_x0_5")),
    "deeplabv3_mobilenet_v3_large": (
        "vision", _torchvision("deeplabv3_mobilenet_v3_large", 64, weights_backbone=None),
    ),
    "yolov5n": ("vision", _ultralytics("yolov5n.yaml")),
    "yolov8n": ("vision", _ultralytics("yolov8n.yaml")),
    "yolov10n": ("vision", _ultralytics("yolov10n.yaml")),
    "yolo11n": ("vision", _ultralytics("yolo11n.yaml")),
    "rtdetr-resnet50": ("vision", _ultralytics("rtdetr-resnet50.yaml", 160)),
    "vit_tiny": ("transformer", _timm("vit_tiny_patch16_224", 64, img_size=64, depth=4)),
    "swin_tiny": (
        "transformer",
        _timm("swin_tiny_patch4_window7_224", 56, img_size=56, embed_dim=48, depths=(1, 1, 2, 1)),
    ),
    "deit3_small": ("transformer", _timm("deit3_small_patch16_224", 64, img_size=64, depth=3)),
    "clip-shaped": ("transformer", _clip),
    "whisper-shaped": ("transformer", _whisper),
    "bert-shaped": ("transformer", _bert),
    "distilbert-shaped": ("transformer", _distilbert),
    "gpt2-shaped": ("transformer", _gpt2),
}  # fmt: skip
