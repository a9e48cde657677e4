"""An own partitioning function and an own combine function: window split for a window type of one's own.

A picture is three bands of so many pixels. Each of two sites gets one half of the pixels of every picture, and OS-Join
puts the halves together. The function may be split because each of its pixels depends on that pixel alone; it says so
by ``window_split``.
"""

import numpy as np

from gsdm_grid import (
    Grid,
    LogicalWindow,
    central,
    cq,
    create_stream_type,
    current_window,
    parallelize,
    register_input_stream,
    seconds,
    sqf,
    window_split,
)
from gsdm_grid.functions import equal_parts

BANDS = ("red", "green", "infrared")
Picture = create_stream_type("Picture", {"camera": "string", **dict.fromkeys(BANDS, "vector of float32")})
Plants = create_stream_type("Plants", {"camera": "string", "index": "vector of float32"})


@sqf(Picture, returns=Picture, kind="partitioning", lengths=equal_parts("pixels", *BANDS))
def pixels(s, n, i):
    """Part i of n: its share of the pixels, of all bands."""
    picture = current_window(s)
    size = len(picture.red) // n
    mine = slice(i * size, (i + 1) * size)
    return picture.replace(red=picture.red[mine], green=picture.green[mine], infrared=picture.infrared[mine])


@sqf(Plants, returns=Plants, kind="combine")
def whole_picture(parts):
    """The parts of one picture, in order, put end to end."""
    return parts[0].replace(index=np.concatenate([part.index for part in parts]))


@sqf(Picture, returns=Plants, strategies=(window_split("pixels", "whole_picture"),))
def vegetation(s):
    """How green each pixel is: the normalized difference of infrared and red light."""
    picture = current_window(s)
    index = (picture.infrared - picture.red) / (picture.infrared + picture.red)
    return Plants.window(ts=picture.ts, camera=picture.camera, index=index)


def pictures(count: int = 50, size: int = 4096) -> list[LogicalWindow]:
    """What a camera over a field sees, one picture per second."""
    light = np.random.default_rng(1).uniform(0.1, 1, (count, 3, size)).astype(np.float32)
    return [
        Picture.window(ts=seconds(k), camera="north", **dict(zip(BANDS, bands, strict=True)))
        for k, bands in enumerate(light)
    ]


def main() -> None:
    """Run the central and the parallel plan and compare them."""
    flows = {"central": central(vegetation), "parallel": parallelize(vegetation, {}, "window_split", 2)}
    print(flows["parallel"])
    with Grid("threads") as grid:
        queries = {
            name: cq(flow, [register_input_stream(Picture, pictures())], grid=grid) for name, flow in flows.items()
        }
        results = {name: list(query.run()) for name, query in queries.items()}
    for name, plants in results.items():
        print(f"{name} plan: {len(plants)} results of {len(plants[0].index)} pixels")
    print("parallel plan gives the same:", results["parallel"] == results["central"])


if __name__ == "__main__":
    main()
