"""What went wrong with a file or a stream, in words that say what to do."""

from __future__ import annotations

import re

__all__ = ["network_reason"]

_REASONS = (
    (r"no such file", "no such file; check the path"),
    (r"unauthori[sz]ed|not authorized", "the server wants a user and a password (401): rtsp://USER:PASSWORD@HOST/..."),
    (r"forbidden", "the server refuses this user (403); check user, password and the path of the stream"),
    (r"404 not found|not found \(404\)|(resource|stream) not found",
     "the server has no stream at this path (404); the camera's manual names its paths"),
    (r"refused", "the connection is refused; is the server running, and is the port right (RTSP: 554)?"),
    (r"timed? ?out|immediate exit", "no answer in time; check the address and the network"),
    (r"no route|unreachable", "the address cannot be reached; check the network"),
    (r"resolve|name or service|temporary failure in name", "the name of the server is unknown; check the address"),
    (r"failed to connect|could not open resource", "the server does not answer; check that it runs, and its address"),
    (r"permission denied", "no permission to read it"),
    (r"moov atom", "the file has no index (moov atom): its recording was interrupted; repair it with ffmpeg"),
    (r"invalid data|could not find codec", "it is no video that the decoder knows, or it is damaged"),
)  # fmt: skip
_SECRET = re.compile(r"(://[^/:@\s]*):[^@/\s]*@")


def network_reason(text: str) -> str:
    """A reason for the words of FFmpeg, GStreamer or the kernel; passwords in addresses are left out."""
    for pattern, reason in _REASONS:
        if re.search(pattern, text, re.IGNORECASE):
            return reason
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    shown = _SECRET.sub(r"\1:***@", line[:300]) or "no reason given"
    return f"it cannot be read ({shown})"
