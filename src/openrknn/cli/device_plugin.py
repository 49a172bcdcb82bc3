"""`openrknn device-plugin`: NPUs for Kubernetes."""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.options import positive, seconds
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFolder

if TYPE_CHECKING:
    from openrknn.kubernetes.api import ApiServer
    from openrknn.kubernetes.daemon import Options
    from openrknn.kubernetes.dra import Driver
    from openrknn.kubernetes.inventory import Settings
    from openrknn.kubernetes.nodeconfig import NodeConfig

NAME = "device-plugin"
HELP = "offer the NPUs of this node to Kubernetes"
DESCRIPTION = """Offer the NPUs of this node to the kubelet (device plugin) and to the cluster's scheduler (DRA driver,
with --dra). NPUs are found by their drivers, rknpu and rocket; there can be software NPUs for laptops and tests. It
runs until it is stopped. deploy/kubernetes has the manifests."""
EXAMPLES = (
    "openrknn device-plugin                        on a node, as a service",
    "openrknn device-plugin --software 2           a laptop with two software NPUs",
    "openrknn device-plugin --strategy cores       each core is a device (RK3588: 3)",
    "openrknn device-plugin --dra --node $NODE     and as a DRA driver, in a pod with a service account",
    "openrknn device-plugin --list                 show what would be offered, and exit",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    offer = parser.add_argument_group("what to offer")
    offer.add_argument(
        "--resource",
        default="rockchip.com/npu",
        metavar="NAME",
        help="name of the resource (default: rockchip.com/npu)",
    )
    offer.add_argument(
        "--strategy",
        choices=("shares", "cores"),
        default="shares",
        help="offer shares of NPUs, or single cores (default: shares)",
    )
    text = "containers per NPU (default: as many as it has cores; 1 with old drivers)"
    offer.add_argument("--shares", type=positive, metavar="N", help=text)
    offer.add_argument("--software", type=positive, default=0, metavar="N", help="offer N software NPUs too")
    offer.add_argument(
        "--software-chip", default="rk3588", metavar="CHIP", help="chip of the software NPUs (default: rk3588)"
    )
    text = "DRA: each share is a device, or one device is given out several times (capacity; default: devices)"
    offer.add_argument("--dra-shares", choices=("devices", "capacity"), default="devices", help=text)
    text = "DRA: an NPU that is not well: nothing new on it, its pods evicted, or only told (default: NoSchedule)"
    effects = ("NoSchedule", "NoExecute", "None")
    offer.add_argument("--taint-effect", choices=effects, default="NoSchedule", help=text)
    text = "TOML file that says the same for each kind of node, by name or labels; read again when it changes"
    offer.add_argument("--config", type=Path, metavar="FILE", help=text)
    offer.add_argument("--list", action="store_true", help="show devices and labels, and exit")
    text = "remove the CDI files and labels that the plugin wrote on this node, and exit (after uninstalling)"
    offer.add_argument("--clean-up", action="store_true", help=text)
    sides = parser.add_argument_group("where to register")
    sides.add_argument("--dra", action="store_true", help="also be a DRA driver")
    sides.add_argument("--no-plugin", action="store_true", help="do not run the device plugin")
    sides.add_argument("--node", metavar="NAME", help="DRA: name of this node")
    sides.add_argument(
        "--api-server", metavar="URL", help="DRA: the API server (default: from the pod's service account)"
    )
    sides.add_argument("--token-file", type=Path, metavar="FILE", help="DRA: bearer token for --api-server")
    sides.add_argument("--ca-file", type=Path, metavar="FILE", help="DRA: certificate authority of --api-server")
    cdi = "hand out CDI devices, described in this folder"
    sides.add_argument("--cdi-dir", type=Path, metavar="FOLDER", action=OutputFolder, help=cdi)
    features = "write labels for Node Feature Discovery"
    sides.add_argument("--features-dir", type=Path, metavar="FOLDER", action=OutputFolder, help=features)
    sides.add_argument("--metrics-port", type=positive, metavar="N", help="serve /metrics and /healthz on this port")
    sides.add_argument(
        "--metrics-host", default="127.0.0.1", metavar="HOST", help="address for --metrics-port (default: 127.0.0.1)"
    )
    watch = parser.add_argument_group("monitoring")
    watch.add_argument(
        "--root", type=Path, default=Path("/"), metavar="FOLDER", help="where the host's /dev, /sys and /proc are"
    )
    watch.add_argument("--kubelet-dir", type=Path, default=Path("/var/lib/kubelet"), metavar="FOLDER")
    watch.add_argument(
        "--interval", type=seconds, default=5, metavar="SECONDS", help="time between checks (default: 5)"
    )
    watch.add_argument(
        "--self-test", type=seconds, default=0.0, metavar="SECONDS", help="run jobs with known answers this often"
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Until a signal."""
    from openrknn.kubernetes.inventory import Settings

    settings = Settings(
        arguments.root, arguments.resource, arguments.strategy, arguments.shares, arguments.software,
        arguments.software_chip, arguments.dra_shares, arguments.taint_effect,
    )  # fmt: skip
    config = _config(arguments, settings)
    if arguments.list:
        return _list(config.settings() if config else settings, output)
    from openrknn.kubernetes.daemon import Daemon, clean_up
    from openrknn.kubernetes.services import load_grpc

    load_grpc()
    if arguments.clean_up:
        from openrknn.kubernetes.dra import Folders

        removed = clean_up(_options(arguments, settings), _cdi_folder(arguments))
        removed += Folders(arguments.kubelet_dir, _cdi_folder(arguments)).clean_up()
        output.data({"removed": [str(path) for path in removed]})
        output.line("\n".join(f"removed {path}" for path in removed) or "nothing to remove")
        return 0
    daemon = Daemon(_options(arguments, settings), _driver(arguments, settings) if arguments.dra else None, config)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: daemon.stop())
    daemon.run()
    return 0


def _options(arguments: argparse.Namespace, settings: Settings) -> Options:
    from openrknn.kubernetes.daemon import Options

    metrics = (arguments.metrics_host, arguments.metrics_port) if arguments.metrics_port else None
    return Options(
        settings,
        device_plugin=not arguments.no_plugin,
        plugin_folder=arguments.kubelet_dir / "device-plugins",
        pod_resources=arguments.kubelet_dir / "pod-resources" / "kubelet.sock",
        cdi_folder=arguments.cdi_dir,
        features_folder=arguments.features_dir,
        metrics=metrics,
        interval_seconds=arguments.interval,
        self_test_seconds=arguments.self_test,
    )


def _driver(arguments: argparse.Namespace, settings: Settings) -> Driver:
    from openrknn.kubernetes.dra import Driver, Folders

    if not arguments.node:
        raise CommandError("--dra needs --node NAME: which node of the cluster this is")
    folders = Folders(arguments.kubelet_dir, _cdi_folder(arguments))
    return Driver(settings, arguments.node, _api(arguments), folders)


def _api(arguments: argparse.Namespace) -> ApiServer:
    from openrknn.kubernetes.api import ApiServer

    if arguments.api_server:
        return ApiServer(arguments.api_server, arguments.token_file, arguments.ca_file)
    return ApiServer.from_pod()


def _config(arguments: argparse.Namespace, settings: Settings) -> NodeConfig | None:
    """Read once now: an invalid file is reported at the start."""
    if not arguments.config:
        return None
    from openrknn.kubernetes.api import ApiError
    from openrknn.kubernetes.nodeconfig import LabelsError, NodeConfig, NodeLabels

    labels = None
    if arguments.node:
        with contextlib.suppress(ApiError):  # not in a cluster: entries with labels are refused, others work
            labels = NodeLabels(_api(arguments), arguments.node)
    config = NodeConfig(arguments.config, settings, arguments.node, labels)
    with contextlib.suppress(LabelsError):
        config.settings()
    return config


def _cdi_folder(arguments: argparse.Namespace) -> Path:
    return arguments.cdi_dir or Path("/var/run/cdi")


def _list(settings: Settings, output: Output) -> int:
    from openrknn.kubernetes.allocation import grant
    from openrknn.kubernetes.inventory import offers, units
    from openrknn.kubernetes.labels import labels

    found = units(settings)
    offered = offers(settings, found)
    marks = labels(found)
    output.data(
        {
            "resource": settings.resource,
            "devices": [
                {"id": offer.id, "npu": offer.unit.open_as, "variables": grant([offer]).variables} for offer in offered
            ],
            "labels": marks,
        }
    )
    output.line(f"{settings.resource}: {len(offered)}")
    for offer in offered:
        output.value(f"  {offer.id}  {offer.unit.open_as}" + (f"  core mask {offer.core_mask}" * bool(offer.core_mask)))
    for name, value in marks.items():
        output.line(f"  {name}={value}")
    return 0
