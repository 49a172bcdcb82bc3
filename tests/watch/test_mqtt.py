"""MQTT against a broker of our own: acknowledged once, again after a lost connection, and found by Home Assistant."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from openrknn.watch.errors import SinkError
from openrknn.watch.events import Event
from openrknn.watch.events.topics import discovery, states
from openrknn.watch.settings import Camera, MqttSink, Zone
from tests.watch.broker import SmallBroker

mqtt = pytest.importorskip("openrknn.watch.events.mqtt")
pytest.importorskip("paho.mqtt.client")

CAMERA = Camera("yard", "test:1", ("squares",), zones=(Zone("door", ((0, 0), (1, 0), (1, 1))),))


def _event(number: int) -> Event:
    name = f"spool-{number:010d}"
    return Event(number, name, {"id": name, "kind": "enter", "camera": "yard", "label": "person"})


def _ids(broker: SmallBroker) -> list[str]:
    return [json.loads(payload)["id"] for topic, payload in broker.messages if topic == "openrknn/events"]


def _deliver(client: Any, event: Event, snapshot: bytes | None = None) -> None:
    """Until it is there: the connection may not be yet."""
    for _ in range(5):
        assert client.is_connected(60)
        try:
            client.deliver(event, snapshot)
        except SinkError:
            continue  # it was lost again
        return
    raise AssertionError("it was never delivered")


def test_events_states_and_discovery_arrive() -> None:
    with SmallBroker() as broker:
        client = mqtt.Broker(MqttSink("127.0.0.1", broker.port))
        client.announce(discovery("openrknn", "homeassistant", "n", [(CAMERA, ["person"])], "1"))
        client.show(states("openrknn", CAMERA, ["person"], {"person": 2}, {"door": {"person": 1}}, is_online=True))
        client.start()
        _deliver(client, _event(1), b"jpeg")
        _deliver(client, _event(2))
        broker.wait_for(lambda: broker.retained.get("openrknn/yard/person/snapshot") == b"jpeg")
        assert _ids(broker) == [_event(1).id, _event(2).id]
        broker.wait_for(lambda: broker.retained.get("openrknn/yard/door/person") == b"1")
        assert broker.retained["openrknn/yard/person"] == broker.retained["openrknn/yard/all"] == b"2"
        assert broker.retained["openrknn/available"] == b"online"
        config = json.loads(broker.retained["homeassistant/binary_sensor/openrknn_n_yard_door_person/config"])
        assert config["state_topic"] == "openrknn/yard/door/person"
        assert config["device_class"] == "occupancy"
        client.close()
        broker.wait_for(lambda: broker.retained["openrknn/available"] == b"offline")


def test_home_assistant_that_starts_again_is_told_again() -> None:
    with SmallBroker() as broker:
        client = mqtt.Broker(MqttSink("127.0.0.1", broker.port))
        client.announce({"homeassistant/sensor/x/config": "{}"})
        client.start()
        broker.wait_for(lambda: bool(broker._subscribers))

        def count() -> int:
            return sum(topic == "homeassistant/sensor/x/config" for topic, _ in broker.messages)

        broker.wait_for(lambda: count() == 1)
        broker.publish("homeassistant/status", b"online")
        broker.wait_for(lambda: count() == 2)
        client.close()


def test_a_broker_that_was_away_gets_each_event_once() -> None:
    with SmallBroker() as broker:
        client = mqtt.Broker(MqttSink("127.0.0.1", broker.port, discovery=None))
        client.start()
        _deliver(client, _event(1))
        client.show({"openrknn/yard/person": "1"})
        broker.wait_for(lambda: broker.retained.get("openrknn/yard/person") == b"1")
        broker.drop()
        broker.wait_for(lambda: broker.connections == 2)
        # The states come again by themselves: this broker has forgotten them.
        broker.wait_for(lambda: broker.retained.get("openrknn/yard/person") == b"1")
        _deliver(client, _event(2))
        _deliver(client, _event(3))
        assert _ids(broker) == [_event(number).id for number in (1, 2, 3)]
        client.close()


def test_an_event_that_was_not_acknowledged_is_sent_again_with_the_same_id() -> None:
    with SmallBroker() as broker:
        client = mqtt.Broker(MqttSink("127.0.0.1", broker.port, discovery=None))
        client.start()
        assert client.is_connected(60)
        broker.acknowledges = False
        waiting = threading.Thread(target=_deliver, args=(client, _event(1)))
        waiting.start()
        broker.wait_for(lambda: len(_ids(broker)) == 1)
        broker.acknowledges = True
        broker.drop()
        waiting.join(60)
        _deliver(client, _event(2))
        assert _ids(broker) == [_event(1).id, _event(1).id, _event(2).id]
        client.close()


def test_without_a_connection_events_wait() -> None:
    client = mqtt.Broker(MqttSink("127.0.0.1", 9))
    with pytest.raises(SinkError, match="no connection yet"):
        client.deliver(_event(1), None)


def test_labels_are_one_level_of_a_topic() -> None:
    found = states("p", CAMERA, [], {"traffic light": 1, "a/b#": 2}, {"door": {}}, is_online=False)
    assert found == {
        "p/yard/available": "offline", "p/yard/traffic_light": "1", "p/yard/a_b_": "2", "p/yard/all": "3",
        "p/yard/door/all": "0",
    }  # fmt: skip
