"""All errors that openrknn raises deliberately.

    RknnError                       the root: `except RknnError` catches all of them
    ├── FormatError                 a file is not what it should be; has .offset and .section
    │   ├── NotRknnError            the first bytes are not those of a .rknn (a PNG, a text, a .onnx ...)
    │   │   └── ModelInPartsError   a .rknnz: several models for NPU and CPU, and one was asked for
    │   ├── EmptyFileError          nothing in it
    │   ├── TruncatedError          the file ends before something that it announces
    │   ├── OutOfBoundsError        an offset points outside the part of the file that it may point into
    │   ├── BadTableError           a FlatBuffer table or its vtable is broken
    │   ├── BadTextError            text that is not UTF-8, JSON, BSON or notes as it should be
    │   ├── BadTensorError          a tensor's type, layout, kind, shape or data do not fit together
    │   ├── BadReferenceError       an index names a tensor, blob, operator or task that is not there
    │   ├── BadTaskError            a task record, or the chain from task to task, is broken
    │   ├── BadRelocationError      a relocation patches outside the commands, or names no tensor
    │   └── TooComplexError         the file makes its reader do far more work than its size allows
    ├── UnsupportedError            understood, but not possible here; the message says what is
    │   ├── EncryptedModelError     CYPTRKNN: only the vendor's runtime holds the key
    │   └── OtherGenerationError    RKNX (RKNN3), RKNPU1/OpenVX: another family of NPUs
    ├── UnknownNameError            no input, output or result has this name; a KeyError as well
    ├── ComparisonError             two models cannot be compared: they do not belong together, or one cannot be run
    ├── ExecutionError              the NPU cannot execute a command stream; has .task, .operator, .register, .address
    │   ├── BudgetError             a task asks for more work or memory than a run may have
    │   ├── AccessError             a block reads or writes outside every buffer
    │   ├── HardwareLimitError      a task does not fit into the hardware, or is known to hang boards
    │   ├── UnreadRegisterError     a register was written that no block of the task read
    │   ├── UnwrittenTableError     a task uses a lookup table that no task has loaded
    │   ├── UndeclaredBitsError     bits are set that the register table does not declare
    │   └── UnknownModeError        a mode that the software NPU does not implement
    ├── OutputError                 a file may not be written: an input, a device node, another file; an OSError as well
    ├── DeviceError                 a kernel driver said no; has .errno and .call
    └── VendorError                 the vendor's library said no; has .code and .name

    InputWarning (a UserWarning)    the input can be run, but is probably not as intended

Wrong arguments stay `TypeError` and `ValueError`. A message says what is wrong, where, and what to do.
"""

from __future__ import annotations

__all__ = [
    "AccessError", "BadReferenceError", "BadRelocationError", "BadTableError", "BadTaskError", "BadTensorError",
    "BadTextError", "BudgetError", "ComparisonError", "DeviceError", "EmptyFileError", "EncryptedModelError",
    "ExecutionError", "FormatError", "HardwareLimitError", "InputWarning", "ModelInPartsError", "NotRknnError",
    "OtherGenerationError", "OutOfBoundsError", "OutputError", "RknnError", "TooComplexError", "TruncatedError",
    "UndeclaredBitsError", "UnknownModeError", "UnknownNameError", "UnreadRegisterError", "UnsupportedError",
    "UnwrittenTableError", "VendorError",
]  # fmt: skip


class RknnError(Exception):
    """The root of every error that openrknn raises on purpose."""


