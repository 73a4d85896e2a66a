"""Operators of detectors and cameras: boxes, regions of images, colors."""
