"""A small voice of Piper's shape, compiled and spoken on the software NPU; the witness is ONNX Runtime, same noise."""

from __future__ import annotations

import io
import json
import shutil
import sys
import wave
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from openrknn.cli.main import main
from openrknn.voice.errors import PhonemeError, VoiceSetError
from openrknn.voice.make import piper
from openrknn.voice.make.vits.cut import VitsError, cut_vits
from openrknn.voice.piper.engine import Noise, StagedEngine
from openrknn.voice.sets import VoiceSet, open_set, write_set
from openrknn.voice.speaker import Speaker
from openrknn.voice.talkers import Scales
from tools.vits import SIZES, Size, config_of, make_voice, write_voice

SMALL = replace(SIZES["tiny"], layers=1, couplings=1, speakers=3)
SCALES = Scales(0.667, 1.0, 0.8)


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> VoiceSet:
    """Sizes so small that a sentence needs several windows of each."""
    folder = tmp_path_factory.mktemp("voice")
    path = write_voice(folder / "small.onnx", SMALL, phoneme_type="text")
    return piper.make(path, folder / "set", texts=(48,), flows=(40,), decodes=(32,))


@pytest.fixture(scope="module")
def engine(voice: VoiceSet) -> Iterator[StagedEngine]:
    made = StagedEngine(voice, "software")
    yield made
    made.close()


@pytest.fixture(scope="module")
def speak(voice: VoiceSet) -> Iterator[Speaker]:
    with Speaker(voice, "software") as made:
        yield made


def _whole(size: Size) -> Any:
    """The graph with its noise as inputs, and its durations as an output."""
    model = make_voice(size)
    graph = model.graph
    for node, name in zip(
        [node for node in graph.node if node.op_type == "RandomNormalLike"], ("noise_w", "noise_z"), strict=True
    ):
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None, None]))
        for reader in graph.node:
            reader.input[:] = [name if value == node.output[0] else value for value in reader.input]
        graph.node.remove(node)
    ceil = next(node for node in graph.node if node.op_type == "Ceil")
    graph.output.append(helper.make_tensor_value_info(ceil.output[0], TensorProto.FLOAT, None))
    return onnxruntime.InferenceSession(model.SerializeToString())


def _decibels(right: npt.NDArray[Any], made: npt.NDArray[Any]) -> float:
    error = right.astype(np.float64) - made
    return float(10 * np.log10((right.astype(np.float64) ** 2).sum() / (error**2).sum()))


@pytest.mark.parametrize(("count", "speaker"), [(9, 0), (43, 2)])
def test_the_stages_say_what_the_whole_graph_says(engine: StagedEngine, count: int, speaker: int) -> None:
    random = np.random.default_rng(count)
    ids = [int(number) for number in random.integers(0, 150, count)]
    noise_w = random.standard_normal((1, 2, count), np.float32)
    row = {"speaker": engine.speakers[speaker][None]} if engine.speakers is not None else {}
    hidden, _, _ = engine.encode(ids)
    frames = engine.durations(hidden, SCALES, noise_w, row)
    noise_z = random.standard_normal((1, SMALL.hidden, int(frames.sum())), np.float32)
    right, durations = _whole(SMALL).run(
        None,
        {
            "input": np.array([ids]), "input_lengths": np.array([count]), "sid": np.array([speaker]),
            "scales": np.array([0.667, 1.0, 0.8], np.float32), "noise_w": noise_w, "noise_z": noise_z,
        },
    )  # fmt: skip
    assert durations.reshape(-1).tolist() == frames.tolist()
    made = np.concatenate(list(engine.speak(ids, SCALES, speaker, random, Noise(noise_w, noise_z))))
    assert made.shape == right.reshape(-1).shape
    assert _decibels(right.reshape(-1), made) > 45
    edge = 8 * SMALL.hop  # beginning and end are as right as the middle
    assert _decibels(right.reshape(-1)[-edge:], made[-edge:]) > 40
    assert _decibels(right.reshape(-1)[:edge], made[:edge]) > 40


