# SPDX-License-Identifier: Apache-2.0
"""Scatter plots of predictions against measurements, written by hand as SVG.

  validation_svg.scatter(title, unit, points) -> text; points: (label, measured, predicted)
"""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 600
LEFT, RIGHT, TOP, BOTTOM = 76, 250, 48, 64
COLOURS = ("#1f77b4", "#d95f02", "#2ca02c", "#c51b7d", "#7b4fa3", "#8c564b", "#e6ab02", "#17a2b8",
           "#555555", "#e31a1c", "#9aa900", "#003f8a")
SHAPES = ("circle", "square", "diamond", "triangle")
BAND = 0.10


class Axis:
    """A logarithmic axis from a value to a pixel."""

    def __init__(self, values, pixel_low, pixel_high):
        low, high = min(values) / 1.25, max(values) * 1.25
        self.low, self.high = math.log10(low), math.log10(high)
        self.pixel_low, self.pixel_high = pixel_low, pixel_high

    def __call__(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.pixel_low + share * (self.pixel_high - self.pixel_low)

    def ticks(self):
        """(value, is labelled): every decade, and 2 and 5 where there are few decades."""
        few = self.high - self.low < 2.6
        for exponent in range(math.floor(self.low), math.ceil(self.high) + 1):
            for digit in range(1, 10):
                value = digit * 10.0 ** exponent
                if self.low <= math.log10(value) <= self.high:
                    yield value, digit == 1 or (few and digit in (2, 5))


def text(x, y, words, size=13, anchor="start", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{extra}>'
            f"{escape(words)}</text>")


def line(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def marker(x, y, colour, shape, radius=3.6):
    style = f'fill="{colour}" fill-opacity="0.6" stroke="{colour}" stroke-width="0.7"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {style}/>'
    outline = {"square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
               "diamond": ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
               "triangle": ((0, -1.25), (1.2, 0.95), (-1.2, 0.95))}[shape]
    corners = " ".join(f"{x + radius * dx:.1f},{y + radius * dy:.1f}" for dx, dy in outline)
    return f'<polygon points="{corners}" {style}/>'


def number(value):
    return f"{value:g}" if value >= 1e-3 else f"{value:.0e}"


def grid(axis_x, axis_y, unit):
    parts = []
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value, labelled in axis_x.ticks():
        x = axis_x(value)
        colour = "#cccccc" if labelled else "#eeeeee"
        parts.append(line(x, TOP, x, bottom, f'stroke="{colour}"'))
        if labelled:
            parts.append(text(x, bottom + 18, number(value), 12, "middle"))
    for value, labelled in axis_y.ticks():
        y = axis_y(value)
        colour = "#cccccc" if labelled else "#eeeeee"
        parts.append(line(LEFT, y, right, y, f'stroke="{colour}"'))
        if labelled:
            parts.append(text(LEFT - 8, y + 4, number(value), 12, "end"))
    middle = (TOP + bottom) / 2
    parts.append(text((LEFT + right) / 2, HEIGHT - 18, f"measured, {unit}", 14, "middle"))
    parts.append(text(22, middle, f"predicted, {unit}", 14, "middle",
                      f' transform="rotate(-90 22 {middle:.1f})"'))
    return parts


def identity(axis_x, axis_y):
    """The line of exact predictions and the band of 10 % around it."""
    low, high = 10 ** axis_x.low, 10 ** axis_x.high
    corners = [(axis_x(v), axis_y(v * factor)) for v, factor in
               ((low, 1 + BAND), (high, 1 + BAND), (high, 1 - BAND), (low, 1 - BAND))]
    shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return [f'<polygon points="{shape}" fill="#000000" fill-opacity="0.10"/>',
            line(axis_x(low), axis_y(low), axis_x(high), axis_y(high),
                 'stroke="#000000" stroke-width="1.2"')]


def legend(labels, counts):
    x, y = WIDTH - RIGHT + 18, TOP + 8
    parts = []
    for place, label in enumerate(labels):
        colour, shape = COLOURS[place % len(COLOURS)], SHAPES[place % len(SHAPES)]
        parts.append(marker(x, y - 4, colour, shape, 5))
        parts.append(text(x + 14, y, f"{label} ({counts[label]})"))
        y += 23
    parts.append(line(x - 7, y, x + 7, y, 'stroke="#000000" stroke-width="1.2"'))
    parts.append(text(x + 14, y + 4, "exact"))
    parts.append(f'<rect x="{x - 7}" y="{y + 15}" width="14" height="12" fill="#000000" '
                 'fill-opacity="0.10"/>')
    parts.append(text(x + 14, y + 26, "within 10 %"))
    return parts


def scatter(title, unit, points):
    """Labels are drawn in order of first appearance, many points below few."""
    counts = {}
    for label, _, _ in points:
        counts[label] = counts.get(label, 0) + 1
    labels = list(counts)
    values = [v for _, measured, predicted in points for v in (measured, predicted)]
    axis_x = Axis(values, LEFT, WIDTH - RIGHT)
    axis_y = Axis(values, HEIGHT - BOTTOM, TOP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             f'width="{WIDTH}" height="{HEIGHT}" font-family="Helvetica, Arial, sans-serif">',
             f"<title>{escape(title)}</title>",
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             f'<clipPath id="plot"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
             f'height="{HEIGHT - TOP - BOTTOM}"/></clipPath>',
             text(LEFT, 28, title, 16, extra=' font-weight="bold"')]
    parts += grid(axis_x, axis_y, unit)
    parts.append('<g clip-path="url(#plot)">')
    parts += identity(axis_x, axis_y)
    for label, measured, predicted in sorted(points, key=lambda p: -counts[p[0]]):
        place = labels.index(label)
        parts.append(marker(axis_x(measured), axis_y(predicted), COLOURS[place % len(COLOURS)],
                            SHAPES[place % len(SHAPES)]))
    parts.append("</g>")
    parts.append(f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
                 f'height="{HEIGHT - TOP - BOTTOM}" fill="none" stroke="#444444"/>')
    parts += legend(labels, counts)
    return "\n".join(parts) + "\n</svg>\n"
