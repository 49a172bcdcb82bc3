"""Greedy tokens and logits of a compiled language model beside those of other engines, token by token.

    python benchmarks/language_witness.py make transformers FILE.gguf tokens.npz       # in an environment with torch
    python benchmarks/language_witness.py make llama.cpp FILE.gguf llama.npz --follow tokens.npz
    python benchmarks/language_witness.py compare MODEL.rknnz tokens.npz llama.npz [--tokens 200] [--device software]

`make transformers` lets the float model write 200 tokens after each of five prompts and keeps its logits. All others
follow its tokens, so that every token is compared, also behind a difference. A token that differs is explained by a tie
where the float model's own two logits are closer than a step of fp16 at their magnitude. dB: power of the float logits
(less their mean, which no softmax sees) by that of the difference.

The engines need not be installed together: `make` takes what it needs, `compare` openrknn alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Step = Callable[[Sequence[int]], Floats]
"""Logits after tokens that are appended."""
PROMPTS = (
    "The capital of France is",
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite a short story about a robot who learns to paint.<|im_end|>\n<|im_start|>assistant\n",
    'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description="Compare tokens and logits of a language model between engines.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="write tokens and logits of another engine")
    make.add_argument("engine", choices=("transformers", "llama.cpp"))
    make.add_argument("model", type=Path, help="a GGUF file")
    make.add_argument("out", type=Path)
    make.add_argument("--tokens", type=int, default=200)
    make.add_argument("--follow", type=Path, help="the file whose tokens are followed")
    compare = commands.add_parser("compare", help="compare a compiled file with them")
    compare.add_argument("model", type=Path, help="what `openrknn llm compile` made")
    compare.add_argument("witness", type=Path, help="of transformers")
    compare.add_argument("others", type=Path, nargs="*", help="of others")
    compare.add_argument("--tokens", type=int, default=200)
    compare.add_argument("--device", default="software")
    given = parser.parse_args(arguments)
    if given.command == "make":
        made(given)
        return 0
    return compared(given)


# -- other engines -----------------------------------------------------------------------------------------------


def made(given: argparse.Namespace) -> None:
    """Write the file of another engine."""
    encode, start = (_transformers if given.engine == "transformers" else _llama)(given.model)
    followed = np.load(given.follow) if given.follow else None
    found: dict[str, Any] = {}
    for number, text in enumerate(PROMPTS):
        prompt = [int(one) for one in followed[f"prompt{number}"]] if followed is not None else encode(text)
        chosen = [int(one) for one in followed[f"tokens{number}"]] if followed is not None else None
        step = start()
        logits = [step(prompt)]
        tokens: list[int] = []
        while len(tokens) < (len(chosen) if chosen is not None else given.tokens):
            tokens.append(chosen[len(tokens)] if chosen is not None else int(logits[-1].argmax()))
            logits.append(step([tokens[-1]]))
        found[f"prompt{number}"], found[f"tokens{number}"] = np.array(prompt), np.array(tokens)
        found[f"logits{number}"] = np.stack(logits[:-1])
        print(f"{given.engine}: prompt {number}, {len(prompt)} and {len(tokens)} tokens", flush=True)
    np.savez(given.out, **found)


def _transformers(model: Path) -> tuple[Callable[[str], list[int]], Callable[[], Step]]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    names = {"pretrained_model_name_or_path": str(model.parent), "gguf_file": model.name}
    network = AutoModelForCausalLM.from_pretrained(**names, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(**names)

    def start() -> Step:
        past: list[Any] = [None]

        def step(tokens: Sequence[int]) -> Floats:
            with torch.no_grad():
                out = network(torch.tensor([list(tokens)]), past_key_values=past[0], use_cache=True)
            past[0] = out.past_key_values
            return np.array(out.logits[0, -1], np.float32)

        return step

    return lambda text: list(tokenizer(text, add_special_tokens=False)["input_ids"]), start


def _llama(model: Path) -> tuple[Callable[[str], list[int]], Callable[[], Step]]:
    import llama_cpp

    engine = llama_cpp.Llama(str(model), n_ctx=1024, n_threads=1, n_threads_batch=1, verbose=False)

    def start() -> Step:
        engine.reset()

        def step(tokens: Sequence[int]) -> Floats:
            engine.eval(list(tokens))
            last = llama_cpp.llama_get_logits_ith(engine.ctx, -1)
            return np.ctypeslib.as_array(last, (engine.n_vocab(),)).astype(np.float32)

        return step

    return lambda text: list(engine.tokenize(text.encode(), add_bos=False, special=True)), start


# -- comparing ---------------------------------------------------------------------------------------------------


def compared(given: argparse.Namespace) -> int:
    """Compare, prompt by prompt; 1 where a token differs and is no tie."""
    from openrknn.llm.npu import NpuEngine

    witness, others = np.load(given.witness), {path.stem: np.load(path) for path in given.others}
    unexplained = 0
    with NpuEngine(given.model, given.device) as engine:
        print(f"{given.model} on {engine.session.device.name}, against {given.witness}")
        for number in range(len(PROMPTS)):
            prompt = [int(one) for one in witness[f"prompt{number}"]]
            tokens, wanted = witness[f"tokens{number}"][: given.tokens], witness[f"logits{number}"][: given.tokens]
            cache = engine.new_cache()
            ours = [engine.forward(cache, prompt)[0]]
            ours += [engine.forward(cache, [int(token)])[0] for token in tokens[:-1]]
            cache.close()
            unexplained += report(f"prompt {number}, openrknn", np.stack(ours), wanted, tokens)
            for name, other in others.items():
                report(f"prompt {number}, {name}", other[f"logits{number}"][: given.tokens], wanted, tokens)
    print("no difference that is no tie" if not unexplained else f"{unexplained} differences are no ties")
    return 1 if unexplained else 0


def report(name: str, found: Floats, wanted: Floats, tokens: npt.NDArray[Any]) -> int:
    """Print a line, and one for each token that differs; how many of those are no ties."""
    each = decibels(found, wanted, axis=1)
    differ = np.flatnonzero(found.argmax(axis=1) != tokens)
    first = f", first difference at {differ[0]}" if len(differ) else ""
    whole = float(decibels(found, wanted, axis=None))
    print(f"{name}: {len(tokens) - len(differ)} of {len(tokens)} tokens{first}; {whole:.1f} dB"
          f" (tokens: mean {each.mean():.1f}, least {each.min():.1f} at {int(each.argmin())})", flush=True)  # fmt: skip
    unexplained = 0
    for at in differ:
        chosen, other = wanted[at].max(), wanted[at][found[at].argmax()]
        gap, step = float(chosen - other), float(np.spacing(np.float16(abs(chosen))))
        unexplained += gap > step
        print(f"  token {at}: the float logits are {chosen:.5f} and {other:.5f}, apart by {gap:.5f};"
              f" a step of fp16 is {step:.5f}")  # fmt: skip
    return unexplained


def decibels(found: Floats, wanted: Floats, axis: int | None) -> Any:
    """Of each token (axis 1), or of all of them."""
    true = wanted.astype(np.float64)
    error = found.astype(np.float64) - true
    true -= true.mean(axis=-1, keepdims=True)
    error -= error.mean(axis=-1, keepdims=True)
    return 10 * np.log10((true**2).mean(axis=axis) / np.maximum((error**2).mean(axis=axis), 1e-30))


if __name__ == "__main__":
    sys.exit(main())