def test_an_exact_set_has_the_float_models_durations(voice: VoiceSet, tmp_path: Path) -> None:
    source = voice.folder.parent / "small.onnx"
    encoder = cut_vits(onnx.load(str(source))).encoder
    folder = Path(shutil.copytree(voice.folder, tmp_path / "set"))
    onnx.save(encoder, str(folder / "encoder.onnx"))
    files = {role: name for role, name in voice.files.items() if role != "encoder"}
    write_set(replace(open_set(folder), files={**files, "float_encoder": "encoder.onnx"}))
    engine = StagedEngine(open_set(folder), "software")
    ids = list(range(3, 40))
    session = onnxruntime.InferenceSession(encoder.SerializeToString())
    right = session.run(
        ["hidden"], {"embedded": engine.embedding[ids][None], "mask": np.ones((1, 1, len(ids)), np.float32)}
    )
    np.testing.assert_allclose(engine.encode(ids)[0], right[0], rtol=1e-5, atol=1e-5)
    engine.close()


def test_reach_and_hop(voice: VoiceSet) -> None:
    # One coupling of four layers of 5 taps; conv 7, then at 4 and 16 times the rate up-sampling and dilated blocks.
    assert voice.options["flow_reach"] == 8
    assert voice.options["hop"] == 16
    assert voice.options["decoder_reach"] == 7


@pytest.mark.parametrize("size", [SMALL, replace(SMALL, speakers=1), replace(SMALL, speakers=1, stochastic=False)])
def test_graphs_are_cut_by_what_they_do(size: Size) -> None:
    model = make_voice(size)
    for number, node in enumerate(model.graph.node):
        node.name = f"any_{number}"  # names say nothing
    stages = cut_vits(model)
    assert (stages.speakers is not None) == (size.speakers > 1)
    assert stages.is_stochastic == size.stochastic
    assert stages.embedding.shape == (256, 16)
    kinds = {node.op_type for node in stages.decoder.graph.node}
    assert "ConvTranspose" in kinds
    assert "RandomNormalLike" not in kinds | {node.op_type for node in stages.durations.graph.node}


def test_sentences_seeds_and_pauses(speak: Speaker) -> None:
    first, second = list(speak.stream("abc def. Ghi!", seed=5, pause=0.1))
    assert first.rate == speak.rate == 16000
    assert np.abs(first.samples).max() == 1.0
    assert not second.samples[:1600].any()
    assert second.samples[1600:].any()
    again = speak("abc def. Ghi!", seed=5, pause=0.1)
    np.testing.assert_array_equal(again.samples, np.concatenate([first.samples, second.samples]))
    other = speak("abc def. Ghi!", seed=6, pause=0.1)
    assert other.samples.shape != again.samples.shape or (other.samples != again.samples).any()


def test_windows_are_the_sentence_in_pieces(speak: Speaker) -> None:
    text = "abc def ghi jkl"
    whole = speak(text, seed=1, normalise=False)
    parts = list(speak.stream(text, seed=1, by="window"))
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate([part.samples for part in parts]), whole.samples)


def test_a_break_at_the_end_is_silence(speak: Speaker) -> None:
    plain, ended = (
        speak(f"<speak>abc def.{end}</speak>", seed=5, noise_w=0.0) for end in ("", '<break time="1.5s"/>')
    )  # fmt: skip
    assert len(ended.samples) == len(plain.samples) + 24000
    assert not ended.samples[-24000:].any()
    assert len(speak.said('<speak>abc<break time="1s"/></speak>')) == 1


def test_speakers_and_scales(speak: Speaker) -> None:
    assert speak.speakers == {"p0": 0, "p1": 1, "p2": 2}
    assert speak.speaker_number("p2") == speak.speaker_number(2) == speak.speaker_number("2") == 2
    slow, fast = (speak("abc def", seed=1, length_scale=scale, noise_w=0.0).seconds for scale in (3.0, 0.3))
    assert slow > 2 * fast
    with pytest.raises(VoiceSetError, match=r"'bob'.*3 \(0 to 2\): p0, p1, p2"):
        speak("abc", speaker="bob")
    with pytest.raises(VoiceSetError, match="speaker 3"):
        speak("abc", speaker=3)
    with pytest.raises(ValueError, match="length_scale"):
        speak("abc", length_scale=0.0)
    with pytest.raises(PhonemeError, match="nothing to say"):
        speak("... !")


