"""Decodes the picture that the canvas window draws: from a pixel's colour back to the place in the window.

Red and green grow by 2 a logical pixel inside cells of 128 pixels, blue names the cell. Both are linear, so a scaled
or blended pixel still decodes, away from the cells' edges.
"""

CELL = 128


def decode(colour, width):
    """The window's logical (x, y), centre of the pixel, that shows this (r, g, b); `width` is the window's."""
    red, green, blue = colour[:3]
    columns = -(-width // CELL)
    cell = blue - 32
    if cell < 0:
        raise ValueError(f"{colour} is not of the canvas")
    return cell % columns * CELL + red / 2 + 0.5, cell // columns * CELL + green / 2 + 0.5


def is_safe(point, margin=14):
    """Whether a place is far enough from the edges of its cell to be decoded: a pixel blended across an edge must not pass for one."""
    return all(margin <= value % CELL <= CELL - margin for value in point)
