# SPDX-License-Identifier: BSD-3-Clause
"""Draw a line chart over the message size as SVG text, without any other program: for documents, where the file has to
be small, and equal for equal numbers."""

import html
import math

from .curve import size_text

WIDTH, HEIGHT = 860, 470
LEFT, RIGHT, TOP, BOTTOM = 74, 190, 40, 52  # margins; the key is in the right one
COLOURS = ("#c02020", "#2060b0", "#208040", "#8040a0", "#b07010", "#308090", "#606060")
HEAD = ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" '
        'font-size="13" fill="none">\n<rect width="100%%" height="100%%" fill="white"/>\n')


def text(x, y, words, anchor="middle", more=""):
    return '<text x="%g" y="%g" text-anchor="%s" fill="#222"%s>%s</text>\n' % (x, y, anchor, more, html.escape(words))


def line(x1, y1, x2, y2, colour, width=1.0):
    return '<path d="M%.1f %.1fL%.1f %.1f" stroke="%s" stroke-width="%g"/>\n' % (x1, y1, x2, y2, colour, width)


def decades(low, high):
    """Return powers of ten, from the last one that is at most low to the first one that is at least high."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0 ** k for k in range(first, max(last, first + 1) + 1)]


def steps(low, high):
    """Return multiples of a round step, from 0 to the first one that is at least high."""
    step = next(s for s in (0.1, 0.25, 0.5, 1, 2, 5, 10, 50, 100, 1000, 1e9) if high / s <= 10)
    return [step * i for i in range(math.ceil(high / step - 1e-9) + 1)]


class Axes:
    """Positions of sizes and values.  The axis of sizes is logarithmic, and that of values is if log is true."""

    def __init__(self, series, log, most=None):
        points = [p for _, points in series for p in points]
        self.log = log
        self.sizes = (min(x for x, _ in points), max(x for x, _ in points))
        low, high = min(y for _, y in points), max(y for _, y in points)
        self.ticks = decades(low, high) if log else steps(0, min(high, most or high))
        self.low, self.high = self.scaled(self.ticks[0]), self.scaled(self.ticks[-1])

    def scaled(self, value):
        return math.log10(value) if self.log else value

    def x(self, size):
        span = math.log2(self.sizes[1] / self.sizes[0]) or 1
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log2(size / self.sizes[0]) / span

    def y(self, value):
        part = (self.scaled(value) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(part, 0), 1)


def grid(axes):
    body = ""
    for tick in axes.ticks:
        y = axes.y(tick)
        body += line(LEFT, y, WIDTH - RIGHT, y, "#ddd") + text(LEFT - 8, y + 4, "%g" % tick, "end")
    power = math.ceil(math.log2(axes.sizes[0]))
    while 1 << power <= axes.sizes[1]:
        x = axes.x(1 << power)
        body += line(x, TOP, x, HEIGHT - BOTTOM, "#eee")
        if power % 4 == 0:
            body += text(x, HEIGHT - BOTTOM + 18, size_text(1 << power))
        power += 1
    return body + line(LEFT, TOP, LEFT, HEIGHT - BOTTOM, "#888") + line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM,
                                                                     "#888")


def polyline(axes, points, colour, width):
    path = "L".join("%.1f %.1f" % (axes.x(x), axes.y(y)) for x, y in points)
    return '<path d="M%s" stroke="%s" stroke-width="%g" stroke-linejoin="round"/>\n' % (path, colour, width)


def chart(title, unit, series, log=True, mark=None, most=None, first=0):
    """Draw a chart.  series: [(name, [(size, value)])]; mark: a value with a horizontal line; most: values above are
    drawn at the edge; first: colour of the first series.  The series with colour 0 is drawn thick."""
    axes = Axes(series, log, most)
    body = HEAD % (WIDTH, HEIGHT, WIDTH, HEIGHT) + grid(axes)
    body += text(LEFT, 24, title, "start", ' font-size="15" font-weight="bold"')
    body += text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "size of a message")
    body += text(18, HEIGHT / 2, unit, more=' transform="rotate(-90 18 %g)"' % (HEIGHT / 2))
    if mark is not None:
        body += line(LEFT, axes.y(mark), WIDTH - RIGHT, axes.y(mark), "#222", 1.5)
    for i, (name, points) in reversed(list(enumerate(series, first))):
        colour, width, y = COLOURS[i % len(COLOURS)], 1.8 if i else 3, TOP + 14 + 22 * (i - first)
        body += polyline(axes, points, colour, width)
        body += line(WIDTH - RIGHT + 14, y - 4, WIDTH - RIGHT + 40, y - 4, colour, width)
        body += text(WIDTH - RIGHT + 46, y, name, "start")
    return body + "</svg>\n"
