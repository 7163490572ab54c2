"""Which models there are, and how their files get onto this disk.

Knows names, files and where they come from, not what a model computes.
"""
