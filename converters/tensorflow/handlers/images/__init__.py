"""Operators of images: channels last, windows, boxes."""