class FormatError(RknnError):
    """A file is not what it should be.

    `offset` is the byte in the file where the trouble is (None where it has no single place), `section` names
    the part of the format in words: "header", "tensor 12 'conv1.weight'", "relocation table".
    """

    def __init__(self, message: str, *, offset: int | None = None, section: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.section = section

    def __str__(self) -> str:
        where = [self.section] if self.section else []
        if self.offset is not None:
            where.append(f"byte {self.offset:#x}")
        return f"{self.message} ({', '.join(where)})" if where else self.message


class NotRknnError(FormatError):
    """The first bytes are not those of a `.rknn`."""


class ModelInPartsError(NotRknnError):
    """A `.rknnz`: several models, for NPU and CPU, where one `.rknn` was asked for."""


class EmptyFileError(FormatError):
    """There is nothing in the file."""


class TruncatedError(FormatError):
    """The file ends before something that it announces."""


class OutOfBoundsError(FormatError):
    """An offset points outside the part of the file that it may point into."""


class BadTableError(FormatError):
    """A FlatBuffer table or its vtable is broken."""


class BadTextError(FormatError):
    """Text inside the file is not UTF-8, JSON, BSON or notes as it should be."""


class BadTensorError(FormatError):
    """A tensor's type, layout, kind, shape or data do not fit together."""


class BadReferenceError(FormatError):
    """An index names a tensor, blob, operator or task that is not there."""


class BadTaskError(FormatError):
    """A task record, or the chain from one task's commands to the next, is broken."""


class BadRelocationError(FormatError):
    """A relocation patches outside the commands, or names a tensor that is not there."""


class TooComplexError(FormatError):
    """The file makes its reader do far more work than its size allows."""


class UnsupportedError(RknnError):
    """Understood, but not possible here; the message says what is possible."""


class EncryptedModelError(UnsupportedError):
    """A `CYPTRKNN` file: only the vendor's runtime holds the key."""


class OtherGenerationError(UnsupportedError):
    """A file for another family of NPUs: RKNX (RKNN3) or RKNPU1 (OpenVX)."""


class UnknownNameError(RknnError, KeyError):
    """No input, output or result has this name; the message says which there are."""

    def __str__(self) -> str:  # KeyError would show the text in quotes
        return str(self.args[0]) if self.args else ""


class InputWarning(UserWarning):
    """The input can be run, but is probably not as intended: once for each session, input and cause.

    `warnings.simplefilter("ignore", openrknn.InputWarning)` silences all of them, "error" makes them exceptions.
    """


class ComparisonError(RknnError):
    """Two models cannot be compared: they do not belong together, or the reference cannot be run."""


class ExecutionError(RknnError):
    """The NPU cannot execute a command stream.

    `task` and `operator` say whose commands, `register` which one, `address` which place in device memory; each is
    None where it does not apply or is not known yet (an inner block raises, the machine adds who it was).
    """

    def __init__(
        self,
        message: str,
        *,
        task: int | None = None,
        operator: str | None = None,
        register: str | None = None,
        address: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.task = task
        self.operator = operator
        self.register = register
        self.address = address

    def __str__(self) -> str:
        where = []
        if self.task is not None:
            where.append(f"task {self.task}")
        if self.operator:
            where.append(f"operator {self.operator}")
        if self.register:
            where.append(self.register)
        if self.address is not None:
            where.append(f"address {self.address:#x}")
        return f"{self.message} ({', '.join(where)})" if where else self.message


class BudgetError(ExecutionError):
    """A task asks for more work or memory than a run may have; the message says how to allow more."""


class AccessError(ExecutionError):
    """A block reads or writes outside every buffer: on a board an IOMMU fault."""

    is_write = False
    """Whether it writes there."""


class HardwareLimitError(ExecutionError):
    """A task does not fit into the hardware, or is known to hang boards; docs/hardware/limits.md has the rules."""


class UnreadRegisterError(ExecutionError):
    """A register was written that no block of the task read."""


class UndeclaredBitsError(ExecutionError):
    """Bits are set that the register table does not declare."""


class UnwrittenTableError(ExecutionError):
    """A task uses a lookup table that no task has loaded."""


class UnknownModeError(ExecutionError):
    """A mode that the software NPU does not implement."""


class OutputError(RknnError, OSError):
    """A file may not be written: an input of the same command, no regular file, or a file that is not ours."""


class DeviceError(RknnError):
    """A kernel driver refused; `errno` and the name of the call say which and why."""

    def __init__(self, message: str, *, errno: int | None = None, call: str = "") -> None:
        super().__init__(message)
        self.errno = errno
        self.call = call


class VendorError(RknnError):
    """The vendor's library returned an error; `code` and its `name` in the C API."""

    def __init__(self, message: str, *, code: int, name: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.name = name
