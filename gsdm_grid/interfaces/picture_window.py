"""A window on the screen that shows pictures: a process of its own, because windows want a program's main thread.

Pictures go to it as lines of Base64; it ends when its input does. Nothing else of the package is imported there.
"""

from __future__ import annotations

import base64
import importlib.util
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress

LOOK_MS = 50


def screen() -> bool:
    """Whether this process has a screen to show a window on, and what draws it."""
    has_display = sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY"))
    return has_display and importlib.util.find_spec("tkinter") is not None


class PictureWindow:
    """A window; made where there is a `screen`. For one thread."""

    def __init__(self, title: str) -> None:
        command = [sys.executable, __file__, title]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def show(self, png: bytes) -> bool:
        """Show a picture instead of the one before; False if people have closed the window."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(base64.b64encode(png) + b"\n")
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the window."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Show the pictures that come on the standard input."""
    import tkinter

    window = tkinter.Tk()
    window.title(sys.argv[1])
    label = tkinter.Label(window)
    label.pack()
    pictures: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            pictures.put(line)
        pictures.put(b"")

    def look() -> None:
        newest = None
        while not pictures.empty():
            newest = pictures.get()
        if newest == b"":
            window.destroy()
            return
        if newest is not None:
            label.image = tkinter.PhotoImage(data=newest.strip())  # type: ignore[attr-defined]  # else it is collected
            label.configure(image=label.image)  # type: ignore[attr-defined]
        window.after(LOOK_MS, look)

    threading.Thread(target=read, daemon=True).start()
    look()
    window.mainloop()


if __name__ == "__main__":
    main()
