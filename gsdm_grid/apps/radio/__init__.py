"""Three-channel radio, the papers' space physics application: a synthetic antenna, pictures of its results.

Importing the room registers the stream interface ``synthetic_radio``. The functions on radio streams (`fft3`,
`polarize`, …) are in the built-in library of `gsdm_grid.functions`.
"""

from gsdm_grid.apps.radio.demo import DemoOptions, run_demo
from gsdm_grid.apps.radio.demo_verdict import report_json
from gsdm_grid.apps.radio.demo_view import LiveView, PlainView, headline, show_report
from gsdm_grid.apps.radio.picture_viewer import open_picture
from gsdm_grid.apps.radio.pictures import draw_waterfall, spectral_power, spectrum_text
from gsdm_grid.apps.radio.synthetic import Carrier, RadioSynthesizer, SyntheticRadio

__all__ = [
    "Carrier",
    "DemoOptions",
    "LiveView",
    "PlainView",
    "RadioSynthesizer",
    "SyntheticRadio",
    "draw_waterfall",
    "headline",
    "open_picture",
    "report_json",
    "run_demo",
    "show_report",
    "spectral_power",
    "spectrum_text",
]
