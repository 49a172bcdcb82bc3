"""Metrics, each as the field computes it.

names       what there is, and whether more is better
scores      Scores: what a scorer gives;   bootstrap: how sure a number is
detection   average precision and recall of boxes, masks, keypoints and oriented boxes (pycocotools)
ranking     top-1, top-5, a confusion matrix;   areas: mean intersection over union
text        word and character error rates;   lines: precision and recall of lines of text;   tensors: cosine, SQNR
"""

from __future__ import annotations
