"""Public names whose modules are imported when somebody asks for them, so that the package imports quickly."""

from importlib import import_module


def when_used(package, **homes):
    """Functions ``__getattr__`` and ``__dir__`` of a package with names that stand in other modules.

    ``package`` is its ``globals()``, and ``homes`` the module of each name, relative to it: a name that is its module's
    own is the module.
    """

    def __getattr__(name):
        if name not in homes:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        module = import_module(homes[name], package["__name__"])
        package[name] = module if homes[name] == f".{name}" else getattr(module, name)
        return package[name]

    def __dir__():
        return sorted(package.keys() | homes.keys())

    return __getattr__, __dir__
