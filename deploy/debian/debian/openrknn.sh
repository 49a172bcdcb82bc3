#!/bin/sh
# openrknn's own Python packages first, and only for openrknn.
PYTHONPATH="/usr/lib/openrknn${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONPATH
exec /usr/bin/python3 -m openrknn.cli "$@"
