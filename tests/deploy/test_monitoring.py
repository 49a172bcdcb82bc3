"""The Grafana dashboard and the alert rules: made by the tool, well formed, about metrics that exist."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from openrknn import monitor
from openrknn.kubernetes import pods
from openrknn.kubernetes.api import ApiServer
from openrknn.kubernetes.dra import Driver, Folders
from openrknn.kubernetes.inventory import Settings, offers, units
from openrknn.monitor import prometheus
from openrknn.serve import settings as serving
from openrknn.serve.metrics import registry, render
from openrknn.serve.plane.plane import Plane
from tests.machines import rknpu_board, rocket_board
from tools import make_dashboard as tool

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy/grafana/openrknn.json"
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
NAME = re.compile(r"\bopenrknn_[a-z_]+")
HISTOGRAM = ("_bucket", "_sum", "_count")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all that the plugin, the DRA driver, the exporter and the server tell."""
    folder = tmp_path_factory.mktemp("boards")
    rknpu_board(folder / "a")
    rocket_board(folder / "b")
    npus = (*monitor.read(folder / "a").npus, *monitor.read(folder / "b").npus)
    settings = Settings(root=folder / "a", software=1)
    found = offers(settings, units(settings))
    uses = [pods.Use("default", "pod", "run", found[0].id)]
    driver = Driver(settings, "board", ApiServer("http://127.0.0.1:1"), Folders(folder / "kubelet", folder / "cdi"))
    text = prometheus.text(monitor.Reading(0, "rk3588", npus), (*pods.samples(uses, found, {}), *driver.samples()))
    plane = Plane(serving.Settings(["https://127.0.0.1:1/one.rknn"], root=str(folder / "a")))
    text += render(registry(plane), "")[0].decode()
    plane.close()
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        names |= {name + end for end in HISTOGRAM} if kind == "histogram" else {name}
    # Of software NPUs alone, which count their jobs.
    return names | {"openrknn_npu_jobs_total", "openrknn_npu_failed_jobs_total"}


def test_the_files_are_what_the_tool_makes() -> None:
    """tools/make_dashboard.py writes them."""
    assert json.loads(DASHBOARD.read_text()) == tool.dashboard()
    assert (tool.CHART / "dashboard.json").read_text() == DASHBOARD.read_text()
    assert (tool.CHART / "alerts.yaml").read_text() == ALERTS.read_text()


def test_metrics_of_the_dashboard_exist(exported: set[str]) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = {name for panel in panels for target in panel.get("targets", ()) for name in NAME.findall(target["expr"])}
    assert len(asked) > 30
    assert asked <= exported


def test_metrics_of_the_alerts_exist(exported: set[str]) -> None:
    asked = {name for rule in rules() for name in NAME.findall(rule["expr"])}
    assert len(asked) > 10
    assert asked <= exported


def test_metrics_that_autoscalers_ask_for_exist(exported: set[str]) -> None:
    text = "".join(path.read_text() for path in (ROOT / "deploy/kubernetes/serve").rglob("*.yaml"))
    assert {"openrknn_queue_length"} == set(NAME.findall(text)) & exported


def test_panels_fill_their_rows_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    places = [panel["gridPos"] for panel in panels]
    cells = [
        set(itertools.product(range(one["x"], one["x"] + one["w"]), range(one["y"], one["y"] + one["h"])))
        for one in places
    ]
    for one, other in itertools.combinations(cells, 2):
        assert not one & other
    covered = set().union(*cells)
    assert covered == set(itertools.product(range(24), range(max(y for _, y in covered) + 1)))
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_variables_of_queries_are_declared() -> None:
    board = json.loads(DASHBOARD.read_text())
    declared = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(board["panels"])))
    assert used - {"__rate_interval"} <= declared


def test_queries_are_balanced_and_rates_are_of_counters() -> None:
    """A parser of ours for the structure; promtool reads the alerts where it is."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for query in [*queries, *(rule["expr"] for rule in rules())]:
        plain = re.sub(r'"[^"]*"', '""', query)
        for first, last in ("()", "{}", "[]"):
            assert plain.count(first) == plain.count(last), query
        for name in re.findall(r"(?:rate|increase)\((\w+)", plain):
            assert name.endswith(("_total", *HISTOGRAM)), query
        for name in re.findall(r"openrknn_\w+_total", plain):
            assert re.search(rf"(rate|increase)\({name}", plain), query


def test_every_alert_says_what_to_do_and_is_tested() -> None:
    tests = yaml.safe_load((ALERTS.parent / "alerts.test.yaml").read_text())["tests"]
    fired = {check["alertname"] for test in tests for check in test["alert_rule_test"] if check["exp_alerts"]}
    assert fired == {rule["alert"] for rule in rules()}
    for rule in rules():
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert {"summary", "description"} <= set(rule["annotations"])


def test_promtool_agrees(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here (Debian: apt install prometheus)")
    tests = ALERTS.with_suffix(".test.yaml")
    # The queries of the dashboard as rules, which promtool can read.
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    plain = [re.sub(r"\$\w+", ".*", query.replace("$__rate_interval", "5m")) for query in queries]
    recorded = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(plain)]
    board = tmp_path / "board.yaml"
    board.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    for arguments in (
        ["check", "rules", "--lint=all", str(ALERTS)], ["test", "rules", str(tests)], ["check", "rules", str(board)],
    ):  # fmt: skip
        done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
