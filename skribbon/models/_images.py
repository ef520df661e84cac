"""Windows and tiles of images, as linear maps that autograd can trace in both directions; images are (n, h, w, c)."""

from itertools import product

import autograd.numpy as np
from autograd.extend import defjvp, defvjp, primitive
from numpy.lib.stride_tricks import sliding_window_view


@primitive
def patches(images, size):
    """Square windows of images (n, h, w, c), as a view (n, h', w', size, size, c)."""
    return sliding_window_view(images, (size, size), axis=(1, 2)).transpose(0, 1, 2, 4, 5, 3)


@primitive
def add_patches(patches, shape):
    images = np.zeros(shape)
    _, high, wide, size, _, _ = patches.shape
    for i, column in product(range(size), range(wide)):  # runs of size * c adjacent numbers, not of c alone
        images[:, i : i + high, column : column + size] += patches[:, :, column, i]
    return images


@primitive
def pool(images, size):
    """Averages of size x size tiles, (n, h // size, w // size, c); what does not fill a tile is left out."""
    high, wide = (length // size * size for length in images.shape[1:3])
    rows = sum(images[:, i:high:size, :wide] for i in range(size))
    return sum(rows[:, :, j::size] for j in range(size)) / size**2


@primitive
def spread_tiles(tiles, size, shape):
    images = np.zeros(shape)
    high, wide = (length * size for length in tiles.shape[1:3])
    images[:, :high, :wide] = np.repeat(np.repeat(tiles / size**2, size, axis=1), size, axis=2)
    return images


defvjp(patches, lambda ans, x, size: lambda g: add_patches(g, x.shape), argnums=(0,))
defvjp(add_patches, lambda ans, x, shape: lambda g: patches(g, x.shape[3]), argnums=(0,))
defvjp(pool, lambda ans, x, size: lambda g: spread_tiles(g, size, x.shape), argnums=(0,))
defvjp(spread_tiles, lambda ans, x, size, shape: lambda g: pool(g, size), argnums=(0,))
for linear in (patches, add_patches, pool, spread_tiles):
    defjvp(linear, "same")
