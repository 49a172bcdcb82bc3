"""Jobs without Ray: the ledger, resuming, errors, tables. `Chaos` is a pool whose workers die as told."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.ray import (
    BusyJobError,
    ChangedJobError,
    ClusterError,
    IncompleteJobError,
    ItemsError,
    Predictor,
    Report,
    TooManyErrorsError,
    job,
    pool,
    run,
)
from openrknn.ray.items import Items, Work, items_of
from openrknn.ray.ledger import Ledger, Row
from openrknn.ray.pool import Local
from openrknn.ray.work import Plan

EXAMPLES = Path(__file__).parents[2] / "examples"
SCENE, TONES = EXAMPLES / "models/efficientnet_lite0_rk3588_i8.rknn", EXAMPLES / "models/tones_rk3588_fp.rknn"
PICTURES = [EXAMPLES / "images/cat.jpg", EXAMPLES / "images/coffee.jpg"]
NUMBERS = np.arange(25, dtype=np.int64)[:, None]


def doubling() -> Any:
    """Made once in a worker: a function of an item that does not like 13."""

    def double(item: dict[str, Any]) -> dict[str, int]:
        number = int(item[""][0])
        if number == 13:
            raise ValueError("13 brings\nbad luck")
        return {"twice": 2 * number}

    return double


def _run(folder: Path, items: object = NUMBERS, **options: Any) -> Report:
    settings = {"local": True, "format": "jsonl", "part_size": 4, "max_errors": 1, **options}
    return run(items, settings.pop("model", doubling), folder, **settings)


def test_every_item_has_one_row_in_order(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    report = _run(tmp_path, progress=lambda *where: seen.append(where))
    rows = list(report.rows())
    assert [row["item"] for row in rows] == [str(number) for number in range(25)]
    assert [row["twice"] for row in rows if row["error"] is None] == [2 * n for n in range(25) if n != 13]
    assert rows[13]["error"] == "ValueError: 13 brings bad luck"
    assert (report.items, report.errors, report.resumed, report.rounds) == (25, 1, 0, 1)
    assert seen[0] == (0, 25, 0)
    assert seen[-1] == (25, 25, 1)


def test_a_job_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    _run(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    report = _run(tmp_path)
    assert (report.resumed, report.errors, report.rounds) == (25, 1, 0)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_is_missing_or_damaged_is_done_again(tmp_path: Path) -> None:
    expected = _run(tmp_path).table.read_text()
    parts = sorted((tmp_path / "parts").iterdir())
    assert len(parts) == 7
    parts[1].unlink()
    parts[2].write_bytes(parts[2].read_bytes()[:-10])
    parts[3].rename(parts[3].with_name(parts[3].name.replace("00000003", "00000099")))
    (tmp_path / "parts/.half-00000004-x.jsonl").write_text("half")
    (tmp_path / "table.jsonl").unlink()
    report = _run(tmp_path)
    assert report.resumed == 25 - 3 * 4
    assert report.table.read_text() == expected
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == [path.name for path in parts]


def test_errors_can_be_tried_again(tmp_path: Path) -> None:
    _run(tmp_path)
    assert _run(tmp_path, retry_errors=True).resumed == 21


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"top": 3}, "other options"),
        ({"model": dict}, "another model"),
        ({"items": NUMBERS[:20]}, "other items"),
        ({"items": NUMBERS + 1}, "other items"),
    ],
)
def test_another_job_in_the_same_folder_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    _run(tmp_path)
    with pytest.raises(ChangedJobError, match=says):
        _run(tmp_path, **change)
    if "model" not in change:
        assert _run(tmp_path, restart=True, **change).resumed == 0


def test_the_size_of_parts_is_the_first_ones(tmp_path: Path) -> None:
    _run(tmp_path)
    assert _run(tmp_path, part_size=100).resumed == 25


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"part_size": "x"}', '{"part_size": 0}', "\0"])
def test_a_damaged_job_is_refused(tmp_path: Path, text: str) -> None:
    _run(tmp_path)
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(ChangedJobError):
        _run(tmp_path)


def test_two_processes_cannot_work_on_one_job(tmp_path: Path) -> None:
    items = items_of(NUMBERS)
    with (
        Ledger.open(tmp_path, items, {}, part_size=4),
        pytest.raises(BusyJobError, match="another process"),
        Ledger.open(tmp_path, items, {}, part_size=4),
    ):
        pass


def test_a_part_comes_twice(tmp_path: Path) -> None:
    items = items_of(NUMBERS[:3])
    rows: list[Row] = [{"item": key, "error": None} for key in items.keys]
    with Ledger.open(tmp_path, items, {}, part_size=4) as ledger:
        assert ledger.commit(0, items.keys, rows)
        assert not ledger.commit(0, items.keys, rows)
        assert len(list(ledger.complete(items.keys))) == 3
        with pytest.raises(IncompleteJobError):
            list(ledger.complete(["0", "1"]))


def test_too_many_errors_end_a_job_and_what_is_done_stays(tmp_path: Path) -> None:
    with pytest.raises(TooManyErrorsError, match="13 brings bad luck"):
        _run(tmp_path, max_errors=0)
    assert len(list((tmp_path / "parts").iterdir())) == 4
    with pytest.raises(TooManyErrorsError, match=r"0\.25 may"):
        _run(tmp_path / "share", max_errors=0.01)
    assert _run(tmp_path, max_errors=0.05).resumed == 16


class Chaos:
    """Loses parts and doubles others; an item in `killers` takes its part along, every time."""

    def __init__(self, killers: set[str], lost: set[int], doubled: set[int]) -> None:
        self._inner = Local(Plan("array", doubling))
        self._killers, self._lost, self._doubled = killers, lost, doubled
        self.asked: list[int] = []

    def run(self, works: Sequence[Work]) -> Iterator[tuple[int, list[Row]]]:
        alive = [work for work in reversed(works) if not self._killers & set(work.keys) and work.part not in self._lost]
        self.asked.append(len(works))
        self._lost = set()  # a machine that was switched off once
        for part, rows in self._inner.run(alive):
            yield part, rows
            if part in self._doubled:
                yield part, rows


def test_workers_that_die(tmp_path: Path) -> None:
    """A lost part is found again; an item that kills is found among its neighbours, which get their answers."""
    items = items_of(NUMBERS)
    chaos = Chaos({"9"}, {0, 5}, {1, 6})
    with Ledger.open(tmp_path, items, {}, part_size=4) as ledger:
        work = job._Job(items, ledger, 3, progress=False)
        work.run(chaos)
        rows = list(ledger.complete(items.keys))
    assert [row["item"] for row in rows] == list(items.keys)
    assert {row["item"]: row["error"] for row in rows if row["error"]} == {
        "9": "WorkerDiedError: every worker that worked on this item died",
        "13": "ValueError: 13 brings bad luck",
    }
    assert (work.duplicates, work.rounds, work.errors) == (2, 3, 2)
    assert chaos.asked == [7, 12, 1]


# -- items ---------------------------------------------------------------------------------------------------------


def test_folders_patterns_and_lists(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.jpg", "a.PNG", "deep/c.jpg", ".hidden.jpg", "notes.txt", "s.wav"):
        (tmp_path / name).write_bytes(b"x")

    def names(found: Items) -> list[str]:
        return [Path(key).name for key in found.keys]

    assert names(items_of(tmp_path)) == ["a.PNG", "b.jpg", "c.jpg"]
    assert names(items_of(f"{tmp_path}/**/*.jpg")) == ["b.jpg", "c.jpg"]
    assert names(items_of(tmp_path, "audio")) == ["s.wav"]
    twice = items_of([tmp_path / "b.jpg", str(tmp_path / "b.jpg"), tmp_path / "gone.jpg"])
    assert (names(twice), twice.repeated, twice.marks[1]) == (["b.jpg", "gone.jpg"], 1, "missing")
    empty: list[object] = [[], tmp_path / "deep/*.png", np.zeros((0, 3)), {"a": np.zeros(3), "b": np.zeros(4)}]
    for nothing in empty:
        with pytest.raises(ItemsError):
            items_of(nothing)
    with pytest.raises(ItemsError, match=r"gone: there is no such file or folder"):
        items_of(tmp_path / "gone")


def test_a_changed_file_is_another_item(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"x")
    before = items_of([path]).digest()
    assert items_of([path]).digest() == before
    path.write_bytes(b"xy")
    assert items_of([path]).digest() != before


def test_names_that_are_no_text(tmp_path: Path) -> None:
    name = "a\udcff.jpg"  # a byte that is no UTF-8, as os.listdir gives it
    found = Items("picture", [name], [""])
    assert len(found.digest()) == 64
    with Ledger.open(tmp_path, found, {}, part_size=4) as ledger:
        ledger.commit(0, found.keys, [{"item": name, "error": None}])
        assert [row["item"] for row in ledger.complete(found.keys)] == [name]


# -- models --------------------------------------------------------------------------------------------------------


def test_pictures(tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8 nothing")
    paths = [*PICTURES, tmp_path / "bad.jpg", tmp_path / "none.jpg"]
    report = run(paths, SCENE, tmp_path / "job", format="csv", local=True, max_errors=2, top=2)
    with report.table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["Egyptian cat", "espresso", "", ""]
    assert json.loads(rows[1]["top"])[1]["label"] == "cup"
    assert rows[2]["error"].startswith("PictureError")
    assert rows[3]["error"] == "PictureError: no such file"
    shipped = run(paths[:2], SCENE, tmp_path / "shipped", format="jsonl", local=True, ship=True)
    assert [row["label"] for row in shipped.rows()] == ["Egyptian cat", "espresso"]


def test_a_wrong_option_is_found_before_workers_start(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="stretched"):
        run(PICTURES, SCENE, tmp_path, fit="stretched")
    assert not list(tmp_path.iterdir())


def test_arrays_and_outputs(tmp_path: Path) -> None:
    from openrknn import Session

    with Session(TONES) as session:
        shape = session.inputs[0].shape
        tones = np.random.default_rng(0).standard_normal((3, *shape[1:])).astype(np.float32)
        name = session.outputs[0].name
        expected = [session.run([row[None]])[name][0].tolist() for row in tones]
    report = run(tones, TONES, tmp_path, format="jsonl", local=True)
    assert [row[name] for row in report.rows()] == expected


def test_raw_outputs_of_pictures(tmp_path: Path) -> None:
    report = run(PICTURES, SCENE, tmp_path, format="jsonl", local=True, raw=True)
    columns = [list(row.values())[2] for row in report.rows()]
    assert [int(np.argmax(scores)) for scores in columns] == [285, 967]


def test_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a transcriber hears, with a stand-in for it: the real ones are models of 40 MB."""
    import openrknn.voice
    from openrknn.voice import Segment, Transcript

    class Ears:
        def __init__(self, name: str, **options: str) -> None:
            assert (name, options) == ("some-set", {"device": "software"})

        def __call__(self, path: Path) -> Transcript:
            return Transcript((Segment(0, 0.0, 1.5, path.read_bytes().decode()),), 1.5)

        def close(self) -> None:
            pass

    monkeypatch.setattr(openrknn.voice, "Transcriber", Ears)
    for name, content in (("a.wav", b"hello"), ("b.wav", b"\xff"), ("c.flac", b"again")):
        (tmp_path / name).write_bytes(content)
    report = run(
        tmp_path,
        "some-set",
        tmp_path / "job",
        kind="audio",
        format="jsonl",
        local=True,
        max_errors=1,
        device="software",
    )
    rows = list(report.rows())
    assert [row["text"] for row in rows] == ["hello", None, "again"]
    assert rows[0]["segments"][0]["end"] == rows[0]["seconds"] == 1.5
    assert rows[1]["error"].startswith("UnicodeDecodeError")


