"""Exact speculative decoding over token ids: the core of speclocal.

Read loop.py first, then acceptance.py. Everything here is numpy and plain values: no llama.cpp, no text, no terminal.
"""
