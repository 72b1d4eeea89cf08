"""A keyword that a function does not have is answered with the one that was probably meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["names_keywords"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def names_keywords(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have a function's `TypeError` for an unknown keyword name the nearest that it has."""

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            known = inspect.signature(function).parameters
            for name in kwargs:
                close = [] if name in known else get_close_matches(name, known, n=1)
                if close and repr(name) in str(error):
                    raise TypeError(f"{error}; did you mean {close[0]!r}?") from None
            raise

    return checked
