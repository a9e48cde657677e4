"""Three-channel radio, the papers' space physics application: a synthetic antenna, pictures of its results.

Importing the room registers the stream interface ``synthetic_radio``. The functions on radio streams (`fft3`,
`polarize`, …) are in the built-in library of `gsdm_grid.functions`.
"""

from gsdm_grid.apps.radio.pictures import draw_waterfall, spectral_power, spectrum_text
from gsdm_grid.apps.radio.synthetic import CarrierWave, RadioSynthesizer, SyntheticRadio

__all__ = [
    "CarrierWave",
    "RadioSynthesizer",
    "SyntheticRadio",
    "draw_waterfall",
    "spectral_power",
    "spectrum_text",
]