def test_predictor_with_paths_bytes_and_pixels() -> None:
    from openrknn.pictures import read_picture

    predictor = Predictor(SCENE)
    by_path = predictor({"path": np.array([str(path) for path in PICTURES]), "row": np.arange(2)})
    assert list(by_path) == ["path", "row", "error", "width", "height", "class", "label", "probability"]
    content = np.array([path.read_bytes() for path in PICTURES], object)
    pixels = np.empty(2, object)
    pixels[:] = [read_picture(path) for path in PICTURES]
    for batch in ({"bytes": content}, {"image": pixels}):
        assert predictor(batch)["class"].tolist() == by_path["class"].tolist() == [285, 967]
    with pytest.raises(ItemsError, match="no column path"):
        predictor({"name": content})


# -- Ray, as a stand-in --------------------------------------------------------------------------------------------


class _SlowRay:
    """Comes up at the `good`th try."""

    def __init__(self, good: int) -> None:
        self.tries, self._good = 0, good

    def init(self, **_: object) -> None:
        self.tries += 1
        if self.tries < self._good:
            raise Exception("Traceback ...\nThe current node timed out during startup.")

    def shutdown(self) -> None:
        pass

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 8.0, "npu": 3.0}


def test_a_busy_machine_starts_ray_at_the_second_try() -> None:
    ray = _SlowRay(2)
    pool._started(ray, 4, 1.0)
    assert ray.tries == 2
    with pytest.raises(ClusterError, match=r"does not start: The current node timed out"):
        pool._started(_SlowRay(9), 4, 1.0)


def test_workers_are_as_many_as_there_are_npus() -> None:
    ray = _SlowRay(1)
    assert [pool._offered(ray, npus) for npus in (1.0, 1.5, 0.0)] == [3, 2, 8]
    with pytest.raises(ClusterError, match="ray start --resources"):
        pool._offered(ray, 4.0)
