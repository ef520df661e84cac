"""The scale of the target: from what a model was fitted on to what the user measures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

HUGE = 1e300  # stands for infinity where a transformer takes none
FAR = 1e9  # ends of so many times a training target are infinite, and of so small a part of it are zero
STEP = 1e-5  # of differences, relative to y


@dataclass(frozen=True, eq=False)
class TargetScale:
    """The way from the scale that a model was fitted on to that of y, increasing or decreasing all along.

    An inverse transform may turn back (the square of a negative root), jump (the reciprocal around zero) or end (a
    power transform) beyond the values that the transform can have. There t stands still: ``lower`` and ``upper`` are
    how far the inverse was found to be one, and ``ends`` are the y there.
    """

    model: Any = None
    lower: float = -np.inf
    upper: float = np.inf
    ends: tuple[float, float] = (-np.inf, np.inf)  # y at lower and at upper
    inside: float = 0.0  # some y between them
    increasing: bool = True  # whether larger values on the fitted scale mean larger targets

    @classmethod
    def of(cls, model, t):
        """Of a model, from its training targets t on the fitted scale."""
        if model.target_transformer is None:
            return cls()
        t = np.unique(np.quantile(t, np.linspace(0, 1, 101)))
        y = cls(model)._decode(t)
        steps = np.diff(y) if y[-1] >= y[0] else -np.diff(y)
        if not np.isfinite(y).all() or (steps < -1e-9 * np.abs(y).max()).any():
            raise ValueError(
                "The inverse of the target's transformer is not monotone over the training targets, so that no "
                f"interval can be carried back through it: {model.target_transformer!r}. Use one that is, such as log, "
                "or PowerTransformer."
            )
        increasing = cls(model)._rises(t[0], t[-1])
        far = (-np.inf, np.inf) if increasing else (np.inf, -np.inf)
        scale = cls(model, ends=far, inside=float(y[len(y) // 2]), increasing=increasing)
        lower, upper = scale._reach(t[0], t[-1], -1.0), scale._reach(t[0], t[-1], 1.0)
        lower, upper = scale._standing(lower, t[-1]), scale._standing(upper, t[0])
        ends = scale._end(lower, y[0]), scale._end(upper, y[-1])
        return replace(scale, lower=lower, upper=upper, ends=ends, increasing=ends[0] <= ends[1])

    @property
    def is_identity(self):
        """Whether y is what the model was fitted on."""
        return self.model is None

    def decode(self, t):
        """Values on the fitted scale to the scale of y; those beyond the ends to the ends."""
        if self.is_identity:
            return t
        lower, upper = max(self.lower, -HUGE), min(self.upper, HUGE)
        y = self._decode(np.clip(t, lower, upper))
        return np.where(t <= lower, self.ends[0], np.where(t >= upper, self.ends[1], y)) + 0.0

    def encode(self, y):
        """Values of y on the fitted scale; those beyond the ends are infinite."""
        if self.is_identity:
            return y
        low, high = min(self.ends), max(self.ends)
        t = self._invert(np.where((low < y) & (y < high), y, self.inside))
        far = np.inf if self.increasing else -np.inf
        ends = [(y == self.ends[0], self.lower), (y == self.ends[1], self.upper), (y < low, -far), (y > high, far)]
        return np.select([where for where, _ in ends], [value for _, value in ends], t)

    def log_slope(self, y):
        """log |dt/dy| by differences in steps that follow the size of y, of one side where the other has an end."""
        if self.is_identity:
            return np.zeros_like(y)
        low, high = min(self.ends), max(self.ends)
        possible = (low <= y) & (y <= high) & np.isfinite(y)
        y = np.where(possible, y, self.inside)
        step = STEP * np.where(y == 0, STEP * max(abs(self.inside), 1e-300), np.abs(y))
        left, right = np.maximum(y - step, low), np.minimum(y + step, high)
        with np.errstate(all="ignore"):
            slope = np.log(np.abs(self._encode(right) - self._encode(left))) - np.log(right - left)  # no overflow
        return np.where(possible & ~np.isnan(slope), slope, -np.inf)

    def _decode(self, t):
        with np.errstate(all="ignore"):
            return np.asarray(self.model.decode_target(t), dtype=float)

    def _encode(self, y):
        with np.errstate(all="ignore"):
            return self.model.encode_target(y)

    def _invert(self, y):
        """t whose inverse is y, searched for where the transform is not quite that, as a quantile one near its ends."""
        t = np.clip(self._encode(y), self.lower, self.upper)
        off = np.abs(self._decode(t) - y) > 1e-9 * np.abs(y)
        if not (off.any() and np.isfinite([self.lower, self.upper]).all()):
            return t
        below, above = np.full(off.sum(), self.lower), np.full(off.sum(), self.upper)
        for _ in range(60):
            middle = (below + above) / 2
            high = (self._decode(middle) > y[off]) == self.increasing
            below, above = np.where(high, below, middle), np.where(high, middle, above)
        t[off] = below
        return t

    def _rises(self, low, high):
        """Whether the inverse increases over the training targets; around them where these are all the same."""
        first, last = self._decode(np.array([low, high]))
        if first == last:
            around = self._decode(np.array([low, high]) + spread(low, high) * np.array([-1.0, 1.0]))
            first, last = around if np.isfinite(around).all() else (first, last)
        return bool(last >= first)

    def _reach(self, low, high, side):
        """How far beyond the training targets the inverse goes on in its direction, and comes back."""
        start = low if side < 0 else high
        span = spread(low, high)
        (y_start,) = self._decode(np.array([start]))

        def holds(step):
            t = np.array([start + side * step])
            y = self._decode(t)
            forward = side * (y[0] - y_start) if self.increasing else side * (y_start - y[0])
            if not np.isfinite(y[0]) or forward < 0:
                return False
            try:
                return bool(abs(self._encode(y)[0] - t[0]) <= 1e-6 * (step + span))
            except ValueError:  # a transformer that refuses what its inverse gave
                return False

        good, steps = 0.0, span * 2.0 ** np.arange(-10, 200)
        for bad in steps[np.abs(start + side * steps) < HUGE]:
            if not holds(bad):
                break
            good = bad
        else:
            return side * np.inf
        for _ in range(60):
            middle = (good + bad) / 2
            good, bad = (middle, bad) if holds(middle) else (good, middle)
        to_zero = -side * start  # where observations may have a probability of their own
        if to_zero >= 0 and abs(to_zero - good) <= 1e-6 * (good + span) and holds(to_zero):
            return 0.0  # and not next to it, as far as the way back is told apart
        return float(start + side * good)

    def _standing(self, end, other):
        """The last t, from an end of the scale towards another t, at which the inverse has not left the end.

        All t up to there are one y, which has their probability: a quantile transform has such a stretch.
        """
        if not np.isfinite(end):
            return end
        near = end + np.sign(other - end) * 1e-12 * max(abs(end), abs(other))
        y_end, y_near, y_other = self._decode(np.array([end, near, other]))
        if y_near != y_end or y_other == y_end:
            return end
        for _ in range(60):
            middle = (end + other) / 2
            end, other = (middle, other) if self._decode(np.array([middle]))[0] == y_end else (end, middle)
        return float(end)

    def _end(self, t, y):
        """What y tends to at an end t of the scale, from y at the training target nearest to it."""
        (end,) = self._decode(np.array([np.clip(t, -HUGE, HUGE)]))
        if not abs(end) <= FAR * max(abs(y), abs(self.inside)):
            return float(np.copysign(np.inf, end))
        return 0.0 if abs(end) * FAR < abs(y) else float(end)


def spread(low, high):
    """Of the training targets, or what stands for it where they are all the same."""
    return max(high - low, 1e-3 * max(abs(low), abs(high)), 1e-300)
