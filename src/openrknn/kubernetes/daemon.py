"""The program behind `openrknn device-plugin`: looks, tells the kubelet, and looks again, until it is stopped."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn import monitor
from openrknn.kubernetes import cdi, labels, plugin, pods
from openrknn.kubernetes.claims import FILES as CLAIM_FILES
from openrknn.kubernetes.health import Health
from openrknn.kubernetes.inventory import Offer, Settings, Unit, offers, units
from openrknn.kubernetes.nodeconfig import ConfigError, NodeConfig
from openrknn.kubernetes.plugin import DevicePlugin, KubeletLink
from openrknn.monitor import prometheus
from openrknn.monitor.exporter import Exporter

if TYPE_CHECKING:
    from openrknn.kubernetes.dra import Driver

__all__ = ["Daemon", "Options", "clean_up"]

_LOG = logging.getLogger(__name__)
_WOKEN_SECONDS = 0.1
"""Somebody who hangs up again and again must not keep us busy."""


@dataclass(frozen=True)
class Options:
    """What to do besides offering devices."""

    settings: Settings = field(default_factory=Settings)
    device_plugin: bool = True
    plugin_folder: Path = plugin.FOLDER
    pod_resources: Path = pods.SOCKET
    cdi_folder: Path | None = None
    """Where to write a CDI file; containers then get CDI devices instead of nodes."""
    features_folder: Path | None = None
    """Where to write labels for Node Feature Discovery."""
    metrics: tuple[str, int] | None = None
    """Host and port."""
    interval_seconds: float = 5.0
    self_test_seconds: float = 0.0


class Daemon:
    """One node."""

    def __init__(self, options: Options, driver: Driver | None = None, config: NodeConfig | None = None) -> None:
        self.options = options
        self._driver, self._config = driver, config
        self._settings: Settings | None = None
        self._stopped = False
        self._wake = threading.Event()
        self._health = Health(options.settings, options.self_test_seconds)
        self._plugin = DevicePlugin(cdi.KIND if options.cdi_folder else "", self._wake.set)
        self._link = KubeletLink(self._plugin, options.settings.resource, options.plugin_folder)
        self._units: tuple[Unit, ...] = ()
        self._offers: tuple[Offer, ...] = ()
        self._reasons: Mapping[str, str | None] = {}
        self._reading: monitor.Reading | None = None

    def stop(self) -> None:
        """May be called from a signal handler."""
        self._stopped = True
        self._wake.set()

    def run(self) -> None:
        """Until `stop`."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._close)
            if self.options.metrics is not None:
                exporter = Exporter(*self.options.metrics, self.metrics, self.is_registered)
                stack.enter_context(exporter)
                _LOG.info("metrics on port %d", exporter.port)
            while True:
                try:
                    self.look()
                except (OSError, ConfigError) as error:  # a folder that is full or not there; next time it may be
                    _LOG.warning("%s; trying again", error)
                self._wake.wait(self.options.interval_seconds if self.is_registered() else 1.0)
                if self._stopped:
                    return
                if self._wake.is_set():
                    time.sleep(_WOKEN_SECONDS)
                    self._wake.clear()

    def is_registered(self) -> bool:
        """Whether every side knows of us."""
        plugin_well = not self.options.device_plugin or self._link.is_registered
        return plugin_well and (self._driver is None or self._driver.is_ready)

    def look(self) -> None:
        """One round."""
        settings = self._config.settings() if self._config else self.options.settings
        found = units(settings)
        # An NPU that goes away stays in the list, unhealthy: the kubelet then says so in the pods that have it.
        names = {one.name for one in found}
        found = (*found, *(unit for unit in self._units if unit.name not in names and unit.driver != "software"))
        if found != self._units or settings != self._settings:
            offered = offers(settings, found)
            self._write_files(found, offered)
            self._units, self._offers, self._settings = found, offered, settings
            _LOG.info("devices: %s", ", ".join(offer.id for offer in offered) or "none")
        self._reasons = self._health.check(self._units)
        self._plugin.update(self._offers, self._reasons)
        # The driver first: it never waits, while a registration may wait for a kubelet that is busy.
        if self._driver is not None:
            self._driver.refresh(self._units, self._reasons, settings)
        if self.options.device_plugin:
            self._link.refresh()

    def metrics(self) -> str:
        """For Prometheus."""
        self._reading = monitor.read(self.options.settings.root, self._reading)
        name = self._driver.name if self._driver else ""
        found = pods.uses(self.options.pod_resources, self.options.settings.resource, name)
        more = [*pods.samples(found, self._offered(), self._reasons), *(self._driver.samples() if self._driver else ())]
        return prometheus.text(self._reading, more)

    def _offered(self) -> tuple[Offer, ...]:
        """By the names of each side: the device plugin and the DRA driver cut an NPU in different parts."""
        plugin_side = self._offers if self.options.device_plugin else ()
        return (*plugin_side, *(self._driver.offered if self._driver else ()))

    def _write_files(self, found: tuple[Unit, ...], offered: tuple[Offer, ...]) -> None:
        if self.options.cdi_folder is not None:
            cdi.write(_cdi_file(self.options.cdi_folder), cdi.specification(offered, variables=False))
        if self.options.features_folder is not None:
            labels.write_labels(self.options.features_folder, found)

    def _close(self) -> None:
        self._health.close()
        self._plugin.close()
        self._link.close()
        if self._driver is not None:
            self._driver.close()


def clean_up(options: Options, claims: Path) -> list[Path]:
    """Remove what the plugin leaves on a node when it is uninstalled: CDI files of devices and of claims, labels."""
    found = [*claims.glob(f"{CLAIM_FILES}*.json")]
    if options.cdi_folder is not None:
        found.append(_cdi_file(options.cdi_folder))
    if options.features_folder is not None:
        found.append(labels.file(options.features_folder))
    removed = [path for path in found if path.exists()]
    for path in removed:
        path.unlink(missing_ok=True)
    return removed


def _cdi_file(folder: Path) -> Path:
    return folder / "rockchip.com-npu.json"