def test_a_long_sentence_is_said_in_pieces(speak: Speaker) -> None:
    assert len(list(speak.stream("aaaa bbbb cccc dddd eeee ffff " * 2, noise_w=0.0))) == 3


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "phonemes": (lambda row: row.update(num_symbols=300), "knows 256 phonemes.*num_symbols 300"),
    "highest": (lambda row: (row.pop("num_symbols"), row["phoneme_id_map"].update(a=[299])), "numbers up to 299"),
    "numbers": (lambda row: row["phoneme_id_map"].update(a=[299]), "num_symbols is only 256"),
    "hop": (lambda row: row.update(hop_length=256), "16 samples of a frame.*hop_length 256.*sample rate"),
    "speakers": (lambda row: row.update(num_speakers=1, speaker_id_map={}), "has 3 speakers.*num_speakers 1"),
    "rate": (lambda row: row["audio"].update(sample_rate=22050), "sample_rate 16000.*22050"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_config_of_another_voice(tmp_path: Path, what: str) -> None:
    change, message = CHANGES[what]
    model = make_voice(SMALL)
    entry = model.metadata_props.add()
    entry.key, entry.value = "sample_rate", "16000"
    onnx.save(model, str(tmp_path / "v.onnx"))
    row = config_of(SMALL)
    change(row)
    (tmp_path / "v.onnx.json").write_text(json.dumps(row))
    with pytest.raises(VoiceSetError, match=message):
        piper.make(tmp_path / "v.onnx", tmp_path / "set")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(VoiceSetError, match="no such file"):
        Speaker(tmp_path / "v.onnx")
    (tmp_path / "v.onnx").write_bytes(b"not a model")
    with pytest.raises(VoiceSetError, match=r"v.onnx.json: the config of the voice is missing"):
        Speaker(tmp_path / "v.onnx")
    with pytest.raises(VoiceSetError, match=r"one VOICE\.onnx"):
        piper.make(tmp_path, tmp_path / "set")
    (tmp_path / "v.onnx.json").write_text(json.dumps(config_of(SMALL)))
    with pytest.raises(VoiceSetError, match="not a voice"):
        piper.make(tmp_path / "v.onnx", tmp_path / "set")


def test_a_set_that_was_changed(voice: VoiceSet, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(voice.folder, tmp_path / "set"))
    write_set(replace(open_set(folder), rate=22050))
    with pytest.raises(VoiceSetError, match=r"rate of 22050.*one of 16000"):
        Speaker(folder)
    write_set(replace(open_set(folder), rate=16000, options={**voice.options, "hop": "x"}))
    with pytest.raises(VoiceSetError, match="'hop'"):
        Speaker(folder, "software")
    write_set(replace(open_set(folder), options=voice.options))
    (folder / "embedding.npy").write_bytes(b"\x93NUMPY nothing")
    with pytest.raises(VoiceSetError, match=r"embedding.npy"):
        Speaker(folder, "software")


def test_an_unknown_graph_runs_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Same inputs and output, but no durations by Ceil: it says what was looked for, and speaks all the same."""
    model = make_voice(replace(SMALL, speakers=1))
    for node in model.graph.node:
        if node.op_type == "Ceil":
            node.op_type = "Floor"
    with pytest.raises(VitsError, match=r"durations \(Ceil\): 0 found.*looked for VITS"):
        cut_vits(model)
    onnx.save(model, str(tmp_path / "v.onnx"))
    row = config_of(replace(SMALL, speakers=1), phoneme_type="text")
    (tmp_path / "v.onnx.json").write_text(json.dumps(row))
    made = piper.make(tmp_path / "v.onnx", tmp_path / "set")
    assert "looked for VITS" in caplog.text
    assert "Ceil" in made.options["why_whole"]
    with Speaker(made) as speak:
        assert speak("abc def", length_scale=3.0).seconds > 0


def test_command(
    voice: VoiceSet, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    common = ["--voice", str(voice.folder), "--device", "software", "--seed", "1"]
    out = tmp_path / "a.wav"
    assert main(["speak", "abc. Def!", "-o", str(out), *common, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    with wave.open(str(out)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        assert file.getnframes() == pytest.approx(said["seconds"] * 16000, abs=16)
    assert set(said["stages"]) == {"encoder", "durations", "flow", "decoder"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"abc.\n\n...\nDef!\n")))
    pipe = io.TextIOWrapper(raw, write_through=True)
    monkeypatch.setattr(sys, "stdout", pipe)
    assert main(["speak", "-o", "-", *common]) == 0
    monkeypatch.undo()
    assert len(raw.getvalue()) > 2 * 0.2 * 16000
    pipe.detach()

    assert main(["speak", "ab", "--phonemes", *common]) == 0
    assert "1 0 14 0 15 0 2" in capsys.readouterr().out
    assert main(["speak", "--speakers", *common]) == 0
    assert "p2" in capsys.readouterr().out


def test_what_was_said_before_an_error_is_kept(
    voice: VoiceSet, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    out = tmp_path / "a.wav"
    words = ["speak", "-o", str(out), "--voice", str(voice.folder), "--device", "software"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"abc.\n<speak>\n<b>def</b></speak>\n")))
    assert main(words) == 2
    told = capsys.readouterr()
    assert "line 2: <b> is not understood" in told.err
    assert f"wrote {out}" in told.out
    with wave.open(str(out)) as file:
        assert file.getnframes() > 1000
    kept = out.read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"...\n")))
    assert main([*words, "--force"]) == 2
    assert "nothing to say" in capsys.readouterr().err
    assert out.read_bytes() == kept


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["abc\udcfc", "-o", "a.wav"], "is not UTF-8"),
        (["abc"], "nowhere to speak to"),
        (["abc", "-o", "/nowhere/at/all.wav"], "no such directory"),
        (["abc", "-o", "a.wav", "--speaker", "9"], "speaker '9'"),
        (["abc", "-o", "a.wav", "--length-scale", "-1"], "length_scale"),
        (["abc", "-o", "-", "--json"], "choose one"),
        (["abc", "-o", "a.wav", "--seed", "-1"], "a seed of -1"),
        (["abc", "-o", "a.wav", "--target", "rk3576"], "this set is compiled, for rk3588"),
        (["abc", "-o", "a.wav", "--no-exact"], "needs the VOICE.onnx itself"),
        (["abc", "-o", "a.wav", "--config", "a.json"], "needs the VOICE.onnx itself"),
        (["abc", "--play"], "plays sound"),
    ],
)
def test_command_refuses(
    voice: VoiceSet, words: list[str], message: str, *, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["speak", *words, "--voice", str(voice.folder), "--device", "software"]) != 0
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_voice_file_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path / "home"))
    made: list[Path] = []

    def make(source: Path, folder: Path, target: str, **options: Any) -> VoiceSet:
        made.append(folder)
        shutil.copyfile(options["config"], folder / "config.json")
        found = VoiceSet(folder, "v", "piper", "speaker", 16000, target=target, files={"config": "config.json"})
        write_set(found)
        return found

    monkeypatch.setattr(piper, "make", make)
    path = write_voice(tmp_path / "v.onnx", SMALL)
    for _ in range(2):
        with pytest.raises(VoiceSetError, match="option"):  # the set of this test holds no networks
            Speaker(path, target="rk3588")
    assert len(made) == 1
    assert [folder.name.split("-")[0] for folder in (tmp_path / "home").iterdir()] == ["v"]


def test_voice_get_takes_a_voice_by_either_of_its_files(tmp_path: Path) -> None:
    from openrknn.voice.make.fetch import family_of

    path = write_voice(tmp_path / "my_voice.onnx", SMALL)
    Path(f"{path}.json").write_text(json.dumps({**config_of(SMALL), "num_symbols": 300}))
    for source in (path, Path(f"{path}.json"), tmp_path):
        assert family_of(source) == "piper"
        with pytest.raises(VoiceSetError, match="knows 256"):
            piper.make(source, tmp_path / "set")
