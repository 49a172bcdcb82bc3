"""Sets of Whisper: from the files that its users have (OpenAI, Hugging Face, whisper.cpp, CTranslate2, ONNX) to graphs.

checkpoint  one set of weights by OpenAI's names, whatever the file;   detect: which kind of file
openai, ggml, ctranslate, folder, exported   readers
graphs      encoder and decoder step for the NPU;   make: the set
"""

from __future__ import annotations
