"""Writes the Grafana dashboard, and lays it and the alert rules into the Helm chart, which reads only files of its own.

    python tools/make_dashboard.py

Panels are rows of the tables below; Grafana's JSON is ten times as long. tests/deploy/test_monitoring.py looks whether
the files are what this makes, and whether the metrics in them exist."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEPLOY = Path(__file__).parents[1] / "deploy"
CHART = DEPLOY / "helm/openrknn/files"
_WIDTH = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SHORT = {
    "[~]": "[$__rate_interval]",
    "{@}": '{instance=~"$instance"}',
    "{#": '{instance=~"$instance",model=~"$model"',
    "!}": 'outcome=~"INTERNAL|UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED"}',
}
"""What the queries below write for what nearly all of them have."""


@dataclass(frozen=True)
class Panel:
    """One panel: queries with their legends."""

    title: str
    kind: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    width: int = 8
    height: int = 7
    about: str = ""
    bad_above: float | None = None
    """Red from here on."""
    most: float | None = None
    is_stacked: bool = False


def _quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    form = "histogram_quantile({}, sum by (le, model) (rate({}_bucket{{#}}[~])))"
    return tuple((form.format(q, metric), f"{{{{model}}}} p{round(100 * q)}") for q in (0.5, 0.95, 0.99))


def _mean(stage: str) -> tuple[str, str]:
    return f"sum(rate(openrknn_{stage}_seconds_sum{{#}}[~])) / sum(rate(openrknn_{stage}_seconds_count{{#}}[~]))", stage


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    ("NPUs", (
        Panel("NPUs", "stat", (("count(openrknn_npu_info{@})", ""),), width=4, height=4),
        Panel("Devices in trouble", "stat", (("count(openrknn_npu_device_healthy{@} == 0) or vector(0)", ""),),
              width=4, height=4, bad_above=1, about="The plugin's log has the reason."),
        Panel("Containers with an NPU", "stat", (("count(openrknn_npu_pod{@}) or vector(0)", ""),), width=4, height=4),
        Panel("Load", "gauge", (("avg(openrknn_npu_load_ratio{@})", ""),), "percentunit", 4, 4, bad_above=0.95, most=1),
        Panel("Hottest", "gauge", (("max(openrknn_npu_temperature_celsius{@})", ""),), "celsius", 4, 4,
              bad_above=85, most=110),
        Panel("Failed jobs an hour", "stat",
              (("sum(increase(openrknn_npu_failed_jobs_total{@}[1h])) or vector(0)", ""),),
              width=4, height=4, bad_above=1),
        Panel("Load of cores", "timeseries", (("openrknn_npu_load_ratio{@}", "{{instance}} {{npu}} core {{core}}"),),
              "percentunit", 12, 8, most=1),
        Panel("Temperature", "timeseries",
              (("openrknn_npu_temperature_celsius{@}", "{{instance}} {{zone}}"),), "celsius", 12, 8, bad_above=85),
        Panel("Clock", "timeseries", (("openrknn_npu_clock_hertz{@}", "{{instance}} {{npu}}"),
              ("openrknn_npu_clock_maximum_hertz{@}", "{{instance}} {{npu}} highest allowed")), "hertz",
              about="Below the highest allowed under load: the governor or the heat holds it back."),
        Panel("Memory", "timeseries", (("openrknn_npu_memory_bytes{@}", "{{instance}} {{npu}} {{kind}}"),), "bytes"),
        Panel("Jobs", "timeseries", (("rate(openrknn_npu_jobs_total{@}[~])", "{{instance}} {{npu}}"),
              ("rate(openrknn_npu_failed_jobs_total{@}[~])", "{{instance}} {{npu}} failed")), "ops"),
        Panel("Who has which device", "table", (("openrknn_npu_pod{@}", ""),), width=16),
        Panel("Programs with the NPU open", "timeseries", (("openrknn_npu_clients{@}", "{{instance}} {{npu}}"),)),
    )),
    ("Dynamic resource allocation", (
        Panel("Nodes whose slices are not published", "stat",
              (("count(openrknn_dra_published{@} == 0) or vector(0)", ""),),
              width=6, height=5, bad_above=1),
        Panel("Devices published", "stat", (("sum(openrknn_dra_devices{@})", ""),), width=6, height=5),
        Panel("Claims prepared now", "stat", (("sum(openrknn_dra_claims{@})", ""),), width=6, height=5),
        Panel("Claims that failed, an hour", "stat",
              (("sum(increase(openrknn_dra_claims_failed_total{@}[1h])) or vector(0)", ""),),
              width=6, height=5, bad_above=1),
        Panel("Claims", "timeseries", (
            ("sum(rate(openrknn_dra_claims_prepared_total{@}[~]))", "prepared"),
            ("sum(rate(openrknn_dra_claims_unprepared_total{@}[~]))", "given back"),
            ("sum(rate(openrknn_dra_claims_failed_total{@}[~]))", "failed")), "ops", 12),
        Panel("API server and kubelet", "timeseries", (
            ("sum(increase(openrknn_dra_writes_total{@}[~]))", "slices written"),
            ("sum(increase(openrknn_dra_watch_breaks_total{@}[~]))", "watches that broke"),
            ("sum(increase(openrknn_dra_kubelet_registered_total{@}[~]))", "registrations")), "short", 12),
    )),
    ("Server", (
        Panel("Ready", "stat", (("sum(openrknn_ready{@})", "ready"), ("count(openrknn_ready{@})", "pods")),
              width=4, height=5),
        Panel("Models in trouble", "stat", (("count(openrknn_model_ready{#} == 0) or vector(0)", ""),),
              width=4, height=5, bad_above=1),
        Panel("Requests", "stat", (("sum(rate(openrknn_requests_total{#}[~]))", ""),), "reqps", 4, 5),
        Panel("Errors", "stat", ((
            "(sum(rate(openrknn_requests_total{#,!}[~])) or vector(0))"
            " / sum(rate(openrknn_requests_total{#}[~]))", ""),), "percentunit", 4, 5, bad_above=0.05),
        Panel("Waiting", "stat", (("sum(openrknn_queue_length{#})", ""),), width=4, height=5, bad_above=50),
        Panel("Worker restarts an hour", "stat", (("sum(increase(openrknn_worker_restarts_total{#}[1h]))", ""),),
              width=4, height=5, bad_above=1),
        Panel("Requests by outcome", "timeseries",
              (("sum by (outcome) (rate(openrknn_requests_total{#}[~]))", "{{outcome}}"),),
              "reqps", is_stacked=True),
        Panel("Requests by model", "timeseries",
              (("sum by (model) (rate(openrknn_requests_total{#}[~]))", "{{model}}"),), "reqps"),
        Panel("Time of a request", "timeseries", _quantiles("openrknn_request_seconds"), "s"),
        Panel("Where the time goes", "timeseries", tuple(map(_mean, ("queue", "pre", "npu", "post"))), "s",
              is_stacked=True, about="Means: waiting for a context, to the NPU's buffers, running, to the answer."),
        Panel("Queue", "timeseries", (
            ("sum by (model) (openrknn_queue_length{#})", "{{model}}"),
            ("sum by (model) (openrknn_queue_capacity{#})", "{{model}} may wait")),
              about="What HPA and KEDA scale by."),
        Panel("Contexts at work", "timeseries", ((
            "sum by (model) (rate(openrknn_context_busy_seconds_total{#}[~]))"
            " / sum by (model) (openrknn_contexts{#})", "{{model}}"),), "percentunit", most=1),
        Panel("Under way", "timeseries", (("openrknn_requests_under_way{@}", "{{instance}}"),)),
        Panel("Memory of the server", "timeseries",
              (("openrknn_process_resident_memory_bytes{@}", "{{instance}}"),), "bytes"),
        Panel("Restarts", "timeseries", (
            ("sum by (model) (increase(openrknn_worker_restarts_total{#}[~]))", "{{model}} workers"),
            ("sum by (model) (increase(openrknn_context_restarts_total{#}[~]))", "{{model}} contexts"))),
    )),
    ("Voices", (
        Panel("Sound a second", "timeseries",
              (("sum by (voice) (rate(openrknn_voice_audio_seconds_total{@}[~]))", "{{voice}}"),), "s"),
        Panel("Real-time factor", "timeseries", (("openrknn_voice_real_time_factor{@}", "{{instance}} {{voice}}"),),
              bad_above=1, about="Seconds of work for a second of sound; above 1 it does not keep up."),
        Panel("Waiting for a voice", "timeseries", (("openrknn_voice_waiting{@}", "{{instance}} {{voice}}"),)),
    )),
    ("Language models", (
        Panel("Tokens a second", "timeseries",
              (("sum by (model) (rate(openrknn_llm_generated_tokens_total{@}[~]))", "{{model}} written"),
               ("sum by (model) (rate(openrknn_llm_prompt_tokens_total{@}[~]))", "{{model}} read"))),
        Panel("Time to the first token, 95 %", "timeseries",
              (("histogram_quantile(0.95, sum by (le, model) (rate(openrknn_llm_first_token_seconds_bucket{@}[~])))",
                "{{model}}"),), "s", about="From a request to its first token, waiting included."),
        Panel("Requests that run and wait", "timeseries",
              (("openrknn_llm_active{@}", "{{instance}} {{model}} active"),
               ("openrknn_llm_waiting{@}", "{{instance}} {{model}} waiting"))),
    )),
)  # fmt: skip


def _long(query: str) -> str:
    for short, full in _SHORT.items():
        query = query.replace(short, full)
    return query


def _thresholds(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    return {"mode": "absolute", "steps": steps}


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "thresholds": _thresholds(panel), "min": 0}
    if panel.most is not None:
        defaults["max"] = panel.most
    options: dict[str, Any] = {}
    if panel.kind == "timeseries":
        stack = {"mode": "normal" if panel.is_stacked else "none", "group": "A"}
        shown = "line" if panel.bad_above is not None else "off"
        defaults["custom"] = {
            "drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if panel.is_stacked else 10, "showPoints": "never",
            "stacking": stack, "thresholdsStyle": {"mode": shown},
        }  # fmt: skip
        options = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    elif panel.kind in {"stat", "gauge"}:
        defaults["color"] = {"mode": "thresholds"}
        options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
        if panel.kind == "stat":
            options |= {"colorMode": "value", "graphMode": "area", "textMode": "auto", "justifyMode": "auto"}
    made: dict[str, Any] = {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.about, "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options,
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": _long(query),
             "legendFormat": legend or "__auto",
             **({"format": "table", "instant": True} if panel.kind == "table" else {"range": True})}
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }  # fmt: skip
    if panel.kind == "table":
        hidden = dict.fromkeys(("Time", "Value", "__name__", "job", "endpoint", "prometheus"), True)
        made["transformations"] = [{"id": "organize", "options": {"excludeByName": hidden}}]
        defaults["min"] = None
    return made


def panels() -> list[dict[str, Any]]:
    """All panels in their places: from left to right, a new line where one does not fit."""
    made: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        place = {"x": 0, "y": y, "w": _WIDTH, "h": 1}
        about = {"id": len(made) + 1, "type": "row", "title": title, "collapsed": False}
        made.append({**about, "gridPos": place, "panels": []})
        x, y, height = 0, y + 1, 0
        for panel in row:
            if x + panel.width > _WIDTH:
                x, y, height = 0, y + height, 0
            made.append(_panel(panel, len(made) + 1, x, y))
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return made


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name, "label": label, "type": "query", "datasource": _SOURCE, "query": {"query": query, "refId": name},
        "definition": query, "refresh": 2, "includeAll": True, "multi": True, "allValue": ".*", "sort": 1,
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def dashboard() -> dict[str, Any]:
    """The whole of it."""
    return {
        "uid": "openrknn",
        "title": "Rockchip NPUs (openrknn)",
        "description": "NPUs of device plugin, DRA driver, exporter; models, voices, language models of openrknn serve",
        "tags": ["npu", "openrknn"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1,
             "current": {"text": "default", "value": "default"}},
            _variable("instance", "Node or pod", 'label_values({__name__=~"openrknn_(npu_info|ready)"}, instance)'),
            _variable("model", "Model", "label_values(openrknn_model_info, model)"),
        ]},
        "annotations": {"list": []},
        "panels": panels(),
    }  # fmt: skip


def main() -> None:
    """Write the files."""
    text = json.dumps(dashboard(), indent=1) + "\n"
    (DEPLOY / "grafana/openrknn.json").write_text(text)
    (CHART / "dashboard.json").write_text(text)
    (CHART / "alerts.yaml").write_text((DEPLOY / "prometheus/alerts.yaml").read_text())


if __name__ == "__main__":
    main()
