#!/bin/sh
# The engine of openrknn's librknnrt.so, which starts it. openrknn's own Python packages first.
PYTHONPATH="/usr/lib/openrknn${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONPATH
exec /usr/bin/python3 -m openrknn.capi.engine "$@"
