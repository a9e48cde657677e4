"""Applications: what people do with the system, with synthetic data, queries and pictures of the results.

One package per application (`radio`), and the demo. Everything here uses the rooms below as a user would; nothing below
knows it. Functions that other people's queries need are in `gsdm_grid.functions`.
"""
