"""From outputs to objects: one file per family of models, each with its formula.

    classification      one score per class
    yolov5              anchors: YOLOv5, YOLOv7
    darknet             anchors: YOLOv3, YOLOv4, and their tiny sisters
    yolov8              distances to the four sides: YOLOv6, v8, v10, v11, PP-YOLOE, as the model zoo exports them
    yolox               one box per cell
    flat                one output [1, 84, 8400] or [1, 25200, 85], as Ultralytics and others export
    end_to_end          finished objects [1, 300, 6]: YOLOv10 and others without suppression
    ssd, retinaface     prior boxes
    yolo_seg            masks as mixtures of prototypes
    pose, obb           key points; turned boxes
    segmentation        one class per pixel: PP-Seg, DeepLab
    text_boxes          PP-OCR detection (DB);  text_lines: PP-OCR recognition (CTC)

A decoder takes heads (`vision.heads`), the frame and the settings, and gives what it found in pixels of the frame.
"""
