"""Events and states to an MQTT 3.1.1 broker, through paho-mqtt (the extra `watch`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from openrknn.extras import missing
from openrknn.watch.errors import SinkError, WatchError
from openrknn.watch.events.spool import Event
from openrknn.watch.events.topics import label_topic, words
from openrknn.watch.settings import MqttSink

__all__ = ["Broker"]

_LOG = logging.getLogger(__name__)
_ANSWER_SECONDS = 10.0
_KEEPALIVE_SECONDS = 30
_SHORTEST_RETRY, _LONGEST_RETRY = 1, 30
_ONCE = 1
"""Quality of service: at least once."""
_UNKNOWN = -1


class Broker:
    """One broker. Events are published with QoS 1 and count as delivered when the broker has acknowledged them.

    States (counts, availability) are retained messages: only the newest value matters, so they are not queued, and all
    of them are sent again after each connection.
    """

    def __init__(self, settings: MqttSink) -> None:
        try:
            import paho.mqtt.client as paho
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            raise WatchError(missing(error, "watch")) from None
        self.name = f"mqtt:{settings.host}:{settings.port}/{settings.prefix}"
        self._settings = settings
        self._announced: dict[str, str] = {}
        self._changed = threading.Condition()
        self._is_connected = False
        self._reason = "there was no connection yet"
        self._acknowledged: set[int] = set()
        self._under_way: tuple[str, int] | None = None
        """The event that was published and not acknowledged, and the number of its message."""
        self._states: dict[str, str] = {}
        version = CallbackAPIVersion.VERSION2
        self._client: Any = paho.Client(version, client_id=settings.client_id, protocol=paho.MQTTv311)
        if settings.username is not None:
            self._client.username_pw_set(settings.username, settings.password)
        if settings.tls:
            self._client.tls_set()
        self._client.will_set(f"{settings.prefix}/available", words(False), qos=_ONCE, retain=True)
        self._client.reconnect_delay_set(_SHORTEST_RETRY, _LONGEST_RETRY)
        self._client.on_connect = self._connected
        self._client.on_disconnect = self._disconnected
        self._client.on_publish = self._published
        self._client.on_message = self._message
        self._client.on_connect_fail = self._connect_failed

    def announce(self, messages: Mapping[str, str]) -> None:
        """Retained messages that are sent after each connection; before `start`."""
        self._announced.update(messages)

    def start(self) -> None:
        """Connect, and again whenever the connection is lost, in a thread of the client."""
        self._client.connect_async(self._settings.host, self._settings.port, _KEEPALIVE_SECONDS)
        self._client.loop_start()

    # -- called by the client's thread -----------------------------------------------------------------------------

    def _connected(self, _client: object, _data: object, _flags: object, reason: Any, _more: object) -> None:
        if reason.is_failure:
            with self._changed:
                self._reason = f"the broker refused the connection: {reason}"
            return
        with self._changed:
            self._is_connected = True
            self._reason = ""
            self._changed.notify_all()
        self._announce()
        if self._settings.discovery is not None:
            self._client.subscribe(f"{self._settings.discovery}/status", qos=0)

    def _connect_failed(self, _client: object, _data: object) -> None:
        with self._changed:
            self._reason = f"{self._settings.host}:{self._settings.port} cannot be reached"

    def _disconnected(self, _client: object, _data: object, _flags: object, reason: Any, _more: object) -> None:
        with self._changed:
            self._is_connected = False
            self._reason = f"the connection was lost: {reason}"
            self._changed.notify_all()

    def _published(self, _client: object, _data: object, number: int, _reason: object, _more: object) -> None:
        with self._changed:
            # While the number of the event's message is not known yet, any of them may be it.
            if self._under_way is not None and self._under_way[1] in (_UNKNOWN, number):
                self._acknowledged.add(number)
                self._changed.notify_all()

    def _message(self, _client: object, _data: object, message: Any) -> None:
        if message.payload == b"online":  # Home Assistant has started again, and has forgotten what it was told
            self._announce()

    def _announce(self) -> None:
        self._client.publish(f"{self._settings.prefix}/available", words(True), qos=_ONCE, retain=True)
        with self._changed:
            states = dict(self._states)
        for topic, payload in (*self._announced.items(), *states.items()):
            self._client.publish(topic, payload, qos=0, retain=True)

    def is_connected(self, seconds: float = 0.0) -> bool:
        """Whether there is a connection, or comes one in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_connected, seconds)

    # -- called by the engine and the delivery ----------------------------------------------------------------------

    def show(self, states: Mapping[str, str]) -> None:
        """New values of states; those that have not changed are not sent."""
        with self._changed:
            new = {topic: value for topic, value in states.items() if self._states.get(topic) != value}
            self._states.update(new)
            is_connected = self._is_connected
        if is_connected:
            for topic, payload in new.items():
                self._client.publish(topic, payload, qos=0, retain=True)

    def deliver(self, event: Event, snapshot: bytes | None) -> None:
        """Publish, and wait for the broker's acknowledgement."""
        with self._changed:
            if not self._is_connected:
                raise SinkError(self._reason)
            is_new = self._under_way is None or self._under_way[0] != event.id
            if is_new:
                self._acknowledged.clear()
                self._under_way = (event.id, _UNKNOWN)
        if is_new:
            # The client sends it again by itself after a lost connection: publishing it twice would double it. Not with
            # our lock held: the client calls back with its own locks held.
            info = self._client.publish(f"{self._settings.prefix}/events", event.to_json(), qos=_ONCE)
            with self._changed:
                self._under_way = (event.id, info.mid)
        with self._changed:
            assert self._under_way is not None
            number = self._under_way[1]
            if not self._changed.wait_for(lambda: number in self._acknowledged, _ANSWER_SECONDS):
                raise SinkError("the broker has not acknowledged an event")
            self._under_way = None
            self._acknowledged.clear()
        label, camera = event.body.get("label"), event.body.get("camera")
        if self._settings.snapshots and snapshot is not None and label and camera:
            topic = f"{self._settings.prefix}/{camera}/{label_topic(str(label))}/snapshot"
            self._client.publish(topic, snapshot, qos=0, retain=True)

    def close(self) -> None:
        """Say goodbye: a clean end does not leave it to the broker."""
        with self._changed:
            is_connected = self._is_connected
        if is_connected:
            info = self._client.publish(f"{self._settings.prefix}/available", words(False), qos=_ONCE, retain=True)
            try:
                info.wait_for_publish(_ANSWER_SECONDS)
            except (RuntimeError, ValueError):
                _LOG.debug("the broker went away before the goodbye")
        self._client.disconnect()
        self._client.loop_stop()
