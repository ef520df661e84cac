"""Functions that users write on the spot, stored with the estimator that holds them."""

import pickle

from joblib import wrap_non_picklable_objects


class StoresFunctions:
    """Mixin: attributes named in ``_functions`` are pickled by value where plain pickle cannot store them."""

    _functions: tuple[str, ...] = ()

    def __getstate__(self):
        state = dict(super().__getstate__())
        held = {name: state[name] for name in self._functions if state.get(name) is not None}
        return {**state, **{name: storable(function, name) for name, function in held.items()}}


def storable(function, name):
    """``function`` itself if pickle can store it, else something that pickle can and that loads as the function."""
    if _picklable(function):
        return function
    wrapped = wrap_non_picklable_objects(function, keep_wrapper=False)
    if _picklable(wrapped):
        return wrapped
    raise TypeError(
        f"{name}={function!r} cannot be pickled: it is a function defined on the spot that holds on to something that "
        f"cannot be stored. Define {name} at the top level of a module."
    )


def _picklable(thing):
    try:
        pickle.dumps(thing)
    except Exception:  # whatever an object's own pickling raises, the answer is no
        return False
    return True
