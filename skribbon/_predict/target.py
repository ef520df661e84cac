"""Maps from the scale of a raw prediction or a fitted target to the scale of y."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..exceptions import ignored_warnings

HUGE = 1e300  # largest number given to a transformer in place of infinity: its square root and logarithm are finite
FAR = 1e9  # a bound of y that is this many times a training target is infinite, and this small a part of it is zero
STEP = 1e-5  # step of numerical derivatives relative to y: balances rounding and curvature
OTHERS = "Use another, e.g. StandardScaler(), or PowerTransformer(), under which the mean of y may be infinite."


@dataclass(frozen=True, eq=False)
class TargetScale:
    """Monotone map from the scale t that a model was fitted on to the scale of y."""

    model: Any = None
    lower: float = -np.inf  # bounds of t, beyond which the transform's inverse turns back, jumps or ends
    upper: float = np.inf
    ends: tuple[float, float] = (-np.inf, np.inf)  # y at lower and at upper
    inside: float = 0.0  # some y between the ends
    increasing: bool = True  # whether larger values on the fitted scale mean larger targets
    is_linear: bool = True  # whether moments of y follow from those of t, as with a StandardScaler

    @classmethod
    def of(cls, model, t):
        """Scale of a model, from its training targets t on the fitted scale."""
        if model.target_transformer is None:
            return cls()
        t = np.unique(np.quantile(t, np.linspace(0, 1, 101)))
        y = cls(model)._decode(t)
        steps = np.diff(y) if y[-1] >= y[0] else -np.diff(y)
        if not np.isfinite(y).all() or (steps < -1e-9 * np.abs(y).max()).any():
            raise ValueError(
                "The inverse of the target's transformer is not monotone over the training targets, so intervals "
                f"cannot be transformed back: {model.target_transformer!r}. {OTHERS}"
            )
        increasing = cls(model)._rises(t[0], t[-1])
        line = cls(model)._decode(t[0] + spread(t[0], t[-1]) * np.linspace(-1, 2, 9))
        linear = bool((np.abs(np.diff(line, 2)) <= 1e-9 * np.ptp(line) + 1e-13 * np.abs(line).max()).all())
        far = (-np.inf, np.inf) if increasing else (np.inf, -np.inf)
        scale = cls(model, ends=far, inside=float(y[len(y) // 2]), increasing=increasing, is_linear=linear)
        lower, upper = scale._reach(t[0], t[-1], -1.0), scale._reach(t[0], t[-1], 1.0)
        lower, upper = scale._last_equal(lower, t[-1]), scale._last_equal(upper, t[0])
        ends = scale._end(lower, y[0]), scale._end(upper, y[-1])
        return replace(scale, lower=lower, upper=upper, ends=ends, increasing=ends[0] <= ends[1])

    @property
    def is_identity(self):
        """Whether the model was fitted on y itself."""
        return self.model is None

    def decode(self, t):
        """Values of y for t on the fitted scale; the ends for values beyond."""
        if self.model is None:
            return t
        lower, upper = max(self.lower, -HUGE), min(self.upper, HUGE)
        y = self._decode(np.clip(t, lower, upper))
        return np.where(t <= lower, self.ends[0], np.where(t >= upper, self.ends[1], y)) + 0.0

    def encode(self, y):
        """Values on the fitted scale for y; infinite for values beyond the ends."""
        if self.is_identity:
            return y
        low, high = min(self.ends), max(self.ends)
        t = self._invert(np.where((low < y) & (y < high), y, self.inside))
        far = np.inf if self.increasing else -np.inf
        beyond = [y == self.ends[0], y == self.ends[1], y < low, y > high]
        return np.select(beyond, [self.lower, self.upper, -far, far], t)

    def log_slope(self, y):
        """Values of log |dt/dy| at y by differences with steps relative to y, one-sided at an end."""
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
        try:
            with np.errstate(all="ignore"), ignored_warnings(r"sklearn\.preprocessing"):  # where there is no inverse
                return np.asarray(self.model.decode_target(t), dtype=float)
        except (ArithmeticError, LookupError) as error:
            raise ValueError(
                "The inverse of the target's transformer fails beyond the training targets, so intervals cannot be "
                f"transformed back: {self.model.target_transformer!r}. {OTHERS}"
            ) from error

    def _encode(self, y):
        with np.errstate(all="ignore"):
            return self.model.encode_target(y)

    def _invert(self, y):
        """Values t whose inverse is y, by bisection if the transform is inexact, as a quantile one near its ends."""
        t = np.clip(self._encode(y), self.lower, self.upper)
        off = np.abs(self._decode(t) - y) > 1e-9 * np.abs(y)
        if not (off.any() and np.isfinite([self.lower, self.upper]).all()):
            return t
        below, above = np.full(off.sum(), self.lower), np.full(off.sum(), self.upper)
        t[off] = bisect(below, above, lambda t: (self._decode(t) > y[off]) != self.increasing)
        return t

    def _rises(self, low, high):
        """Whether the inverse increases over the training targets, or around them if all are equal."""
        first, last = self._decode(np.array([low, high]))
        if first == last:
            around = self._decode(np.array([low, high]) + spread(low, high) * np.array([-1.0, 1.0]))
            first, last = around if np.isfinite(around).all() else (first, last)
        return bool(last >= first)

    def _reach(self, low, high, side):
        """Last t beyond the training targets up to which the inverse is monotone and can be undone."""
        start = low if side < 0 else high
        span = spread(low, high)
        (y_start,) = self._decode(np.array([start]))

        def holds(step):
            t = np.array([start + side * step])
            try:
                y = self._decode(t)
                forward = side * (y[0] - y_start) if self.increasing else side * (y_start - y[0])
                known = np.isfinite(y[0]) and forward >= 0
                return bool(known and abs(self._encode(y)[0] - t[0]) <= 1e-6 * (step + span))
            except ValueError:  # the transformer refuses a value, or one of its own inverse
                return False

        good, steps = 0.0, span * 2.0 ** np.arange(-10, 200)
        for bad in steps[np.abs(start + side * steps) < HUGE]:
            if not holds(bad):
                break
            good = bad
        else:
            return side * np.inf
        good = bisect(good, bad, holds)
        to_zero = -side * start  # observations of zero may have a positive probability
        if to_zero >= 0 and abs(to_zero - good) <= 1e-6 * (good + span) and holds(to_zero):
            return 0.0  # exactly, if the search cannot distinguish it
        return float(start + side * good)

    def _last_equal(self, end, other):
        """Last t from an end towards another t with the same y; a quantile transform maps a whole range to its ends."""
        if not np.isfinite(end):
            return end
        near = end + np.sign(other - end) * 1e-12 * max(abs(end), abs(other))
        y_end, y_near, y_other = self._decode(np.array([end, near, other]))
        if y_near != y_end or y_other == y_end:
            return end
        return float(bisect(end, other, lambda t: self._decode(np.array([t]))[0] == y_end))

    def _end(self, t, y):
        """Limit of y at an end t of the scale, given y at the nearest training target."""
        (end,) = self._decode(np.array([np.clip(t, -HUGE, HUGE)]))
        if not abs(end) <= FAR * max(abs(y), abs(self.inside)):
            return float(np.copysign(np.inf, end))
        return 0.0 if abs(end) * FAR < abs(y) else float(end)


def from_zero(bounds, target, loss):
    """Bounds of y with zero instead of negative ones, if the transform of y or its family has no negative values."""
    least = loss.least_target if target.is_identity else min(target.ends)
    return np.maximum(bounds, 0.0) if 0 <= least < 1e-300 else bounds


def bisect(inside, outside, holds):
    """Last points between inside and outside at which ``holds(points)``, by halving to rounding."""
    for _ in range(60):
        middle = (inside + outside) / 2
        held = holds(middle)
        inside, outside = np.where(held, middle, inside), np.where(held, outside, middle)
    return inside


def spread(low, high):
    """Range of the training targets, or a small share of their size if all are equal."""
    return max(high - low, 1e-3 * max(abs(low), abs(high)), 1e-300)


@dataclass(frozen=True, eq=False)
class MeanScale:
    """Map from a raw prediction f through the inverse link to the scale of y."""

    loss: Any
    target: TargetScale

    @property
    def is_identity(self):
        """Whether f is a prediction of y itself."""
        return self.target.is_identity and self.loss.additive

    def decode(self, f):
        """Values of y for raw predictions f."""
        return self.target.decode(self.loss.mean(f))

    def encode(self, y):
        """Raw predictions for values of y."""
        return self.loss.from_mean(self.target.encode(y))

    def log_slope(self, y):
        """Values of log |df/dy| at y."""
        f = self.encode(y)
        slope = self.loss.mean_derivative(np.where(np.isfinite(f), f, 0.0))
        return self.target.log_slope(y) - np.log(slope)
