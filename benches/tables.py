"""Tables that nobody has tuned for, made by a seed: few and many sensors, smooth, noisy, steps, counts, sentinels,
decimals, two scales. `made()` yields a name and an array of rows by sensors for each."""

import numpy as np

KINDS = ["smooth", "noisy", "steps", "counts", "sentinels", "decimals", "two scales", "periods", "walks", "shared"]
SIZES = [(2, 6000), (12, 2500), (60, 1500)]
LARGE = {"smooth": 400, "shared": 250, "steps": 150}


def table(kind, sensors, rows, seed):
    random = np.random.default_rng([seed, KINDS.index(kind), sensors])
    t = np.arange(rows)[:, None]
    day = 96
    phase, level = random.uniform(0, 0.3, sensors), random.uniform(20, 80, sensors)
    wave = np.sin(2 * np.pi * (t / day + phase)) + 0.4 * np.sin(4 * np.pi * (t / day + phase))
    noise = random.normal(size=(rows, sensors))
    slow = np.cumsum(0.02 * random.normal(size=(rows, 3)), 0) @ random.normal(size=(3, sensors))
    if kind == "smooth":
        return level + 10 * wave + 3 * slow + 0.05 * noise
    if kind == "noisy":
        return level + 4 * wave + 3 * noise
    if kind == "steps":
        states = random.uniform(0, 100, (8, sensors))
        return states[np.minimum(7, np.floor(4 + 4 * np.sin(t[:, 0] / 170 + 0.5 * slow[:, 0])).astype(int))] + 0.0 * noise
    if kind == "counts":
        return random.poisson(np.exp(1.0 + 1.2 * wave)).astype(float)
    if kind == "sentinels":
        values = level + 6 * wave + 0.5 * noise
        values[random.uniform(size=values.shape) < 0.02] = -9999.0
        return values
    if kind == "decimals":
        return np.round(level + 5 * wave + slow + 0.3 * noise, 1)
    if kind == "two scales":
        return (level + 8 * wave + noise) * np.where(np.arange(sensors) % 2 == 0, 1.0, 1000.0)
    if kind == "periods":
        weekly = 1 + 0.5 * (t // day % 7 >= 5)
        return level * weekly * (1.2 + wave) + noise
    if kind == "walks":
        return 100 + np.cumsum(random.normal(size=(rows, sensors)), 0)
    shapes = random.normal(size=(6, sensors))
    times = np.maximum(0, np.sin(2 * np.pi * (t / day + np.arange(6) / 6))) * (1 + 0.2 * random.normal(size=(rows, 6)))
    return 50 + 10 * times @ shapes + 0.2 * noise


def made(seed=1):
    for kind in KINDS:
        for sensors, rows in SIZES:
            sensors = LARGE.get(kind, sensors) if sensors == 60 else sensors
            yield f"{kind}, {sensors} x {rows}", table(kind, sensors, rows, seed)
