"""Linear hypotheses from text: "x1 = x2 = 0", "x1 - 2*x2 = 0.5, 3*(x3 + x4) = 1"."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .._utils.typing import FloatArray

NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
SHOWN = 10  # terms that an error lists


def parse(text: str, terms: Sequence[str]) -> tuple[list[str], FloatArray, FloatArray]:
    """Constraints in ``text`` as names (q,), matrix (q, d) and values (q,): matrix @ coefficients = values.

    Of a chain of equal signs each side is set against the last one. A side alone stands for itself, with value zero.
    """
    if not text.strip():
        raise ValueError("hypothesis is empty; write one such as 'x1 = x2 = 0'.")
    return _Reader(text, terms).constraints()


class _Reader:
    """Recursive descent over tokens; an expression is a vector (d + 1,), the coefficients and a constant."""

    def __init__(self, text, terms):
        self.text, self.terms = text, list(terms)
        repeated = {term for term in self.terms if self.terms.count(term) > 1}
        self.repeated = repeated
        self.tokens, self.position = self._tokens(), 0

    def _tokens(self):
        """Kind, token, and where it begins and ends; the longest name that fits comes before numbers and signs."""
        names = sorted(set(self.terms), key=len, reverse=True)
        tokens, place = [], 0
        while place < len(self.text):
            if self.text[place].isspace():
                place += 1
                continue
            name = next((name for name in names if self._has_name(name, place)), None)
            number = NUMBER.match(self.text, place)
            if name is not None and not NUMBER.fullmatch(name):  # a number is a number, whatever terms are called
                kind, token = "name", name
            elif number and not self._goes_on(number.end()):
                kind, token = "number", number[0]
            elif self.text[place] in "+-*/(),=":
                kind, token = "sign", self.text[place]
            else:
                raise self._error(place)
            tokens.append((kind, token, place, place + len(token)))
            place += len(token)
        return tokens

    def _has_name(self, name, place):
        end = place + len(name)
        ends_in_word = name[-1:].isalnum() or name[-1:] == "_"
        return bool(name) and self.text.startswith(name, place) and not (ends_in_word and self._goes_on(end))

    def _goes_on(self, place):
        return place < len(self.text) and (self.text[place].isalnum() or self.text[place] == "_")

    def _error(self, place, what="cannot read"):
        more = len(self.terms) - SHOWN
        listed = ", ".join(self.terms[:SHOWN]) + (f" and {more} more" if more > 0 else "")
        rest = self.text[place:].strip() or "the end"
        return ValueError(f"hypothesis: {what} {rest!r} in {self.text!r}. Its terms are {listed}.")

    # ------------------------------------------------------------------ grammar
    def constraints(self):
        names, rows, values = [], [], []
        while True:
            start = self.position
            sides = [self._sum()]
            ends = [(start, self.position)]
            while self._take("="):
                begin = self.position
                sides.append(self._sum())
                ends.append((begin, self.position))
            last = sides[-1] if len(sides) > 1 else np.zeros(len(self.terms) + 1)
            for side, (begin, end) in zip(sides[:-1] or sides, ends, strict=False):
                row = side - last
                if not row[:-1].any():
                    raise self._error(self.tokens[begin][2], "there is no term left in")
                names.append(self._words(begin, end) + (f" = {self._words(*ends[-1])}" if len(sides) > 1 else ""))
                rows.append(row[:-1])
                values.append(-row[-1])
            if not self._take(","):
                break
        if self.position < len(self.tokens):
            raise self._error(self.tokens[self.position][2])
        return names, np.array(rows), np.array(values)

    def _words(self, begin, end):
        return self.text[self.tokens[begin][2] : self.tokens[end - 1][3]]

    def _take(self, *signs):
        if self.position < len(self.tokens):
            kind, token, *_ = self.tokens[self.position]
            if kind == "sign" and token in signs:
                self.position += 1
                return token
        return None

    def _sum(self):
        total = self._product()
        while sign := self._take("+", "-"):
            total = total + (1 if sign == "+" else -1) * self._product()
        return total

    def _product(self):
        product = self._factor()
        while sign := self._take("*", "/"):
            place = self.tokens[self.position - 1][2]
            other = self._factor()
            if sign == "*" and product[:-1].any() and not other[:-1].any():
                product, other = other, product
            if (sign == "*" and product[:-1].any()) or (sign == "/" and (other[:-1].any() or other[-1] == 0)):
                raise self._error(place, "a hypothesis is linear in its terms, and not")
            product = other * product[-1] if sign == "*" else product / other[-1]
        return product

    def _factor(self):
        if sign := self._take("+", "-"):
            return (1 if sign == "+" else -1) * self._factor()
        if self._take("("):
            inside = self._sum()
            if not self._take(")"):
                raise self._error(self._here(), "a closing ) is missing before")
            return inside
        if self.position == len(self.tokens) or self.tokens[self.position][0] == "sign":
            raise self._error(self._here(), "a term or a number is missing before")
        kind, token, *_ = self.tokens[self.position]
        self.position += 1
        out = np.zeros(len(self.terms) + 1)
        if kind == "number":
            out[-1] = float(token)
        elif token in self.repeated:
            raise ValueError(
                f"hypothesis: several terms are called {token!r}; give feature_names that tell them apart."
            )
        else:
            out[self.terms.index(token)] = 1.0
        return out

    def _here(self):
        return self.tokens[self.position][2] if self.position < len(self.tokens) else len(self.text)
