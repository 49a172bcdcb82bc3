"""`openrknn stream`: the annotated video in a browser."""

from __future__ import annotations

import argparse

from openrknn.cli.common.options import add_device_arguments, port, positive, seconds
from openrknn.cli.common.output import Output
from openrknn.cli.pictures.options import add_score_arguments

NAME = "stream"
HELP = "show a camera or video in a browser, with boxes, speed and load"
DESCRIPTION = """Run a model on a camera, a network stream, a video or pictures, and show the annotated pictures in a
browser with frame rate, latency and load. The page is only reachable from this machine, unless --host says otherwise.
Players can use the motion JPEG at /stream.mjpg, programs the numbers at /state."""
EXAMPLES = (
    "openrknn stream yolo.rknn 0                               the first camera",
    "openrknn stream yolo.rknn rtsp://192.168.1.20/live --repeat --workers 3",
    "openrknn stream yolo.rknn video.mp4 --repeat --host 0.0.0.0 --port 8080",
    "openrknn stream yolo.rknn video.mp4 --stats --exit        time and copies per frame",
    "openrknn stream yolo.rknn 'gst:videotestsrc is-live=true' a GStreamer pipeline",
    "openrknn stream yolo.rknn photos/ --repeat --fps 0.5      a slide show",
)
DEFAULT_PORT = 8017


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("model", metavar="MODEL", help="a .rknn model")
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="+",
        help="a camera (0), rtsp://..., a video, gst:PIPELINE, - (stdin), pictures, folders",
    )
    tasks = ("classify", "detect", "segment", "pose", "ocr")
    parser.add_argument("--task", choices=tasks, help="what to do (default: recognised by the outputs)")
    parser.add_argument(
        "--family", metavar="NAME", help="decode the outputs as this family (default: recognised by their shapes)"
    )
    parser.add_argument("--labels", metavar="FILE", help="file with the class names, one per line")
    parser.add_argument("--repeat", action="store_true", help="start again when the source ends or is lost")
    parser.add_argument(
        "--exit", action="store_true", help="exit when the source ends, instead of showing its last picture"
    )
    parser.add_argument("--count", type=positive, metavar="N", help="exit after N pictures")
    parser.add_argument(
        "--stats", action="store_true", help="report time per stage, copies and dropped frames at the end"
    )
    parser.add_argument("--fps", type=seconds, metavar="N", help="at most N pictures per second")
    parser.add_argument(
        "--workers", type=positive, metavar="N", default=1, help="pictures processed in parallel (default: 1)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=port, metavar="N", default=DEFAULT_PORT, help=f"port to listen on (default: {DEFAULT_PORT})"
    )
    add_score_arguments(parser)
    add_device_arguments(parser)



def run(arguments: argparse.Namespace, output: Output) -> int:
    """Serve until the source ends, or Ctrl-C."""
    from openrknn.cli.stream.play import run_stream

    return run_stream(arguments, output)
