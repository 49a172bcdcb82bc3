"""How openrknn-lite and openrknn-toolkit answer to the names of the vendor's packages.

pip has no "Provides": whoever asks for `rknn-toolkit-lite2` (pip, uv, importlib.metadata, pkg_resources) looks for a
folder `rknn_toolkit_lite2-VERSION.dist-info` among the installed packages. Our wheels bring one. pip refuses wheels
with two such folders at their top, so it comes by way of the wheel's data folder, from where it is installed to the
same place. It belongs to our package and goes with it. It has no RECORD: without one pip does not put the vendor's
package in its place, which would overwrite our files.
"""

from dataclasses import dataclass

__all__ = ["FACES", "Face", "stand_in"]


@dataclass(frozen=True)
class Face:
    """A package of ours, and the vendor's that it takes the place of."""

    name: str
    vendor: str


FACES = {
    "rknnlite": Face("openrknn-lite", "rknn-toolkit-lite2"),
    "rknn": Face("openrknn-toolkit", "rknn-toolkit2"),
}
"""By folder below compat/."""


def stand_in(face: Face, version: str, vendor_version: str) -> dict[str, bytes]:
    """The files by which a package answers to the vendor's name, for its wheel."""
    name, vendor = (text.replace("-", "_") for text in (face.name, face.vendor))
    # A local version is never on PyPI, satisfies ==2.3.2 as well as >=2.0, and tells the two apart.
    stated = f"{vendor_version}+openrknn"
    folder = f"{name}-{version}.data/purelib/{vendor}-{stated}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: {face.vendor}\nVersion: {stated}\n"
        f"Summary: {face.name} takes the place of {face.vendor} here; this is not the vendor's package\n"
        f"Requires-Dist: {face.name}=={version}\n"
    )
    wheel = "Wheel-Version: 1.0\nGenerator: openrknn\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    texts = {"METADATA": metadata, "WHEEL": wheel, "INSTALLER": f"{face.name}\n"}
    return {f"{folder}/{file}": text.encode() for file, text in texts.items()}
