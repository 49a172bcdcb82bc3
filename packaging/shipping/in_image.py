"""Runs in the unpacked image, as its user, by its Python: the demo, and the server until it says that it is ready."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

from openrknn.nativelib import library

WAIT = 900.0
PORT = 18765

os.chdir("/home/openrknn")
print("Python", sys.version.split()[0])
print("KERNELS", "NumPy" if library() is None else "native")
begin = time.time()
done = subprocess.run(["openrknn", "demo", "--json"], capture_output=True, text=True, check=False)
if done.returncode:
    sys.exit(done.stderr)
print("RUN", begin, time.time())
print("DEMO", done.stdout.replace("\n", ""))
model = "/opt/openrknn/examples/efficientnet_lite0_rk3588_i8.rknn"
command = ["openrknn", "serve", f"--port={PORT}", "--grpc-port=0", "--require-token", model]
begin = time.time()
server = subprocess.Popen(command, env={**os.environ, "OPENRKNN_TOKEN": "proof"})
try:
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/health/ready", timeout=5) as answer:
                print("HEALTH", answer.status)
                break
        except (urllib.error.URLError, OSError) as error:
            if time.time() - begin > WAIT or server.poll() is not None:
                sys.exit(f"the server is not ready: {error}")
            time.sleep(0.2)
finally:
    server.terminate()
    server.wait(60)
print("STOPPED", server.returncode)
