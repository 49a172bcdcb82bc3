"""Which page of the documentation explains an error. The command line prints it below the message (`see: ...`).

Errors are listed by module and name, so that looking one up imports nothing. A class without an entry uses that of its
base class. `None`: the message says everything.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["PAGES", "page_for"]

_EXTRAS = "install.md#extras"
"""For a package that is not installed."""
BASE = "docs/"  # until the upload: https://openrknn.github.io/openrknn/

PAGES: dict[str, str | None] = {
    "capi.call.CallError": "library.md#troubleshooting",
    "capi.engine_process.SocketPathError": "library.md#environment-variables",
    "capi.install.InstallError": "library.md#install-it",
    "capi.launch.EngineError": "library.md#troubleshooting",
    "check.errors.CannotCheckError": "ci.md#what-is-compared",
    "check.errors.GoldenError": "ci.md#begin",
    "compiler.errors.CalibrationError": "compiler.md#int8",
    "compiler.errors.CompileError": "compiler.md#what-compiles",
    "compiler.errors.ModelError": "formats.md",
    "compiler.errors.OptionError": "commands/compile.md#options",
    "compiler.errors.SequenceError": "compiler.md#sequences",
    "compiler.errors.UnsupportedOperatorError": "operators.md#on-the-npu",
    "compiler.errors.WrongResultError": "compiler.md#why-my-model-lost-accuracy",
    "errors.BudgetError": "troubleshooting.md#the-model-does-not-load",
    "errors.ComparisonError": "commands/compare.md",
    "errors.DeviceError": "troubleshooting.md#on-the-board",
    "errors.ExecutionError": "api/errors.md#running",
    "errors.FormatError": "api/errors.md#files",
    "errors.HardwareLimitError": "hardware/limits.md",
    "errors.ModelInPartsError": "partition.md#looking-into-it",
    "errors.NotRknnError": "formats.md",
    "errors.OutputError": None,
    "errors.UnknownNameError": None,
    "errors.UnsupportedError": "api/errors.md#unsupported",
    "errors.VendorError": "troubleshooting.md#on-the-board",
    "evaluate.errors.DatasetError": "evaluate.md#datasets",
    "evaluate.errors.EvaluationError": "evaluate.md#metrics",
    "isa.errors.IsaError": "commands/disasm.md",
    "kubernetes.api.ApiError": "deploy/kubernetes.md",
    "kubernetes.claims.ClaimError": "deploy/kubernetes.md",
    "kubernetes.nodeconfig.ConfigError": "deploy/kubernetes.md",
    "llm.errors.MissingPackageError": "install.md#extras",
    "llm.errors.MissingTensorError": "llm.md#files-and-families",
    "llm.errors.NotWeightsError": "llm.md#files-and-families",
    "llm.errors.NumberRangeError": "llm.md#compile",
    "llm.errors.TemplateError": "llm.md#chat",
    "llm.errors.TokenizerError": "llm.md#files-and-families",
    "llm.errors.UnsupportedArchitectureError": "llm.md#files-and-families",
    "llm.generation.errors.ConstraintError": "llm.md#generate",
    "llm.generation.errors.NoConstraintsError": "llm.md#generate",
    "llm.generation.errors.PromptError": "llm.md#generate",
    "llm.home.ModelNotFoundError": "llm.md#compile",
    "models.errors.GettingError": "models.md#all-models",
    "models.licences.LicenceError": "models.md#where-they-are-from",
    "onnxruntime.plugin_parts.GoneError": "onnxruntime-plugin.md",
    "packages.errors.PackageError": "models.md",
    "pictures.PictureError": "vision.md#which-models",
    "pixels.convert.PixelsError": "video-conversion.md",
    "ray.errors.JobError": "ray.md#what-survives-what",
    "runtime.errors.CacheFullError": "sequence.md",
    "runtime.errors.ClosedError": None,
    "runtime.errors.PartsError": "partition.md#the-file",
    "runtime.parted.steps.UnfitError": "partition.md",
    "sandbox.SandboxError": "formats.md#files-of-strangers",
    "sandbox.child.UnprotectedError": "formats.md#files-of-strangers",
    "serve.errors.ServeError": "serve.md#how-requests-run",
    "serve.sources.errors.SourceError": "serve.md#models-from-the-network",
    "serve.worker.message_socket.MessageError": "serve.md#how-requests-run",
    "serve.worker.process.WorkerDiedError": "serve.md#how-requests-run",
    "serve.worker.remote.ContextFailedError": "serve.md#how-requests-run",
    "torch.errors.ExportError": "pytorch.md#ahead-of-time",
    "torch.errors.NotSavableError": "pytorch.md#files",
    "trace.archive.TraceError": "trace.md#record",
    "vendor.errors.ClosedError": None,
    "vendor.errors.LibraryNotFoundError": "troubleshooting.md#on-the-board",
    "video.errors.VideoError": "video.md#if-it-does-not-work",
    "vision.errors.SourceError": "video.md#sources",
    "vision.errors.UnknownFamilyError": "vision.md#which-models",
    "voice.errors.AudioError": "voice.md#troubleshooting",
    "voice.errors.PhonemeError": "speak.md#when-it-does-not-work",
    "voice.errors.VoiceSetError": "voice.md#sets",
    "watch.errors.ConfigError": "watch.md#your-first-camera",
    "watch.errors.SinkError": "watch.md#events",
    "watch.errors.WatchError": "watch.md",
}
"""From a class (its module without `openrknn.`, and its name) to a page in docs/, with an anchor."""


def page_for(error: BaseException) -> str | None:
    """Where the error, or the one that caused it, is explained: a file of the repository, or an address."""
    causes = list(_causes(error))
    # `raise ... from None` keeps the import that failed as the context.
    if any(isinstance(one, ImportError) for cause in causes for one in (cause, cause.__context__)):
        return _address(_EXTRAS)
    for cause in causes:
        for base in type(cause).__mro__:
            name = f"{base.__module__.removeprefix('openrknn.')}.{base.__qualname__}"
            if name in PAGES:
                page = PAGES[name]
                return None if page is None else _address(page)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _address(page: str) -> str:
    return BASE + (page.replace(".md", ".html") if BASE.startswith("https:") else page)
